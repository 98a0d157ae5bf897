"""`OnlineTensorUCB`: the paper's family, learning sample by sample, with all its options."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice, check_count, check_flag, check_number, check_share
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.learner import (
    Draw,
    TensorSettings,
    TensorState,
    init,
    sample,
    state_from_arrays,
    state_to_arrays,
    update,
)
from tensorucb.policies._base import EXPLORATIONS, BasePolicy, Floats, Grid, Ints
from tensorucb.rng import RngLike
from tensorucb.threads import map_chunks, single_threaded_blas, thread_count

__all__ = ["FixedPointWarning", "OnlineTensorUCB"]

_CHOICES = {
    "exploration_kind": ("ucb", "variance", "thompson", "greedy"),
    "projection": ("sigmoid", "clip"),
    "likelihood": ("gaussian", "logistic"),
    "posterior": ("factorised", "joint"),
    "second_moments": ("mean_field", "full"),
    "start": ("flat", "random", "ones", "paper"),
    "user_scaling": ("mean", "rows", "none"),
}
_FLAT_SCALE = 0.1
_CHUNK = 1 << 16
# The same words each time, so that Python shows them once.
_UNCONVERGED = (
    "the paper's update did not reach its fixed point for some outcomes within 100 sweeps; they were learned as far as "
    "it got. Smaller features help."
)


class FixedPointWarning(RuntimeWarning):
    """Some outcomes were learned without reaching the fixed point that the paper's update asks for."""


