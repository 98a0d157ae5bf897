"""Rows with checksums, so that a bit that flips on the disk is found when it is read.

Each group of rows that is read together has one line in the table of checksums: how many rows it holds, and the sum of
their hashes. A sum does not depend on the order, so that rows can be added and removed without reading the others, and
it finds a row that is lost as well as one that has changed. `_tables` says which rows are a group.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from tensorucb.errors import FileFormatError, StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import Backend
from tensorucb.store._protocol import damage_named

Row = tuple[Any, ...]

_RANGE = 2**62  # databases have no unsigned 64-bit integers
_LAST = 2**63 - 1
_WORDS = {
    tables.campaign: "its list of campaigns",
    tables.blob: "the list of blobs of campaign {campaign}",
    tables.event: "event {number} of campaign {campaign}",
    tables.round_: "round {number} of campaign {campaign}",
    tables.explanation: "the explanation of round {number} of campaign {campaign}",
    tables.response: "the responses to round {number} of campaign {campaign}",
    tables.event_id: "the event ids of round {number} of campaign {campaign}",
    tables.preference: "the opt-outs of campaign {campaign}",
}


def _columns(table: sa.Table) -> list[sa.Column[Any]]:
    """What is read of a table and has a checksum: all but the campaign, and of blobs the digest for the data."""
    left_out = "campaign" if table in tables.OWNED else None
    return [column for column in table.c if column.name != left_out and column is not tables.blob.c.data]


_COLUMNS = {table: _columns(table) for table in _WORDS}
_NAMES = {table: [column.name for column in columns] for table, columns in _COLUMNS.items()}


def _select(table: sa.Table) -> sa.Select[Any]:
    statement = sa.select(*_COLUMNS[table]).order_by(*table.primary_key.columns)
    if table in tables.OWNED:
        statement = statement.where(table.c.campaign == sa.bindparam("c"))
    if group := table.info["group"]:
        statement = statement.where(table.c[group].between(sa.bindparam("first"), sa.bindparam("last")))
    return statement


# Made once: making a statement takes as long as running it.
_checksum = tables.checksum
_SELECTS = {table: _select(table) for table in _WORDS}
_DELETES = {
    table: sa.text(
        f"DELETE FROM {table.name} WHERE "
        + " AND ".join(f"{column.name} = :{column.name}" for column in table.primary_key.columns)
    )
    for table in _WORDS
}
_ADD = sa.text(
    f"INSERT INTO {_checksum.name} (campaign, part, number, rows, sum) VALUES (:campaign, :part, :number, :rows, :sum) "
    f"ON CONFLICT (campaign, part, number) DO UPDATE SET rows = {_checksum.name}.rows + excluded.rows, "
    f"sum = ({_checksum.name}.sum + excluded.sum) % {_RANGE}"
)
_CHECKSUMS = sa.select(_checksum.c.number, _checksum.c.rows, _checksum.c.sum).where(
    _checksum.c.campaign == sa.bindparam("c"),
    _checksum.c.part == sa.bindparam("part"),
    _checksum.c.number.between(sa.bindparam("first"), sa.bindparam("last")),
)
_PRESENT = sa.select(tables.campaign.c.campaign).where(tables.campaign.c.campaign == sa.bindparam("c"))


def _hash(row: Iterable[Any]) -> int:
    """The hash of a row, the same whether it is about to be stored or was read; a time must be a float."""
    return zlib.crc32("\x1f".join(map(_field, row)).encode())


def _field(value: Any) -> str:
    """A value with its type, as both databases give it back: -0.0 is 0.0."""
    if isinstance(value, float):
        return f"float {value + 0.0!r}"
    if isinstance(value, bytes):
        return f"bytes {zlib.crc32(value)}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


def _checksums(table: sa.Table, rows: Iterable[Row]) -> dict[int, tuple[int, int]]:
    """How many rows of each group there are, and the sum of their hashes; a table without groups is group 0."""
    names = _NAMES[table]
    group = table.info["group"]
    place = None if group is None else names.index(group)
    sums: dict[int, tuple[int, int]] = {}
    for row in rows:
        number = 0 if place is None else row[place]
        count, total = sums.get(number, (0, 0))
        sums[number] = count + 1, (total + _hash(row[: len(names)])) % _RANGE
    return sums


class CheckedRows:
    """The rows of one transaction on a SQL database; all that is read and written has its checksums."""

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._present = {0}  # campaigns that exist; 0 is the whole store

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _begin_change(self, campaign: int) -> None:
        """Refuse to write in a read-only view, or for a campaign that does not exist."""
        self._check(change=True)
        if campaign not in self._present:
            if not self._rows(_PRESENT, {"c": campaign}):
                raise UnknownIdError(f"the store holds no campaign number {campaign}.")
            self._present.add(campaign)

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

    def _read(
        self,
        table: sa.Table,
        campaign: int = 0,
        first: int = -_LAST,
        last: int = _LAST,
        where: sa.ColumnElement[bool] | None = None,
    ) -> list[Row]:
        """The rows of a campaign by key, those of groups ``first`` to ``last``; an error if they are not as written.

        With ``where`` only some of these groups; nobody can tell then whether one is missing.
        """
        statement = _SELECTS[table] if where is None else _SELECTS[table].where(where)
        values: dict[str, Any] = {"c": campaign} if table in tables.OWNED else {}
        if table.info["group"]:
            values |= {"first": first, "last": last}
        rows = self._rows(statement, values)
        checksums = _checksums(table, rows)
        values = {"c": campaign, "part": table.name, "first": first, "last": last}
        written = {number: (count, total) for number, count, total in self._rows(_CHECKSUMS, values)}
        for number in checksums if where is not None else checksums.keys() | written.keys():
            if checksums.get(number, (0, 0)) != written.get(number, (0, 0)):
                raise self._damaged(_WORDS[table].format(campaign=campaign, number=number))
        return rows

    def _damaged(self, what: str) -> FileFormatError:
        return FileFormatError(f"{self._backend.shown} is damaged: {what} cannot be read as written. Use a backup.")

    def _add(self, table: sa.Table, campaign: int, rows: Sequence[Row]) -> None:
        """Insert rows of a campaign, each in the order of the table's other columns."""
        self._begin_change(campaign)
        if rows:
            self._backend.insert(self._connection, table, ((campaign, *row) for row in rows))
            self._count(table, campaign, rows)

    def _remove(self, table: sa.Table, campaign: int, rows: Sequence[Row]) -> None:
        """Delete rows as they were read."""
        self._begin_change(campaign)
        if rows:
            keys = [{"campaign": campaign, **dict(zip(_NAMES[table], row, strict=True))} for row in rows]
            self._run(_DELETES[table], keys)
            self._count(table, campaign, rows, sign=-1)

    def _put(self, table: sa.Table, campaign: int, row: Row) -> None:
        """Insert a row that is a group of its own, numbered by its first column, or replace it."""
        self._remove(table, campaign, self._read(table, campaign, row[0], row[0]))
        self._add(table, campaign, [row])

    def _count(self, table: sa.Table, campaign: int, rows: Sequence[Row], sign: int = 1) -> None:
        """Add rows to the checksums of their groups, or take them off with a ``sign`` of -1."""
        key = {"campaign": campaign, "part": table.name}
        changes = [
            {**key, "number": number, "rows": sign * count, "sum": sign * total % _RANGE}
            for number, (count, total) in _checksums(table, rows).items()
        ]
        self._run(_ADD, changes)
