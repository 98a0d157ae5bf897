"""The social network: users, and for each the users that they can influence."""

from __future__ import annotations

from tensorucb.graph._graph import Graph

__all__ = ["Graph"]
