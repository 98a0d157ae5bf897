"""DegreeCover: the users who together have the most distinct followers."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import I64, Vectors
from tensorucb.oracle import SeedOracle
from tensorucb.policies._base import Oracle
from tensorucb.policies._pooled import PooledRatePolicy
from tensorucb.policies.prediction import Prediction


class DegreeCover(PooledRatePolicy):
    """K users chosen one after the other, each with the most followers that nobody before has; it learns nothing.

    Greedy maximum coverage: the users and their distinct followers are at least 1 − 1/e of those of any K users.

    Examples
    --------
    >>> from tensorucb import Graph, SeedOracle
    >>> from tensorucb.policies import DegreeCover
    >>> graph, policy = Graph.from_edges([0, 0, 0, 1, 1, 2], [3, 4, 5, 3, 4, 6]), DegreeCover()
    >>> policy.bind(graph, None, rng=0)
    >>> policy.choose([1.0], 2, SeedOracle(graph)).tolist()  # user 1 has more followers than user 2, but no new ones
    [0, 2]
    """

    name = "DegreeCover"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By distinct followers."""
        # If every edge fires, the users activated by the seeds themselves are their distinct followers.
        cover = SeedOracle(self.graph, objective="direct", candidates=self._allowed(oracle, k), rng=self._key)
        return cover(np.ones(self.graph.n_edges), k)
