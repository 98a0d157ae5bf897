"""One more round: a refit from time to time, else one Kalman step; and old rounds absorbed into the priors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._fit import fit, kronecker_sum, of_ranks, source_normal
from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._problem import Problem, load
from tensorucb.learner.blocks._settings import BlockSettings
from tensorucb.learner.blocks._state import BlockState, Prior, Round, free_ranks, with_sources

__all__ = ["absorb", "learn", "make_round", "quick_step", "with_round"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

# A quick step moves a source's logit by at most this much.
_LARGEST_STEP = 1.5
_ROWS = ("targets", "outcomes", "trials")


def make_round(
    product: F64, sources: I64, targets: NDArray[np.int32], outcomes: F64, trials: F64 | None = None
) -> Round:
    """A round from rows in any order; an edge seen twice is one row with two trials."""
    order = np.lexsort((targets, sources))
    sources, targets = sources[order], targets[order]
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
    rows = np.flatnonzero(new)
    counts = np.ones(order.size) if trials is None else trials[order]
    distinct, first = np.unique(sources[rows], return_index=True)
    return Round(
        product,
        distinct.astype(np.int64),
        np.append(first, rows.size).astype(np.int64),
        targets[rows],
        np.add.reduceat(outcomes[order], rows) if rows.size else np.empty(0),
        np.add.reduceat(counts, rows) if rows.size else np.empty(0),
    )


def with_round(log: tuple[Round, ...], record: Round) -> tuple[Round, ...]:
    """The log with one more round, which joins an earlier one of the same product."""
    for place, old in enumerate(log):
        if np.array_equal(old.product, record.product):
            sources = np.concatenate([np.repeat(r.sources, np.diff(r.offsets)) for r in (old, record)])
            rows = [np.concatenate([getattr(r, name) for r in (old, record)]) for name in _ROWS]
            return (*log[:place], make_round(old.product, sources, *rows), *log[place + 1 :])
    return (*log, record)


def learn(settings: BlockSettings, nodes: NodeFeatures, state: BlockState, record: Round) -> BlockState:
    """The state after one more round."""
    state = replace(state, log=with_round(state.log, record), rounds=state.rounds + 1)
    full = sum(r.outcomes.size for r in state.log) > settings.max_rows
    if state.rounds < state.next_fit and not full:
        return quick_step(nodes, state, record)
    state = fit(settings, nodes, state)
    state = replace(state, next_fit=max(state.rounds + 1, math.ceil(state.rounds * settings.growth)))
    return absorb(nodes, state, settings.max_rows // 2) if full else state


def quick_step(nodes: NodeFeatures, state: BlockState, record: Round) -> BlockState:
    """Weights stay; one Kalman step on d_i of the sources of a new round."""
    state = with_sources(state, record.sources)
    problem = load(nodes, state.prior, state.seen, (record,), _first_size(state))
    sums, z, at = problem.sums(state.point, 0), problem.Z[0], problem.place
    cross = source_normal(problem, of_ranks(sums, free_ranks(len(state.point.weights[0]))))[2]
    V, K = state.effect_covariances[at], state.gains[at]
    h = V @ z
    variance = h @ z
    gain = 1.0 / (1.0 + sums.weight * variance)
    limit = _LARGEST_STEP / variance
    effects, covariances, gains = state.point.effects.copy(), state.effect_covariances.copy(), state.gains.copy()
    effects[at] += h * np.clip(sums.residual * gain, -limit, limit)[:, None]
    covariances[at] = V - h[:, :, None] * h[:, None, :] * (sums.weight * gain)[:, None, None]
    follow = cross - sums.weight[:, None] * np.einsum("k,qkd->qd", z, K)
    gains[at] = K + (h * gain[:, None])[:, :, None] * follow[:, None, :]
    return replace(state, point=replace(state.point, effects=effects), effect_covariances=covariances, gains=gains)


def absorb(nodes: NodeFeatures, state: BlockState, keep_rows: int) -> BlockState:
    """Turn the oldest rounds into Gaussian factors on weights, d_i, b_j and g, at the current point."""
    sizes = np.array([r.outcomes.size for r in state.log])
    kept = int((np.cumsum(sizes[::-1]) <= keep_rows).sum())
    old, log = state.log[: sizes.size - kept], state.log[sizes.size - kept :]
    if not old:
        return state
    problem = load(nodes, state.prior, state.seen, old, _first_size(state))
    return replace(state, log=log, prior=_with_effects(problem, state, _with_weights(problem, state)))


def _with_weights(problem: Problem, state: BlockState) -> Prior:
    point, prior = state.point, state.prior
    precisions, naturals = list(prior.precisions), list(prior.naturals)
    for mode, w in enumerate(point.weights):
        sums, v = problem.sums(point, min(mode, 2)), w.ravel()
        if mode == 0:
            L, h, _ = source_normal(problem, sums)
            v = point.source_weights()
        else:
            second, score = sums.second, sums.score
            X = problem.T if mode == 1 else problem.mode(point.weights, mode)
            if mode >= 2:
                others = problem.rest(point.weights, leave_out=mode)
                second, score = second * others[:, :, None] * others[:, None, :], score * others
            L, h = kronecker_sum(second, X), (score.T @ X).ravel()
        precisions[mode] = precisions[mode] + L
        naturals[mode] = naturals[mode] + L @ v + h
    return replace(prior, precisions=tuple(precisions), naturals=tuple(naturals))


def _with_effects(problem: Problem, state: BlockState, prior: Prior) -> Prior:
    point, pulls, targets = state.point, problem.sums(state.point, 0), problem.sums(state.point, 1)
    Z, at = problem.Z[problem.pull_round], problem.place
    offset = np.einsum("qk,qk->q", point.effects[at], Z)
    effect_precisions, effect_naturals = prior.effect_precisions.copy(), prior.effect_naturals.copy()
    np.add.at(effect_precisions, at, pulls.weight[:, None, None] * Z[:, :, None] * Z[:, None, :])
    np.add.at(effect_naturals, at, (pulls.weight * offset + pulls.residual)[:, None] * Z)
    target_precisions, target_naturals = prior.target_precisions.copy(), prior.target_naturals.copy()
    target_precisions[problem.observed] += targets.weight
    target_naturals[problem.observed] += targets.weight * point.targets[problem.observed] + targets.residual
    value = problem.value(point)
    return replace(
        prior,
        effect_precisions=effect_precisions,
        effect_naturals=effect_naturals,
        target_precisions=target_precisions,
        target_naturals=target_naturals,
        taste_precision=prior.taste_precision + value.taste_curvature,
        taste_natural=prior.taste_natural + value.taste_curvature * point.taste + value.taste_slope,
    )


def _first_size(state: BlockState) -> int:
    """Size of the product's first mode."""
    return int(state.point.weights[2].shape[1]) - 1
