"""IMLinUCB: a linear model on products of the features of both ends."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._linear import LinearPolicy
from tensorucb.policies.prediction import Prediction


class IMLinUCB(LinearPolicy):
    """Products of both ends: ``x = x_i ⊙ x_j``, one θ for all edges (Wen, Kveton, Valko, Vaswani 2017).

    Its authors take edge features, which they make of the node features of both ends. From a `UserProfile`,
    ``x = (x_i ⊙ x_j, m_i, m_j)``.

    Parameters
    ----------
    exploration, noise_variance, prior_variance, matched
        See `LinUCB`.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.policies import IMLinUCB
    >>> box, policy = make_sandbox(100, 800, 5, rng=0), IMLinUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    name = "IMLinUCB"

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """M and b."""
        return self._ridge(self.users.shape[1] + 2 * self._n_matched)

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One ridge regression."""
        left, right = self._ends(modes)
        return self._added(state, left[self.graph.sources[edges]] * right[self.graph.targets[edges]], outcomes)

    def _ends(self, modes: Vectors) -> tuple[F64, F64]:
        """What source and target multiply to x: ``(x_i, m_i, 1)`` and ``(x_j, 1, m_j)``."""
        matched = self._matched(modes)
        ones = np.ones_like(matched)
        return np.hstack([self.users, matched, ones]), np.hstack([self.users, ones, matched])

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x·θ`` and ``√(xᵀM⁻¹x)``."""
        from tensorucb.policies._kernels import add_product_bounds, edge_dots

        graph, (left, right) = self.graph, self._ends(modes)
        theta, covariance = self._posterior(state)
        mean, deviation = np.empty(graph.n_edges), np.zeros(graph.n_edges)
        edge_dots(graph.sources, graph.targets, left * theta, right, mean)
        add_product_bounds(graph.sources, graph.targets, left, right, covariance, deviation)
        return Prediction(graph, mean, deviation)
