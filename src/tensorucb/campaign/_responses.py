"""What callers tell us, in whatever form, as checked columns; errors name the row, counting from 0."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError, InputError
from tensorucb.graph._ids import describe_rows, id_column, is_missing

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Batch", "EdgeBatch", "NodeBatch", "file_frame", "read_responses", "seconds"]

Column = Any  # a list, an array or a polars series
_FIELDS = ("source", "target", "outcome", "user", "time", "event_id", "product", "round")
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
    """One delivery of responses; either part may be empty. ``extra`` holds the columns product and round, if any."""

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
            f"got {sorted(offered) or 'none of them'}."
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
    extra: dict[str, list[Any]] = {name: _as_list(columns[name]) for name in ("product", "round") if name in columns}
    return Batch(edges, nodes, extra)


# -- from what came to columns --


def _columns(responses: Any, strings: bool) -> tuple[dict[str, Column], int, set[str]]:
    """The columns that we know, their length, and the names of all that came."""
    import polars as pl

    if isinstance(responses, str | os.PathLike):
        responses = file_frame(responses, dict.fromkeys(_TEXT_IDS, pl.String) if strings else {})
    if isinstance(responses, pl.LazyFrame):
        responses = responses.collect()
    if isinstance(responses, Mapping):
        return *_from_mapping(responses), set(map(str, responses))
    if hasattr(responses, "columns"):
        library = type(responses).__module__.split(".")[0]
        if library not in ("polars", "pandas") and hasattr(responses, "__arrow_c_stream__"):
            responses = pl.DataFrame(responses)
        names = [name for name in _FIELDS if name in list(responses.columns)]
        return {name: _plain(responses[name]) for name in names}, len(responses), set(map(str, responses.columns))
    if isinstance(responses, Sequence) or hasattr(responses, "__iter__"):
        records = list(responses)
        return *_from_records(records), {str(name) for record in records for name in record}
    raise InputError(
        "responses must be a frame, mappings, or the path of a .csv, .ndjson or .parquet file; "
        f"got {type(responses).__name__}."
    )


def _from_mapping(responses: Mapping[str, Any]) -> tuple[dict[str, Column], int]:
    held = {name: responses[name] for name in _FIELDS if name in responses}
    single = [name for name, value in held.items() if isinstance(value, str) or not hasattr(value, "__len__")]
    if len(single) == len(held):
        return {name: [value] for name, value in held.items()}, 1 if held else 0
    lengths = {name: len(value) for name, value in held.items() if name not in single}
    if single or len(set(lengths.values())) > 1:
        raise InputError(f"the columns of responses must be of one length; got {lengths}, and {single} as single ones.")
    return {name: _plain(value) for name, value in held.items()}, next(iter(lengths.values()))


def _from_records(records: list[Any]) -> tuple[dict[str, Column], int]:
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise InputError(f"a response must be a mapping such as {{'source': …}}; row {row} is {record!r}.")
    names = [name for name in _FIELDS if any(name in record for record in records)]
    return {name: [record.get(name) for record in records] for name in names}, len(records)


def _plain(column: Any) -> Column:
    """Pandas and Arrow columns as lists or arrays, others as they are."""
    if type(column).__module__.startswith("pandas"):
        return column.to_numpy() if column.dtype.kind in "iufb" else column.tolist()
    return column


_READERS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}


def file_frame(path: str | os.PathLike[str], types: Mapping[str, Any]) -> pl.DataFrame:
    """The rows of a CSV, TSV, NDJSON or Parquet file; ``types`` are polars types of some text columns."""
    import polars as pl

    name = Path(path).name.lower()
    try:
        if name.endswith(".parquet"):
            return pl.read_parquet(Path(path), glob=False)
        if name.endswith((".ndjson", ".jsonl")):
            return pl.read_ndjson(Path(path), infer_schema_length=None)
        for suffix, separator in _READERS.items():
            if name.endswith(suffix):
                wanted = {"event_id": pl.String, **types}
                return pl.read_csv(
                    Path(path), separator=separator, schema_overrides=wanted, infer_schema_length=None, glob=False
                )
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise FileFormatError(
            f"cannot read {os.fspath(path)!r}: {str(error).strip().splitlines()[0]}. Check the path, and that the "
            "file is complete."
        ) from error
    raise FileFormatError(
        f"{os.fspath(path)!r} does not end in .csv, .tsv (also .gz), .ndjson, .jsonl or .parquet; the suffix tells the "
        "format."
    )


# -- one column each --


def _as_list(column: Column) -> list[Any]:
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
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind and kind in "biuf":
        values = np.asarray(column, dtype=np.float64)
    elif hasattr(column, "cast") and (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        import polars as pl

        values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        values = np.array([_outcome(value) for value in _as_list(column)], dtype=np.float64)
    bad = np.flatnonzero((values != 0.0) & (values != 1.0))
    if bad.size:
        shown = [_as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(f"outcome must be 0 or 1; got {describe_rows(shown, rows[bad])}.")
    return values


def _outcome(value: Any) -> float:
    return float(value) if isinstance(value, int | float | np.number | np.bool_) else np.nan


def seconds(value: Any) -> float:
    """Unix seconds of a number, also as text, a datetime (UTC if it has no zone), a date or an ISO text; else NaN."""
    if isinstance(value, bool):
        return np.nan
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    if isinstance(value, str):
        # Eight digits are a date, as ISO writes it; any other number is seconds.
        if not (len(value) == 8 and value.isdigit()):
            with contextlib.suppress(ValueError):
                return float(value)
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return np.nan
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return np.nan


def _times(columns: dict[str, Column], rows: NDArray[np.int64], *, required: bool) -> NDArray[np.float64]:
    if rows.size == 0 or ("time" not in columns and not required):
        return np.full(rows.size, np.nan)
    column = _required(columns, "time", rows)
    present = _present(column, rows.size)
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind and kind in "iuf":
        times = np.asarray(column, dtype=np.float64)
    elif hasattr(column, "cast") and column.dtype.is_numeric():
        import polars as pl

        times = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    else:
        values = _as_list(column)
        times = np.array([seconds(v) if p else np.nan for v, p in zip(values, present, strict=True)], dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(times) & (present | required))
    if bad.size:
        shown = [_as_list(column)[i] for i in bad[:_SHOWN].tolist()]
        raise InputError(
            f"time must be unix seconds, a datetime or an ISO text; got {describe_rows(shown, rows[bad])}."
        )
    return times


def _event_ids(columns: dict[str, Column], rows: NDArray[np.int64]) -> list[str | None]:
    if rows.size == 0 or "event_id" not in columns:
        return [None] * rows.size
    values = _as_list(_take(columns["event_id"], rows))
    return [None if is_missing(value) or value == "" else str(value) for value in values]
