"""How large a Parquet file becomes when it is read, found without reading it.

A few kilobytes of Parquet can unpack to any number of gigabytes. Readers reserve memory by the headers of a file's
pages, so these are walked through: they are small structures of Thrift's compact protocol.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

from tensorucb.service._problems import Refusal

MOST_BYTES = 512 * 2**20
MOST_VALUES = 50_000_000
_MAGIC = b"PAR1"
_DEEPEST = 16
_BINARY, _LISTS, _MAP, _STRUCT = 8, (9, 10), 11, 12


class _Thrift:
    """Reads structures of Thrift's compact protocol as mappings of field numbers to values."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 127) << shift
            shift += 7
            if part < 128:
                return value
            if shift > 63:
                raise ValueError("a number is too long")

    def number(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        found: dict[int, Any] = {}
        field = 0
        while (head := self.byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self.number()
            found[field] = self.value(head & 15, depth + 1)
        return found

    def value(self, kind: int, depth: int, *, listed: bool = False) -> Any:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        if kind in (1, 2):
            return self.byte() == 1 if listed else kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.number()
        if kind == 7:
            self.at += 8
            return None
        if kind == _BINARY:
            length = self.varint()
            self.at += length
            return None
        if kind in _LISTS:
            head = self.byte()
            size = head >> 4 if head >> 4 < 15 else self.varint()
            return [self.value(head & 15, depth + 1, listed=True) for _ in range(size)]
        if kind == _MAP:
            size = self.varint()
            kinds = self.byte() if size else 0
            return [(self.value(kinds >> 4, depth + 1), self.value(kinds & 15, depth + 1)) for _ in range(size)]
        if kind == _STRUCT:
            return self.struct(depth)
        raise ValueError("it has a value of no known kind")


def check_parquet(path: Path, most_rows: int) -> None:
    """Refuse a Parquet file that is damaged, or too large once it is unpacked."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            rows, values, size = _measured(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        raise Refusal(
            422, "the body is no Parquet file, or it is damaged; send it again.", kind="FileFormatError"
        ) from None
    if rows > most_rows or values > MOST_VALUES:
        raise Refusal(413, f"a Parquet file may have at most {most_rows:,} rows and {MOST_VALUES:,} values.")
    if size > MOST_BYTES:
        raise Refusal(413, f"a Parquet file may have at most {MOST_BYTES:,} bytes when it is unpacked.")


def _measured(data: mmap.mmap) -> tuple[int, int, int]:
    """Rows, values and bytes of a file when it is unpacked."""
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise ValueError("it does not begin and end as a Parquet file does")
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if start < 4:
        raise ValueError("its footer is longer than the file")
    footer = _Thrift(data, start).struct()
    rows, values, size = footer[3], 0, 0
    for group in footer[4]:
        rows = max(rows, group[3])
        for chunk in group[1]:
            pages = _pages(data, chunk[3])
            values, size = values + max(chunk[3][5], pages[0]), size + max(chunk[3][6], pages[1])
    return rows, values, size


def _pages(data: mmap.mmap, column: dict[int, Any]) -> tuple[int, int]:
    """Values and unpacked bytes of the pages of a part of a column."""
    # Pages lie one behind the other, that of the dictionary first. A column without rows may have no others.
    at = column.get(11) or column[9]
    end, values, size = at + column[7], 0, 0
    if not 4 <= at <= end <= len(data) or 0 < column[9] < at:
        raise ValueError("a column lies outside the file")
    while at < end:
        thrift = _Thrift(data, at)
        page = thrift.struct()
        if page[2] < 0 or page[3] < 0:
            raise ValueError("a page has less than nothing")
        about = page.get(5) or page.get(8) or page.get(7) or {}
        values, size, at = values + about.get(1, 0), size + page[2], thrift.at + page[3]
    return values, size
