"""One transaction on a SQL database: running statements, and refusing what may not be run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from tensorucb.errors import StateError, UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import Backend
from tensorucb.store._checksum import Groups
from tensorucb.store._values import damage_named

Rows = list[tuple[Any, ...]]

_PRESENT = sa.select(tables.campaign.c.campaign).where(tables.campaign.c.campaign == sa.bindparam("c"))


class Transaction:
    """Statements on one connection, with the checksums of what they read and write."""

    def __init__(self, backend: Backend, connection: sa.Connection, writable: bool) -> None:
        self._backend = backend
        self._connection = connection
        self._writable = writable
        self._pid: int | None = os.getpid()
        self._present: set[int] = set()
        self._blob_names: dict[int, list[str]] = {}
        self._groups = Groups(backend.shown, self._rows, self._run)

    def end(self) -> None:
        """No statement after this one."""
        self._pid = None

    def _check(self, change: bool) -> None:
        if self._pid != os.getpid():
            raise StateError("this session is over, or belongs to another process; begin a new one with the store.")
        if change and not self._writable:
            raise StateError("this is a read-only view; write inside `with store.write() as session`.")

    def _run(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> sa.CursorResult[Any]:
        self._check(change=False)
        with damage_named(self._backend.shown):
            result: sa.CursorResult[Any] = self._connection.execute(statement, values)
        return result

    def _rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Rows:
        """All rows as the driver made them, which takes a third of the time of SQLAlchemy's own."""
        result = self._run(statement, values)
        assert result.cursor is not None
        with damage_named(self._backend.shown):
            rows = list(result.cursor.fetchall())
        result.close()
        return rows

    def _begin_change(self, campaign: int) -> None:
        """Refuse to write in a read-only view, or for a campaign that does not exist."""
        self._check(change=True)
        if campaign not in self._present:
            if not self._rows(_PRESENT, {"c": campaign}):
                raise UnknownIdError(f"the store holds no campaign number {campaign}.")
            self._present.add(campaign)
