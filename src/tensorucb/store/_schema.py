"""The schema of a store, created or brought up to date when the store is opened.

A step adds what one release added. Steps so far only add tables. One that changes a table must leave alone a table
which an earlier step has just created, since steps create tables as `_tables` has them today.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from tensorucb.errors import FileFormatError, StoreError
from tensorucb.store import _tables as tables
from tensorucb.store._backend import Backend
from tensorucb.store._checksum import Checksum, edge_hashes, node_hashes, row_hash, total, user_hashes
from tensorucb.store._values import as_ids, edge_columns, node_columns


def bring_up_to_date(backend: Backend, engine: sa.Engine) -> None:
    """Create or upgrade the tables; a schema that is current costs one query."""
    with engine.connect() as connection:
        backend.prepare(connection)
        if _version(backend, connection) == SCHEMA:
            return
        connection.rollback()
        if backend.read_only:
            raise StoreError(
                f"{backend.shown} has no tables yet, or those of an older release, and a read-only connection can make "
                "none; open it once without read_only=True."
            )
        backend.begin_write(connection)
        found = _version(backend, connection)
        if found != SCHEMA:  # else another process was quicker
            upgrade(connection, found)
        connection.commit()


def _version(backend: Backend, connection: sa.Connection) -> str:
    """The schema found there, which is not newer than ours; "0000" if there is none."""
    found = backend.version(connection)
    if found is None:
        return "0000"
    if not re.fullmatch(r"[0-9]{4}", found) or found == "0000":
        raise FileFormatError(f"{backend.shown} is damaged: its schema is called {found!r}. Use another copy.")
    if found > SCHEMA:
        raise StoreError(
            f"{backend.shown} was written by a newer release of tensorucb (schema {found}, this release knows "
            f"{SCHEMA}); upgrade tensorucb to open it."
        )
    return found


def upgrade(connection: sa.Connection, found: str) -> None:
    """Take all steps after the schema that was found."""
    for number, step in STEPS.items():
        if number > found:
            step(connection)
    tables.version.create(connection, checkfirst=True)
    connection.execute(sa.delete(tables.version))
    connection.execute(sa.insert(tables.version).values(version_num=SCHEMA))


def _first(connection: sa.Connection) -> None:
    """Campaigns and what belongs to them."""
    first = [table for table in tables.OWNED if table not in (tables.checksum, tables.answer)]
    tables.metadata.create_all(connection, [tables.campaign, *first], checkfirst=False)


def _checksums(connection: sa.Connection) -> None:
    """Checksums of all rows, also of those that are there."""
    tables.checksum.create(connection)
    columns = tables.checksum.columns.keys()
    lines = [dict(zip(columns, (*group, *made), strict=True)) for *group, made in _all_checksums(connection)]
    if lines:
        connection.execute(sa.insert(tables.checksum), lines)


def _all_checksums(connection: sa.Connection) -> Iterator[tuple[int, str, int, Checksum]]:
    def rows(table: sa.Table, names: str, **where: int) -> list[Any]:
        chosen = sa.select(*(table.c[name] for name in names.split()))
        return list(connection.execute(chosen.filter_by(**where)))

    campaigns = rows(tables.campaign, "campaign name settings created")
    if campaigns:
        yield 0, "campaign", 0, total([row_hash(*row) for row in campaigns])
    for c, *_ in campaigns:
        yield c, "blob", 0, total([row_hash(*row) for row in rows(tables.blob, "name", campaign=c)])
        users = rows(tables.user, "user_key id_integer id_text", campaign=c)
        yield c, "user", 0, total(user_hashes(*as_ids(users)))
        for row in rows(tables.event, "seq kind round payload created", campaign=c):
            yield c, "event", row[0], total([row_hash(*row)])
        names = "number id status opened deadline closed revision request_id payload"
        for row in rows(tables.round_, names, campaign=c):
            yield c, "round", row[0], total([row_hash(*row)])
        for r in {at for (at,) in rows(tables.edge_response, "round", campaign=c)}:
            edges = rows(tables.edge_response, "source target outcome time event_id", campaign=c, round=r)
            yield c, "edge", r, total(edge_hashes(edge_columns(edges)))
        for r in {at for (at,) in rows(tables.node_event, "round", campaign=c)}:
            nodes = rows(tables.node_event, "user_key time event_id", campaign=c, round=r)
            yield c, "node", r, total(node_hashes(node_columns(nodes)))


def _service(connection: sa.Connection) -> None:
    """Tokens, kept answers, and a secret of the service."""
    tables.metadata.create_all(connection, [tables.token, tables.answer, tables.secret], checkfirst=False)
    row = {"name": "service", "value": secrets.token_hex(32)}
    connection.execute(sa.insert(tables.secret).values(**row))
    line = {"campaign": 0, "part": "secret", "number": 0, "rows": 1, "sum": row_hash(*row.values())}
    connection.execute(sa.insert(tables.checksum).values(**line))


STEPS = {"0001": _first, "0002": _checksums, "0003": _service}
SCHEMA = max(STEPS)
"""The newest schema; schemas are numbered, so that a newer one is recognised."""