class OnlineTensorUCB(BasePolicy):
    """Contextual influence maximisation by online variational tensor regression (the paper's Algorithm 1).

    The score of an edge is ``u = Σ_r (x_i·w^{1,r})(x_j·w^{2,r}) Π_{l≥3} (z_l·w^{l,r})``. The defaults are ours: a
    logistic likelihood, a constant feature in every mode, a flat start and node intercepts, under a tight prior.
    `TensorUCB.paper` is the paper to the letter. It keeps no rounds: memory does not grow, and a round is learned once.

    Parameters
    ----------
    rank
        R, the number of CP components.
    exploration
        c, the factor of the confidence bonus (``ucb`` and ``variance``).
    exploration_kind
        ``"ucb"``: the sum of roots of Eq. CB_ij. ``"variance"``: the root of the summed variance. ``"thompson"``: one W
        drawn from the posterior, anew for each round told and each product. ``"greedy"``: no exploration.
    projection
        proj of Eq. CB_ij, ``"sigmoid"`` or ``"clip"`` to [0, 1].
    likelihood, posterior, second_moments, noise_variance, prior_variance, forgetting
        The learner's; see :class:`~tensorucb.learner.TensorRegression`.
    start
        Prior means. ``"flat"``: small random numbers, except that the constants of the first rank multiply to
        ``base_logit``, so that every edge begins near one score; needs ``constants``. ``"random"``, ``"ones"`` and
        ``"paper"`` are the learner's.
    base_logit
        Score of every edge at a flat start; −3 is a probability of 4.7 %.
    constants
        Append a constant 1 to the features of every mode, so that the tensor holds main and pair effects as well.
    node_intercepts
        Learn a shrunken intercept for each source and each target, in the same fixed point.
    intercept_variance
        Their prior variance.
    user_scaling
        ``"mean"``: one factor for all users which makes the root mean square of their norms 1. ``"rows"``: every user
        to unit norm. ``"none"``: as they come. With unit norms A3 of Theorem 1 (‖βφ‖ ≤ 1) holds while β stays in
        [−1, 1]. Products are never scaled, and the constant is appended afterwards.
    """

    name = "OnlineTensorUCB"
    needs_users = True
    uses_product = True
    tunable: ClassVar[Grid] = {"exploration": EXPLORATIONS, "rank": (1, 2, 5, 10, 20, 50)}

    def __init__(
        self,
        rank: int = 10,
        exploration: float = 0.1,
        *,
        exploration_kind: str = "ucb",
        projection: str = "sigmoid",
        likelihood: str = "logistic",
        posterior: str = "factorised",
        second_moments: str = "mean_field",
        noise_variance: float = 0.1,
        prior_variance: float = 0.1,
        forgetting: float = 1.0,
        start: str = "flat",
        base_logit: float = -3.0,
        constants: bool = True,
        node_intercepts: bool = True,
        intercept_variance: float = 0.3,
        user_scaling: str = "mean",
    ) -> None:
        self.rank = check_count("rank", rank, 1, 1000)
        self.exploration = check_number("exploration", exploration)
        self.exploration_kind, self.projection = exploration_kind, projection
        self.likelihood, self.posterior, self.second_moments = likelihood, posterior, second_moments
        self.noise_variance = check_number("noise_variance", noise_variance, strict=True)
        self.prior_variance = check_number("prior_variance", prior_variance, strict=True)
        self.forgetting = check_share("forgetting", forgetting, zero=False)
        self.start, self.user_scaling = start, user_scaling
        self.base_logit = check_number("base_logit", base_logit, low=-700.0, high=700.0)
        self.constants = check_flag("constants", constants)
        self.node_intercepts = check_flag("node_intercepts", node_intercepts)
        self.intercept_variance = check_number("intercept_variance", intercept_variance, strict=True)
        for name, allowed in _CHOICES.items():
            check_choice(name, getattr(self, name), allowed)
        if start == "flat" and not constants:
            raise InputError("start='flat' puts its base score on the constants; got constants=False. Use 'random'.")

    # -- the model --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start anew on this graph, with (n, d) user features and a seed."""
        super().bind(graph, users, rng)
        self._features = self._with_constant(_scaled(self.users, self.user_scaling))
        self._cached: tuple[dict[str, NDArray[Any]], TensorState] | None = None

    def _with_constant(self, rows: Floats) -> Floats:
        return np.hstack([rows, np.ones((len(rows), 1))]) if self.constants else rows

    def _model(self, dims: tuple[int, ...]) -> TensorSettings:
        """The learner's settings for products of these dimensions."""
        more, n = int(self.constants), self.graph.n_nodes
        d = self.users.shape[1]
        return TensorSettings.build(
            (d + more, d + more, *(size + more for size in dims)),
            self.rank,
            likelihood=self.likelihood,
            posterior=self.posterior,
            second_moments=self.second_moments,
            noise_variance=self.noise_variance,
            prior_variance=self.prior_variance,
            forgetting=self.forgetting,
            intercepts=(n, n) if self.node_intercepts else (),
            intercept_variance=self.intercept_variance,
        )

    def _begin(self, model: TensorSettings) -> TensorState:
        generator = np.random.default_rng([self._key, zlib.crc32(b"start")])
        if self.start != "flat":
            return init(model, self.start, rng=generator)
        means = [generator.normal(0.0, _FLAT_SCALE, (model.rank, d)) for d in model.dims]
        for mode, w in enumerate(means):
            w[0] *= 0.3
            w[0, -1] = self.base_logit if mode == 2 else 1.0
        return init(model, means)

    def _initial(self, dims: tuple[int, ...] | None) -> dict[str, NDArray[Any]]:
        return {} if dims is None else state_to_arrays(self._begin(self._model(dims)))

    def _knowledge(self, model: TensorSettings) -> TensorState:
        """What is known now; before the first update, the start for products of these dimensions."""
        if not self._arrays:
            return self._begin(model)
        if self._cached is None or self._cached[0] is not self._arrays:
            self._cached = (self._arrays, state_from_arrays(model, self._arrays))
        return self._cached[1]

    def _learn(self, modes: tuple[Floats, ...], edges: Ints, outcomes: Floats) -> None:
        model = self._model(tuple(mode.size for mode in modes))
        sources, targets = self.graph.sources[edges], self.graph.targets[edges]
        shared = [self._with_constant(np.tile(mode, (edges.size, 1))) for mode in modes]
        features = [self._features[sources], self._features[targets], *shared]
        groups = (sources, targets) if self.node_intercepts else None
        state, report = update(model, self._knowledge(model), features, outcomes, groups)
        if report.unconverged:
            warnings.warn(_UNCONVERGED, FixedPointWarning, stacklevel=3)
        self._arrays = state_to_arrays(state)
        self._cached = (self._arrays, state)

    def _score(self, modes: tuple[Floats, ...]) -> Floats:
        model = self._model(tuple(mode.size for mode in modes))
        state = self._knowledge(model)
        vectors = [self._with_constant(mode[None])[0] for mode in modes]
        kind, c = self.exploration_kind, self.exploration
        draw = sample(model, state, self._generator("thompson", modes)) if kind == "thompson" else None
        spread = kind in ("ucb", "variance") and c > 0.0
        scoring = _Round(model, state, draw, self._features, vectors, c if spread else 0.0, kind == "ucb")
        with single_threaded_blas():
            return scoring.score(self.graph, 1 if self.projection == "sigmoid" else 0)


def _scaled(users: Floats, scaling: str) -> Floats:
    norms = np.sqrt(np.einsum("ni,ni->n", users, users))
    factors = np.ones(len(users))
    if scaling == "rows":
        factors = 1.0 / np.where(norms > 0.0, norms, 1.0)
    elif scaling == "mean" and norms.any():
        factors /= np.sqrt(np.mean(norms**2))
    return np.ascontiguousarray(users * factors[:, None])


