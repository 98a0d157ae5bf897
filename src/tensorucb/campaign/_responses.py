"""What callers tell us, in whatever form, as checked columns; errors name the row, counting from 0."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import array_of, check_mapping, check_path, check_text, is_missing, plain, shown, unstorable
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph._ids import describe_rows, id_column
from tensorucb.moments import is_moment, unix_times
from tensorucb.tables import plain_column, read_table, table_columns

Column = Any  # a list, an array or a polars series
_FIELDS = ("source", "target", "outcome", "user", "time", "event_id", "product", "strategy", "round")
_EXTRA = ("product", "strategy", "round")
_TEXT_IDS = ("source", "target", "user")
_SHOWN = 5


@dataclass(frozen=True)
class EdgeBatch:
    """Outcomes by edge: ``sources`` and ``targets`` are columns of ids, ``rows`` where they stood in what came."""

    rows: NDArray[np.int64]
    sources: Column
    targets: Column
    outcomes: NDArray[np.float64]
    times: NDArray[np.float64]
    event_ids: list[str | None]


@dataclass(frozen=True)
class NodeBatch:
    """Who acted when."""

    rows: NDArray[np.int64]
    users: Column
    times: NDArray[np.float64]
    event_ids: list[str | None]


@dataclass(frozen=True)
class Batch:
    """One delivery of responses; either part may be empty. ``extra`` holds product, strategy and round, if any."""

    edges: EdgeBatch
    nodes: NodeBatch
    extra: Mapping[str, list[Any]]


def read_responses(responses: Any, *, strings: bool) -> Batch:
    """Columns from a frame, a mapping of columns, one response or a list of them as mappings, or a file's path.

    Parameters
    ----------
    responses
        Fields ``source``, ``target``, ``outcome`` (0 or 1), or ``user``, ``time``; optionally ``time`` and
        ``event_id``. A row with ``user`` and without ``source`` is a node event. Other fields are ignored.
    strings
        Whether ids are strings, so that a text file's ``007`` stays what it is.
    """
    columns, length, offered = _columns(responses, strings)
    # Also without a row: wrong names are better noticed today than when the first response comes.
    if (length or offered) and "source" not in columns and "user" not in columns:
        raise InputError(
            "responses need the fields source, target and outcome, or user and time; "
            f"got {shown(sorted(offered)) if offered else 'none of them'}."
        )
    if length == 0:
        return _assemble({}, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    by_edge = _present(columns.get("source"), length)
    by_node = _present(columns.get("user"), length) & ~by_edge
    lost = np.flatnonzero(~by_edge & ~by_node)
    if lost.size:
        raise InputError(f"row {lost[0]} names neither a source nor a user. Remove it or fill it in.")
    return _assemble(columns, np.flatnonzero(by_edge), np.flatnonzero(by_node))


def _assemble(columns: dict[str, Column], edge_rows: NDArray[np.int64], node_rows: NDArray[np.int64]) -> Batch:
    edges = EdgeBatch(
        edge_rows,
        _ids(columns, "source", edge_rows),
        _ids(columns, "target", edge_rows),
        _outcomes(columns, edge_rows),
        _times(columns, edge_rows, required=False),
        _event_ids(columns, edge_rows),
    )
    nodes = NodeBatch(
        node_rows,
        _ids(columns, "user", node_rows),
        _times(columns, node_rows, required=True),
        _event_ids(columns, node_rows),
    )
    extra: dict[str, list[Any]] = {name: _as_list(columns[name]) for name in _EXTRA if name in columns}
    return Batch(edges, nodes, extra)


# -- from what came to columns --


def _columns(responses: Any, strings: bool) -> tuple[dict[str, Column], int, set[str]]:
    """The columns that we know, their length, and the names of all that came."""
    import polars as pl

    if isinstance(responses, str | os.PathLike):
        wanted = {"event_id": pl.String, **(dict.fromkeys(_TEXT_IDS, pl.String) if strings else {})}
        responses = read_table(check_path("responses", responses), types=wanted)
    if isinstance(responses, Mapping):
        return *_from_mapping(responses), set(map(str, responses))
    if isinstance(responses, list | tuple):
        return *_from_records(list(responses)), {str(name) for record in responses for name in record}
    if not (hasattr(type(responses), "columns") or hasattr(responses, "__arrow_c_stream__")):
        raise InputError(
            "responses must be a frame, a mapping, a list of mappings, or the path of a .csv, .ndjson or .parquet "
            f"file; got {shown(responses)}."
        )
    columns = table_columns("responses", responses)
    length = max((len(column) for column in columns.values()), default=0)
    return {name: columns[name] for name in _FIELDS if name in columns}, length, set(columns)


def _from_mapping(responses: Mapping[str, Any]) -> tuple[dict[str, Column], int]:
    given = check_mapping("responses", responses, "a mapping of columns")
    held = {name: plain(given[name]) for name in _FIELDS if name in given}
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


def _from_records(records: list[Any]) -> tuple[dict[str, Column], int]:
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"a response must be a mapping such as {{'source': …}}; row {row} is {shown(record)}.")
    names = [name for name in _FIELDS if any(name in record for record in records)]
    return {name: [record.get(name) for record in records] for name in names}, len(records)


# -- one column each --


def _as_list(column: Column) -> list[Any]:
    if isinstance(column, list | tuple):
        return list(column)
    return list(column.to_list() if hasattr(column, "to_list") else np.asarray(column, dtype=object).tolist())


def _present(column: Column | None, length: int) -> NDArray[np.bool_]:
    if column is None:
        return np.zeros(length, dtype=np.bool_)
    if hasattr(column, "is_not_null"):
        return np.asarray(column.is_not_null().to_numpy(), dtype=np.bool_)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
        return np.ones(length, dtype=np.bool_)
    return np.array([not is_missing(value) for value in column], dtype=np.bool_)


def _take(column: Column, rows: NDArray[np.int64]) -> Column:
    if len(column) == rows.size:
        return column
    if isinstance(column, list | tuple):
        return [column[row] for row in rows.tolist()]
    return column[rows]


def _required(columns: dict[str, Column], name: str, rows: NDArray[np.int64]) -> Column:
    if name not in columns:
        raise InputError(f"responses have no field {name!r}; row {rows[0]} needs it.")
    return _take(columns[name], rows)


def _ids(columns: dict[str, Column], name: str, rows: NDArray[np.int64]) -> Column:
    if rows.size == 0:
        return []
    return id_column(_required(columns, name, rows), name)


def _outcomes(columns: dict[str, Column], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    if rows.size == 0:
        return np.empty(0, dtype=np.float64)
    column = _required(columns, "outcome", rows)
    array = array_of("outcome", column, "a column of zeros and ones")
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):  # a wider number becomes infinite, and is refused below
            values = array.astype(np.float64)
    else:
        values = np.array([_outcome(value) for value in _as_list(column)], dtype=np.float64)
    if values.shape != rows.shape:
        raise ShapeError(f"outcome must be a column of {rows.size} values; got shape {values.shape}.")
    bad = np.flatnonzero((values != 0.0) & (values != 1.0))
    if bad.size:
        came = [_as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(f"outcome must be 0 or 1; got {describe_rows(came, rows[bad])}.")
    return values


def _outcome(value: Any) -> float:
    real = isinstance(value, int | float | Decimal | np.integer | np.floating | np.bool_)
    return float(value) if real and value in (0, 1) else np.nan


def _times(columns: dict[str, Column], rows: NDArray[np.int64], *, required: bool) -> NDArray[np.float64]:
    if rows.size == 0 or ("time" not in columns and not required):
        return np.full(rows.size, np.nan)
    column = _required(columns, "time", rows)
    present = _present(column, rows.size)
    times = unix_times(array_of("time", column, "a column of times")).astype(np.float64)
    if times.shape != rows.shape:
        raise ShapeError(f"time must be a column of {rows.size} values; got shape {times.shape}.")
    bad = np.flatnonzero(~is_moment(times) & (present | required))
    if bad.size:
        came = [_as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(
            "time must be unix seconds, a datetime or an ISO text, in the years 1 to 9999; "
            f"got {describe_rows(came, rows[bad])}."
        )
    return times


def _event_ids(columns: dict[str, Column], rows: NDArray[np.int64]) -> list[str | None]:
    if rows.size == 0 or "event_id" not in columns:
        return [None] * rows.size
    values = _as_list(_take(columns["event_id"], rows))
    for row, kind in zip(rows.tolist(), map(type, values), strict=True):
        if not issubclass(kind, str | int | float | np.integer | np.floating | NoneType) and kind.__name__ != "NAType":
            raise InputError(f"event_id must be text or a number; row {row} has a {kind.__name__}.")
    ids = [None if is_missing(value) or value == "" else str(value) for value in values]
    if unstorable("".join(text for text in ids if text)) or max((len(text) for text in ids if text), default=0) > 512:
        for row, text in zip(rows.tolist(), ids, strict=True):
            if text is not None:
                check_text(f"event_id in row {row}", text)
    return ids
