"""`CUCB`: an upper confidence bound per edge (Chen, Wang, Yuan 2013)."""

from __future__ import annotations

import math

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_number
from tensorucb.policies._base import BasePolicy


class CUCB(BasePolicy):
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

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        edges = self.graph.n_edges
        return {"successes": np.zeros(edges), "trials": np.zeros(edges, dtype=np.int64)}

    def _score(self, modes: Vectors) -> F64:
        tried = np.flatnonzero(self._arrays["trials"])
        trials = self._arrays["trials"][tried]
        width = np.sqrt(1.5 * math.log(self._rounds + 1) / trials)
        scores = np.ones(self.graph.n_edges)
        scores[tried] = np.minimum(1.0, self._arrays["successes"][tried] / trials + self.exploration * width)
        return scores

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        np.add.at(self._arrays["trials"], edges, 1)
        np.add.at(self._arrays["successes"], edges, outcomes)