@dataclass(frozen=True)
class _Round:
    """One round's scoring: everything per node once, modes 3..D as numbers per rank, then O(R) or O(R²) an edge."""

    model: TensorSettings
    state: TensorState
    draw: Draw | None
    features: Floats
    vectors: list[Floats]
    c: float
    roots: bool

    @property
    def full(self) -> bool:
        """Whether the variance is the exact one; the sum of roots is always Eq. CB_ij's."""
        return self.model.second_moments == "full" and not self.roots

    def score(self, graph: Graph, link: int) -> Floats:
        from tensorucb.policies import _kernels

        out = np.empty(graph.n_edges)
        w = self.state.means if self.draw is None else self.draw.means
        a, b = self.features @ w[0].T, self.features @ w[1].T
        if self.c > 0.0 and self.model.posterior == "joint":
            arguments, kernel = self._joint(a, b), _kernels.score_joint
        else:
            arguments, kernel = self._factorised(a, b), _kernels.score_factorised
        offsets = self._offsets(graph.n_nodes)
        options = (
            (self.c, self.roots, self.full, link) if kernel is _kernels.score_joint else (self.c, self.roots, link)
        )

        def run(start: int, stop: int) -> None:
            kernel(graph.sources, graph.targets, start, stop, *arguments, *offsets, *options, out)

        map_chunks(run, [*range(0, graph.n_edges, _CHUNK), graph.n_edges], thread_count())
        return out

    def _shared(self) -> list[Floats]:
        """z·w^{l,r} of modes 3..D."""
        means = self.state.means if self.draw is None else self.draw.means
        return [w @ z for w, z in zip(means[2:], self.vectors, strict=True)]

    def _factorised(self, a: Floats, b: Floats) -> tuple[Floats, ...]:
        shared = self._shared()
        c = np.prod(shared, axis=0)
        if self.c == 0.0:
            return a * c, a, a, b, b
        sa, sb = (np.maximum(form, 0.0) for form in self._forms())
        s = [
            np.maximum(np.einsum("i,rij,j->r", z, S, z), 0.0)
            for z, S in zip(self.vectors, self.state.covariances[2:], strict=True)
        ]
        e = [np.prod([x for other, x in enumerate(shared) if other != m], axis=0) for m in range(len(shared))]
        if self.roots:
            extra = np.sum([abs(x) * np.sqrt(v) for x, v in zip(e, s, strict=True)], axis=0)
            return a * c, abs(c) * np.sqrt(sa) + abs(a) * extra, abs(a * c), b, np.sqrt(sb)
        if self.full:
            both = (a**2 + sa) * np.prod([x**2 + v for x, v in zip(shared, s, strict=True)], axis=0)
            return a * c, both - (a * c) ** 2, both, b, sb
        extra = np.sum([x**2 * v for x, v in zip(e, s, strict=True)], axis=0)
        return a * c, c**2 * sa + a**2 * extra, (a * c) ** 2, b, sb

    def _joint(self, a: Floats, b: Floats) -> tuple[Floats, ...]:
        upper, shared = np.triu_indices(self.model.rank), self._shared()
        V = []
        for z, S in zip(self.vectors, self.state.covariances[2:], strict=True):
            blocks = S.reshape(self.model.rank, z.size, self.model.rank, z.size)
            V.append(np.einsum("i,risj,j->rs", z, blocks, z))
        e = [
            np.prod([x for other, x in enumerate(shared) if other != m], axis=0) * np.ones(a.shape[1])
            for m in range(len(V))
        ]
        extra = np.array([(v * np.outer(x, x))[upper] for v, x in zip(V, e, strict=True)])
        if not self.roots:
            extra = extra.sum(axis=0, keepdims=True)
        moment = np.prod([np.outer(x, x) + v for x, v in zip(shared, V, strict=True)], axis=0)[upper]
        c = np.prod(shared, axis=0)
        first, second = self._forms()
        return a, first, b, second, c, extra, np.ascontiguousarray(moment)

    def _forms(self) -> tuple[Floats, Floats]:
        """XᵀΣx of every node in modes 1 and 2: (n, R), or (n, R(R+1)/2) over rank pairs if joint."""
        from tensorucb.policies._kernels import quadratic_forms

        n, d = self.features.shape
        i, j = np.triu_indices(d)
        blocks = np.concatenate([self._blocks(mode, d) for mode in (0, 1)])
        both = blocks[:, i, j] + blocks[:, j, i]
        coefficients = np.ascontiguousarray(np.where(i == j, 0.5, 1.0)[:, None] * both.T)
        first, second = np.empty((n, len(blocks) // 2)), np.empty((n, len(blocks) // 2))

        def run(start: int, stop: int) -> None:
            quadratic_forms(self.features, coefficients, start, stop, first, second)

        map_chunks(run, [*range(0, n, _CHUNK), n], thread_count())
        return first, second

    def _blocks(self, mode: int, d: int) -> Floats:
        """Σ^{l,r} of each rank, or Σ_{rs} of each pair of ranks r ≤ s if joint."""
        S, rank = self.state.covariances[mode], self.model.rank
        if self.model.posterior == "factorised":
            return S
        r, s = np.triu_indices(rank)
        return np.asarray(S.reshape(rank, d, rank, d).transpose(0, 2, 1, 3)[r, s])

    def _offsets(self, n: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Intercepts of sources and targets (their share of the sum of roots included), and their variances."""
        if not self.model.intercepts:
            return np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
        source, target = self.state.intercept_means if self.draw is None else self.draw.intercepts
        var_source, var_target = self.state.intercept_variances
        if self.roots and self.c > 0.0:
            source, target = source + self.c * np.sqrt(var_source), target + self.c * np.sqrt(var_target)
        return source, target, var_source, var_target
