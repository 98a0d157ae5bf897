"""`TensorPolicy`: what `OnlineTensorUCB` and `PaperTensorUCB` share, a tensor regression of all edges."""

from __future__ import annotations

import warnings
import zlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb import learner
from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.learner import Draw, TensorSettings, TensorState
from tensorucb.policies._base import EXPLORATIONS, BasePolicy, Grid, Product
from tensorucb.rng import RngLike
from tensorucb.threads import map_chunks, single_threaded_blas, thread_count

_CHUNK = 1 << 16
# The same words each time, so that Python shows them once.
_UNCONVERGED = (
    "the paper's update did not reach its fixed point for some outcomes within 100 sweeps; they were learned as far as "
    "it got. Smaller features help."
)


class FixedPointWarning(RuntimeWarning):
    """Some outcomes were learned without reaching the fixed point that the paper's update asks for."""


class TensorPolicy(BasePolicy):
    """Scores ``u = Σ_r (x_i·w^{1,r})(x_j·w^{2,r}) Π_{l≥3} (z_l·w^{l,r})``, learned sample by sample.

    A subclass says how features are prepared (`_prepared`, `_mode`), which model learns (`_model`) and from where
    (`_begin`). It keeps no rounds: memory does not grow, and a round is learned once.
    """

    needs_users = True
    uses_product = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "rank": (1, 2, 5, 10, 20, 50)}

    rank: int
    exploration: float
    projection: str = "sigmoid"

    # -- what a subclass writes --

    def _prepared(self, users: F64) -> F64:
        """``(n, d)`` features of users as the model takes them."""
        return users

    def _mode(self, rows: F64) -> F64:
        """Rows of product features as the model takes them."""
        return rows

    def _model(self, dims: tuple[int, ...]) -> TensorSettings:
        """The learner's settings for products of these dimensions."""
        raise NotImplementedError

    def _begin(self, model: TensorSettings, generator: np.random.Generator) -> TensorState:
        """What is known before the first round."""
        raise NotImplementedError

    # -- the policy --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features and a seed."""
        super().bind(graph, users, rng)
        self._features = np.ascontiguousarray(self._prepared(self.users))
        self._cached: tuple[dict[str, NDArray[Any]], TensorState] | None = None

    def mean(self, product: Product) -> F64:
        """The believed probability of every edge, without exploration."""
        return self._edge_scores(self._modes(product), 0.0, None)

    def latent(self, product: Product) -> tuple[F64, F64]:
        """Mean and variance of every edge's score u, before the projection and without observation noise."""
        modes = self._modes(product)
        model = self._settled(modes)
        features, groups = self._samples(modes, np.arange(self.graph.n_edges), model)
        mean, variance = learner.predict(model, self._knowledge(model), features, groups)
        return mean, variance - (model.noise_variance if model.likelihood == "gaussian" else 0.0)

    def _settled(self, modes: tuple[F64, ...]) -> TensorSettings:
        return self._model(tuple(mode.size for mode in modes))

    def _start(self, model: TensorSettings) -> TensorState:
        return self._begin(model, np.random.default_rng([self._key, zlib.crc32(b"start")]))

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        return {} if dims is None else learner.state_to_arrays(self._start(self._model(dims)))

    def _knowledge(self, model: TensorSettings) -> TensorState:
        """What is known now; before the first update, the start for products of these dimensions."""
        if not self._arrays:
            return self._start(model)
        if self._cached is None or self._cached[0] is not self._arrays:
            self._cached = (self._arrays, learner.state_from_arrays(model, self._arrays))
        return self._cached[1]

    def _samples(
        self, modes: tuple[F64, ...], edges: I64, model: TensorSettings
    ) -> tuple[list[F64], tuple[Any, Any] | None]:
        """Features of some edges, one array per mode, and their members of the groups of intercepts."""
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = [self._mode(np.tile(mode, (edges.size, 1))) for mode in modes]
        groups = (sources, targets) if model.intercepts else None
        return [self._features[sources], self._features[targets], *shared], groups

    def _learn(self, modes: tuple[F64, ...], edges: I64, outcomes: F64) -> None:
        model = self._settled(modes)
        features, groups = self._samples(modes, edges, model)
        state, report = learner.update(model, self._knowledge(model), features, outcomes, groups)
        if report.unconverged:
            warnings.warn(_UNCONVERGED, FixedPointWarning, stacklevel=3)
        self._arrays = learner.state_to_arrays(state)
        self._cached = (self._arrays, state)

    def _score(self, modes: tuple[F64, ...]) -> F64:
        return self._edge_scores(modes, self.exploration, None)

    def _edge_scores(self, modes: tuple[F64, ...], c: float, draw: Draw | None) -> F64:
        """proj(u + c·bonus) of every edge (Eq. CB_ij), or the projected scores of one drawn W."""
        state = self._knowledge(self._settled(modes))
        vectors = [self._mode(mode[None])[0] for mode in modes]
        with single_threaded_blas():
            source, target = _by_node(self._features, vectors, state, c, draw)
            return _by_edge(self.graph, source, target, c, self.projection == "sigmoid")


