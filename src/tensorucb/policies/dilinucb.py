"""`DILinUCB` in the edge form of the paper's Table 3 (after Vaswani et al. 2017)."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._linear import LinearPolicy


class DILinUCB(LinearPolicy):
    """A linear model per source user on the target's features.

    ``M_i = I/τ + Σ x xᵀ/σ²``, ``b_i = Σ y x``, ``θ_i = M_i⁻¹ b_i/σ²``, and ``p = clip(x·θ_i + c√(xᵀ M_i⁻¹ x))`` with
    ``x = x_j``. The inverses are kept by Sherman–Morrison.

    Published in this form: by the paper, with fixed features and c tuned (`DILinUCBOriginal` is what its authors
    wrote). Added: from a `UserProfile`, ``x = (x_j, m_j)`` with the target's past influence and taste for this very
    product (`UserProfile.matched`); τ is tuned as well. The source's own past is left out: each source learns alone, so
    that it could not be used before the source was tried, and measured regret was higher with it.

    Parameters
    ----------
    exploration, noise_variance, prior_variance, matched
        c, σ², τ, and whether to use `UserProfile.matched`; see `LinUCB`.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import DILinUCB
    >>> policy = DILinUCB()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    name = "DILinUCB"

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        nodes, dim = self.graph.n_nodes, self.users.shape[1] + self._n_matched
        inverse = np.broadcast_to(np.eye(dim) * self.prior_variance, (nodes, dim, dim))
        return {"theta": np.zeros((nodes, dim)), "inverse": inverse.copy()}

    def _score(self, modes: Vectors) -> F64:
        from tensorucb.policies._kernels import add_node_bounds, edge_dots

        graph, nodes = self.graph, self._nodes(modes)
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, theta, nodes, scores)
        # Edge numbers are sorted by source, so that each source's matrix is read once.
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(by_source, graph.sources, graph.targets, nodes, inverse, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        from tensorucb.policies._kernels import learn_by_source

        graph, precision, nodes = self.graph, 1.0 / self.noise_variance, self._nodes(modes)
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        learn_by_source(graph.sources, graph.targets, edges, outcomes, nodes, precision, inverse, theta)
