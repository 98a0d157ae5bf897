"""Tokens, a secret, and kept answers of the service."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from tensorucb.store._checksum import row_hash

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables, and make the secret."""
    op.create_table(
        "tensorucb_token",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tensorucb_answer",
        sa.Column("campaign", sa.BigInteger, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("status", sa.BigInteger, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("hash", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    table = op.create_table(
        "tensorucb_secret",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    row = {"name": "service", "value": secrets.token_hex(32)}
    op.bulk_insert(table, [row])
    op.execute(
        sa.text(
            "INSERT INTO tensorucb_checksum (campaign, part, number, rows, sum) VALUES (0, 'secret', 0, 1, :sum)"
        ).bindparams(sum=row_hash(*row.values()))
    )
