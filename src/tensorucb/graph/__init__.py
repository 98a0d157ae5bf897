"""The social network: who can influence whom."""

from __future__ import annotations

from tensorucb.graph._graph import Graph

__all__ = ["Graph"]
