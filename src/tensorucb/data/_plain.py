"""The plain form: ``edges`` and ``actions`` as CSV (or gzipped CSV) with a header, or as Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tensorucb.checks import check_flag, check_path, check_text, shown, shown_path
from tensorucb.data._assemble import assemble
from tensorucb.data._dataset import Dataset
from tensorucb.data._report import FIRST_LINES, FileReport, LeftOut, refuse
from tensorucb.data._text import Column, Table, first_line, read_text
from tensorucb.errors import FileFormatError, InputError
from tensorucb.files import FORMULA
from tensorucb.moments import check_seconds
from tensorucb.tables import read_table

META = "dataset.json"
GUARDED = "formulas_guarded"
_LINKS = {"source": "id", "target": "id"}
_ACTIONS = {"user": "id", "item": "id", "timestamp": "time"}


def _places(file: str, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    missing = [name for name in wanted if name not in header]
    if missing:
        raise FileFormatError(
            f"{file} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; "
            f"its first line has {shown(list(header)) if header else 'nothing'}. Name the columns {', '.join(wanted)}."
        )
    doubled = [name for name in wanted if list(header).count(name) > 1]
    if doubled:
        raise FileFormatError(f"{file} has the column {doubled[0]} more than once. Leave one.")
    return [list(header).index(name) for name in wanted]


def _read_csv(path: Path, kinds: dict[str, str], strict: bool) -> Table:
    header = [name.strip() for name in next(csv.reader([first_line(path)]), [])]
    columns = [Column(name, kind) for name, kind in kinds.items()]
    return read_text(
        path,
        columns,
        separator=",",
        n_fields=len(header),
        places=_places(path.name, header, list(kinds)),
        header=True,
        strict=strict,
        ignored=[name for name in header if name not in kinds],
    )


def _cells(frame: pl.DataFrame, name: str, kind: str, file: str) -> pl.Expr:
    """One Parquet column as whole numbers, text, or seconds; null where a cell has no such value."""
    dtype, cell = frame[name].dtype, pl.col(name)
    if kind == "time":
        if dtype.is_temporal() and dtype in (pl.Date, pl.Datetime):
            return cell.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
        if dtype.is_integer():
            return cell.cast(pl.Int64, strict=False)
        if dtype.is_float():
            return pl.when(cell.is_finite()).then(cell.cast(pl.Float64))
    elif dtype.is_integer():
        return cell.cast(pl.Int64, strict=False)
    elif dtype in (pl.String, pl.Categorical, pl.Enum):
        text = cell.cast(pl.String)
        return pl.when(text != "").then(text)
    raise FileFormatError(
        f"{file}: column {name} has type {dtype}; "
        + ("times must be numbers or dates." if kind == "time" else "ids must be whole numbers or text.")
    )


def _read_parquet(path: Path, kinds: dict[str, str], strict: bool) -> Table:
    table = read_table(path)
    header = table.columns
    _places(path.name, header, list(kinds))
    raw = table.select(list(kinds))
    if not raw.height:
        raise FileFormatError(f"{path.name} holds no rows. Check that it was fetched or written in full.")
    frame = raw.select(_cells(raw, name, kind, path.name).alias(name) for name, kind in kinds.items())
    frame = frame.with_row_index("line", 1).with_columns(pl.col("line").cast(pl.Int64))
    left_out, broken = [], pl.repeat(False, frame.height, eager=True)
    for name in kinds:
        bad = frame[name].is_null() & ~broken
        broken |= bad
        lines = frame["line"].filter(bad)
        if len(lines):
            if strict:
                refuse(path.name, f"{name} is empty", lines[0])
            first = tuple(lines.head(FIRST_LINES).to_list())
            left_out.append(LeftOut(f"{name} is empty", len(lines), first, malformed=True))
    frame = frame.filter(~broken)
    ignored = tuple(name for name in header if name not in kinds)
    return Table(frame, FileReport(path.name, raw.height, frame.height, tuple(left_out), ignored))


def _read(path: Path, kinds: dict[str, str], strict: bool, guarded: bool) -> Table:
    if path.suffix == ".parquet":
        return _read_parquet(path, kinds, strict)
    table = _read_csv(path, kinds, strict)
    if not guarded:
        return table
    return Table(table.frame.with_columns(pl.col(pl.String).str.replace(f"^'{FORMULA[1:]}", "$1")), table.report)


def _meta(path: Path | None) -> tuple[str | None, float | None, bool]:
    """Name and window from ``dataset.json``, and whether texts that look like formulas have an apostrophe in front."""
    if path is None:
        return None, None, False
    try:
        meta: Any = json.loads(path.read_text(encoding="utf-8"))
        name, window = meta.get("name"), meta.get("window")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise FileFormatError(
            f"{shown_path(path.name)} is not readable ({shown(error)}). Mend or delete it."
        ) from error
    try:
        return (
            None if name is None else check_text("name", name),
            None if window is None else check_seconds("window", window),
            meta.get(GUARDED) is True,
        )
    except InputError as error:
        raise FileFormatError(
            f'{path.name} should hold {{"name": text, "window": seconds or null}}; got {shown(meta)}.'
        ) from error


def read_plain(
    edges: Path, actions: Path | None = None, *, meta: Path | None = None, name: str = "data", strict: bool = False
) -> Dataset:
    """A data set in the plain form.

    Parameters
    ----------
    edges
        ``edges.csv``, ``.csv.gz`` or ``.parquet`` with the columns ``source`` and ``target``; source influences target.
    actions
        ``actions.*`` with the columns ``user``, ``item`` and ``timestamp``; ``None`` for a graph alone.
    meta
        ``dataset.json`` with ``name`` and ``window``, as `write_dataset` leaves it; optional.
    name
        What to call the data where ``meta`` does not say.
    strict
        Raise at the first malformed row instead of leaving such rows out.

    Returns
    -------
    Dataset
        Ids are whole numbers where all of them are, text otherwise. Other columns are ignored and named in the report.
    """
    name, strict = check_text("name", name), check_flag("strict", strict)
    told, window, guarded = _meta(None if meta is None else check_path("meta", meta))
    links = _read(check_path("edges", edges), _LINKS, strict, guarded)
    log = None
    if actions is not None:
        log = _read(check_path("actions", actions), _ACTIONS, strict, guarded)
        log = Table(log.frame.rename({"timestamp": "time"}), log.report)
    return assemble(told or name, links, log, window=window)
