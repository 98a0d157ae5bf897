"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _campaign() -> sa.Column[int]:
    return sa.Column("campaign", sa.BigInteger, nullable=False)


def _once(name: str, table: str, column: str) -> None:
    """A unique index over rows that have a value in the column."""
    present = sa.text(f"{column} IS NOT NULL")
    op.create_index(name, table, ["campaign", column], unique=True, sqlite_where=present, postgresql_where=present)


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "tensorucb_campaign",
        # SQLite counts up only what is called INTEGER.
        sa.Column("campaign", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
        sa.UniqueConstraint("name", name="tensorucb_campaign_name"),
        sqlite_autoincrement=True,  # the number of a deleted campaign is never given again
    )
    op.create_table(
        "tensorucb_blob",
        _campaign(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "name"),
    )
    op.create_table(
        "tensorucb_user",
        _campaign(),
        sa.Column("user_key", sa.BigInteger, nullable=False),
        sa.Column("id_integer", sa.BigInteger),
        sa.Column("id_text", sa.Text),
        sa.PrimaryKeyConstraint("campaign", "user_key"),
        sqlite_with_rowid=False,
    )
    _once("tensorucb_user_id_integer", "tensorucb_user", "id_integer")
    _once("tensorucb_user_id_text", "tensorucb_user", "id_text")
    op.create_table(
        "tensorucb_event",
        _campaign(),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("round", sa.BigInteger),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "seq"),
    )
    op.create_table(
        "tensorucb_round",
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
    )
    _once("tensorucb_round_request", "tensorucb_round", "request_id")
    op.create_table(
        "tensorucb_edge_response",
        _campaign(),
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("source", sa.BigInteger, nullable=False),
        sa.Column("target", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Double, nullable=False),
        sa.Column("time", sa.Double),
        sa.Column("event_id", sa.Text),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("campaign", "round", "source", "target"),
        sqlite_with_rowid=False,
    )
    _once("tensorucb_edge_response_event", "tensorucb_edge_response", "event_id")
    op.create_table(
        "tensorucb_node_event",
        _campaign(),
        sa.Column("round", sa.BigInteger, nullable=False),
        sa.Column("user_key", sa.BigInteger, nullable=False),
        sa.Column("time", sa.Double),
        sa.Column("event_id", sa.Text),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.create_index("tensorucb_node_event_round", "tensorucb_node_event", ["campaign", "round", "user_key", "time"])
    _once("tensorucb_node_event_event", "tensorucb_node_event", "event_id")
