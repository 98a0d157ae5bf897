"""DILinUCB: a linear model of its own for every source."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._linear import LinearPolicy
from tensorucb.policies.prediction import Prediction


class DILinUCB(LinearPolicy):
    """A θ for each source, on the target's features ``x = x_j``: the edge form of the paper's Table 3.

    `DILinUCBOriginal` is what its authors wrote (Vaswani et al. 2017). The inverses are kept by Sherman–Morrison. From
    a `UserProfile`, ``x = (x_j, m_j)``. The source's own past is left out: each source learns alone, so that it could
    not be used before the source was tried, and measured regret was higher with it.

    Parameters
    ----------
    exploration, noise_variance, prior_variance, matched
        See `LinUCB`.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.policies import DILinUCB
    >>> box, policy = make_sandbox(100, 800, 5, rng=0), DILinUCB()
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    name = "DILinUCB"

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """θ and the inverse of M of each source."""
        nodes, dim = self.graph.n_nodes, self.users.shape[1] + self._n_matched
        inverse = np.broadcast_to(np.eye(dim) * self.prior_variance, (nodes, dim, dim))
        return {"theta": np.zeros((nodes, dim)), "inverse": inverse.copy()}

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """The regression of each source, edge by edge."""
        from tensorucb.policies._kernels import learn_by_source

        ends = self.graph.sources, self.graph.targets
        precision = 1.0 / self.noise_variance
        learn_by_source(*ends, edges, outcomes, self._nodes(modes), precision, state["inverse"], state["theta"])
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x_j·θ_i`` and ``√(x_jᵀM_i⁻¹x_j)``."""
        from tensorucb.policies._kernels import add_node_bounds, edge_dots

        graph, nodes = self.graph, self._nodes(modes)
        mean, deviation = np.empty(graph.n_edges), np.zeros(graph.n_edges)
        edge_dots(graph.sources, graph.targets, state["theta"], nodes, mean)
        # Edge numbers are sorted by source, so that each source's matrix is read once.
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(by_source, graph.sources, graph.targets, nodes, state["inverse"], deviation)
        return Prediction(graph, mean, deviation)
