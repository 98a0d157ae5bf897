"""The probability of every edge, and how uncertain each source's response to a context is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._state import ResponseState
from tensorucb.threads import map_chunks, thread_count

_CHUNK = 2048


@dataclass(frozen=True)
class Scores:
    """Mean probability of every edge, and per source the standard deviation of its logits (None if not asked for)."""

    probabilities: F64
    deviations: F64 | None


def score(
    nodes: NodeFeatures,
    state: ResponseState,
    own: F64,
    out_offsets: I64,
    targets: NDArray[np.int32],
    *,
    deviations: bool,
) -> Scores:
    """Score one context (its vectors side by side, scaled) on all edges.

    The logit of an edge is a number of its source plus a number of its target, so an edge costs one exponential.
    """
    from tensorucb.learner.response._kernels import score_edges

    context, point = state.context, state.point
    mix = context.mixture(own)
    X, crossed = nodes.sources(mix), nodes.crossed(context.k)
    features, z = context.features(own[None])[0], np.append(1.0, own)
    alpha, beta, M = np.split(point.weights, [X.shape[1], X.shape[1] + features.size])
    a = X @ alpha + features @ beta + crossed @ (own @ M.reshape(own.size, crossed.shape[1]))
    a[state.seen] += point.effects @ z
    b = nodes.as_target @ point.target_weights + point.targets + point.taste_weight * nodes.liking(mix)
    p = np.empty(targets.size)

    def run(start: int, stop: int) -> None:
        score_edges(out_offsets, targets, start, stop, a, b, p)

    map_chunks(run, [*range(0, nodes.n, _CHUNK), nodes.n], thread_count())
    return Scores(p, _deviations(state, own, features, X, crossed) if deviations else None)


def _deviations(state: ResponseState, own: F64, features: F64, X: F64, crossed: F64) -> F64:
    """The root of ``(x − Kᵀz)ᵀ S (x − Kᵀz) + zᵀVz`` of each source; K = 0 and V = diag(τ²) where it was never seen."""
    S, seen, z = state.weight_covariance, state.seen, np.append(1.0, own)
    n, d, c = len(X), X.shape[1], crossed.shape[1]
    # For one context, x is this matrix times (source features, 1, crossed features).
    fold = np.zeros((S.shape[0], d + 1 + c))
    fold[:d, :d] = np.eye(d)
    fold[d : d + features.size, d] = features
    fold[d + features.size :, d + 1 :] = np.kron(own[:, None], np.eye(c))
    short = np.hstack([X, np.ones((n, 1)), crossed])
    half = S @ fold
    variance = np.einsum("nd,nd->n", short @ (fold.T @ half), short) + float(z**2 @ state.prior.effect_variances)
    for a in range(0, seen.size, _CHUNK):
        rows = slice(a, a + _CHUNK)
        at = seen[rows]
        x = short[at] @ fold.T - np.einsum("k,ikd->id", z, state.gains[rows])
        variance[at] = (state.effect_covariances[rows] @ z) @ z + np.einsum("nd,nd->n", x @ S, x)
    deviations: F64 = np.sqrt(np.maximum(variance, 0.0))
    return deviations


def raised(probabilities: F64, out_offsets: I64, bonus: F64) -> F64:
    """Probabilities with each source's bonus added to the logits of its out-edges."""
    from tensorucb.learner.response._kernels import raise_logits

    p = probabilities.copy()
    raise_logits(out_offsets, 0, bonus.size, bonus, p)
    return p
