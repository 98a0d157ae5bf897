"""Baselines that learn from features: linear and logistic regression.

LinUCB, IMLinUCB and DILinUCB are ridge regressions ``M = I/τ + Σ x xᵀ/σ²``, ``b = Σ y x``, ``θ = M⁻¹b/σ²``, with the
score ``p = clip(x·θ + c√(xᵀ M⁻¹ x))``. They differ in x and in who shares θ. Published: fixed features, c tuned. Added:
from a `UserProfile` the past influence and taste m of users for the product of the round; τ is tuned as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_flag, check_number
from tensorucb.errors import InputError
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.policies._base import EXPLORATIONS, Grid, Oracle, UCBPolicy, setting
from tensorucb.policies._kernels import (
    add_node_bounds,
    add_product_bounds,
    edge_dots,
    greedy_maximum,
    learn_by_source,
    reached_sums,
)
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


@dataclass(eq=False, repr=False, kw_only=True)
class LinearPolicy(FeaturePolicy):
    """Settings of the linear policies, and a ridge regression that all edges share."""

    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    exploration: float = setting(0.1, check_number)
    noise_variance: float = setting(0.1, check_number, strict=True)
    prior_variance: float = setting(1.0, check_number, strict=True)
    matched: bool = setting(True, check_flag)

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


@dataclass(eq=False, repr=False, kw_only=True)
class DILinUCBOriginal(UCBPolicy):
    """A linear model per source of the users it reaches, and seeds that maximise ``f(S) = Σ_v max_{u∈S} q_uv``.

    ``q_uv = clip(x_v·θ_u + c√(x_vᵀ M_u⁻¹ x_v))`` with ``q_uu = 1``. A source whose out-edges were observed gives one
    outcome for *every* user v: 1 if v can be reached from it over the edges that succeeded (itself included),
    else 0. So ``M_u = I/τ + N_u G/σ²`` with ``G = Σ_v x_v x_vᵀ`` the same for all sources: the state is a count and
    a vector ``b_u = Σ x_v`` (over those reached) per user, and no matrix is ever inverted per user.

    The target features are the users' features as given to `bind`; the original takes Laplacian eigenvectors of
    the graph (`tensorucb.features.laplacian_eigenmap`). The regulariser is the plain ridge ``I/τ``, as in the
    original's DILinUCB; the Laplacian penalty ``Σ‖θ_u − θ_v‖²`` between neighbours of its L-variant is not used.
    Added: c is tuned. Of a `UserProfile` it takes the flat matrix, since features that change with the product would
    give every round a G of its own.

    Parameters
    ----------
    exploration, noise_variance, prior_variance
        c, the factor of the confidence bound; σ² of an outcome; τ, the prior variance of every coefficient.
    candidates
        The greedy choice is among this many users, those with the largest optimistic reach before clipping
        (ties by out-degree, then row). Users without out-edges reach nobody and come last.
    max_targets
        f(S) sums over this many users, a fixed sample where the graph has more. Memory is at most
        ``8 · candidates · max_targets`` bytes.
    """

    name = "DILinUCB-original"
    needs_users = True

    exploration: float = setting(0.1, check_number)
    noise_variance: float = setting(0.1, check_number, strict=True)
    prior_variance: float = setting(1.0, check_number, strict=True)
    candidates: int = setting(200, check_count)
    max_targets: int = setting(50_000, check_count)

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features and a seed."""
        super().bind(graph, users, rng)
        # In the eigenbasis of G every M_u is diagonal.
        with single_threaded_blas():
            spectrum, self._basis = np.linalg.eigh(self.users.T @ self.users)
            self._rotated = self.users @ self._basis
        self._spectrum = np.maximum(spectrum, 0.0)
        self._targets = np.arange(graph.n_nodes, dtype=np.int64)
        if graph.n_nodes > self.max_targets:
            sampler = np.random.default_rng([graph.n_nodes, self.max_targets])
            self._targets = np.sort(sampler.choice(graph.n_nodes, self.max_targets, replace=False))

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """N and b of each source."""
        return {"counts": np.zeros(self.graph.n_nodes, dtype=np.int64), "reached": np.zeros(self.users.shape)}

    def _variances(self, counts: I64) -> F64:
        """``(sources, d)`` variances in the eigenbasis of sources observed so many times."""
        return np.asarray(1.0 / (1.0 / self.prior_variance + counts[:, None] * (self._spectrum / self.noise_variance)))

    def _posterior(self, state: Arrays, rows: I64 | slice) -> tuple[F64, F64]:
        """Coefficients and variances of these sources in the eigenbasis, both (rows, d)."""
        variances = self._variances(state["counts"][rows])
        return state["reached"][rows] @ self._basis * variances / self.noise_variance, variances

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x_v·θ_u`` and ``√(x_vᵀM_u⁻¹x_v)`` of every edge."""
        graph = self.graph
        mean, variance = np.empty(graph.n_edges), np.empty(graph.n_edges)
        with single_threaded_blas():
            theta, variances = self._posterior(state, slice(None))
        edge_dots(graph.sources, graph.targets, theta, self._rotated, mean)
        edge_dots(graph.sources, graph.targets, variances, self._rotated**2, variance)
        return Prediction(graph, mean, np.sqrt(np.maximum(variance, 0.0)))

    def pick(self, prediction: Prediction, modes: Vectors, k: int, oracle: Oracle) -> I64:
        """By reachability; the oracle is asked only who may be chosen."""
        state = self._known(modes)
        with single_threaded_blas():
            candidates = self._shortlist(state, self._allowed(oracle, k), max(k, self.candidates))
            return np.asarray(candidates[greedy_maximum(self._reachability(state, candidates), k)])

    def _shortlist(self, state: Arrays, allowed: I64, size: int) -> I64:
        """The ``size`` allowed users of largest optimistic reach, without the clip."""
        theta, _ = self._posterior(state, allowed)
        counts, which = np.unique(state["counts"][allowed], return_inverse=True)
        # Sources observed equally often share their variances, so that a bonus is computed once for all of them.
        bonus = np.array([np.sqrt(self._rotated**2 @ row).sum() for row in self._variances(counts)])
        reach = theta @ self._rotated.sum(axis=0) + self.exploration * bonus[which]
        degree = self.graph.out_degree[allowed]
        return allowed[np.lexsort((allowed, -degree, -reach, degree == 0))[:size]]

    def _reachability(self, state: Arrays, candidates: I64) -> F64:
        """``q_uv`` of the candidates and the targets."""
        theta, variances = self._posterior(state, candidates)
        targets = self._rotated[self._targets]
        reach: F64 = variances @ (targets**2).T
        np.sqrt(reach, out=reach)
        reach *= self.exploration
        reach += theta @ targets.T
        np.clip(reach, 0.0, 1.0, out=reach)
        position = np.searchsorted(self._targets, candidates)
        inside = np.flatnonzero(self._targets[np.minimum(position, self._targets.size - 1)] == candidates)
        reach[inside, position[inside]] = 1.0
        return reach

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One outcome of every user for each source observed."""
        graph, n = self.graph, self.graph.n_nodes
        starts = np.unique(graph.sources[edges]).astype(np.int64)
        row_of = np.full(n, -1, dtype=np.int64)
        row_of[starts] = np.arange(starts.size)
        live = np.unique(edges[outcomes >= 0.5])
        # Edge numbers are sorted by source, so the live ones are compressed rows already.
        fan_out = np.bincount(row_of[graph.sources[live]], minlength=starts.size)
        offsets = np.concatenate([[0], np.cumsum(fan_out)]).astype(np.int64)
        sums = np.zeros((starts.size, self.users.shape[1]))
        heads = graph.targets[live].astype(np.int64)
        reached_sums(starts, offsets, heads, row_of, n, self.users, sums)
        state["counts"][starts] += 1
        state["reached"][starts] += sums
        return state


