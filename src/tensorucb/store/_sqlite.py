"""SQLite: one file, write-ahead log, every commit on disk before it is acknowledged."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tensorucb.errors import FileFormatError, InputError, StoreError, TensorUCBError
from tensorucb.store._address import shown_path
from tensorucb.store._backend import Backend
from tensorucb.store._tables import VERSION_TABLE


class SQLiteBackend(Backend):
    """A SQLite file at an absolute path."""

    unindexed = "NOT INDEXED"
    synchronous = "FULL"

    def __init__(self, path: Path, timeout: float, read_only: bool = False) -> None:
        super().__init__(f"sqlite:///{path}", timeout, read_only)
        self.path = path

    def engine(self) -> sa.Engine:
        # Without an upper limit: a connection is a file handle.
        return sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.QueuePool, max_overflow=-1)

    def _connect(self) -> sqlite3.Connection:
        # A new file is its owner's alone; the two beside it get its mode. Where it cannot be made, SQLite says why.
        if not self.read_only:
            with suppress(OSError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        address = f"{self.path.as_uri()}{self._options()}"
        connection = sqlite3.connect(
            address, uri=True, timeout=self.timeout, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA synchronous={self.synchronous}")
            connection.execute("PRAGMA secure_delete=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _options(self) -> str:
        """How to open the file.

        SQLite reads a file in WAL mode only where it can make the two files beside it, or with the promise that nobody
        changes the file: a backup on a read-only disk. Where there is a log, somebody may be writing.
        """
        if os.access(self.path.parent, os.W_OK) or not self.path.exists():
            return "?mode=ro" if self.read_only else ""
        return "?mode=ro" if self._log().exists() else "?mode=ro&immutable=1"

    def prepare(self, connection: sa.Connection) -> None:
        """Switch a new file to the write-ahead log."""
        # SQLite fills a page that was cut with zeros, and takes less than a page for an empty file to write over.
        log = self._log()
        if self.path.stat().st_size % 512 and not (log.exists() and log.stat().st_size):
            raise FileFormatError(f"{shown_path(self.path)} is damaged or not a tensorucb store; use another file.")
        if "mode=ro" in self._options():
            return
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal":
            return
        self.version(connection)  # a file of another program is left as it is
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
            except sa.exc.OperationalError as error:
                # SQLite's own busy timeout does not cover the switch, which other processes may be making as well.
                if _name(error.orig) != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def version(self, connection: sa.Connection) -> str | None:
        """The schema; a file with tables but without a schema is another program's."""
        tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        if VERSION_TABLE in tables:
            return connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar()
        if tables:
            raise FileFormatError(
                f"{shown_path(self.path)} is a SQLite file of another program (it holds {min(tables)!r}); "
                "use another file."
            )
        return None

    def begin_write(self, connection: sa.Connection) -> None:
        """``BEGIN IMMEDIATE``: one that reads first and writes later fails whenever another writer came between."""
        began = time.monotonic()
        cursor = connection.connection.cursor()
        cursor.execute("PRAGMA busy_timeout=0")
        try:
            while True:
                try:
                    cursor.execute("BEGIN IMMEDIATE")
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
        connection.exec_driver_sql("BEGIN")  # its moment is its first read: made at once
        connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").all()

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]]) -> None:
        names = ", ".join(column.name for column in table.columns)
        marks = ", ".join("?" for _ in table.columns)
        cursor = connection.connection.cursor()
        cursor.executemany(f"INSERT INTO {table.name} ({names}) VALUES ({marks})", rows)  # type: ignore[arg-type]

    def among(self, column: sa.Column[Any], texts: Sequence[str]) -> sa.ColumnElement[bool]:
        # A JSON list, which SQLite opens into a table: no limit on the number of parameters.
        values = sa.func.json_each(json.dumps(list(texts))).table_valued("value")
        return column.in_(sa.select(values.c.value))

    def purge(self, engine: sa.Engine, timeout: float) -> None:
        """Empty the write-ahead log, rewrite the file without its free pages, and empty the log again."""
        with engine.connect() as connection:
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
                f"{shown_path(self.path)}: its log could not be emptied within {timeout:g} s because somebody reads "
                "the store. Close the other readers and purge again; until then deleted content may still be there."
            )

    def explain(self, error: Exception) -> TensorUCBError | None:
        original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(original, sqlite3.Error):
            return None
        name, where = _name(original), shown_path(self.path)
        said = f"(SQLite said: {original}, {name})"
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")):
            return StoreError(f"{where} was locked by others for {self.timeout:g} s {said}; nothing was written.")
        if name.startswith("SQLITE_FULL"):
            return StoreError(f"no space left for {where} {said}; nothing was written. Free some and try again.")
        if name.startswith("SQLITE_READONLY"):
            return StoreError(f"{where} may not be written {said}; check the permissions of the file and its folder.")
        if name.startswith("SQLITE_CANTOPEN"):
            return StoreError(
                f"{where} cannot be opened {said}; check that it exists, and its permissions. On a read-only disk, "
                "copy it and the files beside it (-wal) to a directory that can be written."
            )
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_FORMAT", "SQLITE_ERROR")):
            return FileFormatError(f"{where} is damaged or not a tensorucb store {said}; use another copy.")
        if name.startswith("SQLITE_CONSTRAINT"):
            return InputError(f"the store already holds such a row {said}; nothing was written.")
        return StoreError(f"{where} failed {said}; nothing was written.")


def _name(error: object) -> str:
    # Errors made by the Python layer itself, such as an integer past 64 bits, carry no code.
    return getattr(error, "sqlite_errorname", None) or type(error).__name__
