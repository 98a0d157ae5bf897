"""HighDegree: the users with the most followers."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import I64, Vectors
from tensorucb.policies._base import Oracle
from tensorucb.policies._pooled import PooledRatePolicy
from tensorucb.policies.prediction import Prediction


class HighDegree(PooledRatePolicy):
    """The K users with the most out-edges, ties by row: simple, and hard to beat early on.

    Examples
    --------
    >>> from tensorucb import Graph, SeedOracle
    >>> from tensorucb.policies import HighDegree
    >>> graph, policy = Graph.from_edges([0, 1, 1], [1, 0, 2]), HighDegree()
    >>> policy.bind(graph, None, rng=0)
    >>> policy.choose([1.0], 1, SeedOracle(graph)).tolist()
    [1]
    """

    name = "HighDegree"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By degree."""
        rows = self._allowed(oracle, k)
        return rows[np.argsort(-self.graph.out_degree[rows], kind="stable")[:k]]
