"""`PaperTensorUCB`: the paper's tensor and Algorithm 1, with what the text leaves open as arguments."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_choice, check_count, check_flag, check_number
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.learner import TensorRegression, TensorState
from tensorucb.policies._base import EXPLORATION_KINDS, EXPLORATIONS, Grid, UCBPolicy, setting
from tensorucb.policies._kernels import tensor_moments
from tensorucb.policies.prediction import Prediction
from tensorucb.rng import RngLike
from tensorucb.threads import map_chunks, single_threaded_blas, thread_count

_NAMES = {"gaussian": "TensorUCB (paper)", "logistic": "TensorUCB (paper, logistic)"}
# As published, and what goes with the logistic likelihood.
_DEFAULTS: dict[str, tuple[Any, Any]] = {
    "prior_variance": (1.0, 0.1),
    "constants": (False, True),
    "scaled": (False, True),
    "start": ("ones", "random"),
    "intercept_variance": (0.0, 0.3),
}
# Standard deviation of a small random start, and what is left of it in the rank that holds the base rate.
_SMALL, _SMALLER = 0.1, 0.3
_CHUNK = 1 << 16
# The same words each time, so that Python shows them once.
_UNCONVERGED = (
    "the paper's update did not reach its fixed point for some outcomes within 100 sweeps; they were learned as far as "
    "it got. Smaller features help."
)


class FixedPointWarning(RuntimeWarning):
    """Some outcomes were learned without reaching the fixed point that the paper's update asks for."""


