"""The schema: every table with its columns, keys and indexes, for SQLite and PostgreSQL alike.

Queries name these tables. Responses are kept in batches, as they came: a row for each would take ten times the space.
There are no foreign keys: the session checks the campaign once and removes its rows with it.

Every table has checksums (`_rows`). Rows of the same ``group``, a column, or else all rows of a campaign, are read
together and have one.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

LAYOUT = "2026-11-18.3"
"""The mark of these tables and of how `_protocol` packs batches. Whoever changes either gives another mark: a store
that has another one is refused when it is opened."""

metadata = sa.MetaData()


def _integer(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=optional)


def _real(name: str, *, optional: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=optional)


def _text(name: str, *, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=optional)


def _table(name: str, *items: sa.schema.SchemaItem, group: str | None = None, **options: Any) -> sa.Table:
    return sa.Table(f"tensorucb_{name}", metadata, *items, info={"group": group}, **options)


def _once(name: str, column: str) -> sa.Index:
    """A unique index over the rows of a campaign that have a value in the column."""
    present = sa.text(f"{column} IS NOT NULL")
    columns = ("campaign", column)
    # PostgreSQL's backend takes the condition from ``info``: as an argument it would load that dialect here.
    return sa.Index(f"tensorucb_{name}", *columns, unique=True, sqlite_where=present, info={"where": present})


campaign = _table(
    "campaign",
    # SQLite counts up only what is called INTEGER.
    sa.Column("campaign", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    _text("name"),
    _text("settings"),
    _real("created"),
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
    sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
)
# Bytes by name; those of campaign 0 belong to the whole store. A large blob is in pieces, each with its SHA-256.
blob = _table(
    "blob",
    _integer("campaign"),
    _text("name"),
    _integer("piece"),
    _text("digest"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "name", "piece"),
)
event = _table(
    "event",
    _integer("campaign"),
    _integer("seq"),
    _text("kind"),
    _integer("round", optional=True),
    _text("payload"),
    _real("created"),
    sa.PrimaryKeyConstraint("campaign", "seq"),
    group="seq",
)
round_ = _table(
    "round",
    _integer("campaign"),
    _integer("number"),
    _text("id"),
    _text("status"),
    _real("opened"),
    _real("deadline", optional=True),
    _real("closed", optional=True),
    _integer("revision"),
    _text("request_id", optional=True),
    _text("payload"),
    sa.PrimaryKeyConstraint("campaign", "number"),
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    _once("round_request", "request_id"),
    # Rounds that are due, over all campaigns.
    sa.Index("tensorucb_round_status", "status", "deadline", "campaign"),
    group="number",
)
# Why users were chosen in a round.
explanation = _table(
    "explanation",
    _integer("campaign"),
    _integer("round"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "round"),
    group="round",
)
# What a round was told: a row per batch, whose columns of numbers are packed (`_protocol`). They name nobody.
response = _table(
    "response",
    _integer("campaign"),
    _integer("round"),
    _integer("seq"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "round", "seq"),
    group="round",
)
# The callers' own names of responses: where each stands in its batch.
event_id = _table(
    "event_id",
    _integer("campaign"),
    _text("name"),
    _integer("round"),
    _integer("seq"),
    _integer("place"),
    sa.PrimaryKeyConstraint("campaign", "name"),
    sa.Index("tensorucb_event_id_round", "campaign", "round"),
    group="round",
    sqlite_with_rowid=False,
)
# What a person said about being contacted; campaign 0 is for all campaigns. A person is a keyed hash of the id.
preference = _table(
    "preference",
    _integer("campaign"),
    _integer("person"),
    _text("answer"),
    _real("since"),
    sa.PrimaryKeyConstraint("campaign", "person"),
    sqlite_with_rowid=False,
)
# How many rows there are in a group, and the sum of their hashes; `_rows` says why.
checksum = _table(
    "checksum",
    _integer("campaign"),
    _text("part"),
    _integer("number"),
    _integer("rows"),
    _integer("sum"),
    sa.PrimaryKeyConstraint("campaign", "part", "number"),
    sqlite_with_rowid=False,
)
layout = _table("layout", _text("mark"), sa.PrimaryKeyConstraint("mark"))

OWNED = (blob, event, round_, explanation, response, event_id, preference)
"""The tables whose rows belong to a campaign."""
