"""Rows of one transaction, and their digests, by which a bit that flips on the disk is found when it is read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.sql.compiler import SQLCompiler

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


_compiled_once: dict[tuple[sa.Executable, str], SQLCompiler] = {}


def _compiled(statement: sa.Select[Any] | sa.TextClause, dialect: sa.Dialect) -> SQLCompiler:
    """A statement that is made once, in the words of a database."""
    key = (statement, dialect.name)
    if key not in _compiled_once:
        _compiled_once[key] = statement.compile(dialect=dialect)
    return _compiled_once[key]


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

    def _run(self, statement: sa.Select[Any] | sa.TextClause, values: Mapping[str, Any]) -> Any:
        """Run a statement that is made once, on the driver's own cursor, which is the result.

        SQLAlchemy's way takes a tenth of a millisecond more, several times what the database takes.
        """
        self._check(change=False)
        dialect = self._connection.dialect
        compiled = _compiled(statement, dialect)
        parameters: Any = compiled.construct_params(values)
        if compiled.positiontup is not None:
            parameters = [parameters[name] for name in compiled.positiontup]
        connection: Any = self._connection.connection
        cursor = connection.cursor()
        try:
            with damage_named(self._backend.shown):
                cursor.execute(compiled.string, parameters)
        except Exception as error:
            if isinstance(error, dialect.loaded_dbapi.Error) and dialect.is_disconnect(error, connection, cursor):
                self._connection.invalidate(error)  # what is broken is used by nobody else
            raise
        return cursor

    def _rows(self, statement: sa.Select[Any], **values: Any) -> list[Row]:
        """The rows of a statement that is made once."""
        cursor = self._run(statement, values)
        with damage_named(self._backend.shown):
            return list(cursor.fetchall())

    def _query(self, statement: sa.Select[Any], **values: Any) -> list[Row]:
        """The rows of a statement that is made for this call."""
        self._check(change=False)
        with damage_named(self._backend.shown):
            return [tuple(row) for row in self._connection.execute(statement, values)]

    def _digested(self, rows: list[Row], words: str) -> list[Row]:
        """Whole rows that end with their digest, which is taken off; an error, in these words, if it is not theirs."""
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
