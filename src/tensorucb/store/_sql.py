"""The store on a SQL database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import sqlalchemy as sa

from tensorucb.errors import StateError
from tensorucb.store._backend import Backend
from tensorucb.store._schema import bring_up_to_date
from tensorucb.store._session import SQLSession
from tensorucb.store._turn import Turn
from tensorucb.store._values import damage_named

# Connections inherited through a fork: closing them here would disturb the parent's, so they are kept and never used.
_inherited: list[sa.Engine] = []


class SQLStore:
    """Campaigns in a SQLite file or a PostgreSQL database; :func:`tensorucb.store.open_store` makes it.

    One object may be used from several threads and stays usable after a fork: every session has a connection of its
    own, and a child process opens new ones.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._closed = False
        self._begin_process()
        try:
            with self._clear_errors(), damage_named(backend.shown):
                bring_up_to_date(backend, self._engine)
        except BaseException:
            self.close()
            raise

    def _begin_process(self) -> None:
        self._pid = os.getpid()
        self._engine = self._backend.engine()
        self._turn = Turn(self._backend.timeout)

    @property
    def url(self) -> str:
        """The address that opens this store again, with the password where there is one."""
        return self._backend.url

    @property
    def masked_url(self) -> str:
        """The address as it may be shown: without a password and without options."""
        return self._backend.shown

    @contextmanager
    def write(self) -> Iterator[SQLSession]:
        """A write transaction: waits for its turn; durable at the end of the block, or nothing of it."""
        self._check()
        with self._turn.taken(), self._clear_errors(), self._engine.connect() as connection:
            self._backend.begin_write(connection)
            session = SQLSession(self._backend, connection, writable=True)
            try:
                yield session
                session.save()
            finally:
                session.end()
            connection.commit()

    @contextmanager
    def read(self) -> Iterator[SQLSession]:
        """A read-only view of one moment; never blocks a writer."""
        self._check()
        with self._clear_errors(), self._engine.connect() as connection:
            self._backend.begin_read(connection)
            session = SQLSession(self._backend, connection, writable=False)
            try:
                yield session
            finally:
                session.end()

    def purge(self, timeout: float | None = None) -> None:
        """Make deleted content unrecoverable: SQLite's log is emptied and its file rewritten, or the tables are."""
        self._check()
        with self._turn.taken(), self._clear_errors():
            self._backend.purge(self._engine, self._backend.timeout if timeout is None else timeout)

    def close(self) -> None:
        """Release connections and files; a closed store can be opened again by its URL."""
        if self._pid == os.getpid():
            self._engine.dispose()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SQLStore({self.masked_url!r})"

    def _check(self) -> None:
        if self._closed:
            raise StateError(f"the store {self.masked_url} is closed; open it again with open_store.")
        if self._pid != os.getpid():
            _inherited.append(self._engine)
            self._begin_process()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            clear = self._backend.explain(error)
            if clear is None:
                raise
            # Without the driver's own error, whose text may quote the address with its password.
            raise clear from None
