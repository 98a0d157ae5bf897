"""The schema is brought up to date when a store is opened, once, however many processes open it together."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import sqlalchemy as sa

from tensorucb.errors import FileFormatError, StoreError
from tensorucb.store._backend import Backend
from tensorucb.store._tables import SCHEMA

# Alembic keeps the migration under way in a module's globals.
_one_at_a_time = threading.Lock()


def bring_up_to_date(backend: Backend, engine: sa.Engine) -> None:
    """Create or upgrade the tables; a schema that is current costs one query."""
    with engine.connect() as connection:
        backend.prepare(connection)
        if _is_current(backend, connection):
            return
        connection.rollback()
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
