"""`PooledRatePolicy`: the score of policies that do not tell edges apart."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.policies._base import BasePolicy, Grid

# One success in twenty trials, as if seen before the start: a plausible influence rate, soon outweighed.
_PRIOR_SUCCESSES, _PRIOR_TRIALS = 1.0, 20.0


class PooledRatePolicy(BasePolicy):
    """Scores every edge with the success rate of all edges seen so far: ``(1 + Σy) / (20 + N)``."""

    tunable: ClassVar[Grid] = {}

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        return {"totals": np.array([_PRIOR_SUCCESSES, _PRIOR_TRIALS])}

    def _score(self, modes: tuple[F64, ...]) -> F64:
        successes, trials = self._arrays["totals"]
        return np.full(self.graph.n_edges, successes / trials)

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        self._arrays["totals"] += (outcomes.sum(), outcomes.size)
