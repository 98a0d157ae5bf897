"""What callers tell us, in whatever form, as checked columns by graph rows and edge numbers.

Errors count rows from 1, without a header.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.checks import (
    array_of,
    check_choice,
    check_id,
    check_mapping,
    check_path,
    check_text,
    is_missing,
    plain,
    refusal,
    shown,
    unstorable,
)
from tensorucb.errors import InputError, ShapeError, UnknownIdError, argument, call
from tensorucb.graph._ids import IdIndex, describe_rows, id_column
from tensorucb.moments import is_moment, unix_times
from tensorucb.tables import PARQUET, plain_column, read_table, suffix_of, table_columns

if TYPE_CHECKING:
    import polars as pl


Column = Any  # a list, an array or a polars series
_FIELDS = ("source", "target", "outcome", "user", "time", "event_id", "product", "strategy", "round")
_USUAL = {"time": ("timestamp",), "product": ("item",)}
_EXTRA = ("product", "strategy", "round")
_IDS = ("source", "target", "user")
_TEXTS = ("event_id", "product", "strategy")
_SHOWN = 5
UNKNOWN = ("refuse", "skip")
"""What can be done with rows that name a user or an edge that is not in the network."""


@dataclass(frozen=True)
class Part:
    """Rows of one kind: outcomes by edge, with ids of source and target; or who acted, with ids of users alone.

    ``rows`` say where they stood in what came; ``outcomes`` are NaN for those who acted.
    """

    rows: I64
    ids: tuple[Column, ...]
    outcomes: F64
    times: F64
    event_ids: list[str | None]

    def take(self, at: I64) -> Part:
        """Some of them, by their places."""
        ids = tuple(_take(column, at) for column in self.ids)
        return Part(self.rows[at], ids, self.outcomes[at], self.times[at], _take(self.event_ids, at))


@dataclass(frozen=True)
class Batch:
    """One delivery of responses; either part may be empty.

    ``extra`` holds the columns product, strategy and round, as far as they came, with ``length`` values each; ``text``
    says whether they come from a file of text, where a number is not told from its text.
    """

    edges: Part
    nodes: Part
    extra: Mapping[str, Column]
    length: int
    text: bool


def read_responses(responses: Any, *, strings: bool, columns: Any = None) -> Batch:
    """Columns from a frame, a mapping of columns, one response or a list of them as mappings, or a file's path.

    A row with ``user`` and without ``source`` is a node event; fields that we do not know are ignored. ``strings`` says
    whether ids are strings, so that a text file's ``007`` stays what it is. ``columns`` is the caller's mapping of
    fields to names of columns.
    """
    names, text = _Names.read(columns), False
    if isinstance(responses, str | os.PathLike):
        path = check_path("responses", responses)
        text = suffix_of(path) != PARQUET
        responses = read_table(path, types=names.types(strings))
    columns, length, offered = _columns(responses, names)
    # Also without a row: wrong names are better noticed today than when the first response comes.
    if (length or offered) and "source" not in columns and "user" not in columns:
        came = shown(sorted(offered)) if offered else "none of them"
        raise InputError(
            f"responses need the fields source, target and outcome, or user and time; got {came}.",
            advice=("Say which is which with ", argument("columns", {"user": "NAME"}), ".") if offered else "",
        )
    columns = columns if length else {}
    by_edge = _present(columns.get("source"), length)
    by_node = _present(columns.get("user"), length) & ~by_edge
    lost = np.flatnonzero(~by_edge & ~by_node)
    if lost.size:
        raise InputError(f"row {lost[0] + 1} names neither a source nor a user. Remove it or fill it in.")
    rows, acted = np.flatnonzero(by_edge), np.flatnonzero(by_node)
    for name, needed in (("target", rows), ("outcome", rows), ("time", acted)):
        if needed.size and name not in columns:
            raise InputError(
                f"responses have no field {name!r}, which row {needed[0] + 1} needs; got {shown(sorted(offered))}.",
                advice=("Say which column it is with ", argument("columns", {name: "NAME"}), "."),
            )
    ends = _ids(columns, "source", rows), _ids(columns, "target", rows)
    outcomes, times = _outcomes(columns, rows), _times(columns, rows, required=False)
    edges = Part(rows, ends, outcomes, times, _event_ids(columns, rows))
    users, times = _ids(columns, "user", acted), _times(columns, acted, required=True)
    nodes = Part(acted, (users,), np.full(acted.size, np.nan), times, _event_ids(columns, acted))
    return Batch(edges, nodes, {name: columns[name] for name in _EXTRA if name in columns}, length, text)


# -- from what came to columns --


@dataclass(frozen=True)
class _Names:
    """Names of columns by field: ``given`` by the caller, or the field's own, or another usual one."""

    given: Mapping[str, str]

    @classmethod
    def read(cls, columns: Any) -> _Names:
        given = {} if columns is None else check_mapping("columns", columns, "a mapping of fields to names of columns")
        for field, name in given.items():
            check_choice("a field in columns", field, (*_FIELDS, "item"))
            check_text(f"the column of {field} in columns", name)
        if len(set(given.values())) < len(given) or {"item", "product"} <= given.keys():
            raise InputError(
                f"names one column or field twice; got {shown(given)}. Name each once.", argument="columns"
            )
        return cls({"product" if field == "item" else field: name for field, name in given.items()})

    def tried(self, field: str) -> list[str]:
        if field in self.given:
            return [self.given[field]]
        # A column that was given a meaning has no other.
        return [name for name in (field, *_USUAL.get(field, ())) if name not in self.given.values()]

    def found(self, came: Collection[Any]) -> dict[str, str]:
        """The name of each field that came."""
        for field, name in self.given.items():
            if name not in came and came:
                raise InputError(
                    f"names the column {shown(name)} as the {field}; the columns of responses are "
                    f"{shown(sorted(map(str, came)), 400)}.",
                    argument="columns",
                )
        present = {field: [name for name in self.tried(field) if name in came] for field in _FIELDS}
        return {field: names[0] for field, names in present.items() if names}

    def types(self, strings: bool) -> dict[str, Any]:
        """Columns of a text file to leave unparsed."""
        import polars as pl

        fields = (*_TEXTS, *_IDS) if strings else _TEXTS
        return {name: pl.String for field in fields for name in self.tried(field)}


