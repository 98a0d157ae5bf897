"""What callers tell us, in whatever form, as checked columns by graph rows and edge numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

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
        times = np.where(self.until > self.times, np.clip(moment, self.times, self.until), self.times)
        return replace(self, times=times)


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
    import polars as pl

    from tensorucb.tables import TABLES, check_names, read

    fields = [f._replace(kind="text") if strings and f.name in _PEOPLE else f for f in TABLES["responses"]]
    named = check_names("columns", columns, [field.name for field in fields])
    known = settings or {}
    zone = known.get("timezone", "UTC")
    table = read("responses", responses, fields, columns=named, usually=_usual_columns(known), zone=zone)
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
    absent = [name for name in (*(field.name for field in fields), "until") if name not in came]
    frame = frame.with_columns(pl.lit(None, dtype=pl.String).alias(name) for name in absent)
    by_edge, amount = pl.col("source").is_not_null(), pl.col("amount").cast(float)
    nobody = "neither a source nor a user" if "source" in came else f"{table.names.get('user')} is empty"
    missing = pl.coalesce(
        pl.when(pl.col("source").is_null() & pl.col("user").is_null()).then(pl.lit(nobody)),
        pl.when(by_edge & pl.col("target").is_null()).then(pl.lit("target is empty")),
        pl.when(by_edge & pl.col("outcome").is_null()).then(pl.lit("outcome is empty")),
        pl.when(~by_edge & pl.col("time").is_null()).then(pl.lit("time is empty")),
        pl.when(amount < 0.0).then(pl.lit("amount is negative")),
        pl.when(by_edge & (pl.col("outcome").cast(float) == 0.0) & (amount > 0.0)).then(
            pl.lit("an amount of somebody who did not respond")
        ),
    )
    reasons = frame.select(missing.alias("reason"), "line")
    left_out = [
        LeftOut.of_lines(str(reason), group["line"], malformed=True)
        for (reason,), group in reasons.drop_nulls().group_by("reason", maintain_order=True)
    ]
    frame = frame.filter(reasons["reason"].is_null())
    acted = frame["source"].is_null().to_numpy()
    edges = _part(frame, np.flatnonzero(~acted), ("source", "target"))
    nodes = _part(frame, np.flatnonzero(acted), ("user",))
    extra = {name: frame[name] for name in _EXTRA if name in came}
    lines = frame["line"].to_numpy()
    report = table.report.without(*left_out)
    return Batch(edges, nodes, lines, extra, table.text, report, zone)


def _check_needed(frame: pl.DataFrame, offered: Sequence[str]) -> None:
    """Refuse a table that lacks a column which its rows need; all of them in one message."""
    import polars as pl

    there = {name: frame[name].is_not_null() for name in ("source", "user") if name in frame.columns}
    by_edge = there.get("source", pl.repeat(False, frame.height, eager=True))
    needed = ["target", "outcome"] if by_edge.any() else []
    if "user" in there and (there["user"] & ~by_edge).any():
        needed.append("time")
    lost = [name for name in needed if name not in frame.columns]
    if lost:
        named = [part for name in lost for part in (argument("columns", {name: "NAME"}), " and ")]
        raise InputError(
            f"responses have no field {' and no field '.join(map(repr, lost))}, which their rows need; got "
            f"{shown(sorted(offered), 400)}.",
            advice=("Say which column it is with ", *named[:-1], "."),
        )


def _part(frame: pl.DataFrame, rows: I64, people: tuple[str, ...]) -> Part:
    own = frame[rows]
    ids = tuple(_ids(own[name]) for name in people)
    outcomes = own["outcome"].cast(float).to_numpy() if len(people) > 1 else np.full(rows.size, np.nan)
    times = own["time"].cast(float).fill_null(np.nan).to_numpy()
    until = own["until"].cast(float).fill_null(np.nan).to_numpy()
    amounts = own["amount"].cast(float).fill_null(np.nan).to_numpy()
    return Part(rows, ids, outcomes, times, until, own["event_id"].to_list(), amounts)


def _ids(column: pl.Series) -> Column:
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


def check_sound(batch: Batch, found: Resolved, tolerance: Tolerance, *more: LeftOut) -> FileReport:
    """The report of a delivery with all that is left out; an error if too many of its rows cannot be used."""
    report = batch.report.without(*found.strangers, *more)
    strange = bool(found.unknown)
    others = any(entry.count for entry in (*batch.report.left_out, *more))
    report.check(
        tolerance,
        UnknownIdError if strange and not others else InputError,
        ("Nothing was stored. Add users to the network with ", call("add_users"), ", or mend the rows")
        if strange
        else ("Nothing was stored. Mend the rows",),
    )
    return report
