"""Random: users drawn by chance."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import I64, Vectors
from tensorucb.policies._base import Oracle
from tensorucb.policies._pooled import PooledRatePolicy
from tensorucb.policies.prediction import Prediction


class Random(PooledRatePolicy):
    """K users drawn uniformly without replacement, the floor of every comparison.

    The draw depends on the seed, the product and the number of rounds told: asking again before the next
    `update` repeats the answer.

    Examples
    --------
    >>> from tensorucb import Graph, SeedOracle
    >>> from tensorucb.policies import Random
    >>> graph, policy = Graph.from_edges([0, 0, 1], [1, 2, 2]), Random()
    >>> policy.bind(graph, None, rng=0)
    >>> len(set(policy.choose([1.0], 2, SeedOracle(graph)).tolist()))
    2
    """

    name = "Random"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By chance."""
        rows = self._allowed(oracle, k)
        return np.asarray(self._generator("choose", modes).choice(rows, size=k, replace=False), dtype=np.int64)
