"""The linear baselines, and what `LogisticUCB` shares with them: features of users for a product, and main effects.

LinUCB, IMLinUCB and DILinUCB are ridge regressions ``M = I/τ + Σ x xᵀ/σ²``, ``b = Σ y x``, ``θ = M⁻¹b/σ²``, with the
score ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``. They differ in x and in who shares θ. Published: fixed features, c tuned. Added:
from a `UserProfile` the past influence and taste m of users for the product of the round; τ is tuned as well.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_flag, check_number
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.policies._base import EXPLORATIONS, Grid, UCBPolicy
from tensorucb.policies._kernels import add_node_bounds, add_product_bounds, edge_dots, learn_by_source
from tensorucb.policies.prediction import Prediction
from tensorucb.rng import RngLike
from tensorucb.threads import single_threaded_blas


class FeaturePolicy(UCBPolicy):
    """Binding for policies that learn from user features, with columns that depend on the product where there are any.

    An (n, d) array is used as it is. Of a `UserProfile` with a past, the policy uses `UserProfile.totals`, and adds
    `UserProfile.matched` for the product of the round, which a linear model could not form from columns by topic. Fewer
    columns are also learned sooner.
    """

    needs_users = True
    matched: bool

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features or a `UserProfile`, and a seed."""
        self._profile = users if self.matched and isinstance(users, UserProfile) and users.k is not None else None
        self.uses_product = type(self).uses_product or self._profile is not None
        super().bind(graph, users if self._profile is None else self._profile.totals(), rng)

    @property
    def _n_matched(self) -> int:
        """Number of columns that depend on the product."""
        return 0 if self._profile is None else (self._profile.taste is not None) + (self._profile.credit is not None)

    def _matched(self, modes: Vectors) -> F64:
        """``(n, m)`` columns about this product; m = 0 without a profile."""
        return np.zeros((self.graph.n_nodes, 0)) if self._profile is None else self._profile.matched(modes[0])

    def _nodes(self, modes: Vectors) -> F64:
        """``(n, d + m)``: the users' columns, then those about this product."""
        return self.users if self._profile is None else np.hstack([self.users, self._matched(modes)])

    # -- main effects: x = (x_i, x_j, z, …, 1) --

    def _n_effects(self, dims: tuple[int, ...]) -> int:
        return 2 * int(self.users.shape[1] + self._n_matched) + sum(dims) + 1

    def _context(self, modes: Vectors) -> F64:
        """The part of x that all edges of a round share."""
        return np.concatenate([*modes, np.ones(1)])

    def _effects(self, modes: Vectors, edges: I64) -> F64:
        """The rows x of some edges."""
        nodes, context = self._nodes(modes), self._context(modes)
        shared = np.broadcast_to(context, (edges.size, context.size))
        return np.hstack([nodes[self.graph.sources[edges]], nodes[self.graph.targets[edges]], shared])

    def _moments(self, modes: Vectors, theta: F64, P: F64) -> tuple[F64, F64]:
        """``x·θ`` and ``√(xᵀPx)`` of every edge, from parts per node and one dot product per edge."""
        graph = self.graph
        nodes = self._nodes(modes)
        context = self._context(modes)
        d = nodes.shape[1]
        source = slice(0, d)
        target = slice(d, 2 * d)
        shared = slice(2 * d, None)

        def alone(end: slice) -> F64:
            """What one end of an edge adds to xᵀPx, alone and with the context."""
            own = ((nodes @ P[end, end]) * nodes).sum(axis=1)
            return np.asarray(own + nodes @ (2.0 * (P[end, shared] @ context)))

        with single_threaded_blas():
            by_source, by_target = alone(source), alone(target)
            crossed = nodes @ (2.0 * P[source, target])
            common = context @ P[shared, shared] @ context
            mean = (nodes @ theta[source])[graph.sources] + (nodes @ theta[target])[graph.targets]
        variance = np.empty(graph.n_edges)
        edge_dots(graph.sources, graph.targets, crossed, nodes, variance)
        variance += by_source[graph.sources] + by_target[graph.targets] + common
        return mean + context @ theta[shared], np.sqrt(np.maximum(variance, 0.0))


def covariance_of(precision: F64) -> F64:
    """The inverse of a precision matrix, also where features are so large that the prior is lost in rounding."""
    try:
        covariance = np.linalg.inv(precision)
    except np.linalg.LinAlgError:
        # Directions below the rounding are known by the rest alone.
        values, vectors = np.linalg.eigh(precision)
        floor = values[-1] * np.finfo(np.float64).eps * values.size
        covariance = (vectors / np.maximum(values, floor)) @ vectors.T
    return np.asarray((covariance + covariance.T) / 2.0)


class LinearPolicy(FeaturePolicy):
    """Settings of the linear policies, and a ridge regression that all edges share."""

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
        self.matched = check_flag("matched", matched)

    def _ridge(self, dim: int) -> Arrays:
        return {"precision": np.eye(dim) / self.prior_variance, "moment": np.zeros(dim)}

    def _posterior(self, arrays: Arrays) -> tuple[F64, F64]:
        """Coefficients θ and covariance M⁻¹."""
        with single_threaded_blas():
            covariance = covariance_of(arrays["precision"])
            return covariance @ arrays["moment"] / self.noise_variance, covariance

    def _added(self, state: Arrays, rows: F64, outcomes: F64) -> Arrays:
        """The state after outcomes of edges with these rows x."""
        with single_threaded_blas():
            return {
                "precision": state["precision"] + rows.T @ rows / self.noise_variance,
                "moment": state["moment"] + rows.T @ outcomes,
            }


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

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """M and b."""
        return self._ridge(self._n_effects(dims))

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One ridge regression."""
        return self._added(state, self._effects(modes, edges), outcomes)

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x·θ`` and ``√(xᵀM⁻¹x)``."""
        return Prediction(self.graph, *self._moments(modes, *self._posterior(state)))


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
        graph, (left, right) = self.graph, self._ends(modes)
        theta, covariance = self._posterior(state)
        mean, deviation = np.empty(graph.n_edges), np.zeros(graph.n_edges)
        edge_dots(graph.sources, graph.targets, left * theta, right, mean)
        add_product_bounds(graph.sources, graph.targets, left, right, covariance, deviation)
        return Prediction(graph, mean, deviation)


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
        ends = self.graph.sources, self.graph.targets
        precision = 1.0 / self.noise_variance
        learn_by_source(*ends, edges, outcomes, self._nodes(modes), precision, state["inverse"], state["theta"])
        return state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x_j·θ_i`` and ``√(x_jᵀM_i⁻¹x_j)``."""
        graph, nodes = self.graph, self._nodes(modes)
        mean, deviation = np.empty(graph.n_edges), np.zeros(graph.n_edges)
        edge_dots(graph.sources, graph.targets, state["theta"], nodes, mean)
        # Edge numbers are sorted by source, so that each source's matrix is read once.
        by_source = np.arange(graph.n_edges, dtype=np.int64)
        add_node_bounds(by_source, graph.sources, graph.targets, nodes, state["inverse"], deviation)
        return Prediction(graph, mean, deviation)
