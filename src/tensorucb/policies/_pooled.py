"""One success rate for all edges, for policies that learn nothing about who to seed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._base import Grid, UCBPolicy
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
