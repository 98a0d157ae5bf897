"""`CUCB`: an upper confidence bound per edge (Chen, Wang, Yuan 2013)."""

from __future__ import annotations

import math

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_number
from tensorucb.policies._base import UCBPolicy
from tensorucb.policies.prediction import Prediction


class CUCB(UCBPolicy):
    """``p = min(1, n/N + c√(3 ln t / 2N))`` per edge, 1 where untried; t counts rounds from 1.

    Published: c = 1. Added: c, which is tuned. It has no prior: an untried edge counts as certain.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound; 1 is the original.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import CUCB
    >>> policy = CUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).tolist()  # edge 2 was never tried
    [1.0, 1.0, 1.0]
    """

    name = "CUCB"

    def __init__(self, *, exploration: float = 1.0) -> None:
        self.exploration = check_number("exploration", exploration)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """Successes and trials of each edge."""
        edges = self.graph.n_edges
        return {"successes": np.zeros(edges), "trials": np.zeros(edges, dtype=np.int64)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts grow."""
        np.add.at(state["trials"], edges, 1)
        np.add.at(state["successes"], edges, outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of each edge, 0 where untried, and the width of its bound."""
        trials = np.maximum(state["trials"], 1)
        return Prediction(self.graph, state["successes"] / trials, np.sqrt(1.5 * math.log(self._rounds + 1) / trials))

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """1 where untried, whatever c is."""
        tried = self._known(modes)["trials"] > 0
        return np.where(tried, prediction.probabilities(self.exploration), 1.0)