# -- logistic regression --

# The base rate is soon known from the data, so its prior is wide.
_CONSTANT_VARIANCE = 4.0
# Refit when the number of rows has grown by this factor: the time for all refits stays near that of the last one.
_GROWTH = 1.15
_STEPS, _TOLERANCE = 30, 1e-10


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticUCB(FeaturePolicy):
    """Logistic regression on ``x = (x_i, x_j, z, …, 1)``, the features of `LinUCB`, and optimism in the logit.

    ``θ`` maximises ``Σ [y x·θ − log(1 + exp x·θ)] − ½(θ − μ)ᵀΛ(θ − μ)`` by Newton's method. At the maximum the Laplace
    covariance is ``P = (Λ + Σ p(1 − p) x xᵀ)⁻¹``, and ``p_ij = 1/(1 + exp(−x·θ − c√(xᵀPx)))``. Each round is learned
    with the last posterior as its prior; whenever the log has grown by 15 %, all of it is fitted again.

    Published: GLM-UCB, with the same model on fixed features. Added: a Gaussian prior around a base rate, and from a
    `UserProfile` the past influence and taste of source and target for this very product (`UserProfile.matched`).

    Parameters
    ----------
    exploration
        c, the number of standard deviations added to a logit.
    prior_variance
        Prior variance of every weight but the constant's.
    base_logit
        Prior mean of the constant: the logit of every edge at the start; −3 is a probability of 4.7 %.
    max_rows
        Observed edges kept for refits. Of more, the older half becomes part of the prior (by its Laplace
        approximation), so that time and memory per round stay bounded.
    matched
        False: of a `UserProfile`, use the flat matrix.
    """

    name = "LogisticUCB"
    uses_product = True
    uses_strategies = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "prior_variance": (0.01, 0.1, 1.0)}

    exploration: float = setting(0.1, check_number)
    prior_variance: float = setting(0.1, check_number, strict=True)
    base_logit: float = setting(-3.0, check_number, low=-30.0, high=30.0)
    max_rows: int = setting(200_000, check_count)
    matched: bool = setting(True, check_flag)

    def initial(self, dims: tuple[int, ...]) -> Arrays:
        """θ and its precision; μ and Λ, what is known apart from the log; and the log."""
        mean = np.zeros(self._n_effects(dims))
        mean[-1] = self.base_logit
        precision = np.diag(np.append(np.full(mean.size - 1, 1.0 / self.prior_variance), 1.0 / _CONSTANT_VARIANCE))
        return {
            "theta": mean,
            "precision": precision,
            "prior_mean": mean.copy(),
            "prior_precision": precision.copy(),
            "fitted_rows": np.zeros(1, dtype=np.int64),
            "edges": np.empty(0, dtype=np.int64),
            "outcomes": np.empty(0),
            "products": np.empty((0, sum(dims))),
            "product_of": np.empty(0, dtype=np.int64),
        }

    def learn(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """One Newton fit with the last posterior as the prior; all of the log again if it has grown by 15 %."""
        with single_threaded_blas():
            rows = self._effects(modes, edges)
            theta, precision = posterior_mode(rows, outcomes, state["theta"], state["precision"])
            state = self._with_round({**state, "theta": theta, "precision": precision}, modes, edges, outcomes)
            due = state["edges"].size >= _GROWTH * state["fitted_rows"][0]
            return self._refitted(state, tuple(mode.size for mode in modes)) if due else state

    def predict(self, state: Arrays, modes: Vectors) -> Prediction:
        """``x·θ`` and ``√(xᵀPx)``."""
        with single_threaded_blas():
            covariance = covariance_of(state["precision"])
        return Prediction(self.graph, *self._moments(modes, state["theta"], covariance), link="logit")

    def _with_round(self, state: Arrays, modes: Vectors, edges: I64, outcomes: F64) -> Arrays:
        """The log with one more round; a product is stored once."""
        product = np.concatenate(modes)
        stored = np.flatnonzero((state["products"] == product).all(axis=1))
        products = state["products"] if stored.size else np.vstack([state["products"], product])
        number = stored[0] if stored.size else len(products) - 1
        return {
            **state,
            "edges": np.append(state["edges"], edges),
            "outcomes": np.append(state["outcomes"], outcomes),
            "products": products,
            "product_of": np.append(state["product_of"], np.full(edges.size, number)),
        }

    def _refitted(self, state: Arrays, dims: tuple[int, ...]) -> Arrays:
        """All rows of the log fitted again; of too many, the older half becomes part of the prior."""
        rows = np.empty((state["edges"].size, state["theta"].size))
        for number, product in enumerate(state["products"]):
            here = np.flatnonzero(state["product_of"] == number)
            rows[here] = self._effects(tuple(np.split(product, np.cumsum(dims)[:-1])), state["edges"][here])
        mean, prior = state["prior_mean"], state["prior_precision"]
        theta, precision = posterior_mode(rows, state["outcomes"], mean, prior, state["theta"])
        state = {**state, "theta": theta, "precision": precision}
        if len(rows) > self.max_rows:
            old = slice(0, len(rows) - self.max_rows // 2)
            slope, curvature = derivatives(rows[old], state["outcomes"][old], theta, mean, prior)
            # One Newton step from θ: the maximum of the old rows' quadratic approximation.
            state["prior_mean"] = theta + covariance_of(curvature) @ slope
            state["prior_precision"] = curvature
            for name in ("edges", "outcomes", "product_of"):
                state[name] = state[name][old.stop :].copy()
            used, state["product_of"] = np.unique(state["product_of"], return_inverse=True)
            state["products"] = state["products"][used]
        return {**state, "fitted_rows": np.array([state["edges"].size], dtype=np.int64)}

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> Arrays:
        """The state, whose log may have any length."""
        expected = self.initial(dims)
        rows, products = (len(np.atleast_1d(arrays.get(name, ()))) for name in ("edges", "products"))
        for name in ("edges", "outcomes", "product_of"):
            expected[name] = np.resize(expected[name], rows)
        expected["products"] = np.resize(expected["products"], (products, expected["products"].shape[1]))
        state = self._matching(expected, arrays)
        for name, limit in (("edges", self.graph.n_edges), ("product_of", products)):
            if state[name].size and not 0 <= state[name].min() <= state[name].max() < limit:
                raise InputError(f"the state of {self.name} is malformed: {name} must lie in 0..{limit - 1}.")
        return state


def derivatives(rows: F64, outcomes: F64, theta: F64, mean: F64, precision: F64) -> tuple[F64, F64]:
    """Gradient and negative Hessian of the log posterior at θ."""
    from scipy.special import expit  # the linear policies do without scipy

    p = expit(rows @ theta)
    slope = rows.T @ (outcomes - p) - precision @ (theta - mean)
    return slope, precision + (rows.T * (p * (1.0 - p))) @ rows


def posterior_mode(rows: F64, outcomes: F64, mean: F64, precision: F64, start: F64 | None = None) -> tuple[F64, F64]:
    """The mode of the posterior under the prior N(mean, precision⁻¹), and the precision there."""

    def value(at: F64) -> float:
        logits, apart = rows @ at, at - mean
        return float(outcomes @ logits - np.logaddexp(0.0, logits).sum() - 0.5 * apart @ precision @ apart)

    theta = mean if start is None else start
    best = value(theta)
    for _ in range(_STEPS):
        slope, curvature = derivatives(rows, outcomes, theta, mean, precision)
        step = covariance_of(curvature) @ slope
        close = slope @ step <= _TOLERANCE * max(1.0, abs(best))
        # A full step may overshoot; a small enough one never does. Close to the maximum there is only rounding.
        while not close and (reached := value(theta + step)) < best:
            step /= 2.0
        theta = theta + step
        if close:
            break
        best = reached
    return theta, derivatives(rows, outcomes, theta, mean, precision)[1]
