"""Looks into an upload before the service reads it, in a process of its own with bounded memory and time.

A few kilobytes can hold gigabytes: a Parquet file repeats one long text a million times, JSON becomes objects of many
times its size, and quotes make text several times as costly to split. So a stranger's file is first read by
``python -m tensorucb.service._unpack FILE``. What is small enough is left as plain Parquet, written by ourselves, that
the service can read cheaply; of CSV it holds each cell as the text that it was.

This module imports little, since a process starts with it for every upload.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tensorucb._delimited import between_fields, keep
from tensorucb._json_rows import JsonRows
from tensorucb.errors import TableError
from tensorucb.tables import read_parquet, source_of

if TYPE_CHECKING:
    import polars as pl

SMALL = 1 << 16
"""Bytes of text that become a few megabytes at worst: starting a process for them would take longer."""
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
"""Bytes of addresses, beyond those of the started program. A CSV file of 64 MiB takes a third of them."""
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
_PART = 1 << 20


class TooLargeError(TableError):
    """A file that is sound, as far as was seen, but needs too much."""


def unpack(path: Path) -> Path:
    """Look into a file that a stranger sent; the file to read instead, which is no larger than it looks."""
    if path.suffix == ".csv":
        _check_text(path)
        return keep(source_of("", path), path) if path.stat().st_size > SMALL else path
    if path.suffix == ".parquet":
        frame = read_parquet(path, most_rows=MOST_ROWS + 1)
        _check_growth(frame, path.stat().st_size)
        return keep(source_of("", frame), path)
    return keep(source_of("", body_rows(path.read_bytes(), path.name, lines=path.suffix == ".ndjson")), path)


def _check_text(path: Path) -> None:
    """Refuse text that is packed, or has too many lines or columns."""
    with path.open("rb") as file:
        head = file.read(_PART)
        packed = next((name for mark, name in PACKED.items() if head.startswith(mark)), None)
        if packed is not None:
            raise TableError(f"{path.name} is packed by {packed}, not text. Unpack it first.")
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


def body_rows(content: bytes, origin: str, *, lines: bool) -> JsonRows:
    """The rows of a body; so many rows and columns as are too many for its size are refused before they are made."""
    return JsonRows(content, origin, lines, partial(_check_shape, size=len(content)))


def _too_much(size: int, most: str) -> TooLargeError:
    return TooLargeError(f"a file of {size:,} bytes may hold at most {most}; send it in parts, or as CSV.")


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
    except TableError as error:
        answer = {"refused": str(error)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
