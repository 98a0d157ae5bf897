"""The schema: every table with its columns, keys and indexes, for SQLite and PostgreSQL alike.

Queries name these tables. Responses are kept in batches, as they came: a row for each would take ten times the space.
There are no foreign keys: the session checks the campaign once and removes its rows with it.

Every table has checksums (`_rows`). Rows of the same ``group``, a column, or else all rows of a campaign, are read
together and have one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

LAYOUT = "2026-11-18.3"
"""The mark of these tables and of how `_protocol` packs batches. Whoever changes either gives another mark: a store
that has another one is refused when it is opened."""

metadata = sa.MetaData()

_INTEGER = sa.BigInteger()
_REAL: sa.Double[float] = sa.Double()
_TEXT = sa.Text()
_BYTES = sa.LargeBinary()


def _table(
    name: str,
    columns: Mapping[str, sa.types.TypeEngine[Any]],
    key: int,
    *items: sa.schema.SchemaItem,
    group: str | None = None,
    optional: Sequence[str] = (),
    **options: Any,
) -> sa.Table:
    """A table whose primary key are its first ``key`` columns; those ``optional`` may be empty."""
    made = [sa.Column(column, kind, nullable=column in optional) for column, kind in columns.items()]
    primary = sa.PrimaryKeyConstraint(*list(columns)[:key])
    return sa.Table(f"tensorucb_{name}", metadata, *made, primary, *items, info={"group": group}, **options)


campaign = _table(
    "campaign",
    # SQLite counts up only what is called INTEGER.
    {
        "campaign": sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
        "name": _TEXT,
        "settings": _TEXT,
        "created": _REAL,
    },
    1,
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
    sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
)
# Bytes by name; those of campaign 0 belong to the whole store. A large blob is in pieces, each with its SHA-256.
blob = _table("blob", {"campaign": _INTEGER, "name": _TEXT, "piece": _INTEGER, "digest": _TEXT, "data": _BYTES}, 3)
event = _table(
    "event",
    {"campaign": _INTEGER, "seq": _INTEGER, "kind": _TEXT, "round": _INTEGER, "payload": _TEXT, "created": _REAL},
    2,
    group="seq",
    optional=["round"],
)
_asked = sa.text("request_id IS NOT NULL")
round_ = _table(
    "round",
    {
        "campaign": _INTEGER,
        "number": _INTEGER,
        "id": _TEXT,
        "status": _TEXT,
        "opened": _REAL,
        "deadline": _REAL,
        "closed": _REAL,
        "revision": _INTEGER,
        "request_id": _TEXT,
        "payload": _TEXT,
    },
    2,
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    # PostgreSQL's backend takes the condition from ``info``: as an argument it would load that dialect here.
    sa.Index(
        "tensorucb_round_request", "campaign", "request_id", unique=True, sqlite_where=_asked, info={"where": _asked}
    ),
    # Rounds that are due, over all campaigns.
    sa.Index("tensorucb_round_status", "status", "deadline", "campaign"),
    group="number",
    optional=["deadline", "closed", "request_id"],
)
# Why users were chosen in a round.
explanation = _table("explanation", {"campaign": _INTEGER, "round": _INTEGER, "data": _BYTES}, 2, group="round")
# What a round was told: a row per batch, whose columns of numbers are packed (`_protocol`). They name nobody.
response = _table(
    "response", {"campaign": _INTEGER, "round": _INTEGER, "seq": _INTEGER, "data": _BYTES}, 3, group="round"
)
# The callers' own names of responses: where each stands in its batch.
event_id = _table(
    "event_id",
    {"campaign": _INTEGER, "name": _TEXT, "round": _INTEGER, "seq": _INTEGER, "place": _INTEGER},
    2,
    sa.Index("tensorucb_event_id_round", "campaign", "round"),
    group="round",
    sqlite_with_rowid=False,
)
# What a person said about being contacted; campaign 0 is for all campaigns. A person is a keyed hash of the id.
preference = _table(
    "preference",
    {"campaign": _INTEGER, "person": _INTEGER, "answer": _TEXT, "since": _REAL},
    2,
    sqlite_with_rowid=False,
)
# How many rows there are in a group, and the sum of their hashes; `_rows` says why.
checksum = _table(
    "checksum",
    {"campaign": _INTEGER, "part": _TEXT, "number": _INTEGER, "rows": _INTEGER, "sum": _INTEGER},
    3,
    sqlite_with_rowid=False,
)
layout = _table("layout", {"mark": _TEXT}, 1)

OWNED = (blob, event, round_, explanation, response, event_id, preference)
"""The tables whose rows belong to a campaign."""
