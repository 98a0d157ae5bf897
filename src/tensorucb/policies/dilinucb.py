"""`DILinUCB` in the edge form of the paper's Table 3 (after Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_number
from tensorucb.policies._base import BasePolicy, Floats, Ints

__all__ = ["DILinUCB"]


class DILinUCB(BasePolicy):
    """A linear model per source user on the target's features.

    ``M_i = I/τ + Σ x_j x_jᵀ/σ²``, ``b_i = Σ y x_j``, ``θ_i = M_i⁻¹ b_i/σ²``, and
    ``p = clip(x_j·θ_i + c√(x_jᵀ M_i⁻¹ x_j))``. The inverses are kept by Sherman–Morrison.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound.
    noise_variance
        σ² of an outcome.
    prior_variance
        τ, the prior variance of every coefficient.
    """

    name = "DILinUCB"
    needs_users = True

    def __init__(self, *, exploration: float = 0.1, noise_variance: float = 0.1, prior_variance: float = 1.0) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        nodes, dim = self.users.shape
        inverse = np.broadcast_to(np.eye(dim) * self.prior_variance, (nodes, dim, dim))
        return {"theta": np.zeros((nodes, dim)), "inverse": inverse.copy()}

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        from tensorucb.policies.baselines._kernels import add_node_bounds, edge_dots

        graph, arrays = self.graph, self._arrays
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, arrays["theta"], self.users, scores)
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(
            by_source, graph.sources, graph.targets, self.users, arrays["inverse"], self.exploration, scores
        )
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        from tensorucb.policies.baselines._kernels import learn_by_source

        graph, precision = self.graph, 1.0 / self.noise_variance
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        learn_by_source(graph.sources, graph.targets, edges, outcomes, self.users, precision, inverse, theta)
