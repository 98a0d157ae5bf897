"""Responses into the store: each row is new, a duplicate, a contradiction, or the whole batch is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import Batch, Belonging, Resolved, of_one_round, of_rounds, read_responses
from tensorucb.campaign._round import Round
from tensorucb.campaign._told import each_once, first_of, keys
from tensorucb.reports import LeftOut, Tolerance
from tensorucb.store._protocol import NOBODY, Content, Responses

_LOGGED = 1000
_LISTED = 10_000  # contradictions in a report; a wrong file can hold as many as rows
_LOOKED_BACK = 500  # events among which a delivery is found that came before

LEFT_OUT = "left_out"
"""The kind of event that says how many rows of a delivery could not be used, by reason; it names nobody."""

_log = logging.getLogger("tensorucb.campaign")


@dataclass(frozen=True)
class Contradiction:
    """A response that disagrees with one that is there already; the first one stands.

    Attributes
    ----------
    row
        Where it stood in what was told: the line of a text file, or the row, counted from 1.
    source, target
        The edge's ids (``target`` is None for a node event).
    kept, told
        The outcome that stands and the one that came, or the two amounts if the outcomes agree; where an event id was
        used twice, both contents.
    event_id
        The event id used twice, if that is the contradiction.
    """

    row: int
    source: int | str
    target: int | str | None
    kept: Any
    told: Any
    event_id: str | None = None


@dataclass(frozen=True)
class TellReport:
    """What became of the responses.

    Attributes
    ----------
    accepted
        Rows that were new, or brought the amount of a response that had none; they are durable now.
    duplicates
        Rows that were there already and changed nothing.
    contradictions
        Rows that disagree with what is there; they changed nothing. Of more than 10,000 the first are listed.
    late
        How many of the accepted rows came after the round was closed; the model learns that round again.
    outside_window
        How many of the accepted node events happened before the contact or after the window, and so count for nothing.
        Many of them mean that times are not in seconds, or in another zone.
    unknown
        Rows that name a user or an edge that is not in the network; they are left out.
    left_out
        All rows that were not used, by reason, with the first lines of each: malformed ones, strangers, and those that
        were told before.
    remarks
        How the table was read where that is not plain.
    """

    accepted: int
    duplicates: int
    contradictions: tuple[Contradiction, ...] = ()
    late: int = 0
    outside_window: int = 0
    unknown: int = 0
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        told = {name: value for name, value in vars(self).items() if name not in ("left_out", "remarks")}
        counts = {name: value if isinstance(value, int) else len(value) for name, value in told.items()}
        return f"{type(self).__name__}({', '.join(f'{name}={count}' for name, count in counts.items())})"


@dataclass(frozen=True, repr=False)
class TellLogReport(TellReport):
    """What became of the rows of a log, summed over its rounds; a row that belongs to several counts in each.

    Attributes
    ----------
    other
        Rows that belong to no round.
    rounds
        A report for each round to which rows belong, by its id.
    """

    other: int = 0
    rounds: Mapping[str, TellReport] = field(default_factory=dict)


def tell(handle: Handle, round_id: str | int, responses: Any, tolerance: Tolerance, columns: Any) -> TellReport:
    """Store responses of a round, durably; see `Campaign.tell`."""
    return _tell(handle, responses, tolerance, columns, partial(of_one_round, round_id))[0]


def tell_log(handle: Handle, responses: Any, tolerance: Tolerance, columns: Any) -> TellLogReport:
    """Store the rows of a log that belong to rounds, in one transaction; see `Campaign.tell_log`."""
    total, other, reports = _tell(handle, responses, tolerance, columns, of_rounds)
    return TellLogReport(**vars(total), other=other, rounds=reports)


def _tell(
    handle: Handle,
    responses: Any,
    tolerance: Tolerance,
    columns: Any,
    find_rounds: Callable[[View, Batch, Tolerance], Belonging],
) -> tuple[TellReport, int, dict[str, TellReport]]:
    """What became of all rows, how many belong to no round, and what became of those of each round."""
    with handle.read() as view:
        batch = read_responses(
            responses, strings=view.network.strings, settings=handle.record.settings, columns=columns
        )
        # All that needs no lock is done before others have to wait.
        changed = view.ledger.changed
        belonging = find_rounds(view, batch, tolerance)

    def store(view: View, now: float) -> tuple[Belonging, dict[str, TellReport]]:
        still = belonging if view.ledger.changed == changed else find_rounds(view, batch, tolerance)
        reports = {record.id: _store(view, record, rows, now) for record, rows in still.rounds}
        _log_left_out(view, still, any(report.accepted for report in reports.values()), now)
        return still, reports

    used, reports = handle.write_together(store)
    each = list(reports.values())
    total = TellReport(
        accepted=sum(report.accepted for report in each),
        duplicates=sum(report.duplicates for report in each),
        contradictions=tuple(clash for report in each for clash in report.contradictions),
        late=sum(report.late for report in each),
        outside_window=sum(report.outside_window for report in each),
        unknown=used.unknown,
        left_out=(*used.report.left_out, *(entry for report in each for entry in report.left_out)),
        remarks=batch.remarks,
    )
    which = f"round {used.rounds[0][0].number}" if len(used.rounds) == 1 else f"{len(used.rounds)} rounds"
    counts = total.accepted, total.duplicates
    _log.info("campaign %r: %s told, %d new, %d known", handle.record.name, which, *counts)
    if total.late:
        handle.learn("tell")
    return total, used.other, reports


def _store(view: View, record: Round, rows: Resolved, now: float) -> TellReport:
    """Sort the rows, append those that are new to the round, and log it."""
    told = view.told(record.number)
    rows = rows.since(record.opened)
    sorting = _Sorting(view, record, told, rows)
    new = sorting.new
    added = Responses.joined([new, sorting.priced_later])
    accepted = added.size
    priced = int(np.count_nonzero(np.isfinite(added.amounts)))
    late = accepted if record.status == "closed" else 0
    seq = 0
    if accepted:
        counts = {"id": record.id, "edges": new.by_edge.size, "nodes": new.actions.size, "late": late}
        seq = view.append("told", record.number, {**counts, "amounts": priced} if priced else counts, now)
        view.session.add_responses(view.number, record.number, added, seq)
    if late:
        # With more to learn from, a round that could not be learned is tried again.
        record = replace(record, revision=seq, quarantined=None)
    if late or priced:
        view.put_round(replace(record, priced=record.priced or priced > 0))
    refused = int(np.count_nonzero(sorting.refused))
    if refused:
        payload = {"id": record.id, "count": refused, "items": sorting.items}
        view.append("contradiction", record.number, payload, now)
    outside = int(np.count_nonzero(~record.in_window(new.actions.times)))
    again = LeftOut.of_lines("told before", rows.lines[sorting.duplicate])
    view.remember(record.number, seq, each_once(Responses.joined([told, added])))
    left_out = (again,) if again.count else ()
    return TellReport(accepted, again.count, tuple(sorting.contradictions), late, outside, left_out=left_out)


def _log_left_out(view: View, used: Belonging, something_new: bool, now: float) -> None:
    """Log how many rows of a delivery cannot be used, and why; the same delivery again changes nothing."""
    reasons: dict[str, int] = {}
    for entry in used.report.left_out:
        if entry.malformed and entry.count:
            reasons[entry.reason] = reasons.get(entry.reason, 0) + entry.count
    if not reasons:
        return
    number = used.rounds[0][0].number if len(used.rounds) == 1 else None
    payload = {"rows": used.report.rows, "reasons": reasons}
    latest = view.session.events(view.number, view.ledger.seq - _LOOKED_BACK, (LEFT_OUT,))
    if something_new or (number, payload) not in [(event.round, event.payload) for event in latest]:
        view.append(LEFT_OUT, number, payload, now)


class _Sorting:
    """The rows of a batch beside what a round was told: which are ``new``, duplicates, or contradictions.

    ``priced_later`` repeats responses that were told before without an amount, with the one that the batch brings. Rows
    that are ``refused`` contradict what is there; the first of them are listed, and logged as ``items``.
    """

    def __init__(self, view: View, record: Round, told: Responses, rows: Resolved) -> None:
        self.network = view.network
        self.rows = rows
        self.refused = np.zeros(rows.size, dtype=np.bool_)
        self.contradictions: list[Contradiction] = []
        self.items: list[dict[str, Any]] = []
        fresh = self._without_known_id(view, record)
        both = Responses.joined([told, rows])
        # The first row of a key stands: one that was told before, or else the first of the batch.
        places = np.concatenate([np.arange(told.size), told.size + np.argsort(~fresh, kind="stable")])
        standing = np.empty_like(places)
        standing[places] = places[first_of(keys(both)[places])[0]]
        standing = standing[told.size :]
        new = fresh & (standing == told.size + np.arange(rows.size))
        outcomes = both.outcomes[standing]
        for row in np.flatnonzero(fresh & (rows.outcomes != outcomes)).tolist():
            self._refuse(row, float(outcomes[row]), float(rows.outcomes[row]))
        self.duplicate = ~new & ~self.refused
        # The first amount of a response stands, whichever row brought it. One that brings it to an older response is no
        # duplicate.
        amounts = both.amounts.copy()
        for row in np.flatnonzero(np.isfinite(rows.amounts) & ~self.refused).tolist():
            at, amount = standing[row], float(rows.amounts[row])
            if np.isnan(amounts[at]):
                amounts[at] = amount
                self.duplicate[row] &= at >= told.size
            elif amounts[at] != amount:
                self._refuse(row, float(amounts[at]), amount)
                self.duplicate[row] = False
        both = replace(both, amounts=amounts)
        later = both.take(np.flatnonzero(np.isnan(told.amounts) & np.isfinite(amounts[: told.size])))
        # Their event ids are there already.
        self.priced_later = replace(later, event_ids=np.full(later.size, None, dtype=object))
        self.new = both.take(told.size + np.flatnonzero(new))

    def _without_known_id(self, view: View, record: Round) -> NDArray[np.bool_]:
        """Which rows have no event id that is known already; with one, they are a duplicate or a contradiction."""
        rows = self.rows
        fresh = np.ones(rows.size, dtype=np.bool_)
        named = [row for row, event_id in enumerate(rows.event_ids) if event_id is not None]
        if not named:
            return fresh
        known = view.session.known_event_ids(view.number, sorted({rows.event_ids[row] for row in named}))
        for row in named:
            told = record.number, rows.contents[row]
            kept = known.setdefault(rows.event_ids[row], told)
            fresh[row] = kept is told
            if kept != told:
                self._refuse(row, _described(self.network, *kept), _described(self.network, *told), kept[1])
        return fresh

    def _refuse(self, row: int, kept: Any, told: Any, event: Content | None = None) -> None:
        """A row disagrees with what is kept; with an ``event``, since its event id stands for that."""
        self.refused[row] = True
        source, target, *_ = self.rows.contents[row]
        if len(self.contradictions) < _LISTED:
            first, second = (target, NOBODY) if source == NOBODY else (source, target)
            names = _name(self.network, first), _name(self.network, second)
            event_id = None if event is None else self.rows.event_ids[row]
            self.contradictions.append(Contradiction(int(self.rows.lines[row]), *names, kept, told, event_id))
        if len(self.items) < _LOGGED:
            users = {source, target, *(() if event is None else event[:2])} - {NOBODY}
            # The log names no ids, so that forgetting a user needs to look at rows alone.
            said = (kept, told) if event is None else ("another event of this id", "this one")
            self.items.append({"users": sorted(users), "kept": said[0], "told": said[1]})


def _name(network: Network, row: int) -> Any:
    return None if row == NOBODY else network.graph.ids[row].item()


def _described(network: Network, number: int, content: Content) -> Mapping[str, Any]:
    source, target, outcome, time = content
    if source == NOBODY:
        return {"round": number, "user": _name(network, target), "time": time}
    ends = {"source": _name(network, source), "target": _name(network, target)}
    return {"round": number, **ends, "outcome": outcome, "time": time}
