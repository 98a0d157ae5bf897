"""The probability of every edge, and how uncertain each source's response to a context is.

Features are read once, block by block, and then edges once. The logit of an edge is a number of its source plus one of
its target, so the exponentials are taken of nodes, and an edge costs a product and a division.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tensorucb.arrays import F32, F64, I32, I64
from tensorucb.learner.response._likelihood import pulls_of
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._state import ResponseState
from tensorucb.threads import map_chunks, thread_count

# Nodes of one block: their features stay in the cache. Fixed, so that rounding does not depend on the threads.
_NODES, _SEEN = 4096, 1024
_EDGES = 2**17
# Beyond, a probability is 0 or 1 to rounding, and odds leave the range of numbers (32-bit ones, of a target).
_LARGEST_SOURCE, _LARGEST_TARGET = 600.0, 80.0


class NodeScores(NamedTuple):
    """The two parts of every edge's logit, and per source the deviation of its part (None if not asked for)."""

    sources: F64
    targets: F64
    deviations: F64 | None


def score(nodes: NodeFeatures, state: ResponseState, own: F64, *, deviations: bool) -> NodeScores:
    """Score one context (its vectors side by side, scaled) on all nodes."""
    context, point = state.context, state.point
    mix, z, features = context.mixture(own), np.append(1.0, own), context.features(own[None])[0]
    fold = _fold(nodes, state, own, features)
    weights = fold.T @ point.weights
    half = state.weight_covariance @ fold
    square = fold.T @ half
    unseen = float(z**2 @ state.prior.effect_variances)
    a, b, variance = np.empty((3, nodes.n))

    def run(start: int, stop: int) -> None:
        rows = slice(start, stop)
        X = nodes.sources(mix, rows)
        a[rows] = X @ weights[:-1] + weights[-1]
        b[rows] = nodes.as_target[rows] @ point.target_weights + point.target_offsets[rows]
        if nodes.taste is not None:
            b[rows] += point.taste_weight * X[:, -1]  # m_j(x) is the last column of a source, too
        if deviations:
            # The quadratic form of (X, 1) without forming it.
            inner = X @ square[:-1, :-1] + 2.0 * square[-1, :-1]
            variance[rows] = np.einsum("nd,nd->n", inner, X) + (square[-1, -1] + unseen)

    map_chunks(run, [*range(0, nodes.n, _NODES), nodes.n], thread_count())
    a[state.seen] += point.effects @ z
    if not deviations:
        return NodeScores(a, b, None)
    if state.log:
        variance[state.seen] = _seen_variances(nodes, state, mix, z, fold)
    return NodeScores(a, b, np.sqrt(np.maximum(variance, 0.0)))


def _fold(nodes: NodeFeatures, state: ResponseState, own: F64, features: F64) -> F64:
    """The matrix that makes x, what multiplies θ in this context, of a source's (features, 1)."""
    d, axes = nodes.as_source.shape[1], nodes.crossing(own.size)
    fold = np.zeros((state.point.weights.size, d + 1))
    fold[:d, :d] = np.eye(d)
    fold[d : d + features.size, d] = features
    fold[d + features.size :, : len(axes)] = np.kron(own[:, None], axes.T)
    return fold


def _seen_variances(nodes: NodeFeatures, state: ResponseState, mix: F64, z: F64, fold: F64) -> F64:
    """``(x − Kᵀz)ᵀ S (x − Kᵀz) + zᵀVz`` of each source seen; K = 0 and V = diag(τ²) of all others."""
    from tensorucb.learner.response._kernels import add_rows

    S, seen, pulls = state.weight_covariance, state.seen, pulls_of(state.context, state.log)
    order = np.argsort(pulls.sources, kind="stable")
    found, begin = np.empty(seen.size), np.searchsorted(pulls.sources[order], seen)

    def run(start: int, stop: int) -> None:
        rows = slice(start, stop)
        x = nodes.sources(mix, seen[rows]) @ fold[:, :-1].T + fold[:, -1]
        of = order[begin[start] : begin[stop] if stop < seen.size else None]
        add_rows(np.searchsorted(seen[rows], pulls.sources[of]), -(pulls.gains[of] @ z), pulls.rows(nodes, of), x)
        found[rows] = (state.effect_covariances[rows] @ z) @ z + np.einsum("nd,nd->n", x @ S, x)

    map_chunks(run, [*range(0, seen.size, _SEEN), seen.size], thread_count())
    return found


def source_odds(part: F64) -> F64:
    """The source's factor of the odds of its edges, from its part of their logits."""
    return np.exp(np.clip(part, -_LARGEST_SOURCE, _LARGEST_SOURCE))


def target_odds(part: F64) -> F32:
    """The target's factor."""
    return np.exp(np.clip(part, -_LARGEST_TARGET, _LARGEST_TARGET)).astype(np.float32)


def edge_probabilities(out_offsets: I64, targets: I32, sources: Sequence[F64], target_part: F64) -> list[F64]:
    """The probability of every edge for one or two source parts of the logits, in one pass over the edges.

    Odds of targets are kept in 32 bits, half of what has to come from memory: the relative error is below 1e-7.
    """
    from tensorucb.learner.response import _kernels

    odds, factor = tuple(map(source_odds, sources)), target_odds(target_part)
    found = tuple(np.empty(targets.size) for _ in odds)

    def run(start: int, stop: int) -> None:
        if len(odds) == 1:
            _kernels.probabilities_of_odds(out_offsets, targets, start, stop, odds[0], factor, found[0])
        else:
            _kernels.probabilities_of_two_odds(out_offsets, targets, start, stop, odds, factor, found)

    ends = np.searchsorted(out_offsets, np.arange(_EDGES, targets.size, _EDGES))
    map_chunks(run, [0, *ends.tolist(), out_offsets.size - 1], thread_count())
    return list(found)