_Parts = tuple[tuple[F64, ...], tuple[F64, ...]]


def _by_node(X: F64, vectors: list[F64], state: TensorState, c: float, draw: Draw | None) -> _Parts:
    """Everything per node once, so that an edge costs O(R); see the glossary of the kernels for the letters."""
    means = state.means if draw is None else draw.means
    intercepts = state.intercept_means if draw is None else draw.intercepts
    A, B = X @ means[0].T, X @ means[1].T
    shared = [w @ z for w, z in zip(means[2:], vectors, strict=True)]
    product = np.prod(shared, axis=0)
    offsets = list(intercepts) or [np.zeros(len(X)), np.zeros(len(X))]
    if c == 0.0:
        return (A * product, A, A, offsets[0]), (B, B, offsets[1])
    if intercepts:
        offsets = [mu + c * np.sqrt(var) for mu, var in zip(offsets, state.intercept_variances, strict=True)]
    source_roots, target_roots = (np.sqrt(np.maximum(form, 0.0)) for form in _forms(X, state))
    # Σ_l over modes 3..D of the root of z's variance times the other shared modes.
    extra = np.zeros(A.shape[1])
    for mode, (z, S) in enumerate(zip(vectors, state.covariances[2:], strict=True)):
        others = np.prod([x for other, x in enumerate(shared) if other != mode], axis=0)
        extra = extra + abs(others) * np.sqrt(np.maximum(np.einsum("i,rij,j->r", z, S, z), 0.0))
    P = abs(product) * source_roots + abs(A) * extra
    return (A * product, P, abs(A * product), offsets[0]), (B, target_roots, offsets[1])


def _forms(X: F64, state: TensorState) -> tuple[F64, F64]:
    """XᵀΣX of every node and rank, in modes 1 and 2: (n, R) each."""
    from tensorucb.policies._kernels import quadratic_forms

    n, d = X.shape
    i, j = np.triu_indices(d)
    blocks = np.concatenate(state.covariances[:2])
    both = blocks[:, i, j] + blocks[:, j, i]
    coefficients = np.ascontiguousarray(np.where(i == j, 0.5, 1.0)[:, None] * both.T)
    first, second = np.empty((n, len(blocks) // 2)), np.empty((n, len(blocks) // 2))

    def run(start: int, stop: int) -> None:
        quadratic_forms(X, coefficients, start, stop, first, second)

    map_chunks(run, [*range(0, n, _CHUNK), n], thread_count())
    return first, second


def _by_edge(graph: Graph, source: tuple[F64, ...], target: tuple[F64, ...], c: float, sigmoid: bool) -> F64:
    from tensorucb.policies._kernels import score_edges

    out = np.empty(graph.n_edges)

    def run(start: int, stop: int) -> None:
        score_edges(graph.sources, graph.targets, start, stop, source, target, c, sigmoid, out)

    map_chunks(run, [*range(0, graph.n_edges, _CHUNK), graph.n_edges], thread_count())
    return out
