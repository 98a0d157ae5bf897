"""`LinUCB` on the concatenated features of source, target and product (Li, Chu, Langford, Schapire 2010)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_flag, check_number
from tensorucb.policies import _ridge
from tensorucb.policies._base import BasePolicy, Floats, Ints
from tensorucb.threads import single_threaded_blas

__all__ = ["LinUCB"]


class LinUCB(BasePolicy):
    """Linear regression on ``x = (x_i, x_j, z, …, 1)``: main effects only, no interactions.

    ``M = I/τ + Σ x xᵀ/σ²``, ``B = Σ y x``, ``θ = M⁻¹B/σ²``, ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``. Scoring splits the
    quadratic form into parts per node and one dot product per edge.

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
    """

    name = "LinUCB"
    needs_users = True
    uses_product = True

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        constant: bool = True,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.constant = check_flag("constant", constant)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        if dims is None:
            return {}
        dim = 2 * self.users.shape[1] + sum(dims) + int(self.constant)
        precision, moment = _ridge.blank(dim, self.prior_variance)
        return {"precision": precision, "moment": moment}

    def _context(self, modes: tuple[Floats, ...]) -> Floats:
        """The part of x that all edges of a round share."""
        return np.concatenate([*modes, np.ones(int(self.constant))])

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        from tensorucb.policies.baselines._kernels import edge_dots

        graph, users, context = self.graph, self.users, self._context(modes)
        arrays = self._arrays or self._initial(tuple(mode.size for mode in modes))
        theta, P = _ridge.posterior(arrays["precision"], arrays["moment"], self.noise_variance)
        d = users.shape[1]
        source, target, shared = slice(0, d), slice(d, 2 * d), slice(2 * d, None)
        with single_threaded_blas():
            variance_of = [self._node_variance(P, block, context) for block in (source, target)]
            mean_of = [users @ theta[block] for block in (source, target)]
            crossed = users @ (2.0 * P[source, target])
            common = context @ P[shared, shared] @ context

        variance = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, crossed, users, variance)
        variance += variance_of[0][graph.sources] + variance_of[1][graph.targets] + common
        scores = mean_of[0][graph.sources] + mean_of[1][graph.targets]
        scores += context @ theta[shared] + self.exploration * np.sqrt(np.maximum(variance, 0.0))
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _node_variance(self, P: Floats, block: slice, context: Floats) -> Floats:
        """What one end of an edge adds to xᵀPx, alone and with the context."""
        shared = slice(2 * self.users.shape[1], None)
        alone = ((self.users @ P[block, block]) * self.users).sum(axis=1)
        return np.asarray(alone + self.users @ (2.0 * P[block, shared] @ context))

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = np.broadcast_to(self._context(modes), (edges.size, self._context(modes).size))
        features = np.hstack([self.users[sources], self.users[targets], shared])
        self._arrays["precision"], self._arrays["moment"] = _ridge.with_batch(
            self._arrays["precision"], self._arrays["moment"], features, outcomes, self.noise_variance
        )
