"""The schema: every table with its columns, keys and indexes, for SQLite and PostgreSQL alike.

Queries name these tables. Responses are kept in batches, as they came: a row for each would take ten times the space.
There are no foreign keys: the session checks the campaign once and removes its rows with it.

What is read is checked. A row of ``campaign``, ``event`` or ``round`` ends with a digest of its other columns. Rows
that are lost are found by what others say. The row of a campaign says how many events and rounds there are, each
numbered from 1, and has the SHA-256 of each blob. Campaign 0 is the whole store, and its settings list the campaigns.
``digest`` has, for each round, the sums of the hashes of its batches and event ids, and the hash of its explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

LAYOUT = "2026-11-19.1"
"""The mark of these tables, of how `_protocol` packs batches, and of what campaigns keep in blobs. Whoever changes any
of these gives another mark: a store that has another one is refused when it is opened."""

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
    optional: Sequence[str] = (),
    **options: Any,
) -> sa.Table:
    """A table whose primary key are its first ``key`` columns; those ``optional`` may be empty."""
    made = [
        sa.Column(column, kind, nullable=column in optional, autoincrement=False) for column, kind in columns.items()
    ]
    primary = sa.PrimaryKeyConstraint(*list(columns)[:key])
    return sa.Table(f"tensorucb_{name}", metadata, *made, primary, *items, **options)


campaign = _table(
    "campaign",
    {
        "campaign": _INTEGER,
        "name": _TEXT,
        "settings": _TEXT,
        "created": _REAL,
        "events": _INTEGER,
        "rounds": _INTEGER,
        "blobs": _TEXT,
        "digest": _INTEGER,
    },
    1,
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
)
# Bytes by name; a large blob is in pieces.
blob = _table("blob", {"campaign": _INTEGER, "name": _TEXT, "piece": _INTEGER, "data": _BYTES}, 3)
event = _table(
    "event",
    {
        "campaign": _INTEGER,
        "seq": _INTEGER,
        "kind": _TEXT,
        "round": _INTEGER,
        "payload": _TEXT,
        "created": _REAL,
        "digest": _INTEGER,
    },
    2,
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
        "digest": _INTEGER,
    },
    2,
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    # PostgreSQL's backend takes the condition from ``info``: as an argument it would load that dialect here.
    sa.Index(
        "tensorucb_round_request", "campaign", "request_id", unique=True, sqlite_where=_asked, info={"where": _asked}
    ),
    # Rounds that are due, over all campaigns.
    sa.Index("tensorucb_round_status", "status", "deadline", "campaign"),
    optional=["deadline", "closed", "request_id"],
)
# Why users were chosen in a round.
explanation = _table("explanation", {"campaign": _INTEGER, "round": _INTEGER, "data": _BYTES}, 2)
# What a round was told: a row per batch, whose columns of numbers are packed (`_protocol`). They name nobody.
response = _table("response", {"campaign": _INTEGER, "round": _INTEGER, "seq": _INTEGER, "data": _BYTES}, 3)
# The callers' own names of responses: where each stands in its batch.
event_id = _table(
    "event_id",
    {"campaign": _INTEGER, "name": _TEXT, "round": _INTEGER, "seq": _INTEGER, "place": _INTEGER},
    2,
    sa.Index("tensorucb_event_id_round", "campaign", "round"),
    sqlite_with_rowid=False,
)
digest = _table(
    "digest",
    {
        "campaign": _INTEGER,
        "round": _INTEGER,
        "responses": _INTEGER,
        "event_ids": _INTEGER,
        "explanation": _INTEGER,
    },
    2,
    sqlite_with_rowid=False,
)
layout = _table("layout", {"mark": _TEXT}, 1)

OWNED = (campaign, blob, event, round_, explanation, response, event_id, digest)
"""The tables whose rows belong to a campaign, each with the column of that name."""
