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
from tensorucb.learner import TensorSettings, TensorState
from tensorucb.policies._base import EXPLORATIONS, Grid, UCBPolicy
from tensorucb.policies.prediction import Prediction
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


class TensorPolicy(UCBPolicy):
    """Scores ``u = Σ_r (x_i·w^{1,r})(x_j·w^{2,r}) Π_{l≥3} (z_l·w^{l,r})``, learned sample by sample.

    A subclass says how features are prepared (`_prepared`, `_mode`), which model learns (`_model`) and from where
    (`_begin`). It keeps no rounds: memory does not grow, and a round is learned once.
    """

    needs_users = True
    uses_product = True
    uses_strategies = True
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

    def initial(self, dims: tuple[int, ...]) -> TensorState:
        """What is known before the first round."""
        return self._begin(self._model(dims), np.random.default_rng([self._key, zlib.crc32(b"start")]))

    def learn(self, state: TensorState, modes: Vectors, edges: I64, outcomes: F64) -> TensorState:
        """One variational update per outcome, in the order observed."""
        model = self._model(tuple(mode.size for mode in modes))
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = [self._mode(np.tile(mode, (edges.size, 1))) for mode in modes]
        features = [self._features[sources], self._features[targets], *shared]
        groups = (sources, targets) if model.intercepts else None
        state, report = learner.update(model, state, features, outcomes, groups)
        if report.unconverged:
            warnings.warn(_UNCONVERGED, FixedPointWarning, stacklevel=3)
        return state

    def predict(self, state: TensorState, modes: Vectors) -> Prediction:
        """ū and the sum over modes and ranks of √(βφᵀΣβφ) (Eq. CB_ij)."""
        return self._prediction(modes, _by_node(self._features, self._vectors(modes), state))

    def to_arrays(self, state: TensorState) -> Arrays:
        """Means and covariances."""
        return learner.state_to_arrays(state)

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> TensorState:
        """Means and covariances, checked."""
        return learner.state_from_arrays(self._model(dims), arrays)

    def _vectors(self, modes: Vectors) -> list[F64]:
        return [self._mode(mode[None])[0] for mode in modes]

    def _prediction(self, modes: Vectors, by_node: tuple[Vectors, Vectors]) -> Prediction:
        from tensorucb.policies._kernels import tensor_moments

        graph, (source, target) = self.graph, by_node
        mean, deviation = np.empty((2, graph.n_edges))

        def run(start: int, stop: int) -> None:
            tensor_moments(graph.sources, graph.targets, start, stop, source, target, mean, deviation)

        map_chunks(run, [*range(0, graph.n_edges, _CHUNK), graph.n_edges], thread_count())
        return Prediction(graph, mean, deviation, link="logit" if self.projection == "sigmoid" else "identity")


@single_threaded_blas()
def _by_node(X: F64, vectors: list[F64], state: TensorState) -> tuple[Vectors, Vectors]:
    """Everything per node once, so that an edge costs O(R); see the glossary of the kernels for the letters."""
    A, B = X @ state.means[0].T, X @ state.means[1].T
    shared = [w @ z for w, z in zip(state.means[2:], vectors, strict=True)]
    product = np.prod(shared, axis=0)
    offsets = list(state.intercept_means) or [np.zeros(len(X)), np.zeros(len(X))]
    roots = [np.sqrt(variance) for variance in state.intercept_variances] or [np.zeros(len(X)), np.zeros(len(X))]
    source_roots, target_roots = (np.sqrt(np.maximum(form, 0.0)) for form in _forms(X, state))
    # Σ_l over modes 3..D of the root of z's variance times the other shared modes.
    extra = np.zeros(A.shape[1])
    for mode, (z, S) in enumerate(zip(vectors, state.covariances[2:], strict=True)):
        others = np.prod([x for other, x in enumerate(shared) if other != mode], axis=0)
        extra = extra + abs(others) * np.sqrt(np.maximum(np.einsum("i,rij,j->r", z, S, z), 0.0))
    P = abs(product) * source_roots + abs(A) * extra
    return (A * product, P, abs(A * product), offsets[0], roots[0]), (B, target_roots, offsets[1], roots[1])


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
