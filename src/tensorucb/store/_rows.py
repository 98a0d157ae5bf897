"""Rows of one transaction, and their digests, by which a bit that flips on the disk is found when it is read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from tensorucb.errors import FileFormatError, StateError
from tensorucb.store._backend import Backend
from tensorucb.store._protocol import damage_named

Row = tuple[Any, ...]

RANGE = 2**62
"""Sums of digests are kept below: databases have no unsigned 64-bit integers."""


def digest(row: Iterable[Any]) -> int:
    """The hash of a row, the same whether it is about to be stored or was read; a time must be a float."""
    return zlib.crc32("\x1f".join(map(_field, row)).encode())


def digest_sum(rows: Iterable[Row]) -> int:
    """The sum of the hashes of some rows, in whatever order they come; 0 if there are none."""
    return sum(map(digest, rows)) % RANGE


def with_digest(row: Row) -> Row:
    """A row with its digest behind it."""
    return (*row, digest(row))


def _field(value: Any) -> str:
    """A value with its type, as both databases give it back: -0.0 is 0.0."""
    if isinstance(value, float):
        return f"float {value + 0.0!r}"
    if isinstance(value, bytes):
        return f"bytes {zlib.crc32(value)}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


class Transaction:
    """The statements of one transaction on a SQL database."""

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _run(self, statement: sa.Executable, values: Any = None) -> sa.CursorResult[Any]:
        self._check(change=False)
        with damage_named(self._backend.shown):
            result: sa.CursorResult[Any] = self._connection.execute(statement, values)
        return result

    def _rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows as the driver made them, which takes a third of the time of SQLAlchemy's own."""
        result = self._run(statement, values)
        assert result.cursor is not None
        with damage_named(self._backend.shown):
            rows = list(result.cursor.fetchall())
        result.close()
        return rows

    def _digested(self, statement: sa.Executable, values: Mapping[str, Any], words: str) -> list[Row]:
        """Whole rows that end with their digest, which is taken off; an error, in these words, if it is not theirs."""
        rows = self._rows(statement, values)
        for row in rows:
            if digest(row[:-1]) != row[-1]:
                raise self._damaged(words.format(campaign=row[0], number=row[1]))
        return [row[:-1] for row in rows]

    def _insert(self, table: sa.Table, rows: Sequence[Row]) -> None:
        """Insert whole rows."""
        if rows:
            self._backend.insert(self._connection, table, rows)

    def _damaged(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self._backend.shown} is damaged: {what} cannot be read as written. Use a backup.")
