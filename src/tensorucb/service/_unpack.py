"""Looks into an upload before the service reads it, in a process of its own with bounded memory and time.

A few kilobytes can hold gigabytes: a Parquet file repeats one long text a million times, JSON becomes objects of many
times its size. So a stranger's file is first read by ``python -m tensorucb.service._unpack FILE``. What is small enough
is left as a plain file that the service can read cheaply: JSON, NDJSON and Parquet become Parquet written by
ourselves, and CSV, which has been read once without harm, stays as it is.

This module imports little, since a process starts with it for every upload.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb._delimited import between_fields
from tensorucb.errors import FileFormatError
from tensorucb.tables import read_file

if TYPE_CHECKING:
    import polars as pl

MOST_ROWS = 2_000_000
"""The network of such a campaign has millions of edges; more rows at once would keep a campaign busy for minutes."""
MOST_COLUMNS = 1_000
"""Every column costs its reader some 10 kB, however few rows there are."""
_FREE_ROWS, _BYTES_PER_ROW = 50_000, 4
"""A row costs the service up to 500 bytes. Real ones take more than four bytes, packed as they may be."""
_FREE_CELLS = 500_000
"""And one more for each byte of the file: JSON writes no cell in less, but each row may name other columns."""
_FREE_BYTES, _GROWTH = 8 * 2**20, 16
"""Packed tables of people and times grow ten times when they are unpacked; what grows more repeats itself."""

MEMORY = 1536 * 2**20
"""Bytes of addresses, beyond those of the started program. A CSV file of 64 MiB takes 1 GiB (and holds a quarter)."""
SECONDS = 30
"""Of processor time; a file of 64 MiB takes 3 s."""
PATIENCE = 60
"""Seconds in all, on a busy machine."""
_LARGEST_RESULT = 2**30

PACKED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x78\x01": "zlib",
    b"\x78\x5e": "zlib",
    b"\x78\x9c": "zlib",
    b"\x78\xda": "zlib",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"\x04\x22\x4d\x18": "lz4",
}
"""How compressed files begin; some readers would open these without being asked."""
_SPACE = re.compile(r"[ \t\r\n]*")
_PART = 1 << 20


class TooLargeError(FileFormatError):
    """A file that is sound, as far as was seen, but needs too much."""


def unpack(path: Path) -> Path:
    """Look into a file that a stranger sent; the file to read instead, which is no larger than it looks."""
    size = path.stat().st_size
    if path.suffix == ".csv":
        _check_text(path)
        # What is wrong with its rows is said by those who read it for good, and some of them are lenient.
        with suppress(FileFormatError):
            _check_growth(read_file(path), size)
        return path
    if path.suffix == ".parquet":
        frame = read_file(path, most_rows=MOST_ROWS + 1)
        _check_growth(frame, size)
    else:
        frame = json_table(path.read_bytes(), lines=path.suffix == ".ndjson")
    plain = path.with_suffix(".parquet")
    frame.write_parquet(plain, compression="uncompressed")
    return plain


def _check_text(path: Path) -> None:
    """Refuse text that is packed, or has too many lines or columns."""
    with path.open("rb") as file:
        head = file.read(_PART)
        packed = next((name for mark, name in PACKED.items() if head.startswith(mark)), None)
        if packed is not None:
            raise FileFormatError(f"{path.name} is packed by {packed}, not text. Unpack it first.")
        header = re.split(rb"[\r\n]", head, maxsplit=1)[0].decode("utf-8", "replace")
        columns = 1 + header.count(between_fields(path.suffix, header))
        lines = 0
        while head:
            lines += max(head.count(b"\n"), head.count(b"\r"))
            head = file.read(_PART)
    _check_shape(lines - 1, columns, path.stat().st_size)


def _check_shape(rows: int, columns: int, size: int) -> None:
    """Refuse so many rows and columns, or so many for a file of this size."""
    if columns > MOST_COLUMNS:
        raise TooLargeError(f"a table may have at most {MOST_COLUMNS:,} columns; it has {columns:,}.")
    if rows > MOST_ROWS:
        raise TooLargeError(f"a body may have at most {MOST_ROWS:,} rows; send it in parts.")
    if rows > _FREE_ROWS + size // _BYTES_PER_ROW:
        raise _too_much(size, f"{_FREE_ROWS + size // _BYTES_PER_ROW:,} rows")
    if rows * columns > _FREE_CELLS + size:
        raise _too_much(size, f"{_FREE_CELLS + size:,} cells (rows times columns)")


def _check_growth(frame: pl.DataFrame, size: int) -> None:
    """Refuse a table that is out of proportion to the file it came in."""
    import polars as pl

    _check_shape(frame.height, frame.width, size)
    # Equal texts may share their memory here; those who read them later copy them.
    texts = sum(int(column.str.len_bytes().sum()) for column in frame.select(pl.col(pl.String)))
    if max(texts, frame.estimated_size()) > _FREE_BYTES + _GROWTH * size:
        raise _too_much(size, f"{_FREE_BYTES + _GROWTH * size:,} bytes when it is unpacked")


def _too_much(size: int, most: str) -> TooLargeError:
    return TooLargeError(f"a file of {size:,} bytes may hold at most {most}; send it in parts, or as CSV.")


# -- rows in JSON --


def _rows(content: bytes, lines: bool) -> Iterator[dict[str, Any]]:
    """The objects of a list, or of lines, one by one: all at once they would take 40 times their text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError("the body is no text in UTF-8; send it so.") from None
    for number, row in enumerate(_lines(text) if lines else _listed(text), 1):
        if not isinstance(row, dict):
            raise FileFormatError(f'row {number} of the body is no JSON object such as {{"user": …, "time": …}}.')
        yield row


