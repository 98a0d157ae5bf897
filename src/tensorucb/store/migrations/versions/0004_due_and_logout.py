"""An index that finds due rounds and counts rounds by status, and the logins that were ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the index and the table."""
    op.create_index("tensorucb_round_status", "tensorucb_round", ["status", "deadline", "campaign"])
    op.create_table(
        "tensorucb_logout",
        sa.Column("login", sa.Text, nullable=False),
        sa.Column("ends", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("login"),
    )
