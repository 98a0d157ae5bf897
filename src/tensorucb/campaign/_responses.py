"""What callers tell us, in whatever form, as checked columns by graph rows and edge numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.checks import shown
from tensorucb.errors import InputError, UnknownIdError, argument, call
from tensorucb.graph._ids import IdIndex
from tensorucb.reports import FileReport, LeftOut, Tolerance

if TYPE_CHECKING:
    import polars as pl

Column = Any  # whole numbers as an array, or texts as a polars series
_EXTRA = ("product", "strategy", "round")
_PEOPLE = ("source", "target", "user")
STRANGER, NO_EDGE = "a user who is not in the network", "an edge that is not in the network"
"""Why rows are left out that are sound in themselves."""


@dataclass(frozen=True)
class Part:
    """Rows of one kind: outcomes by edge, with ids of source and target; or who acted, with ids of users alone.

    ``rows`` say where they stand in the batch; ``outcomes`` are NaN for those who acted. ``until`` is the end of the
    day for a time that is a date alone, and otherwise the time. ``amounts`` are NaN where none came.
    """

    rows: I64
    ids: tuple[Column, ...]
    outcomes: F64
    times: F64
    until: F64
    event_ids: list[str | None]
    amounts: F64

    def take(self, at: I64) -> Part:
        """Some of them, by their places."""
        if at.size == self.rows.size and np.array_equal(at, np.arange(at.size)):
            return self
        events = [self.event_ids[i] for i in at.tolist()]
        ids = tuple(column[at] for column in self.ids)
        moments = self.times[at], self.until[at]
        return Part(self.rows[at], ids, self.outcomes[at], *moments, events, self.amounts[at])

    def since(self, moment: float) -> Part:
        """The same for a round that was opened at this moment: a date alone on that day is not before it."""
        days = self.until > self.times
        if not days.any():
            return self
        return replace(self, times=np.where(days, np.clip(moment, self.times, self.until), self.times))


@dataclass(frozen=True)
class Batch:
    """One delivery of responses; either part may be empty.

    ``lines`` say where the rows of the batch stood in what came. ``extra`` holds the columns product, strategy and
    round as texts, as far as they came; ``text`` says whether ids come from a file of text, where a number is not told
    from its text. ``report`` says what was read and what was left out, ``zone`` is that of days and plain times.
    """

    edges: Part
    nodes: Part
    lines: I64
    extra: Mapping[str, pl.Series]
    text: bool
    report: FileReport
    zone: str

    @property
    def remarks(self) -> tuple[str, ...]:
        """How the rows were read, for the report of a round."""
        days = int(np.count_nonzero(self.nodes.until > self.nodes.times))
        said = (
            f"dates without a time: {days:,}; each counts for its whole day ({self.zone}), also the day of the contact"
        )
        return (*self.report.remarks, said) if days else self.report.remarks

    @property
    def length(self) -> int:
        """How many rows are sound."""
        return self.lines.size


def read_responses(
    responses: Any, *, strings: bool, settings: Mapping[str, Any] | None = None, columns: Any = None
) -> Batch:
    """Columns from a frame, a mapping of columns, one response or a list of them as mappings, or a file's path.

    A row with ``user`` and without ``source`` is a node event; columns that mean nothing to us are ignored. ``strings``
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
    _check_needed(frame, offered)
    lines = frame["line"].to_numpy()
    by_edge = _filled(frame, "source")
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
    sound = np.ones(lines.size, dtype=np.bool_)
    left_out = []
    for reason, rows in faults.items():
        left_out.append(LeftOut.of_lines(reason, lines[rows & sound], malformed=True))
        sound &= ~rows
    if not sound.all():
        frame = frame.filter(sound)
    edges = _part(frame, np.flatnonzero(by_edge[sound]), ("source", "target"))
    nodes = _part(frame, np.flatnonzero(~by_edge[sound]), ("user",))
    extra = {name: frame[name] for name in _EXTRA if name in came}
    report = table.report.without(*left_out)
    return Batch(edges, nodes, lines[sound], extra, table.text, report, zone)


def _check_needed(frame: pl.DataFrame, offered: Sequence[str]) -> None:
    """Refuse a table that lacks a column which its rows need; all of them in one message."""
    by_edge = _filled(frame, "source")
    needed = ["target", "outcome"] if by_edge.any() else []
    if (_filled(frame, "user") & ~by_edge).any():
        needed.append("time")
    lost = [name for name in needed if name not in frame.columns]
    if lost:
        named = [part for name in lost for part in (argument("columns", {name: "NAME"}), " and ")]
        raise InputError(
            f"responses have no field {' and no field '.join(map(repr, lost))}, which their rows need; got "
            f"{shown(sorted(offered), 400)}.",
            advice=("Say which column it is with ", *named[:-1], "."),
        )


def _filled(frame: pl.DataFrame, name: str) -> NDArray[np.bool_]:
    """Which rows have something in a column; none if the column did not come."""
    nulls = frame[name].null_count() if name in frame.columns else frame.height
    if nulls in (0, frame.height):
        return np.full(frame.height, nulls == 0)
    return frame[name].is_not_null().to_numpy()


