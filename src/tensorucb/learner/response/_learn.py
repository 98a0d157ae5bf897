"""How a round changes the model: a refit from time to time, otherwise one Kalman step; old rounds join the priors.

A refit takes Newton steps over three blocks (sources and contexts, targets, taste), then learns the prior variances.
The log posterior is concave, so the blocks lead to its one maximum from anywhere; each step is exact given the other
blocks and has a line search. Curvature is p(1 − p), the information of a Bernoulli outcome.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tensorucb.arrays import F64
from tensorucb.learner.response._context import ContextFeatures
from tensorucb.learner.response._likelihood import Data, Stand, load, sums_at, times
from tensorucb.learner.response._log import ToldContext, with_gains, with_told
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._state import Point, Prior, ResponseSettings, ResponseState, weight_groups, with_sources

Move = Callable[[float], Point]

# A quick step moves a source's logit by at most this much.
_LARGEST_STEP = 1.5
_SIZES = (1.0, 0.5, 0.25, 0.125)
# Few outcomes on contexts of very different size could let a variance grow without end.
_LARGEST_VARIANCE = 25.0


def learn(settings: ResponseSettings, nodes: NodeFeatures, state: ResponseState, record: ToldContext) -> ResponseState:
    """The state after one more round."""
    context = state.context.with_landmark(record.own)
    state = replace(state, context=context, log=with_told(state.log, record), rounds=state.rounds + 1)
    full = sum(r.outcomes.size for r in state.log) > settings.max_rows
    if state.rounds < state.next_fit and not full:
        return quick_step(nodes, state, record)
    state = fit(settings, nodes, state)
    state = replace(state, next_fit=max(state.rounds + 1, math.ceil(state.rounds * settings.growth)))
    return absorb(nodes, state, settings.max_rows // 2) if full else state


def quick_step(nodes: NodeFeatures, state: ResponseState, record: ToldContext) -> ResponseState:
    """θ stays; one Kalman step on d_i of the sources of a new round, which is in the log by now."""
    state = with_sources(state, record.sources)
    data = load(nodes, state.context, state.seen, (record,))
    at, z, place = sums_at(data, state.point), data.Z[0], data.place
    V = state.effect_covariances[place]
    h = V @ z
    variance = h @ z
    gain = 1.0 / (1.0 + at.pull_curvature * variance)
    limit = _LARGEST_STEP / variance
    effects, covariances = state.point.effects.copy(), state.effect_covariances.copy()
    effects[place] += h * np.clip(at.pull_slope * gain, -limit, limit)[:, None]
    covariances[place] = V - h[:, :, None] * h[:, None, :] * (at.pull_curvature * gain)[:, None, None]
    point = replace(state.point, effects=effects)
    log = _followed(state.log, record, z, h * (at.pull_curvature * gain)[:, None])
    return replace(state, point=point, effect_covariances=covariances, log=log)


def _followed(log: tuple[ToldContext, ...], record: ToldContext, z: F64, new: F64) -> tuple[ToldContext, ...]:
    """The log with the gains of a Kalman step: K + new·(x − Kᵀz)ᵀ, spread over the pulls of the round's sources."""
    changed = []
    for told in log:
        own = np.array_equal(told.own, record.own) and told.targets.size > 0
        at = np.searchsorted(record.sources, told.sources).clip(max=record.sources.size - 1)
        met = record.sources[at] == told.sources
        if met.any():
            gains, step = told.gains.copy(), new[at[met]]
            gains[met] += step * (float(own) - gains[met] @ z)[:, None]
            told = replace(told, gains=gains)
        changed.append(told)
    return tuple(changed)


