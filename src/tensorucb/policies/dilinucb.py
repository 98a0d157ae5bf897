"""`DILinUCB` in the edge form of the paper's Table 3 (after Vaswani et al. 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_number
from tensorucb.policies._base import EXPLORATIONS, Grid
from tensorucb.policies._feature_policy import FeaturePolicy

__all__ = ["DILinUCB"]


class DILinUCB(FeaturePolicy):
    """A linear model per source user on the target's features.

    ``M_i = I/τ + Σ x xᵀ/σ²``, ``b_i = Σ y x``, ``θ_i = M_i⁻¹ b_i/σ²``, and ``p = clip(x·θ_i + c√(xᵀ M_i⁻¹ x))`` with
    ``x = x_j``. The inverses are kept by Sherman–Morrison.

    Published in this form: by the paper, with fixed features and c tuned (`DILinUCBOriginal` is what its authors
    wrote). Added: from a `UserProfile`, ``x = (x_j, m_j)`` with the target's past influence and taste for this very
    product (`UserProfile.matched`); τ is tuned as well. The source's own past is left out: each source learns alone, so
    that it could not be used before the source was tried, and measured regret was higher with it.

    Parameters
    ----------
    exploration
        c, the factor of the confidence bound.
    noise_variance
        σ² of an outcome.
    prior_variance
        τ, the prior variance of every coefficient.
    matched
        False: of a `UserProfile`, use the flat matrix, as published.
    """

    name = "DILinUCB"
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        matched: bool = True,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self._take_matched(matched)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        nodes, dim = self.graph.n_nodes, self.users.shape[1] + self._n_matched
        inverse = np.broadcast_to(np.eye(dim) * self.prior_variance, (nodes, dim, dim))
        return {"theta": np.zeros((nodes, dim)), "inverse": inverse.copy()}

    def _score(self, modes: tuple[F64, ...]) -> F64:
        from tensorucb.policies.baselines._kernels import add_node_bounds, edge_dots

        graph, nodes = self.graph, self._nodes(modes)
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        scores = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, theta, nodes, scores)
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(by_source, graph.sources, graph.targets, nodes, inverse, self.exploration, scores)
        return np.clip(scores, 0.0, 1.0, out=scores)

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        from tensorucb.policies.baselines._kernels import learn_by_source

        graph, precision = self.graph, 1.0 / self.noise_variance
        inverse, theta = self._arrays["inverse"], self._arrays["theta"]
        nodes = self._nodes(modes)
        learn_by_source(graph.sources, graph.targets, edges, outcomes, nodes, precision, inverse, theta)
