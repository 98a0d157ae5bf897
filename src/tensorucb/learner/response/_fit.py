"""A refit: Newton steps over three blocks (sources and contexts, targets, taste), then the prior variances.

The log posterior is concave, so the blocks lead to its one maximum from anywhere; each step is exact given the other
blocks and has a line search. Curvature is p(1 − p), the information of a Bernoulli outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tensorucb.arrays import F64
from tensorucb.learner.response._log import Data, Sums, load, sums
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._settings import ResponseSettings
from tensorucb.learner.response._state import Point, Prior, ResponseState, weight_groups, with_sources

Move = Callable[[float], Point]

_SIZES = (1.0, 0.5, 0.25, 0.125)
# Few outcomes on contexts of very different size could let a variance grow without end.
_LARGEST_VARIANCE = 25.0


@dataclass(frozen=True)
class SourcePosterior:
    """Laplace approximation of θ and d_i: see `ResponseState` for the three arrays."""

    weight_covariance: F64
    effect_covariances: F64
    gains: F64


def fit(settings: ResponseSettings, nodes: NodeFeatures, state: ResponseState) -> ResponseState:
    """Refit all parameters to the rounds kept, from where they are."""
    state = with_sources(state, np.unique(np.concatenate([r.sources for r in state.log])))
    data, prior, point = load(nodes, state.context, state.seen, state.log), state.prior, state.point
    at = sums_at(data, point)
    for _ in range(settings.sweeps_at(state.rounds)):
        point, at = _climb(data, prior, point, at, source_step(data, prior, point, at)[0])
        point, at = _climb(data, prior, point, at, target_step(data, prior, point, at))
        if nodes.preference is not None:
            point, at = _climb(data, prior, point, at, taste_step(prior, point, at))
    move, posterior = source_step(data, prior, point, at)
    point, at = _climb(data, prior, point, at, move)
    defaults = weight_groups(settings, nodes, state.context)[1]
    prior = replace(
        prior,
        variances=_learned_variances(settings, defaults, prior, point, posterior),
        effect_variances=_learned_effect_variances(settings, state, point, posterior),
        target_variances=_learned_target_variances(settings, prior, point, data, at),
    )
    return replace(
        state,
        point=point,
        prior=prior,
        weight_covariance=posterior.weight_covariance,
        effect_covariances=posterior.effect_covariances,
        gains=posterior.gains,
    )


def sums_at(data: Data, point: Point) -> Sums:
    """The sums over the rows at a point."""
    pulls = data.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.place], data.Z)
    targets = data.T @ point.target_weights + point.targets[data.observed]
    return sums(data, pulls, targets, point.taste_weight)


def log_posterior(prior: Prior, point: Point, at: Sums) -> float:
    """The log posterior up to a constant."""
    theta, d, gamma, b, g = point.weights, point.effects, point.target_weights, point.targets, point.taste_weight
    total = at.value
    total -= 0.5 * float(np.sum((theta - prior.means) ** 2 / prior.variances[prior.groups]))
    total -= float(0.5 * theta @ prior.precision @ theta - prior.natural @ theta)
    total -= 0.5 * float(np.sum(d**2 / prior.effect_variances))
    total -= float(0.5 * np.einsum("ik,ikl,il->", d, prior.effect_precisions, d) - np.sum(prior.effect_naturals * d))
    total -= 0.5 * float(gamma @ gamma / prior.target_variances[0] + b @ b / prior.target_variances[1])
    total -= float(0.5 * gamma @ prior.target_precision @ gamma - prior.target_natural @ gamma)
    total -= float(np.sum(0.5 * prior.offset_precisions * b**2 - prior.offset_naturals * b))
    return total - 0.5 * prior.taste_precision * g**2 + prior.taste_natural * g


def _climb(data: Data, prior: Prior, point: Point, at: Sums, move: Move) -> tuple[Point, Sums]:
    """The longest of a few step sizes at which the log posterior does not fall; the old point if there is none."""
    value = log_posterior(prior, point, at)
    slack = 1e-9 + 1e-13 * abs(value)
    for size in _SIZES:
        new = move(size)
        found = sums_at(data, new)
        # A value that is not a number fails the comparison.
        if log_posterior(prior, new, found) >= value - slack:
            return new, found
    return point, at


def source_step(data: Data, prior: Prior, point: Point, at: Sums) -> tuple[Move, SourcePosterior]:
    """θ and all d_i jointly; the d_i are eliminated first (Schur complement), source by source."""
    from tensorucb.learner.response._kernels import source_sums

    theta, d, w, e = point.weights, point.effects, at.pull_curvature, at.pull_slope
    tight = 1.0 / prior.variances[prior.groups]
    precision = (data.X * w[:, None]).T @ data.X + prior.precision + np.diag(tight)
    slope = e @ data.X + prior.natural - prior.precision @ theta - tight * (theta - prior.means)
    own = prior.effect_precisions + np.diag(1.0 / prior.effect_variances)
    own_slope = prior.effect_naturals - np.einsum("ikl,il->ik", own, d)
    cross = np.zeros((*d.shape, theta.size))
    # The kernel adds to the last three in place.
    source_sums(data.place, data.X, data.Z, w, e, own, cross, own_slope)
    V = np.linalg.inv(own)
    V = 0.5 * (V + V.transpose(0, 2, 1))
    K = V @ cross
    flat = K.reshape(d.size, theta.size)
    schur = precision - cross.reshape(d.size, theta.size).T @ flat
    S = np.linalg.inv(0.5 * (schur + schur.T))
    S = 0.5 * (S + S.T)
    change = S @ (slope - flat.T @ own_slope.ravel())
    own_change = np.einsum("ikl,il->ik", V, own_slope) - K @ change

    def move(size: float) -> Point:
        return replace(point, weights=theta + size * change, effects=d + size * own_change)

    return move, SourcePosterior(S, V, K)


def target_step(data: Data, prior: Prior, point: Point, at: Sums) -> Move:
    """γ and b_j of all observed targets jointly."""
    T, seen, gamma, b = data.T, data.observed, point.target_weights, point.targets
    own_prior = prior.offset_precisions[seen] + 1.0 / prior.target_variances[1]
    own = at.target_curvature + own_prior
    own_slope = at.target_slope + prior.offset_naturals[seen] - own_prior * b[seen]
    share = at.target_curvature / own
    precision = (T * (at.target_curvature * (1.0 - share))[:, None]).T @ T + prior.target_precision
    precision += np.eye(gamma.size) / prior.target_variances[0]
    slope = (at.target_slope - share * own_slope) @ T + prior.target_natural - prior.target_precision @ gamma
    change = np.linalg.solve(precision, slope - gamma / prior.target_variances[0])
    own_change = own_slope / own - share * (T @ change)

    def move(size: float) -> Point:
        targets = b.copy()
        targets[seen] += size * own_change
        return replace(point, target_weights=gamma + size * change, targets=targets)

    return move


def taste_step(prior: Prior, point: Point, at: Sums) -> Move:
    """The weight of taste."""
    slope = at.taste_slope + prior.taste_natural - prior.taste_precision * point.taste_weight
    change = slope / (at.taste_curvature + prior.taste_precision)
    return lambda size: replace(point, taste_weight=point.taste_weight + size * change)


def _learned(squares: float, determined: float, default: float, weight: float) -> float:
    """A variance: squares over the number of weights that the data determine, shrunk to the default.

    One step of MacKay's fixed point. Expectation maximisation has the same goal, but hardly moves where each weight is
    only weakly determined, as the effects of most sources are.
    """
    return min((squares + weight * default) / (max(determined, 0.0) + weight), _LARGEST_VARIANCE)


def _learned_variances(
    settings: ResponseSettings, defaults: F64, prior: Prior, point: Point, posterior: SourcePosterior
) -> F64:
    """Of each group of θ."""
    squares = (point.weights - prior.means) ** 2
    determined = 1.0 - np.diag(posterior.weight_covariance) / prior.variances[prior.groups]
    groups = [prior.groups == group for group in range(defaults.size)]
    weight = settings.variance_weight
    return np.array(
        [
            _learned(float(squares[of].sum()), float(determined[of].sum()), default, weight)
            for of, default in zip(groups, defaults.tolist(), strict=True)
        ]
    )


def _learned_effect_variances(
    settings: ResponseSettings, state: ResponseState, point: Point, posterior: SourcePosterior
) -> F64:
    """τ² of d_i: one of the own effects, and one of the own responses to the features of each mode."""
    d, V, K, S = point.effects, posterior.effect_covariances, posterior.gains, posterior.weight_covariance
    squares = np.einsum("ik,ik->k", d, d)
    left = np.einsum("ikk->k", V) + ((K @ S) * K).sum(axis=(0, 2))
    determined = len(d) - left / state.prior.effect_variances
    found, weight = np.empty(squares.size), settings.unit_weight
    found[0] = _learned(squares[0], determined[0], settings.own_variance, weight)
    for part in state.context.parts:
        sums = float(squares[1:][part].sum()), float(determined[1:][part].sum())
        found[1:][part] = _learned(*sums, settings.own_response_variance, weight)
    return found


def _learned_target_variances(settings: ResponseSettings, prior: Prior, point: Point, data: Data, at: Sums) -> F64:
    """Of γ, which keeps its default, and of b_j."""
    b, variance = point.targets[data.observed], prior.target_variances[1]
    own = at.target_curvature + prior.offset_precisions[data.observed] + 1.0 / variance
    determined = b.size - float(np.sum(1.0 / own)) / variance
    return np.array(
        [prior.target_variances[0], _learned(float(b @ b), determined, settings.offset_variance, settings.unit_weight)]
    )
