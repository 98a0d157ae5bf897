"""Campaigns: ask for seeds, tell what happened, close; all of it on a durable log."""