def absorb(nodes: NodeFeatures, state: ResponseState, keep_rows: int) -> ResponseState:
    """Turn the oldest rounds into Gaussian factors on θ, d_i, γ, b_j and g, at the current point."""
    sizes = np.array([r.outcomes.size for r in state.log])
    kept = int((np.cumsum(sizes[::-1]) <= keep_rows).sum())
    old, log = state.log[: sizes.size - kept], state.log[sizes.size - kept :]
    if not old:
        return state
    # The gains of their pulls stay until the next refit.
    log = (*(r.without_rows() for r in old), *log)
    data, point, prior = load(nodes, state.context, state.seen, old), state.point, state.prior
    at, seen = sums_at(data, point), data.observed
    own = np.einsum("qk,qk->q", point.effects[data.place], data.Z)
    w, e = at.pull_curvature, at.pull_slope
    # A Gaussian factor has the curvature as its precision, and its natural makes its slope at the point the data's.
    effect_precisions, effect_naturals = prior.effect_precisions.copy(), prior.effect_naturals.copy()
    np.add.at(effect_precisions, data.place, w[:, None, None] * data.Z[:, :, None] * data.Z[:, None, :])
    np.add.at(effect_naturals, data.place, (w * own + e)[:, None] * data.Z)
    weights = (data.X * w[:, None]).T @ data.X
    targets = (data.T * at.target_curvature[:, None]).T @ data.T
    offset_precisions, offset_naturals = prior.offset_precisions.copy(), prior.offset_naturals.copy()
    offset_precisions[seen] += at.target_curvature
    offset_naturals[seen] += at.target_curvature * point.target_offsets[seen] + at.target_slope
    prior = replace(
        prior,
        precision=prior.precision + weights,
        natural=prior.natural + weights @ point.weights + e @ data.X,
        effect_precisions=effect_precisions,
        effect_naturals=effect_naturals,
        target_precision=prior.target_precision + targets,
        target_natural=prior.target_natural + targets @ point.target_weights + at.target_slope @ data.T,
        offset_precisions=offset_precisions,
        offset_naturals=offset_naturals,
        taste_precision=prior.taste_precision + at.taste_curvature,
        taste_natural=prior.taste_natural + at.taste_curvature * point.taste_weight + at.taste_slope,
    )
    return replace(state, log=log, prior=prior)


def fit(settings: ResponseSettings, nodes: NodeFeatures, state: ResponseState) -> ResponseState:
    """Refit all parameters to the rounds kept, from where they are."""
    log = tuple(r for r in state.log if r.targets.size)
    state = with_sources(replace(state, log=log), np.unique(np.concatenate([r.sources for r in log])))
    now = Stand(load(nodes, state.context, state.seen, log), state.prior, state.point)
    for _ in range(settings.sweeps_at(state.rounds)):
        now = _climb(now, source_step(now)[0])
        now = _climb(now, target_step(now))
        if nodes.taste is not None:
            now = _climb(now, taste_step(now))
    # The uncertainty is that of the last step of θ and d_i.
    move, posterior = source_step(now)
    now = _climb(now, move)
    return replace(
        state,
        point=now.point,
        prior=_learned_prior(settings, weight_groups(settings, nodes, state.context)[1], state.context, now, posterior),
        weight_covariance=posterior.weight_covariance,
        effect_covariances=posterior.effect_covariances,
        log=with_gains(log, posterior.gains),
    )


def _climb(now: Stand, move: Move) -> Stand:
    """The longest of a few step sizes at which the log posterior does not fall; where we are if there is none."""
    slack = 1e-9 + 1e-13 * abs(now.value)
    for size in _SIZES:
        new = replace(now, point=move(size))
        # A value that is not a number fails the comparison.
        if new.value >= now.value - slack:
            return new
    return now


class SourcePosterior(NamedTuple):
    """Laplace approximation of θ and d_i: S and V as in `ResponseState`, and H of each pull."""

    weight_covariance: F64
    effect_covariances: F64
    gains: F64


def source_step(now: Stand) -> tuple[Move, SourcePosterior]:
    """θ and all d_i jointly; the d_i are eliminated first (Schur complement), source by source.

    How d_i follows θ is K = Σ H_q x_qᵀ. It is never formed for all sources: of each it has (1 + k)·P numbers, and most
    sources have been seen in a context or two.
    """
    from tensorucb.learner.response._kernels import learn_effects, without_effects

    data, prior, point = now.data, now.prior, now.point
    theta, d, w, e = point.weights, point.effects, now.at.pull_curvature, now.at.pull_slope
    V, H, left = prior.effect_covariances.copy(), np.zeros(data.Z.shape), np.empty_like(data.X)
    learn_effects(data.place, data.Z, w, V, H)
    # What is left of each x_q once the d_i follow θ; it makes the precision of θ with all d_i integrated out.
    without_effects(data.order, data.begin, H, data.X, data.Z, left)
    tight = 1.0 / prior.variances[prior.groups]
    left *= w[:, None]
    schur = data.X.T @ left + prior.precision + np.diag(tight)
    S = np.linalg.inv(0.5 * (schur + schur.T))
    S = 0.5 * (S + S.T)
    # Slopes of the log posterior in d_i and in θ, the latter with the d_i where they would then be.
    own_slope = prior.effect_naturals - d / prior.effect_variances - times(prior.effect_precisions, d)
    own_slope += _by_source(data, e[:, None] * data.Z)
    slope = prior.natural - prior.precision @ theta - tight * (theta - prior.means)
    slope += (e - np.einsum("qk,qk->q", H, own_slope[data.place])) @ data.X
    change = S @ slope
    own_change = times(V, own_slope) - _by_source(data, H * (data.X @ change)[:, None])

    def move(size: float) -> Point:
        return replace(point, weights=theta + size * change, effects=d + size * own_change)

    return move, SourcePosterior(S, V, H)


