"""`DILinUCBOriginal`: model-independent pairwise reachability (Vaswani, Kveton, Wen, Ghavamzadeh et al. 2017)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_number
from tensorucb.graph import Graph
from tensorucb.policies._base import Oracle, UCBPolicy
from tensorucb.policies._kernels import edge_dots, greedy_maximum, reached_sums
from tensorucb.policies.prediction import Prediction
from tensorucb.rng import RngLike
from tensorucb.threads import single_threaded_blas


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

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import DILinUCBOriginal
    >>> policy = DILinUCBOriginal()
    >>> policy.bind(Graph.from_edges([0, 0, 1], [1, 2, 2]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], rng=0)
    >>> policy.update([1.0, 0.0], edges=[0, 1], outcomes=[1.0, 0.0])
    >>> policy.score([1.0, 0.0]).shape
    (3,)
    """

    name = "DILinUCB-original"
    needs_users = True

    def __init__(
        self,
        *,
        exploration: float = 0.1,
        noise_variance: float = 0.1,
        prior_variance: float = 1.0,
        candidates: int = 200,
        max_targets: int = 50_000,
    ) -> None:
        self.exploration = check_number("exploration", exploration)
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.candidates = check_count("candidates", candidates, 1)
        self.max_targets = check_count("max_targets", max_targets, 1)

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
