"""`Thompson`: a Beta posterior per edge, sampled."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_flag, check_number, check_share
from tensorucb.policies._base import EXPLORATIONS, Grid, UCBPolicy
from tensorucb.policies.prediction import Prediction


class Thompson(UCBPolicy):
    """``p_e ~ Beta((a + Σy)/c, (b + Σ(1 − y))/c)``, again after every update.

    Published: Beta(1, 1), a prior mean of ½, from which rare responses take many trials per edge to recover. Added: a
    prior around a base rate, and c.

    Parameters
    ----------
    exploration
        c, which multiplies the posterior's variance and keeps its mean; 1 is plain Thompson sampling.
    base_rate, prior_trials
        ``a/(a + b)`` and ``a + b``: the rate of every edge before the start, and how many trials it counts for;
        ½ and 2 are the published form.
    by_cell
        Keep counts apart for each product cell (the product's dominant entry), as COIN does.

    Examples
    --------
    The draw depends on the seed and the number of rounds told, so `score` repeats itself until the next `update`.

    >>> from tensorucb import Graph
    >>> from tensorucb.policies import Thompson
    >>> policy = Thompson()
    >>> policy.bind(Graph.from_edges([0, 0], [1, 2]), None, rng=0)
    >>> bool((policy.score([1.0]) == policy.score([1.0])).all())
    True
    """

    name = "Thompson"
    tunable: ClassVar[Grid] = {
        "exploration": EXPLORATIONS,
        "base_rate": (0.01, 0.03, 0.1),
        "prior_trials": (1.0, 4.0, 16.0),
    }

    def __init__(
        self, *, exploration: float = 1.0, base_rate: float = 0.03, prior_trials: float = 4.0, by_cell: bool = False
    ) -> None:
        self.exploration = check_number("exploration", exploration, strict=True)
        self.base_rate = check_share("base_rate", base_rate, zero=False, one=False)
        self.prior_trials = check_number("prior_trials", prior_trials, strict=True)
        self.by_cell = self.uses_product = check_flag("by_cell", by_cell)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and failures of each edge, in each cell."""
        shape = (dims[0] if self.by_cell else 1, self.graph.n_edges)
        return {"successes": np.zeros(shape), "failures": np.zeros(shape)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts of the product's cell grow."""
        cell = self._cell(modes)
        np.add.at(state["successes"][cell], edges, outcomes)
        np.add.at(state["failures"][cell], edges, 1.0 - outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The posterior's mean."""
        a, b = self._posterior(state, modes)
        return Prediction(self.graph, a / (a + b))

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """A draw for each edge."""
        a, b = self._posterior(self._known(modes), modes)
        return self._generator("score").beta(a / self.exploration, b / self.exploration, size=self.graph.n_edges)

    def _posterior(self, state: Arrays, modes: Vectors) -> tuple[F64, F64]:
        cell = self._cell(modes)
        a = self.base_rate * self.prior_trials + state["successes"][cell]
        return a, (1.0 - self.base_rate) * self.prior_trials + state["failures"][cell]

    def _cell(self, modes: Vectors) -> int:
        return int(np.argmax(modes[0])) if self.by_cell else 0
