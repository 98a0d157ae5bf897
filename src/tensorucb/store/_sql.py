"""The store on a SQL database, its schema brought up to date when it is opened, and the store of one process."""

from __future__ import annotations

import os
import re
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
from tensorucb.store._address import masked
from tensorucb.store._backend import Backend
from tensorucb.store._session import Session
from tensorucb.store._sqlite import SQLiteBackend
from tensorucb.store._tables import SCHEMA
from tensorucb.store._values import damage_named

# Connections inherited through a fork: closing them here would disturb the parent's, so they are kept and never used.
_inherited: list[sa.Engine] = []
# Alembic keeps the migration under way in a module's globals.
_one_at_a_time = threading.Lock()
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
                bring_up_to_date(backend, self._engine)
        except BaseException:
            self.close()
            raise

    def _begin_process(self) -> None:
        self._pid = os.getpid()
        self._engine = self._backend.engine()
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
            self._backend.begin_write(connection)
            session = Session(self._backend, connection, writable=True)
            try:
                yield session
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


def bring_up_to_date(backend: Backend, engine: sa.Engine) -> None:
    """Create or upgrade the tables; a schema that is current costs one query."""
    with engine.connect() as connection:
        backend.prepare(connection)
        if _is_current(backend, connection):
            return
        connection.rollback()
        if backend.read_only:
            raise StoreError(
                f"{backend.shown} has no tables yet, and a read-only connection can make none; open it once to "
                "be changed."
            )
        with _one_at_a_time:
            backend.begin_write(connection)
            if not _is_current(backend, connection):  # another process may have been quicker
                _upgrade(connection)
            connection.commit()


def _is_current(backend: Backend, connection: sa.Connection) -> bool:
    found = backend.version(connection)
    if found is not None and not (re.fullmatch(r"[0-9]{4}", found) and found > "0000"):
        raise FileFormatError(f"{backend.shown} is damaged: its schema is called {found!r}. Use another copy.")
    if found is not None and found > SCHEMA:
        raise StoreError(
            f"{backend.shown} was written by a newer release of tensorucb (schema {found}, this release knows "
            f"{SCHEMA}); upgrade tensorucb to open it."
        )
    return found == SCHEMA


def _upgrade(connection: sa.Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


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
        backend.synchronous = "OFF"  # the file need not survive the process, so that no commit waits for the disk
        super().__init__(backend)
        _living[name] = self

    @classmethod
    def named(cls, name: str, timeout: float = 60.0) -> MemoryStore:
        """The living store of that name, or a new one."""
        return _living.get(name) or cls(timeout, name)

    def close(self) -> None:
        """Nothing to do: the store lives as long as somebody holds it."""


def _remove(directory: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
