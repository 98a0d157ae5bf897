"""Checksums of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from tensorucb.store._checksum import Checksum, edge_hashes, node_hashes, row_hash, total, user_hashes
from tensorucb.store._values import as_ids, edge_columns, node_columns

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table, and fill it for the rows that are there."""
    table = op.create_table(
        "tensorucb_checksum",
        sa.Column("campaign", sa.BigInteger, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("sum", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "part", "number"),
        sqlite_with_rowid=False,
    )
    lines = [
        {"campaign": campaign, "part": part, "number": number, "rows": found.rows, "sum": found.sum}
        for campaign, part, number, found in _checksums()
    ]
    if lines:
        op.bulk_insert(table, lines)


def _select(query: str, **values: int) -> Sequence[Any]:
    return op.get_bind().execute(sa.text(query), values).all()


def _checksums() -> Iterator[tuple[int, str, int, Checksum]]:
    campaigns = _select("SELECT campaign, name, settings, created FROM tensorucb_campaign")
    if not campaigns:
        return
    yield 0, "campaign", 0, total([row_hash(*row) for row in campaigns])
    for number, *_ in campaigns:
        yield from ((number, *found) for found in _of_campaign(number))


def _of_campaign(c: int) -> Iterator[tuple[str, int, Checksum]]:
    names = _select("SELECT name FROM tensorucb_blob WHERE campaign = :c", c=c)
    yield "blob", 0, total([row_hash(*row) for row in names])
    users = _select("SELECT user_key, id_integer, id_text FROM tensorucb_user WHERE campaign = :c", c=c)
    yield "user", 0, total(user_hashes(*as_ids(users)))
    for row in _select("SELECT seq, kind, round, payload, created FROM tensorucb_event WHERE campaign = :c", c=c):
        yield "event", row[0], total([row_hash(*row)])
    columns = "number, id, status, opened, deadline, closed, revision, request_id, payload"
    for row in _select(f"SELECT {columns} FROM tensorucb_round WHERE campaign = :c", c=c):
        yield "round", row[0], total([row_hash(*row)])
    edges, nodes = "tensorucb_edge_response WHERE campaign = :c", "tensorucb_node_event WHERE campaign = :c"
    for (r,) in _select(f"SELECT DISTINCT round FROM {edges}", c=c):
        rows = _select(f"SELECT source, target, outcome, time, event_id FROM {edges} AND round = :r", c=c, r=r)
        yield "edge", r, total(edge_hashes(edge_columns(rows)))
    for (r,) in _select(f"SELECT DISTINCT round FROM {nodes}", c=c):
        rows = _select(f"SELECT user_key, time, event_id FROM {nodes} AND round = :r", c=c, r=r)
        yield "node", r, total(node_hashes(node_columns(rows)))
