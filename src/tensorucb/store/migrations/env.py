"""Run the migrations on the connection, and inside the transaction, that the store hands over."""

from __future__ import annotations

from alembic import context

from tensorucb.store._tables import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
