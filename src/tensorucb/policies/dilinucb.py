"""DILinUCB: a linear model of its own for every source."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.policies._linear import LinearPolicy


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

    def _initial(self, dims: tuple[int, ...] | None) -> Arrays:
        nodes, dim = self.graph.n_nodes, self.users.shape[1] + self._n_matched
        inverse = np.broadcast_to(np.eye(dim) * self.prior_variance, (nodes, dim, dim))
        return {"theta": np.zeros((nodes, dim)), "inverse": inverse.copy()}

    def _score(self, modes: Vectors) -> F64:
        from tensorucb.policies._kernels import add_node_bounds, edge_dots

        graph, nodes = self.graph, self._nodes(modes)
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, self._arrays["theta"], nodes, scores)
        # Edge numbers are sorted by source, so that each source's matrix is read once.
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        inverse = self._arrays["inverse"]
        add_node_bounds(by_source, graph.sources, graph.targets, nodes, inverse, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        from tensorucb.policies._kernels import learn_by_source

        graph, precision, nodes = self.graph, 1.0 / self.noise_variance, self._nodes(modes)
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        learn_by_source(graph.sources, graph.targets, edges, outcomes, nodes, precision, inverse, theta)
