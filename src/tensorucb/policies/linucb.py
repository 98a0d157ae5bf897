"""`LinUCB` on the concatenated features of source, target and product (Li, Chu, Langford, Schapire 2010)."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_flag
from tensorucb.policies._linear import LinearPolicy, main_effect_moments, main_effects


class LinUCB(LinearPolicy):
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

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        constant: bool = True,
        matched: bool = True,
    ) -> None:
        super().__init__(
            exploration=exploration, noise_variance=noise_variance, prior_variance=prior_variance, matched=matched
        )
        self.constant = check_flag("constant", constant)

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        fixed = 2 * (self.users.shape[1] + self._n_matched) + int(self.constant)
        return {} if dims is None else self._blank(fixed + sum(dims))

    def _context(self, modes: Vectors) -> F64:
        """The part of x that all edges of a round share."""
        return np.concatenate([*modes, np.ones(int(self.constant))])

    def _score(self, modes: Vectors) -> F64:
        arrays = self._arrays or self._initial(tuple(mode.size for mode in modes))
        posterior = self._posterior(arrays)
        scores, variance = main_effect_moments(self.graph, self._nodes(modes), self._context(modes), *posterior)
        scores += self.exploration * np.sqrt(variance)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        self._add(main_effects(self.graph, self._nodes(modes), self._context(modes), edges), outcomes)
