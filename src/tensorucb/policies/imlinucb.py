"""`IMLinUCB`: one linear model for all edges (Wen, Kveton, Valko, Vaswani 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_number
from tensorucb.policies import _ridge
from tensorucb.policies._base import EXPLORATIONS, Grid
from tensorucb.policies._feature_policy import FeaturePolicy

__all__ = ["IMLinUCB"]


class IMLinUCB(FeaturePolicy):
    """Linear regression on ``x_e = x_i ⊙ x_j``, one coefficient vector for every edge.

    ``M = I/τ + Σ x xᵀ/σ²``, ``B = Σ y x``, ``θ = M⁻¹B/σ²``, ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``.

    Published: edge features, which its authors make of the node features of both ends; c tuned. Added: from a
    `UserProfile`, ``x_e = (x_i ⊙ x_j, m_i, m_j)`` with the past influence and taste m of source and target for this
    very product (`UserProfile.matched`); τ is tuned as well.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound.
    noise_variance
        σ² of an outcome.
    prior_variance
        τ, the prior variance of every coefficient.
    matched
        False: of a `UserProfile`, use the flat matrix, as published.
    """

    name = "IMLinUCB"
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        matched: bool = True,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self._take_matched(matched)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        precision, moment = _ridge.blank(self.users.shape[1] + 2 * self._n_matched, self.prior_variance)
        return {"precision": precision, "moment": moment}

    def _ends(self, modes: tuple[F64, ...]) -> tuple[F64, F64]:
        """What source and target multiply to x_e: ``(x_i, m_i, 1)`` and ``(x_j, 1, m_j)``."""
        matched = self._matched(modes)
        ones = np.ones_like(matched)
        return np.hstack([self.users, matched, ones]), np.hstack([self.users, ones, matched])

    def _score(self, modes: tuple[F64, ...]) -> F64:
        from tensorucb.policies.baselines._kernels import add_product_bounds, edge_dots

        graph, (left, right) = self.graph, self._ends(modes)
        precision, moment = self._arrays["precision"], self._arrays["moment"]
        theta, covariance = _ridge.posterior(precision, moment, self.noise_variance)
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, left * theta, right, scores)
        add_product_bounds(graph.sources, graph.targets, left, right, covariance, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        left, right = self._ends(modes)
        rows = left[self.graph.sources[edges]] * right[self.graph.targets[edges]]
        self._arrays["precision"], self._arrays["moment"] = _ridge.with_batch(
            self._arrays["precision"], self._arrays["moment"], rows, outcomes, self.noise_variance
        )
