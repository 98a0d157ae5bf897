"""`COIN`: contextual online influence maximisation (Sarıtaç, Karakurt, Tekin 2016), with its two variants."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_number
from tensorucb.policies._base import BasePolicy, Grid, Oracle

# Variant -> name in tables, and the factor of D(t) in the authors' code.
_VARIANTS = {"coin": ("COIN", 0.1), "hd": ("COIN-HD", 0.01), "plus": ("COIN+", 0.01)}
_POWER = 0.4


class COIN(BasePolicy):
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

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        if dims is None:
            return {}
        shape = (dims[0], self.graph.n_edges)
        return {"successes": np.zeros(shape), "trials": np.zeros(shape, dtype=np.int32)}

    def _counts(self, modes: Vectors) -> tuple[F64, NDArray[np.int32]]:
        """``n`` and ``N`` of the product's cell."""
        arrays, cell = self._arrays_for(modes), int(np.argmax(modes[0]))
        return arrays["successes"][cell], arrays["trials"][cell]

    def _score(self, modes: Vectors) -> F64:
        successes, trials = self._counts(modes)
        return successes / np.maximum(trials, 1)

    def _under_explored(self, modes: Vectors) -> I64:
        """Rows of users with an out-edge tried fewer than D(t) times."""
        control = self.exploration * (self._rounds + 1) ** _POWER
        short = self._counts(modes)[1] < control
        return np.flatnonzero(np.bincount(self.graph.sources[short], minlength=self.graph.n_nodes))

    def _choose(self, modes: Vectors, k: int, oracle: Oracle) -> I64:
        allowed = self._allowed(oracle, k)
        under = np.intersect1d(self._under_explored(modes), allowed)
        if under.size >= k:
            return self._explore(modes, k, oracle, under)
        others = np.setdiff1d(allowed, under)
        return np.concatenate([under, oracle(self._score(modes), k - under.size, candidates=others)])

    def _explore(self, modes: Vectors, k: int, oracle: Oracle, under: I64) -> I64:
        if self.variant == "plus":
            return oracle(self._score(modes), k, candidates=under)
        if self.variant == "hd":
            return under[np.argsort(-self.graph.out_degree[under], kind="stable")[:k]]
        return np.asarray(self._generator("explore", modes).choice(under, size=k, replace=False))

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        successes, trials = self._counts(modes)
        np.add.at(trials, edges, 1)
        np.add.at(successes, edges, outcomes)
