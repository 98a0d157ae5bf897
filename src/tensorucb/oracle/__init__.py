"""Choosing seeds: RR-set oracles with certificates, the exact direct objective, and constraints."""

from __future__ import annotations

from tensorucb.oracle._result import Selection
from tensorucb.oracle._select import SeedOracle, select_seeds

__all__ = ["SeedOracle", "Selection", "select_seeds"]
