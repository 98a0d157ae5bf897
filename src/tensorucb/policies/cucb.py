"""`CUCB`: an upper confidence bound per edge (Chen, Wang, Yuan 2013)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_number
from tensorucb.policies._base import BasePolicy

__all__ = ["CUCB"]


class CUCB(BasePolicy):
    """``p = min(1, n/N + c√(3 ln t / 2N))`` per edge, 1 where untried; t counts rounds from 1.

    Published: c = 1. Added: c, which is tuned. It has no prior: an untried edge counts as certain.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound; 1 is the original.
    """

    name = "CUCB"

    def __init__(self, *, exploration: float = 1.0) -> None:
        self.exploration = check_number("exploration", exploration)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        edges = self.graph.n_edges
        return {"successes": np.zeros(edges), "trials": np.zeros(edges, dtype=np.int64)}

    def _score(self, modes: tuple[F64, ...]) -> F64:
        tried = np.flatnonzero(self._arrays["trials"])
        trials = self._arrays["trials"][tried]
        width = np.sqrt(1.5 * math.log(self._rounds + 1) / trials)
        scores = np.ones(self.graph.n_edges)
        scores[tried] = np.minimum(1.0, self._arrays["successes"][tried] / trials + self.exploration * width)
        return scores

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        np.add.at(self._arrays["trials"], edges, 1)
        np.add.at(self._arrays["successes"], edges, outcomes)
