"""`IMLinUCB`: one linear model for all edges (Wen, Kveton, Valko, Vaswani 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_number
from tensorucb.policies import _ridge
from tensorucb.policies._base import BasePolicy, Floats, Ints

__all__ = ["IMLinUCB"]


class IMLinUCB(BasePolicy):
    """Linear regression on ``x_e = x_i ⊙ x_j``, one coefficient vector for every edge.

    ``M = I/τ + Σ x xᵀ/σ²``, ``B = Σ y x``, ``θ = M⁻¹B/σ²``, ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound.
    noise_variance
        σ² of an outcome.
    prior_variance
        τ, the prior variance of every coefficient.
    """

    name = "IMLinUCB"
    needs_users = True

    def __init__(self, *, exploration: float = 0.1, noise_variance: float = 0.1, prior_variance: float = 1.0) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        precision, moment = _ridge.blank(self.users.shape[1], self.prior_variance)
        return {"precision": precision, "moment": moment}

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        from tensorucb.policies.baselines._kernels import add_product_bounds, edge_dots

        graph, users = self.graph, self.users
        precision, moment = self._arrays["precision"], self._arrays["moment"]
        theta, covariance = _ridge.posterior(precision, moment, self.noise_variance)
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, users * theta, users, scores)
        add_product_bounds(graph.sources, graph.targets, users, covariance, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        features = self.users[self.graph.sources[edges]] * self.users[self.graph.targets[edges]]
        self._arrays["precision"], self._arrays["moment"] = _ridge.with_batch(
            self._arrays["precision"], self._arrays["moment"], features, outcomes, self.noise_variance
        )