def _columns(responses: Any, names: _Names) -> tuple[dict[str, Column], int, set[str]]:
    """The columns that we know by field, their length, and the names of all that came."""
    if isinstance(responses, Mapping):
        given = check_mapping("responses", responses, "a mapping of columns")
        return *_from_mapping(given, names.found(given)), set(map(str, given))
    if isinstance(responses, list | tuple):
        for row, record in enumerate(responses, 1):
            if not isinstance(record, Mapping):
                raise InputError(f"a response must be a mapping such as {{'source': …}}; row {row} is {shown(record)}.")
        came = {name for record in responses for name in record}
        known = {field: [record.get(name) for record in responses] for field, name in names.found(came).items()}
        return known, len(responses), set(map(str, came))
    if not (hasattr(type(responses), "columns") or hasattr(responses, "__arrow_c_stream__")):
        raise refusal(
            "responses",
            "a frame, a mapping, a list of mappings, or the path of a .csv, .ndjson or .parquet file",
            responses,
        )
    columns = table_columns("responses", responses)
    length = max((len(column) for column in columns.values()), default=0)
    return {field: columns[name] for field, name in names.found(columns).items()}, length, set(columns)


def _from_mapping(given: Mapping[str, Any], fields: Mapping[str, str]) -> tuple[dict[str, Column], int]:
    held = {field: plain(given[name]) for field, name in fields.items()}
    single = [name for name, value in held.items() if isinstance(value, str | bytes) or not _has_length(value)]
    if len(single) == len(held):
        return {name: [value] for name, value in held.items()}, 1 if held else 0
    lengths = {name: len(value) for name, value in held.items() if name not in single}
    if single or len(set(lengths.values())) > 1:
        raise InputError(f"the columns of responses must be of one length; got {lengths}, and {single} as single ones.")
    return {name: plain_column(value) for name, value in held.items()}, next(iter(lengths.values()))


def _has_length(value: Any) -> bool:
    try:
        return len(value) >= 0
    except TypeError:  # also sparse matrices, which have the method but no length
        return False


# -- one column each --


def as_list(column: Column) -> list[Any]:
    """The values of a column."""
    if isinstance(column, list | tuple):
        return list(column)
    return list(column.to_list() if hasattr(column, "to_list") else np.asarray(column, dtype=object).tolist())


