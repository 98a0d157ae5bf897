"""The schema: every table with its columns, keys and indexes, for SQLite and PostgreSQL alike.

Queries name these tables. Responses are kept in batches, as they came: a row for each would take ten times the space.
There are no foreign keys, which would be checked again for each of a million users; the session checks the campaign
once and removes its rows with it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

LAYOUT = "2026-11-18"
"""The mark of these tables and of how `_protocol` packs batches. Whoever changes either gives another mark: a store
that has another one is refused when it is opened."""

metadata = sa.MetaData()


def _integer(name: str, *, optional: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=optional)


def _real(name: str, *, optional: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=optional)


def _text(name: str, *, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=optional)


def _table(name: str, *items: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    return sa.Table(f"tensorucb_{name}", metadata, *items, **options)


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
blob = _table(
    "blob",
    _integer("campaign"),
    _text("name"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "name"),
)
# An id is an integer or a text, and comes back as what it was.
user = _table(
    "user",
    _integer("campaign"),
    _integer("user_row"),
    _integer("id_integer", optional=True),
    _text("id_text", optional=True),
    sa.PrimaryKeyConstraint("campaign", "user_row"),
    _once("user_id_integer", "id_integer"),
    _once("user_id_text", "id_text"),
    sqlite_with_rowid=False,
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
)
# Why users were chosen in a round; sealed by whoever made it, as blobs are.
explanation = _table(
    "explanation",
    _integer("campaign"),
    _integer("round"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "round"),
)
# What a round was told: a row per batch, whose columns of numbers are packed (`_protocol`). They name nobody.
response = _table(
    "response",
    _integer("campaign"),
    _integer("round"),
    _integer("seq"),
    _text("kind"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("campaign", "round", "seq", "kind"),
)
# The callers' own names of responses: where each stands in its batch.
event_id = _table(
    "event_id",
    _integer("campaign"),
    _text("name"),
    _integer("round"),
    _integer("seq"),
    _text("kind"),
    _integer("place"),
    sa.PrimaryKeyConstraint("campaign", "name"),
    sa.Index("tensorucb_event_id_round", "campaign", "round"),
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
# How many rows there are in a group that is read together, and the sum of their hashes; `_checksum` says why.
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
token = _table(
    "token",
    _text("name"),
    _text("role"),
    _text("hash"),
    _real("created"),
    sa.PrimaryKeyConstraint("name"),
)
secret = _table("secret", _text("name"), _text("value"), sa.PrimaryKeyConstraint("name"))
layout = _table("layout", _text("mark"), sa.PrimaryKeyConstraint("mark"))
# Logins that somebody has ended before their time.
logout = _table("logout", _text("login"), _real("ends"), sa.PrimaryKeyConstraint("login"))

OWNED = (checksum, blob, user, event, round_, explanation, response, event_id, preference)
"""The tables whose rows belong to a campaign."""
