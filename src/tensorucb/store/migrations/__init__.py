"""The schema's history, applied by Alembic; one numbered file a released schema."""
