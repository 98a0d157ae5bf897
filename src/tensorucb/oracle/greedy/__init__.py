"""Greedy choice: on RR sets, and on the exact direct objective."""

from __future__ import annotations

from tensorucb.oracle.greedy._cover import Cover, greedy_cover

__all__ = ["Cover", "greedy_cover"]
