"""A refit: Newton steps over the blocks, each exact given the others, each with a line search.

Curvature is p(1 − p), the information of a Bernoulli outcome. The bound of Jaakkola and Jordan has a multiple of it
for rare events: intervals would be too narrow, and ascent slow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._problem import Problem, Sums, Value, load
from tensorucb.learner.blocks._settings import BlockSettings
from tensorucb.learner.blocks._state import BlockState, Point, Prior, free_ranks, with_sources

__all__ = [
    "climb",
    "fit",
    "kronecker_sum",
    "of_ranks",
    "product_step",
    "source_normal",
    "source_step",
    "target_step",
    "taste_step",
]

F64 = NDArray[np.float64]
Move = Callable[[float], Point]

_SIZES = (1.0, 0.5, 0.25, 0.125)
_CHUNK = 4096


@dataclass(frozen=True)
class SourcePosterior:
    """Laplace approximation of the source block: see `BlockState` for the three arrays."""

    weight_covariance: F64
    effect_covariances: F64
    gains: F64


def fit(settings: BlockSettings, nodes: NodeFeatures, state: BlockState) -> BlockState:
    """Refit all parameters to the rounds kept, from where they are."""
    everyone = np.unique(np.concatenate([r.sources for r in state.log]))
    state = with_sources(state, everyone)
    point, k = state.point, state.point.weights[2].shape[1] - 1
    problem = load(nodes, state.prior, state.seen, state.log, k)
    value = problem.value(point)
    for _ in range(settings.sweeps_at(state.rounds)):
        point, value = climb(problem, point, value, source_step(problem, point)[0])
        point, value = climb(problem, point, value, target_step(problem, point))
        for mode in range(2, len(point.weights)):
            point, value = climb(problem, point, value, product_step(problem, point, mode))
        if nodes.preference is not None:
            point, value = climb(problem, point, value, taste_step(problem, point, value))
    move, posterior = source_step(problem, point)
    point, value = climb(problem, point, value, move)
    prior = replace(
        state.prior,
        variances=_learned_variances(settings, point, posterior),
        group_variances=_learned_group_variances(settings, state.prior, point, posterior),
    )
    return replace(
        state,
        point=point,
        prior=prior,
        weight_covariance=posterior.weight_covariance,
        effect_covariances=posterior.effect_covariances,
        gains=posterior.gains,
    )


def climb(problem: Problem, point: Point, value: Value, move: Move) -> tuple[Point, Value]:
    """The longest of a few step sizes at which the log posterior does not fall; the old point if there is none."""
    slack = 1e-9 + 1e-13 * abs(value.total)
    for size in _SIZES:
        new = move(size)
        found = problem.value(new)
        # A value that is not a number fails the comparison.
        if found.total >= value.total - slack:
            return new, found
    return point, value


def kronecker_sum(G: F64, X: F64) -> F64:
    """``Σ_n G_n ⊗ x_n x_nᵀ``, (R·d, R·d), in chunks so that memory stays small."""
    R, d = G.shape[1], X.shape[1]
    total = np.zeros((R * R, d * d))
    for a in range(0, len(X), _CHUNK):
        x = X[a : a + _CHUNK]
        total += G[a : a + _CHUNK].reshape(len(x), R * R).T @ (x[:, :, None] * x[:, None, :]).reshape(len(x), d * d)
    return total.reshape(R, R, d, d).transpose(0, 2, 1, 3).reshape(R * d, R * d)


def source_normal(problem: Problem, sums: Sums) -> tuple[F64, F64, F64]:
    """Of the source block's weights (the ranks of ``sums``, then M), without prior: precision, gradient and ψ.

    ψ, (pulls, weights), is what multiplies the weights in a pull's logits, summed with weights p(1 − p).
    """
    X, crossings, n = problem.X, problem.crossings(), sums.weight.size
    ranks = (sums.first[:, :, None] * X[:, None, :]).reshape(n, sums.first.shape[1] * X.shape[1])
    psi = np.hstack([ranks, sums.weight[:, None] * crossings])
    mixed, within = ranks.T @ crossings, psi[:, ranks.shape[1] :].T @ crossings
    precision = np.block([[kronecker_sum(sums.second, X), mixed], [mixed.T, within]])
    gradient = np.concatenate([(sums.score.T @ X).ravel(), sums.residual @ crossings])
    return precision, gradient, psi


def of_ranks(sums: Sums, ranks: NDArray[np.int64]) -> Sums:
    """The sums of some ranks only."""
    second = sums.second[:, ranks][:, :, ranks]
    return replace(sums, second=second, first=sums.first[:, ranks], score=sums.score[:, ranks])


def _normal(problem: Problem, point: Point, sums: Sums, mode: int, X: F64) -> tuple[F64, F64]:
    """Precision and gradient of one mode's weights, effects of nodes held still."""
    w, prior = point.weights[mode].ravel(), problem.prior
    precision = kronecker_sum(sums.second, X) + prior.precisions[mode]
    gradient = (sums.score.T @ X).ravel() + prior.naturals[mode] - prior.precisions[mode] @ w
    return precision, gradient


def _changed(point: Point, mode: int, change: F64) -> tuple[F64, ...]:
    weights = list(point.weights)
    weights[mode] = weights[mode] + change.reshape(weights[mode].shape)
    return tuple(weights)


