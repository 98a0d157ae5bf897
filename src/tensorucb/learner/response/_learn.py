"""One more round: a refit from time to time, otherwise one Kalman step; and old rounds absorbed into the priors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tensorucb.learner.response._fit import fit, sums_at
from tensorucb.learner.response._log import Told, load, with_told
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._settings import ResponseSettings
from tensorucb.learner.response._state import ResponseState, with_sources

# A quick step moves a source's logit by at most this much.
_LARGEST_STEP = 1.5


def learn(settings: ResponseSettings, nodes: NodeFeatures, state: ResponseState, record: Told) -> ResponseState:
    """The state after one more round."""
    context = state.context.with_landmark(record.own)
    state = replace(state, context=context, log=with_told(state.log, record), rounds=state.rounds + 1)
    full = sum(r.outcomes.size for r in state.log) > settings.max_rows
    if state.rounds < state.next_fit and not full:
        return quick_step(nodes, state, record)
    state = fit(settings, nodes, state)
    state = replace(state, next_fit=max(state.rounds + 1, math.ceil(state.rounds * settings.growth)))
    return absorb(nodes, state, settings.max_rows // 2) if full else state


def quick_step(nodes: NodeFeatures, state: ResponseState, record: Told) -> ResponseState:
    """θ stays; one Kalman step on d_i of the sources of a new round."""
    state = with_sources(state, record.sources)
    data = load(nodes, state.context, state.seen, (record,))
    at, z, place = sums_at(data, state.point), data.Z[0], data.place
    V, K = state.effect_covariances[place], state.gains[place]
    h = V @ z
    variance = h @ z
    gain = 1.0 / (1.0 + at.pull_curvature * variance)
    limit = _LARGEST_STEP / variance
    effects, covariances, gains = state.point.effects.copy(), state.effect_covariances.copy(), state.gains.copy()
    effects[place] += h * np.clip(at.pull_slope * gain, -limit, limit)[:, None]
    covariances[place] = V - h[:, :, None] * h[:, None, :] * (at.pull_curvature * gain)[:, None, None]
    follow = at.pull_curvature[:, None] * (data.X - np.einsum("k,qkd->qd", z, K))
    gains[place] = K + (h * gain[:, None])[:, :, None] * follow[:, None, :]
    return replace(state, point=replace(state.point, effects=effects), effect_covariances=covariances, gains=gains)


def absorb(nodes: NodeFeatures, state: ResponseState, keep_rows: int) -> ResponseState:
    """Turn the oldest rounds into Gaussian factors on θ, d_i, γ, b_j and g, at the current point."""
    sizes = np.array([r.outcomes.size for r in state.log])
    kept = int((np.cumsum(sizes[::-1]) <= keep_rows).sum())
    old, log = state.log[: sizes.size - kept], state.log[sizes.size - kept :]
    if not old:
        return state
    data, point, prior = load(nodes, state.context, state.seen, old), state.point, state.prior
    at, seen = sums_at(data, point), data.observed
    own = np.einsum("qk,qk->q", point.effects[data.place], data.Z)
    w, e = at.pull_curvature, at.pull_slope
    effect_precisions, effect_naturals = prior.effect_precisions.copy(), prior.effect_naturals.copy()
    np.add.at(effect_precisions, data.place, w[:, None, None] * data.Z[:, :, None] * data.Z[:, None, :])
    np.add.at(effect_naturals, data.place, (w * own + e)[:, None] * data.Z)
    weights = (data.X * w[:, None]).T @ data.X
    targets = (data.T * at.target_curvature[:, None]).T @ data.T
    offset_precisions, offset_naturals = prior.offset_precisions.copy(), prior.offset_naturals.copy()
    offset_precisions[seen] += at.target_curvature
    offset_naturals[seen] += at.target_curvature * point.targets[seen] + at.target_slope
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