def _lines(text: str) -> Iterator[Any]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                raise FileFormatError(f"line {number} of the body is no JSON object; each line is one row.") from None


def _listed(text: str) -> Iterator[Any]:
    decode = json.JSONDecoder().raw_decode
    at = _after_space(text, 0)
    if text[at : at + 1] != "[":
        raise FileFormatError('the body must be a list of rows: [{"source": …, "target": …, "outcome": …}, …].')
    at = _after_space(text, at + 1)
    ended = text[at : at + 1] == "]"
    while not ended:
        try:
            row, at = decode(text, at)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"the body is no JSON ({str(error)[:100]}).") from None
        yield row
        at = _after_space(text, at)
        ended = text[at : at + 1] == "]"
        if not ended:
            if text[at : at + 1] != ",":
                raise FileFormatError(f"the body is no JSON (a list needs , or ] at character {at + 1}).")
            at = _after_space(text, at + 1)
    if _after_space(text, at + 1) < len(text):
        raise FileFormatError("the body is no JSON (more follows behind its list).")


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return at if space is None else space.end()


def json_table(content: bytes, *, lines: bool) -> pl.DataFrame:
    """The rows of a JSON list, or of lines of JSON, each of which may have other fields."""
    import polars as pl

    columns: dict[str, list[Any]] = {}
    for count, row in enumerate(_rows(content, lines)):
        new = [name for name in row if name not in columns]
        _check_shape(count + 1, len(columns) + len(new), len(content))
        for name in new:
            columns[name] = [None] * count
        for name, column in columns.items():
            value = row.get(name)
            column.append(json.dumps(value) if isinstance(value, list | dict) else value)
    try:
        return pl.DataFrame({name: _column(values) for name, values in columns.items()})
    except UnicodeEncodeError as error:
        raise FileFormatError(f"the body holds {error.object[:40]!r}, which is no valid Unicode.") from None


def _column(values: list[Any]) -> pl.Series:
    """Numbers or texts as they are; values of several kinds all as text, as in a CSV file."""
    import polars as pl

    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {str}:
        return pl.Series(values, dtype=pl.String)
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds <= {bool, int, float}:
        with suppress(OverflowError, TypeError):  # a whole number of more than 64 bits
            return pl.Series(values, dtype=pl.Float64 if float in kinds else pl.Int64)
    return pl.Series([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])


# -- the process --


def _bound_this_process() -> None:
    """Ask the system to end this process if it takes too much; it does so also if the service has died meanwhile."""
    import resource

    import polars as pl

    pl.Series([1]).sum()  # its threads are started now, before addresses are counted
    own = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = {
        resource.RLIMIT_AS: own + MEMORY,
        resource.RLIMIT_CPU: SECONDS,
        resource.RLIMIT_FSIZE: _LARGEST_RESULT,
        resource.RLIMIT_CORE: 0,
    }
    for what, most in limits.items():
        resource.setrlimit(what, (most, most))
    signal.alarm(PATIENCE)


def main() -> None:
    """Look into the file that is named on the command line, and print what became of it."""
    _bound_this_process()
    try:
        answer = {"file": unpack(Path(sys.argv[1])).name}
    except TooLargeError as error:
        answer = {"too_large": str(error)}
    except FileFormatError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
