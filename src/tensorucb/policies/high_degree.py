"""`HighDegree`: the best-connected users, every round. Simple, and hard to beat early on."""

from __future__ import annotations

import numpy as np

from tensorucb.policies._base import Floats, Ints, Oracle
from tensorucb.policies._pooled import PooledRatePolicy

__all__ = ["HighDegree"]


class HighDegree(PooledRatePolicy):
    """The K users with the most out-edges, ties by row; learns only the average success rate."""

    name = "HighDegree"

    def _choose(self, modes: tuple[Floats, ...], k: int, oracle: Oracle) -> Ints:
        rows = self._allowed(oracle, k)
        return rows[np.argsort(-self.graph.out_degree[rows], kind="stable")[:k]]
