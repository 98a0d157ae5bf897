"""`Thompson`: a Beta posterior per edge, sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_flag, check_number
from tensorucb.policies._base import BasePolicy, Floats, Ints

__all__ = ["Thompson"]


class Thompson(BasePolicy):
    """``p_e ~ Beta((a + Σy)/c, (b + Σ(1 − y))/c)``, anew after every update.

    Parameters
    ----------
    exploration
        c, which multiplies the posterior's variance and keeps its mean; 1 is plain Thompson sampling.
    prior_successes
        a, the successes of each edge before the start.
    prior_failures
        b, the failures of each edge before the start.
    by_cell
        Keep counts apart for each product cell (the product's dominant entry), as COIN does.

    Notes
    -----
    The draw depends on the seed and the number of rounds told, so `score` repeats itself until the next `update`.
    """

    name = "Thompson"

    def __init__(
        self,
        *,
        exploration: float = 1.0,
        prior_successes: float = 1.0,
        prior_failures: float = 1.0,
        by_cell: bool = False,
    ) -> None:
        self.exploration = check_number("exploration", exploration, strict=True)
        self.prior_successes = check_number("prior_successes", prior_successes, strict=True)
        self.prior_failures = check_number("prior_failures", prior_failures, strict=True)
        self.by_cell = self.uses_product = check_flag("by_cell", by_cell)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        if dims is None:
            return {}
        shape = (dims[0] if self.by_cell else 1, self.graph.n_edges)
        return {"successes": np.zeros(shape), "failures": np.zeros(shape)}

    def _cell(self, modes: tuple[Floats, ...]) -> int:
        return int(np.argmax(modes[0])) if self.by_cell else 0

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        cell, successes, failures = self._cell(modes), 0.0, 0.0
        if self._arrays:
            successes, failures = self._arrays["successes"][cell], self._arrays["failures"][cell]
        a = (self.prior_successes + successes) / self.exploration
        b = (self.prior_failures + failures) / self.exploration
        return self._generator("score").beta(a, b, size=self.graph.n_edges)

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        cell = self._cell(modes)
        np.add.at(self._arrays["successes"][cell], edges, outcomes)
        np.add.at(self._arrays["failures"][cell], edges, 1.0 - outcomes)
