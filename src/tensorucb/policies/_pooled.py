"""One success rate for all edges, for policies that learn nothing about who to seed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._base import BasePolicy, Grid

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
