"""Delimited text files into typed columns, with every row that does not fit named by its line.

A file goes through in pieces of a few megabytes: a piece is split into lines, a line into fields, and a field is
parsed, all in polars expressions. Rows keep their line numbers, so no fault goes unnamed.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from tensorucb.checks import shown
from tensorucb.data._report import FIRST_LINES, FileReport, LeftOut, refuse
from tensorucb.errors import FileFormatError

_PIECE = 1 << 21
_DATES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d")
_MISFIT = "wrong number of fields"
_QUOTES = "unbalanced quotes"
_NOT_TEXT = "not UTF-8 text"


@dataclass(frozen=True)
class Column:
    """A column to read; ``kind`` is ``id`` (number or text), ``whole``, ``flag``, ``number``, ``time`` or ``date``."""

    name: str
    kind: str


@dataclass(frozen=True)
class Table:
    """The sound rows (``line`` and the columns asked for) and the report of the file."""

    frame: pl.DataFrame
    report: FileReport


@dataclass
class _Faults:
    """Counts and first lines by reason, in the order met."""

    counts: dict[str, int] = field(default_factory=dict)
    lines: dict[str, list[int]] = field(default_factory=dict)

    def add(self, reason: str, count: int, first: Sequence[int]) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + count
        kept = self.lines.setdefault(reason, [])
        kept.extend(first[: FIRST_LINES - len(kept)])

    def entries(self) -> tuple[LeftOut, ...]:
        return tuple(LeftOut(r, n, tuple(self.lines[r]), malformed=True) for r, n in self.counts.items())


def _load(path: Path) -> tuple[bytes, list[str]]:
    """The file's bytes with plain line ends, decompressed and in UTF-8, and remarks on what had to be mended."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path.name} is not a sound gzip file ({error}). Fetch it again.") from error
    except OSError as error:
        raise FileFormatError(f"cannot read {shown(path.name)}: {error.strerror or error}.") from error
    remarks = []
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


