"""What callers tell us, in whatever form: as checked columns, by graph row, and by round.

All rows belong to the round that the caller names, or each finds the rounds of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._handle import View
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Round
from tensorucb.checks import shown
from tensorucb.errors import InputError, StateError, UnknownIdError, argument, call
from tensorucb.graph._ids import IdIndex
from tensorucb.reports import FileReport, LeftOut, Tolerance
from tensorucb.store._protocol import NOBODY, Responses

if TYPE_CHECKING:
    import polars as pl

STRANGER, NO_EDGE = "a user who is not in the network", "an edge that is not in the network"
"""Why rows are left out that are sound in themselves."""

_PEOPLE = ("source", "target", "user")
_NO_NAME, _NO_ROUND = -1, -2
"""A row that names no round, and one that names none of this campaign's that take responses."""


# -- columns --


@dataclass(frozen=True)
class Batch:
    """One delivery of responses, with the callers' ids.

    ``frame`` has the sound rows, ``line`` where each stood in what came, and a column for each field that came. The
    rows ``by_edge`` have a source, a target and an outcome, all others a user and a time. ``text`` says whether ids
    come from a file of text, where a number is not told from its text. ``report`` says what was read and what was left
    out, ``zone`` is that of days and plain times.
    """

    frame: pl.DataFrame
    by_edge: NDArray[np.bool_]
    text: bool
    report: FileReport
    zone: str

    @property
    def length(self) -> int:
        """How many rows are sound."""
        return self.frame.height

    @property
    def lines(self) -> I64:
        """Where the rows stood in what came."""
        return self.frame["line"].to_numpy()

    def numbers(self, name: str) -> F64:
        """A column of numbers, NaN where there is none."""
        return _numbers(self.frame, name)

    def texts(self, name: str) -> pl.Series | None:
        """The column product, strategy or round; None if it did not come."""
        return self.frame[name] if name in self.frame.columns else None

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the rows were read, for the report of a round."""
        days = int(np.count_nonzero(~self.by_edge & (self.numbers("until") > self.numbers("time"))))
        said = (
            f"dates without a time: {days:,}; each counts for its whole day ({self.zone}), also the day of the contact"
        )
        return (*self.report.remarks, said) if days else self.report.remarks


def read_responses(
    responses: Any, *, strings: bool, settings: Mapping[str, Any] | None = None, columns: Any = None
) -> Batch:
    """Columns from a frame, a mapping of columns, one response or a list of them as mappings, or a file's path.

    A row with ``user`` and without ``source`` says who acted; columns that mean nothing to us are ignored. ``strings``
    says whether ids are strings, so that a text file's ``007`` stays what it is. ``columns`` is the caller's mapping of
    fields to names of columns; ``settings`` are the campaign's, with names of columns too, and with its time zone.
    """
    from tensorucb.tables import TABLES, check_names, read

    fields = [f._replace(kind="text") if strings and f.name in _PEOPLE else f for f in TABLES["responses"]]
    named = check_names("columns", columns, [field.name for field in fields])
    campaign_settings = settings or {}
    zone = campaign_settings.get("timezone", "UTC")
    table = read("responses", responses, fields, columns=named, usually=_usual_columns(campaign_settings), zone=zone)
    frame, came = table.frame, set(table.frame.columns)
    # Also without a row: wrong names are better noticed today than when the first response comes.
    offered = table.columns
    if not came & {"source", "user"} and (table.report.rows or offered):
        advice = ("Say which is which with ", argument("columns", {"user": "NAME"}), ".") if offered else ""
        names = shown(sorted(offered), 400) if offered else "none of them"
        raise InputError(
            f"responses need the fields source, target and outcome, or user and time; got {names}.", advice=advice
        )
    by_edge = _filled(frame, "source")
    needed = ["target", "outcome"] if by_edge.any() else []
    needed += ["time"] if (_filled(frame, "user") & ~by_edge).any() else []
    lost = [name for name in needed if name not in came]
    if lost:
        mentions = [part for name in lost for part in (argument("columns", {name: "NAME"}), " and ")]
        raise InputError(
            f"responses have no field {' and no field '.join(map(repr, lost))}, which their rows need; got "
            f"{shown(sorted(offered), 400)}.",
            advice=("Say which column it is with ", *mentions[:-1], "."),
        )
    outcomes = _numbers(frame, "outcome")
    amounts = _numbers(frame, "amount")
    nobody = "neither a source nor a user" if "source" in came else f"{table.names.get('user')} is empty"
    faults = {
        nobody: ~by_edge & ~_filled(frame, "user"),
        "target is empty": by_edge & ~_filled(frame, "target"),
        "outcome is empty": by_edge & np.isnan(outcomes),
        "time is empty": ~by_edge & ~_filled(frame, "time"),
        "amount is negative": amounts < 0.0,
        "an amount of somebody who did not respond": by_edge & (outcomes == 0.0) & (amounts > 0.0),
    }
    sound = np.ones(frame.height, dtype=np.bool_)
    left_out = []
    for reason, rows in faults.items():
        left_out.append(LeftOut.of_lines(reason, frame["line"].to_numpy()[rows & sound], malformed=True))
        sound &= ~rows
    if not sound.all():
        frame = frame.filter(sound)
    return Batch(frame, by_edge[sound], table.text, table.report.without(*left_out), zone)


def _filled(frame: pl.DataFrame, name: str) -> NDArray[np.bool_]:
    """Which rows have something in a column; none if the column did not come."""
    return frame[name].is_not_null().to_numpy() if name in frame.columns else np.zeros(frame.height, dtype=np.bool_)


def _numbers(frame: pl.DataFrame, name: str) -> F64:
    return frame[name].cast(float).to_numpy() if name in frame.columns else np.full(frame.height, np.nan)


def _usual_columns(settings: Mapping[str, Any]) -> dict[str, str]:
    """Names of columns by field of responses, from those with which a campaign was created."""
    created = settings.get("columns", {})
    names = {"product" if field == "item" else field: name for field, name in created.get("actions", {}).items()}
    ends = {field: name for field, name in created.get("edges", {}).items() if name not in names.values()}
    return {**ends, **names}


def text_places(column: pl.Series, texts: Sequence[str]) -> I64:
    """The place of each text of a column among ``texts``, -1 for others and for nulls."""
    if not texts:
        return np.full(len(column), -1, dtype=np.int64)
    return IdIndex(np.array(texts, dtype=np.str_)).rows(column).astype(np.int64)


# -- users and edges of the network --


@dataclass(frozen=True, eq=False)
class Resolved(Responses):
    """Rows of a batch by graph row, as a round is told them.

    ``rows`` say where they stand in the batch, ``lines`` where they stood in what came. ``until`` is the end of the day
    for a time that is a date alone, and otherwise the time.
    """

    rows: I64
    lines: I64
    until: F64

    def since(self, moment: float) -> Resolved:
        """The same for a round that was opened at this moment: a date alone on that day is not before it."""
        days = self.until > self.times
        return replace(self, times=np.where(days, np.clip(moment, self.times, self.until), self.times))


def resolve(
    network: Network, batch: Batch, wanted: NDArray[np.bool_] | None = None
) -> tuple[Resolved, tuple[LeftOut, ...]]:
    """Look up all users and edges of a batch, or of its rows ``wanted``; and the rows left out that name strangers."""
    rows = np.arange(batch.length) if wanted is None else np.flatnonzero(wanted)
    by_edge = batch.by_edge[rows]
    lines = batch.lines[rows]
    found = {}
    for name, own in (("source", by_edge), ("target", by_edge), ("user", ~by_edge)):
        found[name] = np.full(rows.size, -1, dtype=np.int64)
        if own.any():
            column = batch.frame[name][rows[own]]
            ids = column.to_numpy() if column.dtype.is_integer() else column
            found[name][own] = network.find(ids, lines[own], name, text=batch.text)
    sources = found["source"]
    targets = np.where(by_edge, found["target"], found["user"])
    both = (sources >= 0) & (targets >= 0)
    strange = (targets < 0) | (by_edge & (sources < 0))
    apart = both.copy()
    apart[both] = network.graph.edge_between(sources[both], targets[both]) < 0
    resolved = Resolved(
        sources=sources,
        targets=targets,
        outcomes=np.where(by_edge, batch.numbers("outcome")[rows], 1.0),
        times=batch.numbers("time")[rows],
        amounts=batch.numbers("amount")[rows],
        event_ids=_event_ids(batch)[rows],
        rows=rows,
        lines=lines,
        until=batch.numbers("until")[rows],
    )

    def stranger(at: int) -> str:
        row = int(np.flatnonzero(strange)[at])
        name = "user" if not by_edge[row] else "source" if sources[row] < 0 else "target"
        return str(batch.frame[name][int(rows[row])])

    def pair(at: int) -> str:
        row = int(rows[np.flatnonzero(apart)[at]])
        return f"{batch.frame['source'][row]} -> {batch.frame['target'][row]}"

    strangers = (
        LeftOut.of_lines(STRANGER, lines[strange], malformed=True, example=stranger),
        LeftOut.of_lines(NO_EDGE, lines[apart], malformed=True, example=pair),
    )
    known = ~(strange | apart)
    return resolved if known.all() else resolved.take(known), strangers


def _event_ids(batch: Batch) -> NDArray[np.object_]:
    names = batch.texts("event_id")
    return np.full(batch.length, None, dtype=object) if names is None else np.array(names.to_list(), dtype=object)


def check_sound(report: FileReport, strangers: Sequence[LeftOut], tolerance: Tolerance, *more: LeftOut) -> FileReport:
    """The report of a delivery with all that is left out; an error if too many of its rows cannot be used."""
    strange = any(entry.count for entry in strangers)
    others = any(entry.count for entry in (*report.left_out, *more))
    whole = report.without(*strangers, *more)
    whole.check(
        tolerance,
        UnknownIdError if strange and not others else InputError,
        ("Nothing was stored. Add users to the network with ", call("add_users"), ", or mend the rows")
        if strange
        else ("Nothing was stored. Mend the rows",),
    )
    return whole


# -- the rounds to which rows belong --


class Belonging(NamedTuple):
    """The rows of each round, how many belong to none, and what is left out; ``unknown`` rows name strangers."""

    rounds: list[tuple[Round, Resolved]]
    unknown: int
    other: int
    report: FileReport


def of_one_round(round_id: str | int, view: View, batch: Batch, tolerance: Tolerance) -> Belonging:
    """The rows that can be used for a round; an error if too many cannot."""
    record = view.round(round_id)
    if record.status == "cancelled":
        raise StateError(f"round {round_id} was cancelled and takes no responses. Ask for a new round.")
    if record.kind == "history":
        advice = "Use ", call("import_history"), " for more of it."
        raise StateError(f"round {round_id} is imported history.", advice=advice)
    other, left_out = _of_another_product(record, batch)
    resolved, strangers = resolve(view.network, batch, ~other)
    rows, strays = _contacted_only(view.network, record, resolved)
    report = check_sound(batch.report.without(left_out), strangers, tolerance, strays)
    return Belonging([(record, rows)], _count(strangers), 0, report)


def _count(entries: Sequence[LeftOut]) -> int:
    return sum(entry.count for entry in entries)


def _of_another_product(record: Round, batch: Batch) -> tuple[NDArray[np.bool_], LeftOut]:
    """The rows that are about another product than a round; an error if all are."""
    own, products = record.product, batch.texts("product")
    other = np.zeros(batch.length, dtype=np.bool_)
    if own is not None and products is not None:
        other = (text_places(products, [str(own)]) < 0) & products.is_not_null().to_numpy()
    others = np.flatnonzero(other)

    def product(at: int) -> str:
        return str(batch.frame["product"][int(others[at])])

    if others.size and others.size == batch.length:
        raise InputError(
            f"all {others.size:,} rows are of another product than round {record.number}, which is about {shown(own)}; "
            f"the first is line {batch.lines[0]}, {shown(product(0))}. Nothing was stored. "
            "Tell them without naming a round: each row then finds the rounds of its product."
        )
    return other, LeftOut.of_lines(f"of another product than {shown(own)}", batch.lines[other], example=product)


def _contacted_only(network: Network, record: Round, rows: Resolved) -> tuple[Resolved, LeftOut]:
    """Responses to those who were contacted in a round, and the others."""
    stray = (rows.sources != NOBODY) & ~np.isin(rows.sources, record.contacted)
    strays = rows.take(stray)
    left_out = LeftOut.of_lines(
        f"a source that was not contacted in round {record.number}",
        strays.lines,
        malformed=True,
        example=lambda at: str(network.graph.ids[strays.sources[at]].item()),
    )
    return rows.take(~stray) if strays.size else rows, left_out


def of_rounds(view: View, batch: Batch, tolerance: Tolerance) -> Belonging:
    """The rows of a log that belong to rounds; an error if too many cannot be used.

    Only rows that have a round must name known users: a log has rows of all kinds.
    """
    by_product = batch.texts("product") is not None and not batch.by_edge.any()
    if batch.length and batch.texts("round") is None and not by_product:
        raise InputError(
            "rows of several rounds need a field 'round', or 'product' (or 'item') with user and time.",
            advice=(
                "Say which column it is with ",
                argument("columns", {"product": "NAME"}),
                "; if all rows belong to one round, name the round.",
            ),
        )
    network = view.network
    rounds = [r for r in view.rounds() if r.status != "cancelled" and r.kind != "history"]
    named = _named(batch, rounds)
    bought = dict(_bought(batch, rounds, np.flatnonzero(~batch.by_edge & (named == _NO_NAME))))
    claimed = named >= 0
    for rows in bought.values():
        claimed[rows] = True
    resolved, strangers = resolve(network, batch, claimed)
    # Where each row of the log stands among those found.
    place = np.full(batch.length, -1, dtype=np.int64)
    place[resolved.rows] = np.arange(resolved.size)
    order = np.argsort(named, kind="stable")
    starts = np.searchsorted(named[order], np.arange(len(rounds) + 1))
    chosen: list[tuple[Round, I64]] = []
    used = np.zeros(resolved.size, dtype=np.int64)
    for at, record in enumerate(rounds):
        own = place[order[starts[at] : starts[at + 1]]]
        people = place[bought.get(at, order[:0])]
        people = people[people >= 0]
        if people.size:
            people = people[_counting(network, record)[resolved.targets[people]]]
        both = np.concatenate([own[own >= 0], people])
        used[both] += 1
        if both.size:
            chosen.append((record, both))
    # An event id stands for one response, so a row that belongs to several rounds goes without.
    event_ids = resolved.event_ids.copy()
    event_ids[used > 1] = None
    resolved = replace(resolved, event_ids=event_ids)
    parts = [(record, _contacted_only(network, record, resolved.take(at))) for record, at in chosen]
    report = check_sound(batch.report, strangers, tolerance, *(strays for _, (_, strays) in parts))
    other = batch.length - _count(strangers) - int(np.count_nonzero(used))
    return Belonging([(record, rows) for record, (rows, _) in parts], _count(strangers), other, report)


def _named(batch: Batch, rounds: Sequence[Round]) -> I64:
    """For each row the place of the round that it names."""
    names = batch.texts("round")
    if names is None:
        return np.full(batch.length, _NO_NAME, dtype=np.int64)
    texts = [text for record in rounds for text in (record.id, str(record.number))]
    places = text_places(names, texts)
    named = np.where(places >= 0, places // 2, np.where(names.is_null().to_numpy(), _NO_NAME, _NO_ROUND))
    lost = np.flatnonzero(batch.by_edge & (named == _NO_NAME))
    if lost.size:
        raise InputError(
            f"line {batch.lines[lost[0]]} tells an outcome by edge and names no round ({lost.size:,} "
            "such rows). Fill in the field 'round'; only rows with user and time find their rounds by the product."
        )
    return named


def _bought(batch: Batch, rounds: Sequence[Round], free: I64) -> Iterator[tuple[int, I64]]:
    """For each round the rows of its product in its window, of the rows ``free``, which name no round."""
    products = batch.texts("product")
    if products is None or not free.size:
        return
    texts = [None if (name := record.product) is None else str(name) for record in rounds]
    code = {text: place for place, text in enumerate(sorted({text for text in texts if text is not None}))}
    codes = text_places(products, list(code))
    free = free[codes[free] >= 0]
    rows = free[np.lexsort((batch.numbers("time")[free], codes[free]))]
    codes = codes[rows]
    times = batch.numbers("time")[rows]
    until = batch.numbers("until")[rows]
    longest = float((until - times).max(initial=0.0))
    for at, (record, text) in enumerate(zip(rounds, texts, strict=True)):
        if text is None:
            continue
        start, stop = np.searchsorted(codes, [code[text], code[text] + 1]).tolist()
        last = np.inf if record.window is None else record.opened + record.window
        # A date alone begins before the contact on its day.
        first = start + int(np.searchsorted(times[start:stop], record.opened - longest, side="left"))
        stop = start + int(np.searchsorted(times[start:stop], last, side="right"))
        inside = rows[first:stop][until[first:stop] >= record.opened]
        if inside.size:
            yield at, inside


def _counting(network: Network, record: Round) -> NDArray[np.bool_]:
    """Whose actions count for a round: those chosen, contacted or held out, and their followers at that time."""
    graph = network.graph
    chosen = np.unique(np.concatenate([record.contacted, record.held_out]))
    counts = np.zeros(graph.n_nodes, dtype=np.bool_)
    counts[graph.targets[network.edges_in_round(chosen, record.number)]] = True
    counts[chosen] = True
    return counts