@dataclass(eq=False, repr=False)
class PaperTensorUCB(UCBPolicy):
    """The paper's CP tensor and its Algorithm 1; ``u = Σ_r (x_i·w^{1,r})(x_j·w^{2,r}) Π_{l≥3} (z_l·w^{l,r})``.

    `TensorUCB.paper` is another name of it. By default everything is as published: Gaussian likelihood, factorised
    posterior, mean field, w̄ = ones and Σ = I at the start, features as they come, sigmoid, UCB. It learns outcome by
    outcome and keeps no rounds, so memory does not grow.

    ``likelihood="logistic"`` is the same tensor with the likelihood that fits outcomes of 0 and 1, and with the
    settings that go with it: a tight prior, a constant in every mode, scaled users, a small random start at a base
    rate, and a shrunken effect of each source and each target. Any of them may be given on its own.

    Where the text leaves a choice, or this departs from it:

    - *Start of p.* The paper draws the first round's probabilities at random. Here they come from the model's start
      like all others, so that all edges with the same features are equal.
    - *Current product.* The paper computes the probabilities at the end of a round, with that round's product, and
      uses them for the next one. Here a round is scored with its own product.
    - *Start of b.* Algorithm 1 initialises Σ and w̄ and leaves b open: see ``start``.
    - *Order of sweeps.* "Over all (l, r)" names no order: see ``order``. It changes p by a few hundredths.
    - *Fixed point.* "Until convergence" ends when nothing moves by more than 1e-8, or after 100 sweeps; then a
      `FixedPointWarning` says so. Every sweep begins from the state before the outcome, so that it counts once.
    - *A3.* Theorem 1 assumes ‖βφ‖ ≤ 1 in every update. Features are taken as they come and β is not bounded, so
      this fails unless features are small (``docs/mathematics.md`` has the shares).
    - *Oracle.* It is the caller's; the paper's TIM+ is ``Sampling(algorithm="tim")``.

    Parameters
    ----------
    rank, exploration
        R, the number of CP components; c, the factor of the confidence bonus (Eq. 24, CB_ij).
    likelihood
        ``"gaussian"``, as published, or ``"logistic"``. The defaults below are named in this order.
    exploration_kind
        ``"ucb"``. ``"thompson"``: one W drawn from the posterior, again for each round told and each product.
        ``"greedy"``: no exploration.
    noise_variance, prior_variance
        σ² of the Gaussian likelihood; prior variance of a coefficient (1, 0.1).
    constants
        Whether a constant 1 is appended to the features of each mode, so that the tensor holds main and pair effects
        as well (no, yes).
    scaled
        Whether user features are divided by one factor, which makes the root mean square of their norms 1 (no, yes).
    start
        ``"ones"`` (Gaussian): w̄ = ones, with the b that Eq. 15 ties to them, σ²Σ⁻¹w̄: the ones are the prior mean.
        ``"paper"``: w̄ = ones and b = 0, the zero-mean prior of Eq. 7; then the fixed point of a first outcome of 0 is
        w̄ = 0, where every later update and the bonus vanish, and all edges stay at 0.5 for good.
        ``"random"`` (logistic): small random prior means; with ``constants``, those of the first rank multiply to
        ``base_logit``, so that every edge begins near one score.
    base_logit
        Logit of every edge's first probability with constants and a random start; −3 is a probability of 4.7 %.
    intercept_variance
        Prior variance of the effect of a source, and of a target; 0 leaves these effects out (0, 0.3).
    projection
        proj of Eq. 24: ``"sigmoid"``, as in the paper, or ``"clip"`` to [0, 1], for the Gaussian likelihood alone.
    coding
        Of the Gaussian's outcomes: ``"zero_one"`` or ``"plus_minus"`` (−1 and 1; then ``"clip"`` maps −1 to 0).
    order
        Of the visits in a sweep: ``"ranks"``, all modes of a rank before the next rank, or ``"modes"``.

    Examples
    --------
    >>> import tensorucb as tu
    >>> from tensorucb.data import make_sandbox
    >>> tu.TensorUCB.paper(rank=2).name
    'TensorUCB (paper)'
    >>> box = make_sandbox(100, 800, 5, rng=0)
    >>> policy = tu.TensorUCB.paper(rank=3, likelihood="logistic")
    >>> policy.bind(box.graph, box.users, rng=0)
    >>> policy.update(box.products[0], [0, 1, 2], [1, 0, 0])
    >>> policy.score(box.products[0]).shape
    (800,)
    """

    needs_users = True
    uses_product = True
    uses_strategies = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "rank": (1, 2, 5, 10, 20, 50)}

    rank: int = setting(10, check_count, 1, 1000)
    exploration: float = setting(0.1, check_number)
    _: KW_ONLY
    likelihood: str = setting("gaussian", check_choice, _NAMES)
    exploration_kind: str = setting("ucb", check_choice, EXPLORATION_KINDS)
    noise_variance: float = setting(0.1, check_number, strict=True)
    prior_variance: float = setting(None, check_number, strict=True)
    constants: bool = setting(None, check_flag)
    scaled: bool = setting(None, check_flag)
    start: str = setting(None, check_choice, ("ones", "paper", "random"))
    base_logit: float = setting(-3.0, check_number, low=-700.0, high=700.0)
    intercept_variance: float = setting(None, check_number)
    projection: str = setting("sigmoid", check_choice, ("sigmoid", "clip"))
    coding: str = setting("zero_one", check_choice, ("zero_one", "plus_minus"))
    order: str = setting("ranks", check_choice, ("ranks", "modes"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = _NAMES[self.likelihood]
        logistic = self.likelihood == "logistic"
        self._left_out = [name for name in _DEFAULTS if getattr(self, name) is None]
        for name in self._left_out:
            setattr(self, name, _DEFAULTS[name][logistic])
        if logistic and (self.projection, self.coding) != ("sigmoid", "zero_one"):
            raise InputError(
                f"projection={self.projection!r} and coding={self.coding!r} are choices of the Gaussian likelihood; "
                "the logistic one has a sigmoid and outcomes of 0 and 1. Leave both out, or pass "
                "likelihood='gaussian'."
            )

    def made_with(self) -> dict[str, Any]:
        """The constructor's arguments as they were passed; those left out follow the likelihood."""
        return {**self.settings(), **dict.fromkeys(self._left_out)}

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features and a seed."""
        super().bind(graph, users, rng)
        features = self.users
        norms = np.sqrt(np.einsum("ni,ni->n", features, features))
        if self.scaled and norms.any():
            features = features * (1.0 / np.sqrt(np.mean(norms**2)))
        self._features = np.ascontiguousarray(self._mode(features))

    def _mode(self, rows: F64) -> F64:
        """Rows of features of a mode as the model takes them."""
        return np.hstack([rows, np.ones((len(rows), 1))]) if self.constants else rows

    def initial(self, dims: tuple[int, ...]) -> TensorRegression:
        """What is known before the first round."""
        n, d = self._features.shape
        shape = (d, d, *(size + self.constants for size in dims))
        effects: dict[str, Any] = {}
        if self.intercept_variance > 0.0:
            effects = {"intercepts": (n, n), "intercept_variance": self.intercept_variance}
        return TensorRegression(
            shape,
            self.rank,
            likelihood=self.likelihood,
            noise_variance=self.noise_variance,
            prior_variance=self.prior_variance,
            init=self._small_means(shape) if self.start == "random" else self.start,
            order=self.order,
            **effects,
        )

    def _small_means(self, shape: tuple[int, ...]) -> Sequence[F64]:
        """Small random numbers; the constants of the first rank multiply to the base score."""
        generator = np.random.default_rng([self._key, zlib.crc32(b"start")])
        means = [generator.normal(0.0, _SMALL, (self.rank, d)) for d in shape]
        rate = 1.0 / (1.0 + math.exp(-self.base_logit))
        score = self.base_logit if self.likelihood == "logistic" else float(self._coded(np.array(rate)))
        for mode, w in enumerate(means):
            if self.constants:
                w[0] *= _SMALLER
                w[0, -1] = score if mode == 2 else 1.0
        return means

    def _coded(self, outcomes: F64) -> F64:
        return outcomes if self.coding == "zero_one" else 2.0 * outcomes - 1.0

    def learn(self, state: TensorRegression, modes: Vectors, edges: I64, outcomes: F64) -> TensorRegression:
        """One variational update per outcome, in the order observed."""
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = [self._mode(np.tile(mode, (edges.size, 1))) for mode in modes]
        features = [self._features[sources], self._features[targets], *shared]
        before = state.state.n_unconverged
        state.update(features, self._coded(outcomes), (sources, targets) if state.intercepts else None)
        if state.state.n_unconverged > before:
            warnings.warn(_UNCONVERGED, FixedPointWarning, stacklevel=3)
        return state

    def predict(self, state: TensorRegression, modes: Vectors) -> Prediction:
        """ū and the sum over modes and ranks of √(βφᵀΣβφ) (Eqs. 17 and 24)."""
        graph = self.graph
        source, target = _by_node(self._features, [self._mode(mode[None])[0] for mode in modes], state.state)
        mean, deviation = np.empty((2, graph.n_edges))

        def run(start: int, stop: int) -> None:
            tensor_moments(graph.sources, graph.targets, start, stop, source, target, mean, deviation)

        map_chunks(run, [*range(0, graph.n_edges, _CHUNK), graph.n_edges], thread_count())
        if self.projection == "sigmoid":
            return Prediction(graph, mean, deviation, link="logit")
        if self.coding == "plus_minus":
            mean, deviation = 0.5 * (1.0 + mean), 0.5 * deviation
        return Prediction(graph, mean, deviation, link="identity")

    def optimistic(self, prediction: Prediction, modes: Vectors) -> F64:
        """With the bonus, or by one W drawn from the posterior."""
        if self.exploration_kind != "thompson":
            return super().optimistic(prediction, modes)
        drawn = self._known(modes).sample(self._generator("thompson", modes))
        return self.predict(drawn, modes).probabilities()

    def to_arrays(self, state: TensorRegression) -> Arrays:
        """Means and covariances."""
        return state.to_arrays()

    def from_arrays(self, dims: tuple[int, ...], arrays: Mapping[str, NDArray[Any]]) -> TensorRegression:
        """Means and covariances, checked."""
        state = self.initial(dims)
        state.take_arrays(arrays)
        return state


@single_threaded_blas()
def _by_node(X: F64, vectors: list[F64], state: TensorState) -> tuple[Vectors, Vectors]:
    """Everything per node once, so that an edge costs O(R); see the glossary of the kernels for the letters."""
    A, B = X @ state.means[0].T, X @ state.means[1].T
    shared = [w @ z for w, z in zip(state.means[2:], vectors, strict=True)]
    product = np.prod(shared, axis=0)
    offsets = list(state.intercept_means) or [np.zeros(len(X)), np.zeros(len(X))]
    roots = [np.sqrt(variance) for variance in state.intercept_variances] or [np.zeros(len(X)), np.zeros(len(X))]
    source_roots, target_roots = (_roots(X, S) for S in state.covariances[:2])
    # Σ_l over modes 3..D of the root of z's variance times the other shared modes.
    extra = np.zeros(A.shape[1])
    for mode, (z, S) in enumerate(zip(vectors, state.covariances[2:], strict=True)):
        others = np.prod([x for other, x in enumerate(shared) if other != mode], axis=0)
        extra = extra + abs(others) * _roots(z[None], S)[0]
    P = abs(product) * source_roots + abs(A) * extra
    return (A * product, P, abs(A * product), offsets[0], roots[0]), (B, target_roots, offsets[1], roots[1])


def _roots(X: F64, S: F64) -> F64:
    """√(xᵀΣx) of every row and rank, (n, R)."""
    forms = [np.einsum("ni,ni->n", X @ block, X) for block in S]
    return np.ascontiguousarray(np.sqrt(np.maximum(forms, 0.0)).T)
