"""Responses into the store: each row is new, a duplicate, a contradiction, or the whole batch is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.campaign._belonging import Belonging, of_one_round, of_rounds
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import Batch, Part, Resolved, read_responses
from tensorucb.campaign._round import Round
from tensorucb.campaign._told import Told
from tensorucb.reports import LeftOut, Tolerance
from tensorucb.store._protocol import EdgeResponses, EventContent, NodeEvents

_Key = int | tuple[int, float]  # an edge's number, or who acted when
_LOGGED = 1000
_LISTED = 10_000  # contradictions in a report; a wrong file can hold as many as rows

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


@dataclass
class _Sorting:
    """Rows of one batch, sorted into new, duplicate and contradictory; ``events`` is what their event ids stand for."""

    network: Network
    record: Round
    events: dict[str, EventContent]
    lines: I64
    repeated: list[int] = field(default_factory=list)
    clashes: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    refused: set[int] = field(default_factory=set)  # rows of the batch that disagree with what is there
    settled: set[int] = field(default_factory=set)  # repeated rows whose amount is new, or another one

    def clash(self, row: int, ids: tuple[Any, Any], kept: Any, told: Any, users: list[int], event: str | None) -> None:
        self.clashes += 1
        self.refused.add(row)
        if len(self.contradictions) < _LISTED:
            self.contradictions.append(Contradiction(int(self.lines[row]), *ids, kept, told, event))
        if len(self.items) == _LOGGED:
            return
        # The log names no ids, so that forgetting a user needs to look at rows alone.
        if event is not None:
            kept, told = "another event of this id", "this one"
        self.items.append({"users": users, "kept": kept, "told": told})


def tell(handle: Handle, round_id: str | int, responses: Any, tolerance: Tolerance, columns: Any) -> TellReport:
    """Store responses of a round, durably; see `Campaign.tell`."""
    report = _tell(handle, responses, tolerance, columns, partial(of_one_round, round_id))
    return TellReport(**{field.name: getattr(report, field.name) for field in fields(TellReport)})


def tell_log(handle: Handle, responses: Any, tolerance: Tolerance, columns: Any) -> TellLogReport:
    """Store the rows of a log that belong to rounds, in one transaction; see `Campaign.tell_log`."""
    return _tell(handle, responses, tolerance, columns, of_rounds)


def _tell(
    handle: Handle,
    responses: Any,
    tolerance: Tolerance,
    columns: Any,
    find_rounds: Callable[[View, Batch, Tolerance], Belonging],
) -> TellLogReport:
    with handle.read() as view:
        batch = read_responses(
            responses, strings=view.network.strings, settings=handle.record.settings, columns=columns
        )
        # All that needs no lock is done before others have to wait.
        changed = view.ledger.changed
        belonging = find_rounds(view, batch, tolerance)

    def store(view: View, now: float) -> tuple[Belonging, dict[str, TellReport]]:
        still = belonging if view.ledger.changed == changed else find_rounds(view, batch, tolerance)
        return still, {record.id: _store(view, record, batch, rows, now) for record, rows in still.rounds}

    used, reports = handle.write_together(store)
    each = list(reports.values())
    total = TellLogReport(
        accepted=sum(report.accepted for report in each),
        duplicates=sum(report.duplicates for report in each),
        contradictions=tuple(clash for report in each for clash in report.contradictions),
        late=sum(report.late for report in each),
        outside_window=sum(report.outside_window for report in each),
        unknown=used.unknown,
        left_out=(*used.report.left_out, *(entry for report in each for entry in report.left_out)),
        remarks=batch.remarks,
        other=used.other,
        rounds=reports,
    )
    which = f"round {used.rounds[0][0].number}" if len(used.rounds) == 1 else f"{len(used.rounds)} rounds"
    counts = total.accepted, total.duplicates
    _log.info("campaign %r: %s told, %d new, %d known", handle.record.name, which, *counts)
    return total


def _store(view: View, record: Round, batch: Batch, resolved: Resolved, now: float) -> TellReport:
    """Sort the rows, append those that are new to the round, and log it."""
    session = view.session
    told = view.told(record.number)
    resolved = resolved.since(record.opened)
    wanted = {e for e in (*resolved.edges.event_ids, *resolved.nodes.event_ids) if e is not None}
    events = session.known_event_ids(view.number, sorted(wanted)) if wanted else {}
    sorting = _Sorting(view.network, record, events, batch.lines)
    new = resolved.take(_new_edges(sorting, resolved, told), _new_nodes(sorting, resolved, told))
    new, filled = _amounts(sorting, resolved, told, new)
    accepted = new.numbers.size + new.users.size + len(filled)
    priced = len(filled) + int(np.isfinite(new.edges.amounts).sum() + np.isfinite(new.nodes.amounts).sum())
    late, seq = accepted if record.status == "closed" else 0, 0
    if accepted:
        counts = {"id": record.id, "edges": new.numbers.size, "nodes": new.users.size, "late": late}
        seq = view.append("told", record.number, {**counts, "amounts": priced} if priced else counts, now)
    columns = new.edges.outcomes, new.edges.times, new.edges.event_ids, new.edges.amounts
    edges = EdgeResponses(new.sources, new.targets, *columns)
    nodes = NodeEvents(new.users, new.nodes.times, new.nodes.event_ids, new.nodes.amounts)
    session.add_responses(view.number, record.number, edges, seq)
    session.add_responses(view.number, record.number, nodes, seq)
    if filled:
        graph = view.network.graph
        ends = {key: (int(graph.sources[key]), int(graph.targets[key])) for key in filled if isinstance(key, int)}
        by_edge = {ends[key]: amount for key, amount in filled.items() if isinstance(key, int)}
        by_node = {key: amount for key, amount in filled.items() if not isinstance(key, int)}
        session.fill_amounts(view.number, record.number, by_edge, by_node)
    if late:
        # With more to learn from, a round that could not be learned is tried again.
        record = replace(record, revision=seq, quarantined=None)
    if late or priced:
        view.put_round(replace(record, priced=record.priced or priced > 0))
    if sorting.clashes:
        clashes = {"id": record.id, "count": sorting.clashes, "items": sorting.items}
        view.append("contradiction", record.number, clashes, now)
    outside = int(np.count_nonzero(~record.in_window(new.nodes.times)))
    repeated = [row for row in sorting.repeated if row not in sorting.settled]
    again = LeftOut.of_lines("told before", batch.lines[np.array(repeated, dtype=np.int64)])
    left_out = (again,) if again.count else ()
    # Where older responses have got an amount, the round is read again.
    view.remember(record.number, seq, None if filled else told.plus(new))
    return TellReport(accepted, again.count, tuple(sorting.contradictions), late, outside, left_out=left_out)


def _by_event_id(sorting: _Sorting, batch: Part, kind: str, *columns: Iterable[Any]) -> NDArray[np.bool_]:
    """Which rows are not settled by their event id alone; ``columns`` are source or user, target and outcome."""
    network, fresh = sorting.network, np.ones(batch.rows.size, dtype=np.bool_)
    for i, (event_id, time, *values) in enumerate(zip(batch.event_ids, batch.times.tolist(), *columns, strict=True)):
        if event_id is None:
            continue
        user, target, outcome = values
        content = (sorting.record.number, kind, user, target, outcome, None if math.isnan(time) else time)
        before = sorting.events.setdefault(event_id, content)
        if before is content:
            continue
        fresh[i] = False
        if before == content:
            sorting.repeated.append(int(batch.rows[i]))
            continue
        users = sorted({int(value) for ends in (before[2:4], content[2:4]) for value in ends if value is not None})
        kept, told = (_described(network, event) for event in (before, content))
        sorting.clash(int(batch.rows[i]), (_name(network, user), _name(network, target)), kept, told, users, event_id)
    return fresh


def _name(network: Network, row: int | None) -> Any:
    return None if row is None else network.graph.ids[row].item()


def _described(network: Network, content: EventContent) -> Mapping[str, Any]:
    number, kind, user, target, outcome, time = content
    if kind == "node":
        return {"round": number, "user": _name(network, user), "time": time}
    ends = {"source": _name(network, user), "target": _name(network, target)}
    return {"round": number, **ends, "outcome": outcome, "time": time}


def _new_edges(sorting: _Sorting, resolved: Resolved, told: Told) -> I64:
    """Places of the edge responses that are neither duplicates nor contradictions."""
    ids, batch = sorting.network.graph.ids, resolved.edges
    s, t = resolved.sources, resolved.targets
    at = np.arange(s.size)
    if any(event_id is not None for event_id in batch.event_ids):
        columns = (s.tolist(), t.tolist(), batch.outcomes.tolist())
        at = np.flatnonzero(_by_event_id(sorting, batch, "edge", *columns))
    if at.size == 0:
        return at
    edges, outcomes = resolved.numbers[at], batch.outcomes[at]
    _, index, inverse = np.unique(edges, return_index=True, return_inverse=True)
    before = told.standing[edges]
    # For each row the outcome that stands for its edge, and whether the row is the one that sets it.
    standing = np.where(before < 0, outcomes[index[inverse]], before)
    first = np.zeros(at.size, dtype=np.bool_)
    first[index] = True
    first &= before < 0
    differs = outcomes != standing
    sorting.repeated += batch.rows[at[~first & ~differs]].tolist()
    for i in np.flatnonzero(~first & differs).tolist():
        row = int(at[i])
        ends, pair = (ids[s[row]].item(), ids[t[row]].item()), [int(s[row]), int(t[row])]
        sorting.clash(int(batch.rows[row]), ends, float(standing[i]), float(outcomes[i]), pair, None)
    return at[first]


def _new_nodes(sorting: _Sorting, resolved: Resolved, told: Told) -> I64:
    """Places of the node events that are new; the same user at the same moment is the same event."""
    batch, users = resolved.nodes, resolved.users
    at = np.arange(users.size)
    if any(event_id is not None for event_id in batch.event_ids):
        nothing = [None] * at.size
        at = np.flatnonzero(_by_event_id(sorting, batch, "node", users.tolist(), nothing, nothing))
    new, here = [], set[tuple[int, float]]()
    moments = zip(users[at].tolist(), batch.times[at].tolist(), strict=True)
    for i, moment in zip(at.tolist(), moments, strict=True):
        if moment in told.actions or moment in here:
            sorting.repeated.append(int(batch.rows[i]))
        else:
            new.append(i)
        here.add(moment)
    return np.array(new, dtype=np.int64)


def _amounts(sorting: _Sorting, resolved: Resolved, told: Told, new: Resolved) -> tuple[Resolved, dict[_Key, float]]:
    """The new rows with their amounts, and the amounts of older responses that had none.

    The first amount of a response stands, whichever row brought it; another one is a contradiction.
    """
    filled: dict[_Key, float] = {}
    if not (np.isfinite(resolved.edges.amounts).any() or np.isfinite(resolved.nodes.amounts).any()):
        return new, filled
    by_edge: dict[_Key, float] = dict(zip(told.edges.tolist(), told.edge_amounts.tolist(), strict=True))
    ends = list(zip(resolved.sources.tolist(), resolved.targets.tolist(), strict=True))
    edges = _settled(sorting, resolved.edges, resolved.numbers.tolist(), ends, by_edge, filled)
    moments = list(zip(resolved.users.tolist(), resolved.nodes.times.tolist(), strict=True))
    people = [(user, None) for user in resolved.users.tolist()]
    nodes = _settled(sorting, resolved.nodes, moments, people, dict(told.actions), filled)
    of_edges = np.array([edges[number] for number in new.numbers.tolist()])
    of_nodes = np.array([nodes[key] for key in zip(new.users.tolist(), new.nodes.times.tolist(), strict=True)])
    with_amounts = replace(new.edges, amounts=of_edges), replace(new.nodes, amounts=of_nodes)
    return replace(new, edges=with_amounts[0], nodes=with_amounts[1]), filled


def _settled(
    sorting: _Sorting,
    part: Part,
    keys: Sequence[_Key],
    ends: Sequence[tuple[int, int | None]],
    before: dict[_Key, float],
    filled: dict[_Key, float],
) -> dict[_Key, float]:
    """The amount of each response, by its key; ``before`` are those told earlier, ``filled`` gets what they lacked."""
    amounts = dict(before)
    for row, key, users, amount in zip(part.rows.tolist(), keys, ends, part.amounts.tolist(), strict=True):
        standing = amounts.setdefault(key, math.nan)
        if math.isnan(amount) or row in sorting.refused or standing == amount:
            continue
        if math.isnan(standing):
            amounts[key] = amount
            if key in before:
                filled[key] = amount
                sorting.settled.add(row)
            continue
        names = _name(sorting.network, users[0]), _name(sorting.network, users[1])
        sorting.clash(row, names, standing, amount, [user for user in users if user is not None], None)
        sorting.settled.add(row)
    return amounts
