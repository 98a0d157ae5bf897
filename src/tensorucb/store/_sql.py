"""The store on a SQL database, its tables made when it is first opened, and the store of one process."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import sqlalchemy as sa

from tensorucb.checks import check_number, check_text
from tensorucb.errors import FileFormatError, StateError, StoreError
from tensorucb.store import _tables as tables
from tensorucb.store._address import masked
from tensorucb.store._backend import Backend
from tensorucb.store._protocol import damage_named
from tensorucb.store._session import Session
from tensorucb.store._sqlite import SQLiteBackend

# Connections inherited through a fork: closing them here would disturb the parent's, so they are kept and never used.
_inherited: list[sa.Engine] = []
_living: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()


class SQLStore:
    """Campaigns in a SQLite file or a PostgreSQL database; :func:`tensorucb.store.open_store` makes it.

    One object may be used from several threads and stays usable after a fork: every session has a connection of its
    own, and a child process opens new ones.

    Examples
    --------
    >>> from tensorucb.store import open_store
    >>> with open_store("sqlite:///campaigns.db") as store, store.write() as session:
    ...     session.insert_campaign("spring", {"seed": 7}, created=0.0).campaign
    1
    >>> with open_store("sqlite:///campaigns.db") as store, store.read() as session:
    ...     [record.name for record in session.campaigns()]
    ['spring']
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._closed = False
        self._begin_process()
        try:
            with self._clear_errors(), damage_named(backend.shown):
                make_tables(backend, self._engine)
        except BaseException:
            self.close()
            raise

    def _begin_process(self) -> None:
        self._pid = os.getpid()
        self._engine = self._backend.engine()
        # A store that nobody closes would leave its connections to Python, which warns of them from 3.13 on.
        weakref.finalize(self, _disconnect, self._engine, self._pid)
        self._turn = threading.Lock()
        self._writer: int | None = None

    @property
    def url(self) -> str:
        """The address that opens this store again, with the password where there is one."""
        return self._backend.url

    @property
    def masked_url(self) -> str:
        """The address as it may be shown: without a password and without options."""
        return self._backend.shown

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A write transaction: waits for its turn; durable at the end of the block, or nothing of it."""
        self._check()
        if self._backend.read_only:
            raise StoreError(f"{self.masked_url} was opened to be read only; open it otherwise to change it.")
        with self._taking_turn(), self._clear_errors(), self._engine.connect() as connection:
            connection.begin()
            self._backend.begin_write(connection)
            session = Session(self._backend, connection, writable=True)
            try:
                yield session
                session.finish()
            finally:
                session.end()
            connection.commit()
            # Before anybody is told that it is written.
            self._backend.check_in_place(connection)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only view of one moment; never blocks a writer."""
        self._check()
        with self._clear_errors(), self._engine.connect() as connection:
            self._backend.begin_read(connection)
            session = Session(self._backend, connection, writable=False)
            try:
                yield session
            finally:
                session.end()

    @contextmanager
    def turn_to_choose(self, campaign: int) -> Iterator[None]:
        """Let other processes wait before they choose users of the same campaign: of two, one would choose in vain.

        Nothing depends on it: whoever chooses checks in the write transaction that the choice still holds.
        """
        self._check()
        with self._clear_errors(), self._backend.turn_to_choose(self._engine, campaign):
            yield

    def purge(self, timeout: float | None = None) -> None:
        """Make deleted content unrecoverable: SQLite's log is emptied and its file rewritten, or the tables are."""
        self._check()
        with self._taking_turn(), self._clear_errors():
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
        return f"{type(self).__name__}({self.masked_url!r})"

    def _check(self) -> None:
        if self._closed:
            raise StateError(f"the store {self.masked_url} is closed; open it again with open_store.")
        if self._pid != os.getpid():
            _inherited.append(self._engine)
            self._begin_process()

    @contextmanager
    def _taking_turn(self) -> Iterator[None]:
        """Hold the turn to write among the threads of this process; a thread never waits for itself."""
        thread = threading.get_ident()
        if self._writer == thread:
            raise StateError("this thread already writes to the store; finish that block before you begin another.")
        timeout, turn = self._backend.timeout, self._turn
        if not turn.acquire(timeout=timeout):
            raise StoreError(f"the store was locked by another writer of this process for {timeout:g} s; try again.")
        self._writer = thread
        try:
            yield
        finally:
            self._writer = None
            turn.release()

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


def make_tables(backend: Backend, engine: sa.Engine) -> None:
    """Make the tables of a new store, and its secret; where they are there already, this costs two queries."""
    with engine.connect() as connection:
        made = _is_made(backend, connection)  # a file of another program is left as it is
        backend.prepare(connection)
        if made:
            return
        connection.rollback()
        if backend.read_only:
            raise StoreError(
                f"{backend.shown} has no tables yet, and a read-only connection can make none; open it once to "
                "be changed."
            )
        backend.begin_write(connection)
        if not _is_made(backend, connection):  # another process may have been quicker
            tables.metadata.create_all(connection, checkfirst=False)
            connection.execute(sa.insert(tables.layout).values(mark=tables.LAYOUT))
            session = Session(backend, connection, writable=True)
            session.found(secrets.token_bytes(32))
            session.finish()
            session.end()
        connection.commit()


def _is_made(backend: Backend, connection: sa.Connection) -> bool:
    """Whether the tables of this layout are there; an error if there are others."""
    present = set(connection.exec_driver_sql(backend.tables).scalars())
    if present and not any(name.startswith("tensorucb_") for name in present):
        raise FileFormatError(
            f"{backend.shown} is a database of another program (it holds {min(present)!r}); use another one."
        )
    mark = None
    if tables.layout.name in present:
        mark = connection.execute(sa.select(tables.layout)).scalar()
    if present and mark != tables.LAYOUT:
        raise StoreError(
            f"{backend.shown} was made by another version of tensorucb (its layout is {mark or 'older'}, this version "
            f"reads {tables.LAYOUT}); open it with the version that made it, or use a new one."
        )
    return bool(present)


class MemoryStore(SQLStore):
    """Campaigns in this process alone, gone with the last reference; the same behaviour as on disk.

    They are in a SQLite file in the directory for temporary files, which nothing waits for and which is deleted with
    the store. Its ``url`` opens the same store as long as it lives.

    Examples
    --------
    >>> from tensorucb.store import MemoryStore, open_store
    >>> store = MemoryStore()
    >>> open_store(store.url) is store
    True
    """

    def __init__(self, timeout: float = 60.0, name: str = "") -> None:
        timeout = check_number("timeout", timeout, strict=True, high=1e6)
        name = check_text("name", name, empty=True) or uuid.uuid4().hex
        directory = tempfile.mkdtemp(prefix="tensorucb-")
        # At the end of the process too, but never by a forked child: the file is its parent's.
        weakref.finalize(self, _remove, directory, os.getpid())
        backend = SQLiteBackend(Path(directory) / "store.db", timeout)
        backend.url = f"memory://{name}"
        backend.shown = masked(backend.url)
        backend.durable = False  # the file need not survive the process, so that no commit waits for the disk
        super().__init__(backend)
        _living[name] = self

    @classmethod
    def named(cls, name: str, timeout: float = 60.0) -> MemoryStore:
        """The living store of that name, or a new one."""
        return _living.get(name) or cls(timeout, name)

    def close(self) -> None:
        """Nothing to do: the store lives as long as somebody holds it."""


def _disconnect(engine: sa.Engine, pid: int) -> None:
    if os.getpid() == pid:
        engine.dispose()


def _remove(directory: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
