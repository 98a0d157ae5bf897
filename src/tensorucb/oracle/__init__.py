"""Choosing seeds, or users with a strategy each: RR-set oracles with certificates, the exact direct objective."""

from __future__ import annotations

from tensorucb.oracle._constraints import Constraints
from tensorucb.oracle._pairs import select_pairs
from tensorucb.oracle._result import PairSelection, Selection
from tensorucb.oracle._sampling import Sampling
from tensorucb.oracle._select import SeedOracle, select_seeds

__all__ = ["Constraints", "PairSelection", "Sampling", "SeedOracle", "Selection", "select_pairs", "select_seeds"]