def _by_source(data: Data, values: F64) -> F64:
    """The rows of all pulls summed by source."""
    sources = data.begin.size - 1
    return np.stack([np.bincount(data.place, column, sources) for column in values.T], axis=1)


def target_step(now: Stand) -> Move:
    """γ and b_j of all observed targets jointly; the b_j are eliminated first."""
    prior, at, T, seen = now.prior, now.at, now.data.T, now.data.observed
    gamma, b = now.point.target_weights, now.point.target_offsets
    own_prior = prior.offset_precisions[seen] + 1.0 / prior.target_variances[1]
    # Each b_j has a precision of its own; ``share`` of a change of γ's part is taken up by it.
    own = at.target_curvature + own_prior
    own_slope = at.target_slope + prior.offset_naturals[seen] - own_prior * b[seen]
    share = at.target_curvature / own
    precision = (T * (at.target_curvature * (1.0 - share))[:, None]).T @ T + prior.target_precision
    precision += np.eye(gamma.size) / prior.target_variances[0]
    slope = (at.target_slope - share * own_slope) @ T + prior.target_natural - prior.target_precision @ gamma
    change = np.linalg.solve(precision, slope - gamma / prior.target_variances[0])
    own_change = own_slope / own - share * (T @ change)

    def move(size: float) -> Point:
        offsets = b.copy()
        offsets[seen] += size * own_change
        return replace(now.point, target_weights=gamma + size * change, target_offsets=offsets)

    return move


def taste_step(now: Stand) -> Move:
    """g, the weight of taste."""
    prior, point, at = now.prior, now.point, now.at
    slope = at.taste_slope + prior.taste_natural - prior.taste_precision * point.taste_weight
    change = slope / (at.taste_curvature + prior.taste_precision)
    return lambda size: replace(point, taste_weight=point.taste_weight + size * change)


def _learned(squares: float, determined: float, default: float, weight: float) -> float:
    """A variance: squares over the number of weights that the data determine, shrunk to the default.

    One step of MacKay's fixed point. Expectation maximisation has the same goal, but hardly moves where each weight is
    only weakly determined, as the effects of most sources are.
    """
    return min((squares + weight * default) / (max(determined, 0.0) + weight), _LARGEST_VARIANCE)


def _learned_prior(
    settings: ResponseSettings, defaults: F64, context: ContextFeatures, now: Stand, posterior: SourcePosterior
) -> Prior:
    """The prior with the variances that the parameters speak for; ``defaults``: of the groups of θ."""
    from tensorucb.learner.response._kernels import gain_squares

    data, point, prior, (S, V, H) = now.data, now.point, now.prior, posterior
    # Of each group of θ.
    squares = (point.weights - prior.means) ** 2
    determined = 1.0 - np.diag(S) / prior.variances[prior.groups]
    variances = np.empty(defaults.size)
    for group, default in enumerate(defaults.tolist()):
        of = prior.groups == group
        sums = float(squares[of].sum()), float(determined[of].sum())
        variances[group] = _learned(*sums, default, settings.variance_weight)
    # τ² of d_i: one of the own effects, and one of the own responses to the features of each mode.
    squares = np.einsum("ik,ik->k", point.effects, point.effects)
    left = np.einsum("ikk->k", V)
    gain_squares(data.order, data.begin, H, data.X, data.X @ S, left)
    determined = len(point.effects) - left / prior.effect_variances
    own, weight = np.empty(squares.size), settings.unit_weight
    own[0] = _learned(squares[0], determined[0], settings.own_variance, weight)
    for part in context.parts:
        sums = float(squares[1:][part].sum()), float(determined[1:][part].sum())
        own[1:][part] = _learned(*sums, settings.own_response_variance, weight)
    # Of γ, which keeps its default, and of b_j.
    b, (fixed, variance) = point.target_offsets[data.observed], prior.target_variances
    precisions = now.at.target_curvature + prior.offset_precisions[data.observed] + 1.0 / variance
    settled = b.size - float(np.sum(1.0 / precisions)) / variance
    offsets = _learned(float(b @ b), settled, settings.offset_variance, weight)
    return replace(prior, variances=variances, effect_variances=own, target_variances=np.array([fixed, offsets]))
