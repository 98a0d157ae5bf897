"""`TensorPolicy`: what `OnlineTensorUCB` and `PaperTensorUCB` share, a tensor regression of all edges."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb import learner
from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.graph import Graph
from tensorucb.learner import PosteriorDraw, TensorSettings, TensorState
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
    """Some outcomes were learned without reaching the fixed point that the paper's update asks for.

    Examples
    --------
    >>> import warnings
    >>> from tensorucb.policies import FixedPointWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", FixedPointWarning)  # for long runs of the paper's form
    """


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
        self._state: TensorState | None = None

    def mean(self, product: Product) -> F64:
        """The believed probability of every edge, without exploration."""
        return self._edge_scores(self._modes(product), 0.0, None)

    def latent(self, product: Product) -> tuple[F64, F64]:
        """Mean and variance of every edge's score u, before the projection and without observation noise."""
        modes = self._modes(product)
        model, state = self._knowledge(modes)
        mean, variance = learner.predict(model, state, *self._samples(modes, np.arange(self.graph.n_edges), model))
        return mean, variance - (model.noise_variance if model.likelihood == "gaussian" else 0.0)

    def _knowledge(self, modes: Vectors) -> tuple[TensorSettings, TensorState]:
        """The model for products like this one, and what is known now; before the first round, the start."""
        model = self._model(tuple(mode.size for mode in modes))
        if self._state is not None:
            return model, self._state
        return model, self._begin(model, np.random.default_rng([self._key, zlib.crc32(b"start")]))

    def _samples(self, modes: Vectors, edges: I64, model: TensorSettings) -> tuple[list[F64], tuple[Any, Any] | None]:
        """Features of some edges, one array per mode, and their members of the groups of intercepts."""
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = [self._mode(np.tile(mode, (edges.size, 1))) for mode in modes]
        groups = (sources, targets) if model.intercepts else None
        return [self._features[sources], self._features[targets], *shared], groups

    def _learn(self, modes: Vectors, edges: I64, outcomes: F64) -> None:
        model, state = self._knowledge(modes)
        features, groups = self._samples(modes, edges, model)
        self._state, report = learner.update(model, state, features, outcomes, groups)
        if report.unconverged:
            warnings.warn(_UNCONVERGED, FixedPointWarning, stacklevel=3)

    def _saved(self) -> Arrays:
        return {} if self._state is None else learner.state_to_arrays(self._state)

    def _load(self, dims: tuple[int, ...] | None, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._state = None if dims is None or not arrays else learner.state_from_arrays(self._model(dims), arrays)

    def _score(self, modes: Vectors) -> F64:
        return self._edge_scores(modes, self.exploration, None)

    def _edge_scores(self, modes: Vectors, c: float, draw: PosteriorDraw | None) -> F64:
        """proj(u + c·bonus) of every edge (Eq. CB_ij), or the projected scores of one drawn W."""
        from tensorucb.policies._kernels import tensor_scores

        graph, (_, state) = self.graph, self._knowledge(modes)
        vectors = [self._mode(mode[None])[0] for mode in modes]
        scores = np.empty(graph.n_edges)
        with single_threaded_blas():
            source, target = _by_node(self._features, vectors, state, c, draw)

            def run(start: int, stop: int) -> None:
                sigmoid = self.projection == "sigmoid"
                tensor_scores(graph.sources, graph.targets, start, stop, source, target, c, sigmoid, scores)

            map_chunks(run, [*range(0, graph.n_edges, _CHUNK), graph.n_edges], thread_count())
        return scores


def _by_node(
    X: F64, vectors: list[F64], state: TensorState, c: float, draw: PosteriorDraw | None
) -> tuple[Vectors, Vectors]:
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
    # Σ is symmetric: each pair i < j counts twice, the diagonal once.
    coefficients = np.ascontiguousarray(np.where(i == j, 0.5, 1.0)[:, None] * (blocks[:, i, j] + blocks[:, j, i]).T)
    first, second = np.empty((2, n, len(blocks) // 2))

    def run(start: int, stop: int) -> None:
        quadratic_forms(X, coefficients, start, stop, first, second)

    map_chunks(run, [*range(0, n, _CHUNK), n], thread_count())
    return first, second