def source_step(problem: Problem, point: Point) -> tuple[Move, SourcePosterior]:
    """Source weights, M and all d_i jointly, by the Schur complement over sources."""
    from tensorucb.learner.blocks._kernels import source_sums

    prior, d, w = problem.prior, point.effects, point.weights[0]
    free, every, M = free_ranks(len(w)), point.source_weights(), point.responses
    sums = of_ranks(problem.sums(point, 0), free)
    at = np.append(free[:, None] * w.shape[1] + np.arange(w.shape[1]), np.arange(w.size, every.size))
    L, h, psi = source_normal(problem, sums)
    groups = prior.group_precisions()
    L += prior.precisions[0][np.ix_(at, at)] + np.diag(groups[at])
    h += (prior.naturals[0] - prior.precisions[0] @ every - groups * (every - prior.group_means))[at]
    Ldd = prior.effect_precisions + np.diag(1.0 / prior.variances)
    hd = prior.effect_naturals - np.einsum("ikl,il->ik", Ldd, d)
    Ldw = np.zeros((*d.shape, h.size))
    # The kernel adds to the last three in place.
    source_sums(problem.place, problem.Z[problem.pull_round], psi, sums.weight, sums.residual, Ldd, Ldw, hd)
    V = np.linalg.inv(Ldd)
    V = 0.5 * (V + V.transpose(0, 2, 1))
    K = V @ Ldw
    flat = K.reshape(d.size, h.size)
    L = L - Ldw.reshape(d.size, h.size).T @ flat
    S = np.linalg.inv(0.5 * (L + L.T))
    S = 0.5 * (S + S.T)
    step = S @ (h - flat.T @ hd.ravel())
    change, dd = np.zeros(every.size), np.einsum("ikl,il->ik", V, hd) - K @ step
    change[at] = step
    dw, dM = change[: w.size], change[w.size :].reshape(M.shape)

    def move(size: float) -> Point:
        return replace(point, weights=_changed(point, 0, size * dw), responses=M + size * dM, effects=d + size * dd)

    return move, SourcePosterior(S, V, K)


def target_step(problem: Problem, point: Point) -> Move:
    """Target weights and all b_j of observed targets jointly."""
    prior, at = problem.prior, problem.observed
    sums, X = problem.sums(point, 1), problem.T
    q = sums.weight + prior.target_precisions[at]
    hb = sums.residual + prior.target_naturals[at] - prior.target_precisions[at] * point.targets[at]
    L, h = _normal(problem, point, sums, 1, X)
    first = sums.first
    L = L - kronecker_sum(first[:, :, None] * first[:, None, :] / q[:, None, None], X)
    h = h - ((first * (hb / q)[:, None]).T @ X).ravel()
    dw = np.asarray(np.linalg.solve(L, h), dtype=np.float64)
    db = (hb - np.einsum("nr,nr->n", first, X @ dw.reshape(point.weights[1].shape).T)) / q

    def move(size: float) -> Point:
        targets = point.targets.copy()
        targets[at] += size * db
        return replace(point, weights=_changed(point, 1, size * dw), targets=targets)

    return move


def product_step(problem: Problem, point: Point, mode: int) -> Move:
    """The weights of one of the product's modes, given the others."""
    sums, others = problem.sums(point, 2), problem.rest(point.weights, leave_out=mode)
    sums = replace(sums, second=sums.second * others[:, :, None] * others[:, None, :], score=sums.score * others)
    L, h = _normal(problem, point, sums, mode, problem.mode(point.weights, mode))
    dw = np.asarray(np.linalg.solve(L, h), dtype=np.float64)
    return lambda size: replace(point, weights=_changed(point, mode, size * dw))


def taste_step(problem: Problem, point: Point, value: Value) -> Move:
    """The weight of taste, from the slope and curvature found with the value."""
    prior = problem.prior
    slope = value.taste_slope + prior.taste_natural - prior.taste_precision * point.taste
    change = slope / (value.taste_curvature + prior.taste_precision)
    return lambda size: replace(point, taste=point.taste + size * change)


def _learned_variances(settings: BlockSettings, point: Point, posterior: SourcePosterior) -> F64:
    """τ² by one step of expectation maximisation, shrunk to the default; the product's coordinates share one."""
    d, V, K, S = point.effects, posterior.effect_covariances, posterior.gains, posterior.weight_covariance
    squares = np.einsum("ik,ik->k", d, d) + np.einsum("ikk->k", V) + ((K @ S) * K).sum(axis=(0, 2))
    squares[:-1] = squares[:-1].mean()
    default = np.append(np.full(d.shape[1] - 1, settings.product_deviation**2), settings.source_deviation**2)
    variances: F64 = (squares + settings.deviation_weight * default) / (len(d) + settings.deviation_weight)
    return variances


def _learned_group_variances(settings: BlockSettings, prior: Prior, point: Point, posterior: SourcePosterior) -> F64:
    """A group's squares over the number of its weights that the data determine, shrunk to the default."""
    w, weight = point.weights[0], settings.variance_weight
    free = np.isin(np.arange(len(w)), free_ranks(len(w)))
    kept = np.append(np.repeat(free, w.shape[1]), np.ones(point.responses.size, dtype=np.bool_))
    groups = prior.groups[kept]
    squares = (point.source_weights() - prior.group_means)[kept] ** 2
    determined = 1.0 - np.diag(posterior.weight_covariance) * prior.group_precisions()[kept]
    found = []
    for number, default in enumerate((settings.main_variance, settings.response_variance)):
        of = groups == number + 1
        count = max(float(determined[of].sum()), 0.0)
        found.append((squares[of].sum() + weight * default) / (count + weight))
    return np.array(found)
