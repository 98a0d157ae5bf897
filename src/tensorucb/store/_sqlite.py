"""SQLite: one file, write-ahead log, every commit on disk before anybody sees it."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tensorucb.errors import FileFormatError, InputError, Mention, StoreError, TensorUCBError
from tensorucb.store._address import shown_path
from tensorucb.store._backend import HELD, Backend
from tensorucb.store._tables import layout

FileId = tuple[int, int] | None
"""Device and inode of a file, which tell it from another at the same path; None where there is none."""


class SQLiteBackend(Backend):
    """A SQLite file at an absolute path."""

    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    listed = "SELECT value FROM json_each(:texts)"
    durable = True

    def __init__(self, path: Path, timeout: float, read_only: bool = False) -> None:
        super().__init__(f"sqlite:///{path}", timeout, read_only)
        self.path = path
        self._log = f"{os.path.realpath(path)}-wal"
        self._index = f"{os.path.realpath(path)}-shm"
        self._file: FileId = None
        self._beside_open: dict[Any, list[FileId]] = {}

    def engine(self) -> sa.Engine:
        # All are kept (0: without a limit): a connection is a file handle, and to open one takes a call's time.
        engine = sa.create_engine(
            "sqlite://", creator=self._connect, poolclass=sa.QueuePool, pool_size=0, paramstyle="named"
        )
        beside = self._beside_open = {}  # a child process does not use its parent's connections
        sa.event.listen(engine, "close", lambda driver, record: beside.pop(driver, None))
        return engine

    def _connect(self) -> sqlite3.Connection:
        # A new file is its owner's alone; the two beside it get its mode. Where it cannot be made, SQLite says why.
        if self._file is None and not self.read_only:
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        self._file = self._file or _file_id(self.path)
        self._check_files()
        address = f"{self.path.as_uri()}{self._options()}"
        connection = sqlite3.connect(
            address, uri=True, timeout=self.timeout, isolation_level=None, check_same_thread=False
        )
        try:
            # FULL: the log is on the disk before a commit can be read. With NORMAL and a flush of our own, others would
            # answer from a commit that a failed flush has lost.
            connection.execute(f"PRAGMA synchronous={'FULL' if self.durable else 'OFF'}")
            connection.execute("PRAGMA secure_delete=ON")
            self._check_files()
        except BaseException:
            connection.close()
            raise
        return connection

    def check_in_place(self, connection: sa.Connection) -> None:
        """Refuse to go on if the store's files were deleted or replaced; the connection has read by now."""
        self._beside_open.setdefault(connection.connection.dbapi_connection, self._check_files())

    def _check_files(self) -> list[FileId]:
        """The two files beside the store; an error if they or the store are others than those in use.

        SQLite itself leaves them in place as long as a connection is open. All connections of the process are compared:
        one that is opened after the log was deleted makes a new log, which the others know nothing of.
        """
        if _file_id(self.path) != self._file:
            raise StoreError(
                f"{self.shown} was deleted or replaced while it was in use; what is written now would be "
                "lost. Put the file back, or end this process and start it again with the file that is there."
            )
        beside = [_file_id(self._log), _file_id(self._index)]
        if any(files != beside for files in list(self._beside_open.values())):
            raise StoreError(
                f"a file beside {self.shown} (-wal or -shm) was deleted or replaced while it was in use; "
                "what is written now would be lost. End all processes that use the store, and start them again."
            )
        return beside

    def _options(self) -> str:
        """How to open the file.

        SQLite reads a file in WAL mode only where it can make the two files beside it, or with the promise that nobody
        changes the file: a backup on a read-only disk. Where there is a log, somebody may be writing.
        """
        if os.access(self.path.parent, os.W_OK) or not self.path.exists():
            return "?mode=ro" if self.read_only else ""
        return "?mode=ro" if os.path.exists(self._log) else "?mode=ro&immutable=1"

    def prepare(self, connection: sa.Connection) -> None:
        """Switch a new file to the write-ahead log."""
        # SQLite fills a page that was cut with zeros, and takes less than a page for an empty file to write over.
        if self.path.stat().st_size % 512 and not (os.path.exists(self._log) and os.path.getsize(self._log)):
            raise FileFormatError(f"{shown_path(self.path)} is damaged or not a tensorucb store; use another file.")
        if "mode=ro" in self._options():
            return
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal":
            return
        # SQLite's own busy timeout does not cover the switch, which other processes may be making as well.
        self._patiently(connection, "PRAGMA journal_mode=WAL")

    def begin_write(self, connection: sa.Connection) -> None:
        """``BEGIN IMMEDIATE``: one that reads first and writes later fails whenever another writer came between."""
        self._patiently(connection, "BEGIN IMMEDIATE")
        self.check_in_place(connection)

    def _patiently(self, connection: sa.Connection, command: str) -> None:
        """Run a command, again and again while others are in its way."""
        began = time.monotonic()
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        try:
            while True:
                try:
                    cursor.execute(command).fetchall()
                    return
                except sqlite3.OperationalError as error:
                    waited = time.monotonic() - began
                    if not _name(error).startswith("SQLITE_BUSY") or waited > self.timeout:
                        raise
                # SQLite's own waiting asks more rarely the longer it lasts, and starves; this does the opposite.
                time.sleep(random.uniform(0.5, 1.0) * max(0.001, 0.016 / (1.0 + waited)))
        finally:
            cursor.execute(f"PRAGMA busy_timeout={round(self.timeout * 1000)}")

    def begin_read(self, connection: sa.Connection) -> None:
        cursor = connection.connection.cursor()
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT mark FROM {layout.name}").fetchall()  # its moment is its first read: made at once
        self.check_in_place(connection)

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]]) -> None:
        names = ", ".join(column.name for column in table.columns)
        marks = ", ".join("?" for _ in table.columns)
        cursor = connection.connection.cursor()
        cursor.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)  # type: ignore[arg-type]

    def purge(self, engine: sa.Engine, timeout: float) -> None:
        """Empty the write-ahead log, rewrite the file without its free pages, and empty the log again."""
        with engine.connect() as connection:
            self._check_files()
            connection.exec_driver_sql(f"PRAGMA busy_timeout={round(timeout * 1000)}")
            try:
                self._checkpoint(connection, timeout)
                connection.exec_driver_sql("VACUUM")
                self._checkpoint(connection, timeout)
            finally:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={round(self.timeout * 1000)}")

    def _checkpoint(self, connection: sa.Connection, timeout: float) -> None:
        busy = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()[0]
        if busy:
            raise StoreError(
                f"{self.shown}: its log could not be emptied within {timeout:g} s because somebody reads "
                "the store. Close the other readers and purge again; until then deleted content may still be there."
            )

    def explain(self, error: Exception) -> TensorUCBError | None:
        original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(original, sqlite3.Error):
            return None
        try:
            self._check_files()
        except StoreError as moved:
            return moved  # whatever SQLite says of it is a consequence
        name, where = _name(original), self.shown
        said = Mention("driver", f" (SQLite said: {original}, {name})")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            return StoreError(f"{where} was locked by others for {self.timeout:g} s", said, "; nothing was written.")
        if name.startswith("SQLITE_FULL"):
            return StoreError(f"no space left for {where}", said, "; nothing was written. Free some and try again.")
        if name.startswith("SQLITE_READONLY"):
            return StoreError(
                f"{where} may not be written", said, "; check the permissions of the file and its folder."
            )
        if name.startswith("SQLITE_CANTOPEN"):
            return StoreError(
                f"{where} cannot be opened",
                said,
                "; check that it exists, and its permissions. On a read-only disk, copy it "
                "and the files beside it (-wal) to a directory that can be written.",
            )
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_FORMAT", "SQLITE_ERROR")):
            return FileFormatError(f"{where} is damaged or not a tensorucb store", said, "; use another copy.")
        if name.startswith("SQLITE_CONSTRAINT"):
            return InputError(HELD)
        return StoreError(f"{where} failed", said, "; nothing was written.")


def _file_id(path: str | Path) -> FileId:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _name(error: object) -> str:
    # Errors made by the Python layer itself, such as an integer past 64 bits, carry no code.
    return getattr(error, "sqlite_errorname", None) or type(error).__name__
