"""LinUCB: a linear model of main effects that all edges share."""

from __future__ import annotations

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_flag
from tensorucb.policies._linear import LinearPolicy
from tensorucb.policies.prediction import Prediction


class LinUCB(LinearPolicy):
    """Main effects only: ``x = (x_i, x_j, z, …, 1)``, one θ for all edges (Li, Chu, Langford, Schapire 2010).

    From a `UserProfile`, ``x_i`` and ``x_j`` hold the past influence and taste of source and target for this product.

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
    >>> box, policy = make_sandbox(100, 800, 5, rng=0), LinUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.update(box.products[0], [0, 1, 2], [1, 0, 0])
    >>> policy.score(box.products[1]).shape
    (800,)
    """

    name = "LinUCB"
    uses_product = True
    uses_strategies = True

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

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """M and b."""
        return self._ridge(self._n_effects(dims))

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One ridge regression."""
        return self._added(state, self._effects(modes, edges), outcomes)

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x·θ`` and ``√(xᵀM⁻¹x)``."""
        return Prediction(self.graph, *self._moments(modes, *self._posterior(state)))
