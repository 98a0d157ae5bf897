"""`LinUCB` on the concatenated features of source, target and product (Li, Chu, Langford, Schapire 2010)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_flag, check_number
from tensorucb.policies import _main_effects, _ridge
from tensorucb.policies._base import EXPLORATIONS, Grid
from tensorucb.policies._feature_policy import FeaturePolicy

__all__ = ["LinUCB"]


class LinUCB(FeaturePolicy):
    """Linear regression on ``x = (x_i, x_j, z, …, 1)``: main effects only, no interactions.

    ``M = I/τ + Σ x xᵀ/σ²``, ``B = Σ y x``, ``θ = M⁻¹B/σ²``, ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``.

    Published: the same regression on fixed features, c tuned. Added: from a `UserProfile`, ``x_i`` and ``x_j`` hold
    the past influence and taste of source and target for this very product (`UserProfile.matched`); τ is tuned as well.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound.
    noise_variance
        σ² of an outcome.
    prior_variance
        τ, the prior variance of every coefficient.
    constant
        Whether to append a constant 1 to the features.
    matched
        False: of a `UserProfile`, use the flat matrix, as published.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.policies import LinUCB
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> policy = LinUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.update(box.products[0], [0, 1, 2], [1, 0, 0])
    >>> policy.score(box.products[1]).shape
    (800,)
    """

    name = "LinUCB"
    uses_product = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        constant: bool = True,
        matched: bool = True,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.constant = check_flag("constant", constant)
        self._take_matched(matched)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        if dims is None:
            return {}
        dim = 2 * (self.users.shape[1] + self._n_matched) + sum(dims) + int(self.constant)
        precision, moment = _ridge.blank(dim, self.prior_variance)
        return {"precision": precision, "moment": moment}

    def _context(self, modes: tuple[F64, ...]) -> F64:
        """The part of x that all edges of a round share."""
        return np.concatenate([*modes, np.ones(int(self.constant))])

    def _score(self, modes: tuple[F64, ...]) -> F64:
        arrays = self._arrays or self._initial(tuple(mode.size for mode in modes))
        theta, P = _ridge.posterior(arrays["precision"], arrays["moment"], self.noise_variance)
        scores, variance = _main_effects.moments(self.graph, self._nodes(modes), self._context(modes), theta, P)
        scores += self.exploration * np.sqrt(variance)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        rows = _main_effects.edge_rows(self.graph, self._nodes(modes), self._context(modes), edges)
        self._arrays["precision"], self._arrays["moment"] = _ridge.with_batch(
            self._arrays["precision"], self._arrays["moment"], rows, outcomes, self.noise_variance
        )