def whole(value: Any) -> Any:
    """A plain value; a whole number that came as a float, as in a column with a gap, is a whole number."""
    value = plain(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def written(name: str, column: Column) -> pl.Series:
    """A column of ids as a series of texts, with nulls where there is none."""
    import polars as pl

    if isinstance(column, pl.Series) and (column.dtype.is_integer() or column.dtype == pl.String):
        return column.cast(pl.String)
    texts: list[str | None] = []
    for row, value in enumerate(map(whole, as_list(column)), 1):
        if is_missing(value) or value == "":
            texts.append(None)
        else:
            texts.append(str(value if isinstance(value, date) else check_id(f"{name} in row {row}", value)))
    return pl.Series(texts, dtype=pl.String)


def text_places(column: pl.Series, texts: Sequence[str]) -> I64:
    """The place of each text of a column among ``texts``, -1 for others and for nulls."""
    if not texts:
        return np.full(len(column), -1, dtype=np.int64)
    return IdIndex(np.array(texts, dtype=np.str_)).rows(column).astype(np.int64)


def _present(column: Column | None, length: int) -> NDArray[np.bool_]:
    if column is None:
        return np.zeros(length, dtype=np.bool_)
    if hasattr(column, "is_not_null"):
        return np.asarray(column.is_not_null().to_numpy(), dtype=np.bool_)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
        return np.ones(length, dtype=np.bool_)
    return np.array([not is_missing(value) for value in column], dtype=np.bool_)


def _take(column: Column, rows: I64) -> Column:
    if len(column) == rows.size and np.array_equal(rows, np.arange(rows.size)):
        return column
    if isinstance(column, list | tuple):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def _ids(columns: dict[str, Column], name: str, rows: I64) -> Column:
    """A column of ids; an error names the row of the whole delivery."""
    if rows.size == 0:
        return []
    column = _take(columns[name], rows)
    try:
        return id_column(column, name)
    except ShapeError:
        raise
    except InputError:
        kinds: dict[type, tuple[Any, int]] = {}
        for row, value in zip((rows + 1).tolist(), map(whole, as_list(column)), strict=True):
            if is_missing(value):
                raise InputError(f"row {row} has no {name}. Remove it or fill it in.") from None
            kinds.setdefault(type(check_id(f"{name} in row {row}", value)), (value, row))
        if len(kinds) == 1:
            raise
        values, at = zip(*kinds.values(), strict=True)
        came = describe_rows(values, np.array(at) - 1)
        raise InputError(f"must be whole numbers or strings, not both; got {came}.", argument=name) from None


def _outcomes(columns: dict[str, Column], rows: I64) -> F64:
    if rows.size == 0:
        return np.empty(0, dtype=np.float64)
    column = _take(columns["outcome"], rows)
    array = array_of("outcome", column, "a column of zeros and ones")
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a wider number becomes infinite, and is refused below
            values = array.astype(np.float64)
    else:
        values = np.array([_outcome(value) for value in as_list(column)], dtype=np.float64)
    if values.shape != rows.shape:
        raise ShapeError(f"must be a column of {rows.size} values; got shape {values.shape}.", argument="outcome")
    bad = np.flatnonzero((values != 0.0) & (values != 1.0))
    if bad.size:
        came = [as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(f"must be 0 or 1; got {describe_rows(came, rows[bad])}.", argument="outcome")
    return values


def _outcome(value: Any) -> float:
    real = isinstance(value, int | float | Decimal | np.integer | np.floating | np.bool_)
    return float(value) if real and value in (0, 1) else np.nan


def _times(columns: dict[str, Column], rows: I64, *, required: bool) -> F64:
    if rows.size == 0 or ("time" not in columns and not required):
        return np.full(rows.size, np.nan)
    column = _take(columns["time"], rows)
    present = _present(column, rows.size)
    times = unix_times(array_of("time", column, "a column of times")).astype(np.float64)
    if times.shape != rows.shape:
        raise ShapeError(f"must be a column of {rows.size} values; got shape {times.shape}.", argument="time")
    bad = np.flatnonzero(~is_moment(times) & (present | required))
    if bad.size:
        came = [as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(
            "must be unix seconds, a datetime or an ISO text, in the years 1 to 9999; "
            f"got {describe_rows(came, rows[bad])}.",
            argument="time",
        )
    return times


def _event_ids(columns: dict[str, Column], rows: I64) -> list[str | None]:
    if rows.size == 0 or "event_id" not in columns:
        return [None] * rows.size
    values = as_list(_take(columns["event_id"], rows))
    for row, kind in zip(rows.tolist(), map(type, values), strict=True):
        if not issubclass(kind, str | int | float | np.integer | np.floating | NoneType) and kind.__name__ != "NAType":
            raise InputError(f"must be text or a number; row {row + 1} has a {kind.__name__}.", argument="event_id")
    ids = [None if is_missing(value) or value == "" else str(value) for value in values]
    if unstorable("".join(text for text in ids if text)) or max((len(text) for text in ids if text), default=0) > 512:
        for row, text in zip(rows.tolist(), ids, strict=True):
            if text is not None:
                check_text(f"event_id in row {row + 1}", text)
    return ids


# -- users and edges of the network --


@dataclass(frozen=True)
class Resolved:
    """A checked batch by graph rows and edge numbers, valid for one revision of the network.

    ``sources``, ``targets`` and ``numbers`` belong to ``edges``, ``users`` to ``nodes``. Rows that name somebody or an
    edge that is not in the network are left out; ``unknown`` counts them.
    """

    revision: int
    edges: Part
    nodes: Part
    sources: I64
    targets: I64
    numbers: I64
    users: I64
    unknown: int = 0

    def take(self, edges: I64, nodes: I64) -> Resolved:
        """Some of the rows, by their places."""
        ends = self.sources[edges], self.targets[edges], self.numbers[edges]
        return Resolved(self.revision, self.edges.take(edges), self.nodes.take(nodes), *ends, self.users[nodes])


def resolve(network: Network, batch: Batch, unknown: str) -> Resolved:
    """Look up all users and edges; rows with strangers are refused or left out, as ``unknown`` says."""
    edges, nodes = batch.edges, batch.nodes
    s, t = (
        network.find(column, edges.rows, name, text=batch.text)
        for name, column in zip(("source", "target"), edges.ids, strict=True)
    )
    u = network.find(nodes.ids[0], nodes.rows, "user", text=batch.text)
    numbers, both = np.full(s.size, -1, dtype=np.int64), (s >= 0) & (t >= 0)
    numbers[both] = network.graph.edge_between(s[both], t[both])
    held, acted = np.flatnonzero(numbers >= 0), np.flatnonzero(u >= 0)
    strangers = int(s.size - held.size + u.size - acted.size)
    if strangers and unknown == "refuse":
        raise _refusal(batch, s, t, numbers, u)
    return Resolved(
        network.revision, edges.take(held), nodes.take(acted), s[held], t[held], numbers[held], u[acted], strangers
    )


def _refusal(batch: Batch, s: I64, t: I64, numbers: I64, u: I64) -> UnknownIdError:
    """Say how many rows name strangers, which are the first, and what to do."""
    edges, nodes = batch.edges, batch.nodes
    sources, targets = edges.ids
    people: list[tuple[int, str]] = []
    strangers = []
    columns = ("user", nodes.ids[0], nodes.rows, u), ("source", sources, edges.rows, s)
    for name, column, rows, found in (*columns, ("target", targets, edges.rows, t)):
        at = np.flatnonzero(found < 0)
        strangers.append(rows[at])
        people += [(int(rows[i]), f"{name} {_id(column, i)}") for i in at[:_SHOWN].tolist()]
    lost = np.flatnonzero((s >= 0) & (t >= 0) & (numbers < 0))
    pairs = [(int(edges.rows[i]), f"{_id(sources, i)} -> {_id(targets, i)}") for i in lost[:_SHOWN].tolist()]
    kinds = (people, np.unique(np.concatenate(strangers)).size, "somebody who"), (pairs, lost.size, "an edge that")
    said = "; ".join(_said(first, count, what, batch.length) for first, count, what in kinds if count)
    return UnknownIdError(
        f"{said}. Nothing was stored.",
        advice=(
            "Add them to the network with ",
            call("add_users"),
            ", or leave these rows out with ",
            argument("unknown", "skip"),
            ".",
        ),
    )


def _id(column: Any, at: int) -> str:
    return shown(plain(column[at]), 40)


def _said(first: list[tuple[int, str]], count: int, what: str, total: int) -> str:
    named = [f"{text} (row {row + 1})" for row, text in sorted(first)[:_SHOWN]]
    more = f" and {count - _SHOWN:,} more rows" if count > _SHOWN else ""
    verb = "row names" if total == 1 else "rows names" if count == 1 else "rows name"
    return f"{count:,} of {total:,} {verb} {what} is not in the network: {', '.join(named)}{more}"
