"""`IMLinUCB`: one linear model for all edges (Wen, Kveton, Valko, Vaswani 2017)."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._linear import LinearPolicy


class IMLinUCB(LinearPolicy):
    """Linear regression on ``x_e = x_i ⊙ x_j``, one coefficient vector for every edge.

    ``M = I/τ + Σ x xᵀ/σ²``, ``B = Σ y x``, ``θ = M⁻¹B/σ²``, ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``.

    Published: edge features, which its authors make of the node features of both ends; c tuned. Added: from a
    `UserProfile`, ``x_e = (x_i ⊙ x_j, m_i, m_j)`` with the past influence and taste m of source and target for this
    very product (`UserProfile.matched`); τ is tuned as well.

    Parameters
    ----------
    exploration, noise_variance, prior_variance, matched
        c, σ², τ, and whether to use `UserProfile.matched`; see `LinUCB`.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import IMLinUCB
    >>> policy = IMLinUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    name = "IMLinUCB"

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        return self._blank(self.users.shape[1] + 2 * self._n_matched)

    def _ends(self, modes: Vectors) -> tuple[F64, F64]:
        """What source and target multiply to x_e: ``(x_i, m_i, 1)`` and ``(x_j, 1, m_j)``."""
        matched = self._matched(modes)
        ones = np.ones_like(matched)
        return np.hstack([self.users, matched, ones]), np.hstack([self.users, ones, matched])

    def _score(self, modes: Vectors) -> F64:
        from tensorucb.policies._kernels import add_product_bounds, edge_dots

        graph, (left, right) = self.graph, self._ends(modes)
        theta, covariance = self._posterior(self._arrays)
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, left * theta, right, scores)
        add_product_bounds(graph.sources, graph.targets, left, right, covariance, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        left, right = self._ends(modes)
        self._add(left[self.graph.sources[edges]] * right[self.graph.targets[edges]], outcomes)
