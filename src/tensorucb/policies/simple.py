"""Policies that learn nothing about who to seed: by degree, by distinct followers, by chance."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._base import Grid, Oracle, UCBPolicy
from tensorucb.policies.prediction import Prediction

# One success in twenty trials, as if seen before the start: a plausible influence rate, soon outweighed.
_PRIOR_SUCCESSES, _PRIOR_TRIALS = 1.0, 20.0


class PooledRatePolicy(UCBPolicy):
    """Scores every edge with the success rate of all edges seen so far: ``(1 + Σy) / (20 + N)``."""

    tunable: ClassVar[Grid] = {}

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and trials."""
        return {"totals": np.array([_PRIOR_SUCCESSES, _PRIOR_TRIALS])}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts grow."""
        return {"totals": state["totals"] + (outcomes.sum(), outcomes.size)}

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The same for every edge."""
        successes, trials = state["totals"]
        return Prediction(self.graph, np.full(self.graph.n_edges, successes / trials))


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
        from tensorucb.oracle import SeedOracle  # brings kernels that the others do without

        # If every edge fires, the users activated by the seeds themselves are their distinct followers.
        cover = SeedOracle(self.graph, objective="direct", candidates=self._allowed(oracle, k), rng=self._key)
        return cover(np.ones(self.graph.n_edges), k)


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


class Random(PooledRatePolicy):
    """K users drawn uniformly without replacement, the floor of every comparison.

    The draw depends on the seed, the product and the number of rounds told: asking again before the next
    `update` repeats the answer.
    """

    name = "Random"

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By chance."""
        rows = self._allowed(oracle, k)
        return np.asarray(self._generator("choose", modes).choice(rows, size=k, replace=False), dtype=np.int64)
