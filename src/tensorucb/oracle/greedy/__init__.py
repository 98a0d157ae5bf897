"""Greedy choice: on RR sets, and on the exact direct objective."""

from __future__ import annotations

from tensorucb.oracle.greedy._cover import Cover, greedy_cover
from tensorucb.oracle.greedy._greedy import DirectTask, LocalIndex, greedy, rules

__all__ = ["Cover", "DirectTask", "LocalIndex", "greedy", "greedy_cover", "rules"]
