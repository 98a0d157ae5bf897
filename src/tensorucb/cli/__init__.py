"""The ``tensorucb`` command: one file a command, each loaded only when it is called."""

from __future__ import annotations

from tensorucb.cli._app import main

__all__ = ["main"]
