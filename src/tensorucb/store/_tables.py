"""The tables, for SQLite and PostgreSQL alike; the migrations create them, and a test compares the two.

Responses are clustered by (campaign, round), the way they are read. There are no foreign keys, which would be checked
again for each of a million responses; the session checks the campaign once and removes its rows with it.
"""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA = "0002"
"""The newest revision under ``migrations/versions``; revisions are numbered, so that a newer schema is recognised."""

VERSION_TABLE = "tensorucb_schema"

metadata = sa.MetaData()

# SQLite counts up only what is called INTEGER.
_Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _campaign() -> sa.Column[int]:
    return sa.Column("campaign", sa.BigInteger, nullable=False)


def _once(name: str, *columns: str) -> sa.Index:
    """A unique index over rows that have a value in the last column."""
    present = sa.text(f"{columns[-1]} IS NOT NULL")
    return sa.Index(name, *columns, unique=True, sqlite_where=present, postgresql_where=present)


campaign = sa.Table(
    "tensorucb_campaign",
    metadata,
    sa.Column("campaign", _Serial, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("settings", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.PrimaryKeyConstraint("campaign"),
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
    sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
)

blob = sa.Table(
    "tensorucb_blob",
    metadata,
    _campaign(),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "name"),
)

# An id is an integer or a text, and comes back as what it was.
user = sa.Table(
    "tensorucb_user",
    metadata,
    _campaign(),
    sa.Column("user_key", sa.BigInteger, nullable=False),
    sa.Column("id_integer", sa.BigInteger),
    sa.Column("id_text", sa.Text),
    sa.PrimaryKeyConstraint("campaign", "user_key"),
    _once("tensorucb_user_id_integer", "campaign", "id_integer"),
    _once("tensorucb_user_id_text", "campaign", "id_text"),
    sqlite_with_rowid=False,
)

event = sa.Table(
    "tensorucb_event",
    metadata,
    _campaign(),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("round", sa.BigInteger),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("created", sa.Double, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "seq"),
)

round_ = sa.Table(
    "tensorucb_round",
    metadata,
    _campaign(),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("opened", sa.Double, nullable=False),
    sa.Column("deadline", sa.Double),
    sa.Column("closed", sa.Double),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("request_id", sa.Text),
    sa.Column("payload", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "number"),
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    _once("tensorucb_round_request", "campaign", "request_id"),
)

edge_response = sa.Table(
    "tensorucb_edge_response",
    metadata,
    _campaign(),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("source", sa.BigInteger, nullable=False),
    sa.Column("target", sa.BigInteger, nullable=False),
    sa.Column("outcome", sa.Double, nullable=False),
    sa.Column("time", sa.Double),
    sa.Column("event_id", sa.Text),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "round", "source", "target"),
    _once("tensorucb_edge_response_event", "campaign", "event_id"),
    sqlite_with_rowid=False,
)

node_event = sa.Table(
    "tensorucb_node_event",
    metadata,
    _campaign(),
    sa.Column("round", sa.BigInteger, nullable=False),
    sa.Column("user_key", sa.BigInteger, nullable=False),
    sa.Column("time", sa.Double),
    sa.Column("event_id", sa.Text),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Index("tensorucb_node_event_round", "campaign", "round", "user_key", "time"),
    _once("tensorucb_node_event_event", "campaign", "event_id"),
)

# How many rows there are in a group that is read together, and the sum of their hashes; `_checksum` says why.
checksum = sa.Table(
    "tensorucb_checksum",
    metadata,
    _campaign(),
    sa.Column("part", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),
    sa.Column("sum", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "part", "number"),
    sqlite_with_rowid=False,
)

OWNED = (checksum, blob, user, event, round_, edge_response, node_event)
"""The tables whose rows belong to a campaign."""
