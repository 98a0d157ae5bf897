"""`HighDegree`: the best-connected users, every round. Simple, and hard to beat early on."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.policies._base import Oracle
from tensorucb.policies._pooled import PooledRatePolicy

__all__ = ["HighDegree"]


class HighDegree(PooledRatePolicy):
    """The K users with the most out-edges, ties by row; learns only the average success rate."""

    name = "HighDegree"

    def _choose(self, modes: tuple[F64, ...], k: int, oracle: Oracle) -> I64:
        rows = self._allowed(oracle, k)
        return rows[np.argsort(-self.graph.out_degree[rows], kind="stable")[:k]]
