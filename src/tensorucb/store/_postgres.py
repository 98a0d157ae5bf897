"""PostgreSQL through psycopg 3: bulk rows by COPY, writers one after another by an advisory lock."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import sqlalchemy as sa

from tensorucb.errors import InputError, Mention, StoreError, TensorUCBError
from tensorucb.store._address import said
from tensorucb.store._backend import HELD, Backend
from tensorucb.store._tables import metadata

# The store's number among the advisory locks of a database; the second half is the schema that holds the tables.
_LOCK = 0x74756362
# Seconds on top of the time-out: the server ends a statement that waits too long for a lock by itself, and says so.
_GRACE = 2.0
# A number of its own for the turns of those who choose, and how many seconds one waits for another at the most.
_CHOOSING = _LOCK + 1
_COURTESY = 10.0
_PURGING = 3600.0


for _table in metadata.tables.values():
    for _index in _table.indexes:
        if "where" in _index.info:
            _index.dialect_options["postgresql"]["where"] = _index.info["where"]


class _SilentServerError(psycopg.OperationalError):
    """The server has not answered for too long."""


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up on a server which is silent for longer than its patience, in seconds.

    No setting of the driver or of the socket does that: a process that is stopped ends no statement by itself, and its
    machine's kernel goes on acknowledging packets for it.
    """

    patience = math.inf

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Drive one exchange with the server to its end."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same exchange; the driver asks at every interval, and says whether there was anything to read."""
        ready, began = None, time.monotonic()
        while True:
            try:
                wanted = gen.send(ready)
            except StopIteration as done:
                return done.value
            ready = yield wanted
            if ready:
                began = time.monotonic()
            elif time.monotonic() - began > self.patience:
                gen.close()
                # Whatever else is sent would wait as long again; the pool drops a connection that is closed.
                self.close()
                raise _SilentServerError


class PostgresBackend(Backend):
    """A PostgreSQL database, which looks after its indexes itself, and may hold tables of other programs."""

    tables = "SELECT relname FROM pg_class WHERE left(relname, 10) = 'tensorucb_' AND pg_table_is_visible(oid)"
    listed = "SELECT json_array_elements_text(CAST(:texts AS json))"

    def __init__(self, url: str, timeout: float, read_only: bool = False) -> None:
        super().__init__(url, timeout, read_only)
        self._address = sa.make_url(url).set(drivername="postgresql+psycopg")

    def engine(self) -> sa.Engine:
        """A pool whose connections are tried before use, so that a restarted server is no error."""
        limit = max(2, min(10, math.ceil(self.timeout)))
        arguments = {} if "connect_timeout" in self._address.query else {"connect_timeout": limit}
        engine = sa.create_engine(
            self._address, pool_pre_ping=True, pool_size=12, max_overflow=20, connect_args=arguments
        )
        sa.event.listen(engine, "do_connect", self._connect)
        return engine

    def _connect(
        self, dialect: object, record: object, positional: Sequence[Any], named: dict[str, Any]
    ) -> _Connection:
        if self.read_only:
            named["options"] = f"{named.get('options', '')} -c default_transaction_read_only=on"
        connection = _Connection.connect(*positional, **named)
        connection.patience = self.timeout + _GRACE
        return connection

    def begin_write(self, connection: sa.Connection) -> None:
        """A transaction that reads what was committed before its turn came, and is on disk when it ends."""
        wait = round(self.timeout * 1000)
        connection.exec_driver_sql(
            f"SELECT set_config('synchronous_commit', 'on', true), set_config('lock_timeout', '{wait}', true)"
        )
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK}, hashtext(current_schema()))")

    @contextmanager
    def turn_to_choose(self, engine: sa.Engine, campaign: int) -> Iterator[None]:
        """Hold an advisory lock of the campaign. Who waits too long for it, or loses it, goes on without."""
        with engine.connect() as connection:
            with suppress(sa.exc.OperationalError):
                wait = round(min(self.timeout, _COURTESY) * 1000)
                connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{wait}', true)")
                place = f"hashtext(current_schema() || '/{campaign}')"
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CHOOSING}, {place})")
            try:
                yield
            finally:
                with suppress(sa.exc.DBAPIError):
                    connection.rollback()

    def begin_read(self, connection: sa.Connection) -> None:
        """``REPEATABLE READ READ ONLY``, whose moment is its first statement: made at once."""
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        connection.exec_driver_sql("SELECT 1")

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]]) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        names = ", ".join(column.name for column in table.columns)
        command = f"COPY {table.name} ({names}) FROM STDIN".encode()
        with driver.cursor() as cursor, cursor.copy(command) as copy:
            for row in rows:
                copy.write_row(row)

    def purge(self, engine: sa.Engine, timeout: float) -> None:
        """Rewrite the tables and the planner's statistics, which quote values.

        Rows that an older snapshot of another session can still see are kept by the server, as are its own log and its
        backups: nothing is claimed of its files.
        """
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql(f"SET lock_timeout = {round(timeout * 1000)}")
            driver = connection.connection.driver_connection
            assert isinstance(driver, _Connection)
            driver.patience = _PURGING  # a large table takes its time
            try:
                for table in metadata.sorted_tables:
                    connection.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table.name}")
            except sa.exc.OperationalError as error:
                if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                    raise
                raise StoreError(
                    f"{self.shown}: its tables could not be rewritten within {timeout:g} s because somebody uses "
                    "them. End the other sessions and purge again; until then deleted content may still be there."
                ) from None
            finally:
                driver.patience = self.timeout + _GRACE
                if not driver.closed:
                    connection.exec_driver_sql("RESET lock_timeout")

    def explain(self, error: Exception) -> TensorUCBError | None:
        original = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if isinstance(error, sa.exc.TimeoutError):
            return StoreError("all connections of this store are in use; end some reads and try again.")
        if not isinstance(original, psycopg.Error):
            return None
        words = Mention("driver", f" (PostgreSQL said: {said(original, self.url)})")
        if isinstance(original, psycopg.errors.LockNotAvailable):
            return StoreError(f"{self.shown} was locked by others for {self.timeout:g} s; nothing was written.")
        if isinstance(original, psycopg.errors.DiskFull):
            return StoreError(
                f"no space left for {self.shown}", words, "; nothing was written. Free some and try again."
            )
        if isinstance(original, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.InsufficientPrivilege):
            return StoreError(f"{self.shown} may not be written", words, "; check the user's rights.")
        if isinstance(original, psycopg.IntegrityError):
            return InputError(HELD)
        if isinstance(original, _SilentServerError):
            return StoreError(
                f"{self.shown} gave no answer for {self.timeout + _GRACE:g} s and was given up; what was being written "
                "may or may not be there. Check the server and try again: a repeated call writes nothing twice."
            )
        if isinstance(original, psycopg.OperationalError):
            return StoreError(f"{self.shown} is out of reach", words, "; check the address, the user and the server.")
        return StoreError(f"{self.shown} failed", words, "; nothing was written.")
