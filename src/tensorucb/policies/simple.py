"""`Random` and `HighDegree`: two choices that learn nothing about who to seed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._base import BasePolicy, Grid, Oracle

# One success in twenty trials, as if seen before the start: a plausible influence rate, soon outweighed.
_PRIOR_SUCCESSES, _PRIOR_TRIALS = 1.0, 20.0


class PooledRatePolicy(BasePolicy):
    """Scores every edge with the success rate of all edges seen so far: ``(1 + Σy) / (20 + N)``."""

    tunable: ClassVar[Grid] = {}

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        return {"totals": np.array([_PRIOR_SUCCESSES, _PRIOR_TRIALS])}

    def _score(self, modes: Vectors) -> F64:
        successes, trials = self._arrays["totals"]
        return np.full(self.graph.n_edges, successes / trials)

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        self._arrays["totals"] += (outcomes.sum(), outcomes.size)


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

    def _choose(self, modes: Vectors, k: int, oracle: Oracle) -> I64:
        rows = self._allowed(oracle, k)
        return np.asarray(self._generator("choose", modes).choice(rows, size=k, replace=False), dtype=np.int64)


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

    def _choose(self, modes: Vectors, k: int, oracle: Oracle) -> I64:
        rows = self._allowed(oracle, k)
        return rows[np.argsort(-self.graph.out_degree[rows], kind="stable")[:k]]