def first_line(path: Path) -> str:
    """The first line of a text file, possibly gzipped, without its line end."""
    if path.suffix == ".gz":
        data, _ = _load(path)
    else:
        try:
            with path.open("rb") as file:
                data = file.read(1 << 16)
        except OSError as error:
            raise FileFormatError(f"cannot read {shown(path.name)}: {error.strerror or error}.") from error
    for mark in (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0"):
        data = data.replace(mark, b"")
    return data.replace(b"\r", b"\n").split(b"\n", 1)[0].decode("utf-8", errors="replace")


def _pieces(data: bytes) -> Iterator[str]:
    start = 0
    while start < len(data):
        stop = len(data) if start + _PIECE >= len(data) else data.rfind(b"\n", start, start + _PIECE) + 1
        if stop == 0:
            # One line longer than a piece.
            stop = data.find(b"\n", start) + 1 or len(data)
        piece = data[start:stop].removesuffix(b"\n")
        yield piece.decode("utf-8", errors="replace")
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
        try:
            parsed = [value.strip() for value in next(csv.reader([text], delimiter=separator, strict=True))]
            reason = None
        except csv.Error:
            parsed, reason = [], _QUOTES
        cells = dict(zip(fields, (parsed + [None] * len(fields))[: len(fields)], strict=True))
        mended.append({"line": line, "text": text, **cells, "reason": reason})
    schema = {"line": pl.Int64, "text": pl.String, **dict.fromkeys(fields, pl.String), "reason": pl.String}
    return pl.concat([rows.filter(~mask), pl.DataFrame(mended, schema=schema)]).sort("line")


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
    misfit = pl.col(fields[-1]).is_not_null() | pl.col(fields[-2]).is_null()
    reason = pl.coalesce("reason", pl.when(misfit).then(pl.lit(_MISFIT)))
    if "\ufffd" in text:
        reason = pl.coalesce(
            pl.when(pl.col("text").str.contains("\ufffd", literal=True)).then(pl.lit(_NOT_TEXT)), reason
        )
    return rows.with_columns(reason=reason)


def _time(cell: pl.Expr) -> pl.Expr:
    number = cell.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def _date(cell: pl.Expr) -> pl.Expr:
    readings = [cell.str.to_datetime(form, strict=False, time_unit="ms").dt.epoch("s") for form in _DATES]
    return pl.coalesce(readings)


def _parse(rows: pl.DataFrame, columns: Sequence[Column], places: Sequence[int]) -> pl.DataFrame:
    """Typed columns and the first reason, if any, why a row does not fit."""
    parsed, reasons = [], [pl.col("reason")]
    for column, place in zip(columns, places, strict=True):
        cell = pl.col(f"f{place}")
        reasons.append(pl.when(cell == "").then(pl.lit(f"{column.name} is empty")))
        if column.kind == "id":
            parsed.append(cell.alias(column.name))
            continue
        whole = cell.cast(pl.Int64, strict=False)
        value, wanted = {
            "whole": (whole, "a whole number"),
            "flag": (pl.when(whole.is_in([0, 1])).then(whole), "0 or 1"),
            "number": (cell.cast(pl.Float64, strict=False), "a number"),
            "time": (_time(cell), "a time in seconds"),
            "date": (_date(cell), "a date such as 2007-10-10 00:00:00"),
        }[column.kind]
        parsed.append(value.alias(column.name))
        if column.kind == "time":
            parsed.append(whole.alias(f"{column.name}_whole"))
        reasons.append(pl.when(value.is_null()).then(pl.lit(f"{column.name} is not {wanted}")))
    return rows.select("line", "text", *parsed, pl.coalesce(reasons).alias("reason"))


def _narrow(frame: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Ids as whole numbers where all of the piece are, written the usual way (``007`` stays text)."""
    for column in columns:
        if column.kind == "id":
            text = frame[column.name]
            numbers = text.cast(pl.Int64, strict=False)
            if (numbers.cast(pl.String) == text).fill_null(False).all():
                frame = frame.with_columns(numbers)
    return frame


def _join(pieces: list[pl.DataFrame], columns: Sequence[Column]) -> pl.DataFrame:
    for column in columns:
        if column.kind == "id" and len({piece[column.name].dtype for piece in pieces}) > 1:
            pieces = [piece.with_columns(pl.col(column.name).cast(pl.String)) for piece in pieces]
    frame = pl.concat(pieces)
    for column in columns:
        if column.kind == "time":
            whole = f"{column.name}_whole"
            if not frame[whole].has_nulls():
                frame = frame.with_columns(pl.col(whole).alias(column.name))
            frame = frame.drop(whole)
    return frame


def read_text(
    path: Path,
    columns: Sequence[Column],
    *,
    separator: str,
    n_fields: int,
    places: Sequence[int] | None = None,
    header: bool = False,
    strict: bool = False,
    ignored: Sequence[str] = (),
) -> Table:
    """Read ``columns`` of a delimited text file, found at ``places`` among the ``n_fields`` of every line.

    Blank lines are passed over; every other line that does not fit is left out and reported, or, with ``strict``,
    raises `FileFormatError`.
    """
    data, remarks = _load(path)
    faults, kept, n_rows, line = _Faults(), [], 0, 1
    for text in _pieces(data):
        rows = _split(text, line, separator, n_fields)
        if header and line == 1:
            rows = rows.slice(1)
        line += text.count("\n") + 1
        n_rows += rows.height
        rows = _parse(rows, columns, list(range(len(columns))) if places is None else places)
        bad = rows.filter(pl.col("reason").is_not_null())
        if strict and bad.height:
            refuse(path.name, *bad.select("reason", "line", "text").row(0))
        for (reason,), group in bad.group_by("reason", maintain_order=True):
            faults.add(str(reason), group.height, group["line"].head(FIRST_LINES).to_list())
        kept.append(_narrow(rows.filter(pl.col("reason").is_null()).drop("text", "reason"), columns))
    if not n_rows:
        raise FileFormatError(f"{path.name} holds no rows. Check that it was fetched or written in full.")
    frame = _join([piece for piece in kept if piece.height] or kept[:1], columns)
    report = FileReport(path.name, n_rows, frame.height, faults.entries(), tuple(ignored), tuple(remarks))
    return Table(frame, report)
