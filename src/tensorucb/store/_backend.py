"""What differs between SQLite and PostgreSQL, as one small protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import sqlalchemy as sa

from tensorucb.errors import TensorUCBError
from tensorucb.store._address import masked

# The databases' own words for this are SQL: names of tables, columns and keys.
HELD = "the store already holds such a row; nothing was written."
LISTED = "{listed}"
"""In a statement: any number of texts."""


class Backend(Protocol):
    """One kind of database at one address.

    ``url`` opens the store again, with the password where there is one: not to be shown; ``shown`` is the same for
    messages. ``tables`` is the query for the names of the tables in a store's way, and ``listed`` the one for the texts
    of a JSON list: a single value, however many there are. Connections of a ``read_only`` one cannot write.
    """

    url: str
    shown: str
    tables: str
    listed: str
    timeout: float
    read_only: bool

    def __init__(self, url: str, timeout: float, read_only: bool) -> None:
        self.url = url
        self.shown = masked(url)
        self.timeout = timeout
        self.read_only = read_only

    def engine(self) -> sa.Engine:
        """A new pool of connections; nothing is connected yet."""

    def prepare(self, connection: sa.Connection) -> None:
        """Settings which the database keeps and which cannot be made inside a transaction, if it has any."""
        return

    def begin_write(self, connection: sa.Connection) -> None:
        """Begin a transaction that no other writer of the store can join; waits for its turn."""

    def begin_read(self, connection: sa.Connection) -> None:
        """Begin a transaction that sees one moment, now, and blocks nobody."""

    def turn_to_choose(self, engine: sa.Engine, campaign: int) -> AbstractContextManager[Any]:
        """Inside the block other processes wait before they choose too, where the database can tell them."""
        return nullcontext()

    def check_in_place(self, connection: sa.Connection) -> None:
        """Refuse to go on if the database's files are no longer those that were opened; a server sees to its own."""
        return

    def insert(self, connection: sa.Connection, table: sa.Table, rows: Iterable[Sequence[Any]]) -> None:
        """Insert many rows, each in the order of the table's columns."""

    def purge(self, engine: sa.Engine, timeout: float) -> None:
        """Make deleted content unrecoverable from the database's files; an error if others are in the way so long."""

    def explain(self, error: Exception) -> TensorUCBError | None:
        """The clear error for one of the driver's; None if it is not the driver's."""
