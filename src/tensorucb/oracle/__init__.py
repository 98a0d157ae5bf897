"""Choosing seeds, or users with a strategy each: RR-set oracles with certificates, the exact direct objective."""

from __future__ import annotations

from tensorucb.oracle._pairs import select_pairs
from tensorucb.oracle._records import Constraints, PairSelection, Sampling, Selection
from tensorucb.oracle._select import SeedOracle, select_seeds

__all__ = ["Constraints", "PairSelection", "Sampling", "SeedOracle", "Selection", "select_pairs", "select_seeds"]