def _numbers(frame: pl.DataFrame, name: str) -> F64:
    """A column of numbers, NaN where there is none."""
    return frame[name].cast(float).to_numpy() if name in frame.columns else np.full(frame.height, np.nan)


def _part(frame: pl.DataFrame, rows: I64, people: tuple[str, ...]) -> Part:
    ids = tuple(_ids(frame, name, rows) for name in people)
    event_ids = frame["event_id"].to_list() if "event_id" in frame.columns else [None] * frame.height
    numbers = {name: _numbers(frame, name)[rows] for name in ("outcome", "time", "until", "amount")}
    moments = numbers["time"], numbers["until"]
    return Part(rows, ids, numbers["outcome"], *moments, [event_ids[row] for row in rows.tolist()], numbers["amount"])


def _ids(frame: pl.DataFrame, name: str, rows: I64) -> Column:
    if not rows.size:
        return np.empty(0, dtype=np.int64)
    column = frame[name] if rows.size == frame.height else frame[name][rows]
    return column.to_numpy() if column.dtype.is_integer() else column


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


@dataclass(frozen=True)
class Resolved:
    """A checked batch by graph rows and edge numbers, valid for one revision of the network.

    ``sources``, ``targets`` and ``numbers`` belong to ``edges``, ``users`` to ``nodes``. Rows that name somebody or an
    edge that is not in the network are left out; ``strangers`` counts them by reason.
    """

    revision: int
    edges: Part
    nodes: Part
    sources: I64
    targets: I64
    numbers: I64
    users: I64
    strangers: tuple[LeftOut, ...] = ()

    @property
    def unknown(self) -> int:
        """How many rows name somebody or an edge that is not in the network."""
        return sum(entry.count for entry in self.strangers)

    def since(self, moment: float) -> Resolved:
        """The same for a round that was opened at this moment."""
        return replace(self, edges=self.edges.since(moment), nodes=self.nodes.since(moment))

    def take(self, edges: I64, nodes: I64) -> Resolved:
        """Some of the rows, by their places."""
        ends = self.sources[edges], self.targets[edges], self.numbers[edges]
        return Resolved(self.revision, self.edges.take(edges), self.nodes.take(nodes), *ends, self.users[nodes])


def resolve(network: Network, batch: Batch) -> Resolved:
    """Look up all users and edges; rows with strangers are left out."""
    edges, nodes = batch.edges, batch.nodes
    s, t = (
        network.find(column, batch.lines[edges.rows], name, text=batch.text)
        for name, column in zip(("source", "target"), edges.ids, strict=True)
    )
    u = network.find(nodes.ids[0], batch.lines[nodes.rows], "user", text=batch.text)
    numbers, both = np.full(s.size, -1, dtype=np.int64), (s >= 0) & (t >= 0)
    numbers[both] = network.graph.edge_between(s[both], t[both])
    held, acted = np.flatnonzero(numbers >= 0), np.flatnonzero(u >= 0)
    strangers = tuple(_strangers(batch, s, t, numbers, u))
    return Resolved(
        network.revision, edges.take(held), nodes.take(acted), s[held], t[held], numbers[held], u[acted], strangers
    )


def _strangers(batch: Batch, s: I64, t: I64, numbers: I64, u: I64) -> Iterator[LeftOut]:
    """Rows that name a user or an edge that is not in the network, by reason."""
    edges, nodes = batch.edges, batch.nodes
    sources, targets = edges.ids
    guests = np.flatnonzero(u < 0)
    nobody = np.flatnonzero((s < 0) | (t < 0))
    apart = np.flatnonzero((s >= 0) & (t >= 0) & (numbers < 0))

    def name(at: int) -> str:
        if at < guests.size:
            return str(nodes.ids[0][int(guests[at])])
        row = int(nobody[at - guests.size])
        return str((sources if s[row] < 0 else targets)[row])

    lines = batch.lines[np.concatenate([nodes.rows[guests], edges.rows[nobody]])]
    yield LeftOut.of_lines(STRANGER, lines, malformed=True, example=name)
    lines = batch.lines[edges.rows[apart]]
    yield LeftOut.of_lines(NO_EDGE, lines, malformed=True, example=lambda at: _pair(sources, targets, int(apart[at])))


def _pair(sources: Column, targets: Column, row: int) -> str:
    return f"{sources[row]} -> {targets[row]}"


def check_sound(batch: Batch, resolved: Resolved, tolerance: Tolerance, *more: LeftOut) -> FileReport:
    """The report of a delivery with all that is left out; an error if too many of its rows cannot be used."""
    report = batch.report.without(*resolved.strangers, *more)
    strange = bool(resolved.unknown)
    others = any(entry.count for entry in (*batch.report.left_out, *more))
    report.check(
        tolerance,
        UnknownIdError if strange and not others else InputError,
        ("Nothing was stored. Add users to the network with ", call("add_users"), ", or mend the rows")
        if strange
        else ("Nothing was stored. Mend the rows",),
    )
    return report
