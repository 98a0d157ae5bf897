"""`GammaCounts`: one response rate per source, the bar that every model has to clear."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_number, check_share
from tensorucb.policies._base import EXPLORATIONS, Grid, UCBPolicy
from tensorucb.policies.prediction import Prediction

_KINDS = ("ucb", "thompson")


class GammaCounts(UCBPolicy):
    """A Gamma–Poisson rate of responses per out-edge for each source; blind to products, targets and features.

    ``λ_i ~ Gamma(A_i, B_i)`` with ``A_i = a + Σy`` and ``B_i = b + N`` over the source's out-edges observed so far, and
    every out-edge has ``p_ij = min(1, λ_i)``: the mean ``A_i/B_i`` plus c deviations ``√A_i/B_i``, or a draw.

    Published: nowhere in this form; it is the smallest policy that learns who to seed.

    Parameters
    ----------
    exploration
        c. With draws, the factor on the posterior's variance; 1 is plain Thompson sampling.
    exploration_kind
        ``"ucb"``: the mean plus c deviations. ``"thompson"``: a draw per source, again after every update.
    base_rate, prior_trials
        ``a/b`` and ``b``: the rate of every source before the start, and how many trials it counts for.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import GammaCounts
    >>> policy = GammaCounts()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> scores = policy.score([1.0, 0.0])
    >>> bool(scores[0] == scores[1] > scores[2])  # edges of one source are alike; user 0 was heard of
    True
    """

    name = "GammaCounts"
    tunable: ClassVar[Grid] = {
        "exploration": EXPLORATIONS,
        "exploration_kind": _KINDS,
        "base_rate": (0.01, 0.03, 0.1),
        "prior_trials": (3.0, 10.0, 30.0),
    }

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        exploration_kind: str = "ucb",
        base_rate: float = 0.03,
        prior_trials: float = 10.0,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.exploration_kind = check_choice("exploration_kind", exploration_kind, _KINDS)
        self.base_rate = check_share("base_rate", base_rate, zero=False, one=False)
        self.prior_trials = check_number("prior_trials", prior_trials, strict=True)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """A and B of each source."""
        n = self.graph.n_nodes
        return {"shape": np.full(n, self.base_rate * self.prior_trials), "trials": np.full(n, self.prior_trials)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Responses add to A, trials to B."""
        np.add.at(state["shape"], self.graph.sources[edges], outcomes)
        np.add.at(state["trials"], self.graph.sources[edges], 1.0)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of the edge's source."""
        rate = state["shape"] / state["trials"]
        deviation = np.sqrt(state["shape"]) / state["trials"]
        return Prediction(self.graph, rate[self.graph.sources], deviation[self.graph.sources])

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """The mean plus c deviations, or a draw for each source."""
        if self.exploration_kind == "ucb" or self.exploration == 0.0:
            return prediction.probabilities(self.exploration)
        state, c = self._known(modes), self.exploration
        rates = self._generator("score").gamma(state["shape"] / c) * c / state["trials"]
        return np.asarray(np.minimum(rates, 1.0)[self.graph.sources])
