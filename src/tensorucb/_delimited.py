"""Files of delimited text, read line by line: what a line should be, what it is, and where it stands.

Any file of a table has a suffix that tells its format; `text_source` reads those that are text, also gzipped, with
line ends, byte order marks and quotes as programs and people write them. `keep` writes what was read for others.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from tensorucb.checks import shown, shown_path
from tensorucb.errors import TableError
from tensorucb.memory import check_memory

TEXT = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
PARQUET = ".parquet"
LINES = (".ndjson", ".jsonl")
KEPT = ".kept"  # after the name of a file: its table, as `keep` wrote it
LINE, FAULT, VALUE = "\0line", "\0fault", "\0value"  # columns beside those of the table
_MARKS = {";": "semicolons", "\t": "tabs", ",": "commas"}
_PIECE = 1 << 21
_LONGEST_HEADER = 1 << 16
_ABOUT = "about.json"


class Source(NamedTuple):
    """Where cells come from: frames with the table's columns, the line of each row, and what is wrong with it.

    ``pieces`` takes the names of the columns that are needed, None for all. ``text`` says whether all cells are text,
    ``written`` whether somebody wrote them as text, where a number is not told from how it is written.
    """

    origin: str
    columns: list[str]
    pieces: Callable[[list[str] | None], Iterator[pl.DataFrame]]
    text: bool = False
    written: bool = False
    remarks: Sequence[str] = ()


def suffix_of(path: Path, suffixes: Sequence[str] = (*TEXT, *LINES, PARQUET)) -> str:
    """The suffix of a file that tells its format, in lower case."""
    name = path.name.lower()
    suffix = next((suffix for suffix in suffixes if name.endswith(suffix)), None)
    if suffix is None:
        raise TableError(
            f"{shown_path(path)} does not end in one of {', '.join(suffixes)}; the suffix tells the format."
        )
    return suffix


@contextmanager
def file_errors(path: Path, suffix: str) -> Iterator[None]:
    """Whatever goes wrong in reading this file becomes one clear error."""
    try:
        yield
    except (OSError, EOFError, zlib.error, csv.Error, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = getattr(error, "strerror", None) or (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise TableError(
            f"cannot read {shown_path(path)}: {shown(reason, 120)[1:-1]}. "
            f"Check the path, and that it is a complete {suffix} file."
        ) from error


def between_fields(suffix: str, header: str) -> str:
    """The character between the fields of a text file: the suffix's own, or a semicolon or tab if the header has that.

    Spreadsheets of many countries write a semicolon into a .csv file, since the comma is in their numbers.
    """
    own = TEXT.get(suffix, ",")
    # The suffix's own wins wherever it stands: names of columns may hold the others.
    return next((mark for mark in (own, ";", "\t") if mark in header), own)


def first_line(path: Path) -> str:
    """The first line of a text file, possibly gzipped, without its line end."""
    data, _ = _mended(_read_bytes(path, 1 << 16))
    return data.split(b"\n", 1)[0].decode("utf-8", errors="replace")


def _read_bytes(path: Path, limit: int = -1) -> bytes:
    suffix = path.suffix.lower()
    with file_errors(path, suffix or "text"):
        # A line becomes a text of its own before its fields do; gzip halves and more.
        if limit < 0:
            check_memory(f"reading {shown_path(path)}", path.stat().st_size * (24.0 if suffix == ".gz" else 6.0))
        with gzip.open(path) if suffix == ".gz" else path.open("rb") as file:
            return file.read(limit)


def _mended(data: bytes) -> tuple[bytes, list[str]]:
    """A text file's bytes with plain line ends and in UTF-8, and remarks on what had to be mended."""
    remarks = []
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", errors="replace").encode("utf-8", errors="replace")
        remarks.append("read as UTF-16")
    if data.startswith(b"\xef\xbb\xbf"):
        data = data.removeprefix(b"\xef\xbb\xbf")
        remarks.append("begins with a byte order mark, which is skipped")
    zeros = data.count(b"\0")
    if zeros:
        data = data.replace(b"\0", b"")
        remarks.append(f"{zeros:,} NUL bytes removed")
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data, remarks


