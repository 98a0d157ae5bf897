"""Delimited text files into typed columns, with every row that does not fit named by its line.

A file goes through in pieces of a few megabytes: a piece is split into lines, a line into fields, and a field is
parsed, all in polars expressions. Rows keep their line numbers, so no fault goes unnamed.

The kind of a column is one of ``id`` (number or text), ``text``, ``whole``, ``flag``, ``number`` (checked, and then
ignored), ``time`` or ``date``.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tensorucb.checks import shown
from tensorucb.data._report import FileReport, LeftOut, refuse
from tensorucb.errors import FileFormatError
from tensorucb.moments import is_moment, unix_times

_PIECE = 1 << 21
_DATES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d")


class Table(NamedTuple):
    """The sound rows (``line`` and the columns asked for) and the report of the file."""

    frame: pl.DataFrame
    report: FileReport


def _read_bytes(path: Path, limit: int = -1) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(limit)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path.name} is not a sound gzip file ({error}). Fetch it again.") from error
    except OSError as error:
        raise FileFormatError(f"cannot read {shown(path.name)}: {error.strerror or error}.") from error


def first_line(path: Path) -> str:
    """The first line of a text file, possibly gzipped, without its line end."""
    data = _read_bytes(path, 1 << 16)
    for mark in (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0"):
        data = data.replace(mark, b"")
    return data.replace(b"\r", b"\n").split(b"\n", 1)[0].decode("utf-8", errors="replace")


def _load(path: Path) -> tuple[bytes, list[str]]:
    """The file's bytes with plain line ends, decompressed and in UTF-8, and remarks on what had to be mended."""
    data, remarks = _read_bytes(path), []
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", errors="replace").encode("utf-8", errors="replace")
        remarks.append("read as UTF-16")
    data = data.removeprefix(b"\xef\xbb\xbf")
    zeros = data.count(b"\0")
    if zeros:
        data = data.replace(b"\0", b"")
        remarks.append(f"{zeros:,} NUL bytes removed")
    if b"\r" in data:
        # The Digg release has CRLF in one file and bare CR in the other.
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, remarks


def _pieces(data: bytes) -> Iterator[str]:
    start = 0
    while start < len(data):
        stop = len(data) if start + _PIECE >= len(data) else data.rfind(b"\n", start, start + _PIECE) + 1
        if stop == 0:
            # One line longer than a piece.
            stop = data.find(b"\n", start) + 1 or len(data)
        yield data[start:stop].removesuffix(b"\n").decode("utf-8", errors="replace")
        start = stop


def _bare(cell: pl.Expr) -> pl.Expr:
    """A cell without one quote at either end; plain comparisons take a third of a regular expression's time."""
    inner = cell.str.strip_chars('"')
    enclosed = cell.str.starts_with('"') & cell.str.ends_with('"') & (inner.str.len_bytes() + 2 == cell.str.len_bytes())
    return pl.when(enclosed).then(inner).otherwise(cell)


def _unquote(rows: pl.DataFrame, fields: list[str], separator: str) -> pl.DataFrame:
    """Quotes taken off fields; lines with separators or quotes inside quotes go through the csv module one by one."""
    rows = rows.with_columns(_bare(pl.col(name)).alias(name) for name in fields)
    hard = pl.any_horizontal(pl.col(name).str.contains('"', literal=True).fill_null(False) for name in fields)
    mask = rows.select(hard).to_series()
    if not mask.any():
        return rows
    mended = []
    for line, text in rows.filter(mask).select("line", "text").iter_rows():
        reason = None
        try:
            parsed = [value.strip() for value in next(csv.reader([text], delimiter=separator, strict=True))]
        except csv.Error:
            parsed, reason = [], "unbalanced quotes"
        mended.append((line, text, *(parsed + [None] * len(fields))[: len(fields)], reason))
    return pl.concat([rows.filter(~mask), pl.DataFrame(mended, schema=rows.schema, orient="row")]).sort("line")


def _split(text: str, line: int, separator: str, n_fields: int) -> pl.DataFrame:
    """``line``, ``text``, ``f0 … fn`` and ``reason`` (so far) of a piece; blank lines are gone."""
    lines = pl.Series("text", [text]).str.split("\n").explode()
    rows = pl.DataFrame({"line": pl.int_range(line, line + len(lines), eager=True), "text": lines})
    rows = rows.filter(pl.col("text").str.strip_chars() != "")
    fields = [f"f{number}" for number in range(n_fields + 1)]
    parts = rows["text"].str.split_exact(separator, n_fields).struct.rename_fields(fields).struct.unnest()
    rows = rows.hstack(parts.select(pl.all().str.strip_chars())).with_columns(reason=pl.lit(None, dtype=pl.String))
    if '"' in text:
        rows = _unquote(rows, fields, separator)
    not_text = pl.col("text").str.contains("\ufffd", literal=True) if "\ufffd" in text else pl.lit(False)
    misfit = pl.col(fields[-1]).is_not_null() | pl.col(fields[-2]).is_null()
    return rows.with_columns(
        reason=pl.coalesce(
            pl.when(not_text).then(pl.lit("not UTF-8 text")),
            "reason",
            pl.when(misfit).then(pl.lit("wrong number of fields")),
        )
    )


