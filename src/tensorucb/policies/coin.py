"""`COIN`: contextual online influence maximisation (Sarıtaç, Karakurt, Tekin 2016), with its two variants."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_number
from tensorucb.policies._base import Grid, Oracle, UCBPolicy
from tensorucb.policies.prediction import Prediction

# Variant -> name in tables, and the factor of D(t) in the authors' code.
_VARIANTS = {"coin": ("COIN", 0.1), "hd": ("COIN-HD", 0.01), "plus": ("COIN+", 0.01)}
_POWER = 0.4


class COIN(UCBPolicy):
    """Success rates ``n/N`` per (product cell, edge), and exploration until every edge has been tried often enough.

    The cell is the product's dominant entry (its main topic), so there are as many cells as product features. What
    else the context holds, such as a strategy, is ignored. A user is under-explored if an out-edge has
    ``N < D(t) = c·t^0.4`` trials in the cell, t counting rounds from 1. With at least K such users, K of them are
    seeded; with fewer, all of them, and the oracle adds the rest from the other users on ``n/N`` (0 where untried).

    Published: c as below, and as many cells as the authors' partition has. Added: c is tuned.

    Parameters
    ----------
    variant
        How K under-explored users are picked: ``"coin"`` uniformly, ``"hd"`` (COIN-HD) by out-degree, ``"plus"``
        (COIN+) by the oracle restricted to them.
    exploration
        c of the control function D(t); by default the authors' 1/10 for COIN, 1/100 for COIN-HD and COIN+.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import COIN
    >>> policy = COIN()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), None, rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    uses_product = True
    # Trials are whole numbers: up to 0.1, every c asks for one trial of each edge for 300 rounds. 0 never explores.
    tunable: ClassVar[Grid] = {"exploration": (0.0, 0.1, 0.3, 1.0)}

    def __init__(self, *, variant: str = "coin", exploration: float | None = None) -> None:
        self.variant = check_choice("variant", variant, _VARIANTS)
        self.name, factor = _VARIANTS[variant]
        self.exploration = factor if exploration is None else check_number("exploration", exploration)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """``n`` and ``N`` of each cell and edge."""
        shape = (dims[0], self.graph.n_edges)
        return {"successes": np.zeros(shape), "trials": np.zeros(shape, dtype=np.int32)}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """Both counts of the product's cell grow."""
        cell = int(np.argmax(modes[0]))
        np.add.at(state["trials"][cell], edges, 1)
        np.add.at(state["successes"][cell], edges, outcomes)
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """The rate of each edge in the product's cell, 0 where untried."""
        cell = int(np.argmax(modes[0]))
        return Prediction(self.graph, state["successes"][cell] / np.maximum(state["trials"][cell], 1))

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """Under-explored users first."""
        allowed = self._allowed(oracle, k)
        under = np.intersect1d(self._under_explored(modes), allowed)
        p, redundancy = prediction.probabilities(), prediction.redundancy
        if under.size < k:
            others = np.setdiff1d(allowed, under)
            best = oracle(p, k - under.size, candidates=others, redundancy=redundancy)
            return np.concatenate([under, best])
        if self.variant == "plus":
            return oracle(p, k, candidates=under, redundancy=redundancy)
        if self.variant == "hd":
            return under[np.argsort(-self.graph.out_degree[under], kind="stable")[:k]]
        return np.asarray(self._generator("explore", modes).choice(under, size=k, replace=False))

    def _under_explored(self, modes: Vectors) -> I64:
        """Rows of users with an out-edge tried fewer than D(t) times."""
        control = self.exploration * (self._rounds + 1) ** _POWER
        short = self._known(modes)["trials"][int(np.argmax(modes[0]))] < control
        return np.flatnonzero(np.bincount(self.graph.sources[short], minlength=self.graph.n_nodes))