def text_source(path: Path, names: Sequence[str] | None, separator: str | None) -> Source:
    """The lines of a delimited text file; without ``names`` of columns the first line that is not blank has them."""
    data, remarks = _mended(_read_bytes(path))
    start = 0
    columns = list(names or ())
    if names is None:
        blank = re.match(rb"(?:[ \t]*\n)*", data)
        start = 0 if blank is None else blank.end()
        head = data[start : _end_of_line(data, start)].decode("utf-8", errors="replace")
        suffix = suffix_of(path)
        separator = separator or between_fields(suffix, head)
        if separator != TEXT[suffix]:
            remarks.append(f"fields are separated by {_MARKS.get(separator, shown(separator))}")
        columns = _header(data[start : start + _LONGEST_HEADER], head, separator)
        if not columns:
            raise TableError(f"{path.name} is empty: there is not even a line with the names of columns.")
    between = separator or ","

    def pieces(_: list[str] | None) -> Iterator[pl.DataFrame]:
        return _pieces(data, columns, between, start, names is None)

    return Source(path.name, columns, pieces, text=True, written=True, remarks=remarks)


def _header(data: bytes, line: str, separator: str) -> list[str]:
    """The names of columns in the first ``line`` of the data; a name in quotes may go on in the next lines."""
    if line.count('"') % 2:
        lines = data.decode("utf-8", errors="replace").split("\n")
        last = next((at for at, text in enumerate(lines) if at and text.count('"') % 2), 0)
        names = _fields("\n".join(lines[: last + 1]), separator)
        if names:
            return names
    return [name.strip() for name in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def keep(source: Source, path: Path) -> Path:
    """Write what a table says to a folder beside its file: whoever reads that needs little memory."""
    kept = path.with_name(f"{path.name}{KEPT}")
    kept.mkdir()
    for number, piece in enumerate(source.pieces(None)):
        piece.write_parquet(kept / f"{number:06}{PARQUET}", compression="uncompressed")
    about = source._replace(origin=path.name)._asdict()
    del about["pieces"]
    (kept / _ABOUT).write_text(json.dumps(about))
    return kept


def is_kept(path: Path) -> bool:
    """Whether `keep` wrote this."""
    return path.suffix == KEPT and (path / _ABOUT).is_file()


def kept_source(kept: Path) -> Source:
    """The table that `keep` wrote to a folder."""

    def pieces(wanted: list[str] | None) -> Iterator[pl.DataFrame]:
        names = None if wanted is None else [LINE, FAULT, VALUE, *wanted]
        for piece in sorted(kept.glob(f"*{PARQUET}")):
            yield pl.read_parquet(piece, columns=names, glob=False)

    return Source(**json.loads((kept / _ABOUT).read_text()), pieces=pieces)


def _pieces(data: bytes, columns: list[str], separator: str, start: int, header: bool) -> Iterator[pl.DataFrame]:
    """The file in parts of a few megabytes, cut between two records."""
    line = 1 + data.count(b"\n", 0, start)
    begun = False
    while start < len(data) or not begun:
        stop = _end_of_line(data, start + _PIECE)
        text = data[start:stop].removesuffix(b"\n").decode("utf-8", errors="replace")
        rows = pl.DataFrame({VALUE: pl.Series([text]).str.split("\n").explode()})
        rows = rows.with_columns(pl.int_range(line, line + pl.len(), dtype=pl.Int64).alias(LINE))
        if '"' in text:
            rows, unfinished = _joined(rows, separator, len(columns))
            if unfinished and stop < len(data):
                # A record that may go on behind the cut: the next piece begins with it.
                rows = rows.filter(pl.col(LINE) < line + unfinished)
                ends = np.flatnonzero(np.frombuffer(data[start:stop], dtype=np.uint8) == ord("\n"))
                stop = start + int(ends[unfinished - 1]) + 1
        rows = _split(rows, separator, columns)
        yield rows.slice(1) if header and not begun else rows
        line += data.count(b"\n", start, stop)
        start = stop
        begun = True


def _end_of_line(data: bytes, at: int) -> int:
    return len(data) if at >= len(data) else data.find(b"\n", at) + 1 or len(data)


def _split(rows: pl.DataFrame, separator: str, columns: Sequence[str]) -> pl.DataFrame:
    """The fields of each record that is not blank, and what is wrong with it so far."""
    rows = rows.filter(pl.col(VALUE).str.strip_chars() != "")
    fields = [f"f{number}" for number in range(len(columns) + 1)]
    parts = rows[VALUE].str.split_exact(separator, len(columns)).struct.rename_fields(fields).struct.unnest()
    rows = rows.hstack(parts.select(pl.all().str.strip_chars()))
    rows = rows.with_columns(pl.lit(None, dtype=pl.String).alias(FAULT))
    if rows[VALUE].str.contains('"', literal=True).any():
        rows = _unquote(rows, fields, separator)
    not_text = pl.col(VALUE).str.contains("\ufffd", literal=True)
    misfit = pl.col(fields[-1]).is_not_null() | pl.col(fields[-2]).is_null()
    faults = (
        pl.when(not_text).then(pl.lit("not UTF-8 text")),
        pl.col(FAULT),
        pl.when(misfit).then(pl.lit("wrong number of fields")),
    )
    rows = rows.with_columns(pl.coalesce(faults).alias(FAULT))
    # What stands in a line that is left out must not decide how the others are read; of a sound one nobody needs the
    # text again.
    sound = pl.col(FAULT).is_null()
    named = zip(fields, _distinct(columns), strict=False)
    cells = (pl.when(sound).then(field).alias(name) for field, name in named)
    return rows.select(LINE, FAULT, pl.when(~sound).then(VALUE), *cells)


def _distinct(columns: Sequence[str]) -> list[str]:
    """Names of columns; one that comes again gets a number."""
    return [name if name not in columns[:at] else f"{name} {at + 1}" for at, name in enumerate(columns)]


def _joined(rows: pl.DataFrame, separator: str, n_fields: int) -> tuple[pl.DataFrame, int | None]:
    """Lines over which a quoted field goes as one, a stray quote joins nothing; and the last line that may go on."""
    odd = (rows[VALUE].str.count_matches('"', literal=True) % 2 == 1).arg_true().to_list()
    records: dict[int, str] = {}
    within: list[int] = []
    at = 0
    while at + 1 < len(odd):
        first, last = odd[at], odd[at + 1]
        record = "\n".join(rows[VALUE][first : last + 1].to_list())
        if len(_fields(record, separator)) == n_fields:
            records[first] = record
            within += range(first + 1, last + 1)
            at += 1
        at += 1
    if records:
        rows = rows.with_columns(rows[VALUE].scatter(list(records), list(records.values())))
        rows = rows.filter(~pl.int_range(pl.len()).is_in(within))
    return rows, odd[at] if at < len(odd) else None


def _fields(record: str, separator: str) -> list[str]:
    """The fields of a record; none if its quotes are wrong."""
    reader = csv.reader([record], delimiter=separator, skipinitialspace=True, strict=True)
    try:
        return [field.strip() for field in next(reader)]
    except csv.Error:
        return []


def _bare(cell: pl.Expr) -> pl.Expr:
    """A cell without one quote at either end, or spaces; plain comparisons take a third of a pattern's time."""
    inner = cell.str.strip_chars('"')
    enclosed = cell.str.starts_with('"') & cell.str.ends_with('"') & (inner.str.len_bytes() + 2 == cell.str.len_bytes())
    return pl.when(enclosed).then(inner.str.strip_chars()).otherwise(cell)


def _unquote(rows: pl.DataFrame, fields: list[str], separator: str) -> pl.DataFrame:
    """Quotes taken off fields; lines with separators or quotes inside quotes go through the csv module one by one."""
    rows = rows.with_columns(_bare(pl.col(name)).alias(name) for name in fields)
    hard = pl.any_horizontal(pl.col(name).str.contains('"', literal=True).fill_null(False) for name in fields)
    at = rows.select(hard).to_series().arg_true()
    if not len(at):
        return rows
    records = [_fields(text, separator) for text in rows[VALUE].gather(at)]
    wrong = [None if record else "unbalanced quotes" for record in records]
    cells = [[*record, *[None] * len(fields)][: len(fields)] for record in records]
    columns = zip([*fields, FAULT], [*zip(*cells, strict=True), wrong], strict=True)
    return rows.with_columns(rows[name].scatter(at, pl.Series(values, dtype=pl.String)) for name, values in columns)
