"""The tables, for SQLite and PostgreSQL alike; `_schema` creates them.

Responses are clustered by (campaign, round), the way they are read. There are no foreign keys, which would be checked
again for each of a million responses; the session checks the campaign once and removes its rows with it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

VERSION_TABLE = "tensorucb_schema"

metadata = sa.MetaData()

_KINDS: dict[str, sa.types.TypeEngine[Any]] = {
    # SQLite counts up only what is called INTEGER.
    "COUNTER": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
    "INTEGER": sa.BigInteger(),
    "REAL": sa.Double(),
    "TEXT": sa.Text(),
    "BYTES": sa.LargeBinary(),
}


def _table(name: str, columns: str, *keys: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """A table with columns such as ``"seq INTEGER, round INTEGER NULL"``; NULL means that a row may have no value."""
    made = []
    for column in columns.split(", "):
        called, kind, *null = column.split()
        made.append(sa.Column(called, _KINDS[kind], nullable=bool(null)))
    return sa.Table(f"tensorucb_{name}", metadata, *made, *keys, **options)


def _key(*columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns)


def _once(name: str, column: str) -> sa.Index:
    """A unique index over a campaign's rows that have a value in the column."""
    present, name = sa.text(f"{column} IS NOT NULL"), f"tensorucb_{name}"
    return sa.Index(name, "campaign", column, unique=True, sqlite_where=present, postgresql_where=present)


campaign = _table(
    "campaign",
    "campaign COUNTER, name TEXT, settings TEXT, created REAL",
    _key("campaign"),
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
    sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
)
blob = _table("blob", "campaign INTEGER, name TEXT, data BYTES", _key("campaign", "name"))
# An id is an integer or a text, and comes back as what it was.
user = _table(
    "user",
    "campaign INTEGER, user_key INTEGER, id_integer INTEGER NULL, id_text TEXT NULL",
    _key("campaign", "user_key"),
    _once("user_id_integer", "id_integer"),
    _once("user_id_text", "id_text"),
    sqlite_with_rowid=False,
)
event = _table(
    "event",
    "campaign INTEGER, seq INTEGER, kind TEXT, round INTEGER NULL, payload TEXT, created REAL",
    _key("campaign", "seq"),
)
round_ = _table(
    "round",
    "campaign INTEGER, number INTEGER, id TEXT, status TEXT, opened REAL, deadline REAL NULL, closed REAL NULL, "
    "revision INTEGER, request_id TEXT NULL, payload TEXT",
    _key("campaign", "number"),
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    _once("round_request", "request_id"),
)
edge_response = _table(
    "edge_response",
    "campaign INTEGER, round INTEGER, source INTEGER, target INTEGER, outcome REAL, time REAL NULL, "
    "event_id TEXT NULL, seq INTEGER",
    _key("campaign", "round", "source", "target"),
    _once("edge_response_event", "event_id"),
    sqlite_with_rowid=False,
)
node_event = _table(
    "node_event",
    "campaign INTEGER, round INTEGER, user_key INTEGER, time REAL NULL, event_id TEXT NULL, seq INTEGER",
    sa.Index("tensorucb_node_event_round", "campaign", "round", "user_key", "time"),
    _once("node_event_event", "event_id"),
)
# How many rows there are in a group that is read together, and the sum of their hashes; `_checksum` says why.
checksum = _table(
    "checksum",
    "campaign INTEGER, part TEXT, number INTEGER, rows INTEGER, sum INTEGER",
    _key("campaign", "part", "number"),
    sqlite_with_rowid=False,
)
# What the service answered, for the caller who asks again with the same key; it may quote users, so it goes with them.
answer = _table(
    "answer",
    "campaign INTEGER, key TEXT, request TEXT, status INTEGER, body TEXT, created REAL, hash INTEGER",
    _key("key"),
)
token = _table("token", "name TEXT, role TEXT, hash TEXT, created REAL", _key("name"))
secret = _table("secret", "name TEXT, value TEXT", _key("name"))
version = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

OWNED = (checksum, blob, user, event, round_, edge_response, node_event, answer)
"""The tables whose rows belong to a campaign."""
