"""The first schema, and the secret that a store gets when it is made."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

from tensorucb.store import _tables as tables
from tensorucb.store._checksum import row_hash

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables, and make the secret."""
    connection = op.get_bind()
    tables.metadata.create_all(connection, checkfirst=False)
    row = {"name": "service", "value": secrets.token_hex(32)}
    checksum = {"campaign": 0, "part": "secret", "number": 0, "rows": 1, "sum": row_hash(*row.values())}
    connection.execute(sa.insert(tables.secret).values(**row))
    connection.execute(sa.insert(tables.checksum).values(**checksum))
