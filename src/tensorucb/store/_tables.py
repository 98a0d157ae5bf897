"""The tables, for SQLite and PostgreSQL alike; `_schema` creates them.

Responses are clustered by (campaign, round), the way they are read. There are no foreign keys, which would be checked
again for each of a million responses; the session checks the campaign once and removes its rows with it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

VERSION_TABLE = "tensorucb_schema"

metadata = sa.MetaData()

_INTEGER, _TEXT, _BYTES = sa.BigInteger(), sa.Text(), sa.LargeBinary()
_REAL: sa.Double[float] = sa.Double()


def _table(
    name: str,
    /,
    *keys: sa.schema.SchemaItem,
    optional: Collection[str] = (),
    clustered: bool = False,
    **columns: sa.types.TypeEngine[Any],
) -> sa.Table:
    """A table with its keys and indexes; ``clustered`` keeps its rows in the order of its primary key."""
    made = [sa.Column(column, kind, nullable=column in optional) for column, kind in columns.items()]
    return sa.Table(f"tensorucb_{name}", metadata, *made, *keys, sqlite_with_rowid=not clustered)


def _key(*columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns)


def _once(name: str, column: str) -> sa.Index:
    """A unique index over a campaign's rows that have a value in the column."""
    present, name = sa.text(f"{column} IS NOT NULL"), f"tensorucb_{name}"
    return sa.Index(name, "campaign", column, unique=True, sqlite_where=present, postgresql_where=present)


campaign = sa.Table(
    "tensorucb_campaign",
    metadata,
    # SQLite counts up only what is called INTEGER.
    sa.Column("campaign", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
    sa.Column("name", _TEXT, nullable=False),
    sa.Column("settings", _TEXT, nullable=False),
    sa.Column("created", _REAL, nullable=False),
    _key("campaign"),
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
    sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
)
blob = _table("blob", _key("campaign", "name"), campaign=_INTEGER, name=_TEXT, data=_BYTES)
# An id is an integer or a text, and comes back as what it was.
user = _table(
    "user",
    _key("campaign", "user_key"),
    _once("user_id_integer", "id_integer"),
    _once("user_id_text", "id_text"),
    optional=("id_integer", "id_text"),
    clustered=True,
    campaign=_INTEGER,
    user_key=_INTEGER,
    id_integer=_INTEGER,
    id_text=_TEXT,
)
event = _table(
    "event",
    _key("campaign", "seq"),
    optional=("round",),
    campaign=_INTEGER,
    seq=_INTEGER,
    kind=_TEXT,
    round=_INTEGER,
    payload=_TEXT,
    created=_REAL,
)
round_ = _table(
    "round",
    _key("campaign", "number"),
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    _once("round_request", "request_id"),
    optional=("deadline", "closed", "request_id"),
    campaign=_INTEGER,
    number=_INTEGER,
    id=_TEXT,
    status=_TEXT,
    opened=_REAL,
    deadline=_REAL,
    closed=_REAL,
    revision=_INTEGER,
    request_id=_TEXT,
    payload=_TEXT,
)
edge_response = _table(
    "edge_response",
    _key("campaign", "round", "source", "target"),
    _once("edge_response_event", "event_id"),
    optional=("time", "event_id"),
    clustered=True,
    campaign=_INTEGER,
    round=_INTEGER,
    source=_INTEGER,
    target=_INTEGER,
    outcome=_REAL,
    time=_REAL,
    event_id=_TEXT,
    seq=_INTEGER,
)
node_event = _table(
    "node_event",
    sa.Index("tensorucb_node_event_round", "campaign", "round", "user_key", "time"),
    _once("node_event_event", "event_id"),
    optional=("time", "event_id"),
    campaign=_INTEGER,
    round=_INTEGER,
    user_key=_INTEGER,
    time=_REAL,
    event_id=_TEXT,
    seq=_INTEGER,
)
# How many rows there are in a group that is read together, and the sum of their hashes; `_checksum` says why.
checksum = _table(
    "checksum",
    _key("campaign", "part", "number"),
    clustered=True,
    campaign=_INTEGER,
    part=_TEXT,
    number=_INTEGER,
    rows=_INTEGER,
    sum=_INTEGER,
)
# What the service answered, for the caller who asks again with the same key; it may quote users, so it goes with them.
answer = _table(
    "answer",
    _key("key"),
    campaign=_INTEGER,
    key=_TEXT,
    request=_TEXT,
    status=_INTEGER,
    body=_TEXT,
    created=_REAL,
    hash=_INTEGER,
)
token = _table("token", _key("name"), name=_TEXT, role=_TEXT, hash=_TEXT, created=_REAL)
secret = _table("secret", _key("name"), name=_TEXT, value=_TEXT)
version = sa.Table(
    VERSION_TABLE,
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

OWNED = (checksum, blob, user, event, round_, edge_response, node_event, answer)
"""The tables whose rows belong to a campaign."""
