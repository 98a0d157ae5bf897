"""The schema: every table with its columns, keys and indexes, for SQLite and PostgreSQL alike.

Queries name these tables. Responses are kept in batches, as they came: a row for each would take ten times the space.
There are no foreign keys: the session checks the campaign once and removes its rows with it.

What is read is checked. A row of ``campaign``, ``event`` or ``round`` ends with a digest of its other columns. Rows
that are lost are found by what others say. The row of a campaign says how many events and rounds there are, each
numbered from 1, and has the SHA-256 of each blob. Campaign 0 is the whole store, and its settings list the campaigns.
``digest`` has, for each round, the sums of the hashes of its batches and event ids, and the hash of its explanation.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

LAYOUT = "2026-11-19.2"
"""The mark of these tables, of how `_protocol` packs batches, and of what campaigns keep in blobs. Whoever changes any
of these gives another mark: a store that has another one is refused when it is opened."""

metadata = sa.MetaData()

# A column of any other name holds an integer.
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    **dict.fromkeys(("name", "id", "request_id", "kind", "status", "settings", "blobs", "payload", "mark"), sa.Text()),
    **dict.fromkeys(("created", "opened", "deadline", "closed"), sa.Double()),
    "data": sa.LargeBinary(),
}


def _table(name: str, columns: str, key: int, *items: sa.schema.SchemaItem, **options: Any) -> sa.Table:
    """A table whose primary key are its first ``key`` columns; those with a question mark may be empty."""
    made = []
    for column in columns.split():
        title = column.rstrip("?")
        kind = _TYPES.get(title, sa.BigInteger())
        made.append(sa.Column(title, kind, nullable=title != column, autoincrement=False))
    primary = sa.PrimaryKeyConstraint(*(column.name for column in made[:key]))
    return sa.Table(f"tensorucb_{name}", metadata, *made, primary, *items, **options)


campaign = _table(
    "campaign",
    "campaign name settings created events rounds blobs digest",
    1,
    sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
)
# Bytes by name; a large blob is in pieces.
blob = _table("blob", "campaign name piece data", 3)
event = _table("event", "campaign seq kind round? payload created digest", 2)
_asked = sa.text("request_id IS NOT NULL")
round_ = _table(
    "round",
    "campaign number id status opened deadline? closed? revision request_id? payload digest",
    2,
    sa.UniqueConstraint("campaign", "id", name="tensorucb_round_id"),
    # PostgreSQL's backend takes the condition from ``info``: as an argument it would load that dialect here.
    sa.Index(
        "tensorucb_round_request", "campaign", "request_id", unique=True, sqlite_where=_asked, info={"where": _asked}
    ),
    # Rounds that are due, over all campaigns.
    sa.Index("tensorucb_round_status", "status", "deadline", "campaign"),
)
# Why users were chosen in a round.
explanation = _table("explanation", "campaign round data", 2)
# What a round was told: a row per batch, whose columns of numbers are packed (`_protocol`). They name nobody.
response = _table("response", "campaign round seq data", 3)
# The callers' own names of responses: where each stands in its batch.
event_id = _table(
    "event_id",
    "campaign name round seq place",
    2,
    sa.Index("tensorucb_event_id_round", "campaign", "round"),
    sqlite_with_rowid=False,
)
digest = _table("digest", "campaign round responses event_ids explanation", 2, sqlite_with_rowid=False)
layout = _table("layout", "mark", 1)

OWNED = (campaign, blob, event, round_, explanation, response, event_id, digest)
"""The tables whose rows belong to a campaign, each with the column of that name."""