def iso_seconds(cells: pl.Series) -> pl.Series:
    """Unix seconds, as text, of cells that hold an ISO date or time (UTC without a zone); null elsewhere."""
    texts = cells.filter(cells.is_not_null() & cells.cast(pl.Float64, strict=False).is_null()).unique()
    seconds = unix_times(np.array(texts.to_list(), dtype=np.object_))
    sound = is_moment(seconds)
    known = [f"{value:.0f}" if value == np.floor(value) else repr(value) for value in seconds[sound].tolist()]
    return cells.replace_strict(texts.filter(pl.Series(sound)), known, default=None, return_dtype=pl.String)


def _parse(rows: pl.DataFrame, places: Mapping[str, int], kinds: Mapping[str, str]) -> pl.DataFrame:
    """Typed columns (ids and times still as text) and the first reason, if any, why a row does not fit."""
    parsed, reasons = [], [pl.col("reason")]
    for name, kind in kinds.items():
        cell = pl.col(f"f{places[name]}")
        whole, number = cell.cast(pl.Int64, strict=False), cell.cast(pl.Float64, strict=False)
        dates = [cell.str.to_datetime(form, strict=False, time_unit="ms").dt.epoch("s") for form in _DATES]
        value, wanted = {
            "id": (cell, "an id"),
            "text": (cell, "text"),
            "whole": (whole, "a whole number"),
            "flag": (pl.when(whole.is_in([0, 1])).then(whole), "0 or 1"),
            "number": (number, "a number"),
            "time": (
                pl.when(number.is_finite()).then(cell).otherwise(cell.map_batches(iso_seconds, pl.String)),
                "a time in seconds or such as 2026-05-31T12:00",
            ),
            "date": (pl.coalesce(dates), "a date such as 2007-10-10 00:00:00"),
        }[kind]
        parsed.append(value.alias(name))
        reasons.append(pl.when(cell == "").then(pl.lit(f"{name} is empty")))
        reasons.append(pl.when(value.is_null()).then(pl.lit(f"{name} is not {wanted}")))
    return rows.select("line", "text", *parsed, pl.coalesce(reasons).alias("reason"))


def _narrow(frame: pl.DataFrame, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Ids and times as whole numbers where all of the piece are; else ids stay text, and times become floats."""
    for name, kind in kinds.items():
        text = frame[name]
        if kind == "id":
            numbers = text.cast(pl.Int64, strict=False)
            # Written the usual way: 007 stays text.
            if (numbers.cast(pl.String) == text).fill_null(False).all():
                frame = frame.with_columns(numbers)
        elif kind == "time":
            numbers = text.cast(pl.Int64, strict=False)
            frame = frame.with_columns(text.cast(pl.Float64) if numbers.has_nulls() else numbers)
    return frame


def read_text(
    path: Path,
    fields: Sequence[str],
    kinds: Mapping[str, str],
    *,
    separator: str = ",",
    header: bool = False,
    strict: bool = False,
) -> Table:
    """Read the columns that have a kind from a delimited text file; ``fields`` names all columns of the file.

    Blank lines are passed over; every other line that does not fit is left out and reported, or, with ``strict``,
    raises `FileFormatError`.
    """
    data, remarks = _load(path)
    places = {name: list(fields).index(name) for name in kinds}
    kept, faults, n_rows, line = [], [], 0, 1
    for text in _pieces(data):
        rows = _split(text, line, separator, len(fields))
        if header and line == 1:
            rows = rows.slice(1)
        line += text.count("\n") + 1
        n_rows += rows.height
        rows = _parse(rows, places, kinds)
        bad = rows.filter(pl.col("reason").is_not_null())
        if strict and bad.height:
            refuse(path.name, *bad.select("reason", "line", "text").row(0))
        faults.append(bad.select("reason", "line"))
        kept.append(_narrow(rows.filter(pl.col("reason").is_null()).drop("text", "reason"), kinds))
    if not n_rows:
        raise FileFormatError(f"{path.name} holds no rows. Check that it was fetched or written in full.")
    # Relaxed: a column that is whole numbers in one piece and text or floats in another becomes the latter.
    frame = pl.concat(kept, how="vertical_relaxed")
    left_out = [
        LeftOut.of_lines(str(reason), group["line"], malformed=True)
        for (reason,), group in pl.concat(faults).group_by("reason", maintain_order=True)
    ]
    ignored = tuple(name for name in fields if kinds.get(name, "number") == "number")
    return Table(frame, FileReport(path.name, n_rows, frame.height, tuple(left_out), ignored, tuple(remarks)))
