"""What the model says of one context: a number of every source and of every target, and how uncertain the source's is.

Features are read once, block by block. The logit of an edge is a number of its source plus one of its target.
"""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64
from tensorucb.learner.response._design import source_rows
from tensorucb.learner.response._fit import Fitted
from tensorucb.learner.response._log import Told
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.threads import map_chunks, thread_count

# Nodes of one block: their features stay in the cache. Fixed, so that rounding does not depend on the threads.
_NODES, _SEEN = 4096, 1024


def node_logits(nodes: NodeFeatures, fitted: Fitted, own: F64) -> tuple[F64, F64, F64, F64]:
    """Every source's part of the logit and its deviation, and every target's part, in a context (scaled).

    The last is the deviation of each source if the context's part were known, which all sources of a round share.
    """
    mix, z = fitted.context.mixture(own), np.append(1.0, own)
    fold = _fold(nodes, fitted, own)
    weights = fold.T @ fitted.weights
    square = fold.T @ fitted.covariance @ fold
    unseen = float(z**2 @ fitted.prior.effect_variances)
    features = nodes.as_target.shape[1]
    source, variance, shared, target = np.empty((4, nodes.n))

    def run(start: int, stop: int) -> None:
        rows = slice(start, stop)
        X = nodes.sources(mix, rows)
        source[rows] = X @ weights[:-1] + weights[-1]
        # The quadratic form of (X, 1) without forming it.
        inner = X @ square[:-1, :-1] + 2.0 * square[-1, :-1]
        variance[rows] = np.einsum("nd,nd->n", inner, X) + (square[-1, -1] + unseen)
        shared[rows] = X @ square[:-1, -1] + square[-1, -1]
        target[rows] = nodes.as_target[rows] @ fitted.target_weights[:features] + fitted.offsets[rows]
        target[rows] += nodes.tastes(mix, rows) @ fitted.target_weights[features:]

    map_chunks(run, [*range(0, nodes.n, _NODES), nodes.n], thread_count())
    source[fitted.seen] += fitted.effects @ z
    if fitted.seen.size:
        variance[fitted.seen], shared[fitted.seen] = _seen_variances(nodes, fitted, mix, z, fold)
    # Of two normal numbers, the variance of one if the other is known.
    apart = variance - shared**2 / max(float(square[-1, -1]), 1e-12)
    return source, np.sqrt(np.maximum(variance, 0.0)), target, np.sqrt(np.maximum(apart, 0.0))


def level_deviations(fitted: Fitted, own: F64) -> tuple[float, float]:
    """Deviations of what all edges of a round share: the round's own effect, and the context's uncertain weights."""
    features = fitted.context.features(own[None])[0]
    doubt = float(np.sqrt(max(float(features @ fitted.level_covariance @ features), 0.0)))
    return float(np.sqrt(fitted.prior.round_variance)), doubt


def log_likelihood(nodes: NodeFeatures, fitted: Fitted, record: Told) -> float:
    """How probable a round is that the parameters do not know yet, each target counted once."""
    context, (sources, first), (targets, row, cell) = fitted.context, record.pulls, record.cells
    own = context.scaled(record.vectors[None])
    X = source_rows(nodes, context, np.repeat(own, sources.size, axis=0), sources)
    a = X @ fitted.weights
    place = np.searchsorted(fitted.seen, sources).clip(max=max(fitted.seen.size - 1, 0))
    met = fitted.seen[place] == sources
    a[met] += fitted.effects[place[met]] @ np.append(1.0, own[0])
    features = nodes.as_target.shape[1]
    h = nodes.as_target[targets] @ fitted.target_weights[:features] + fitted.offsets[targets]
    h += nodes.tastes(context.mixture(own[0]), targets) @ fitted.target_weights[features:]
    more = fitted.redundancy * (record.doses - 1.0)
    h += np.log1p((1.0 - fitted.saturation) * more[row])
    u = np.repeat(a, np.diff(np.append(first, record.edges.size))) + h[cell]
    return float(np.sum(record.weights / (1.0 + more) * (record.outcomes * u - np.logaddexp(0.0, u))))


def _fold(nodes: NodeFeatures, fitted: Fitted, own: F64) -> F64:
    """The matrix that makes x, what multiplies θ in this context, of a source's (features, 1)."""
    features = fitted.context.features(own[None])[0]
    d, axes = nodes.as_source.shape[1], nodes.crossing(own.size)
    fold = np.zeros((fitted.weights.size, d + 1))
    fold[:d, :d] = np.eye(d)
    fold[d : d + features.size, d] = features
    fold[d + features.size :, : len(axes)] = np.kron(own[:, None], axes.T)
    return fold


def _seen_variances(nodes: NodeFeatures, fitted: Fitted, mix: F64, z: F64, fold: F64) -> tuple[F64, F64]:
    """``(x − Kᵀz)ᵀ S (x − Kᵀz) + zᵀVz`` of each source seen; K = 0 and V = diag(τ²) of all others.

    And its covariance with the context's part, ``(x − Kᵀz)ᵀ S (0, c(x), 0)``.
    """
    from tensorucb.learner.response._kernels import add_rows

    pulls, seen, V = fitted.pulls, fitted.seen, fitted.effect_covariances
    spread = V @ z
    # Kᵀz = Σ w_q (z_qᵀ V z) x_q over the pulls of the source.
    follows = pulls.curvature * np.einsum("qk,qk->q", pulls.Z, spread[pulls.place])
    order = np.argsort(pulls.place, kind="stable")
    begin = np.searchsorted(pulls.place[order], np.arange(seen.size + 1))
    variances, shared = np.empty((2, seen.size))

    def run(start: int, stop: int) -> None:
        rows, of = slice(start, stop), order[begin[start] : begin[stop]]
        x = nodes.sources(mix, seen[rows]) @ fold[:, :-1].T + fold[:, -1]
        add_rows(pulls.place[of] - start, -follows[of], pulls.X[of], x)
        inner = x @ fitted.covariance
        variances[rows] = spread[rows] @ z + np.einsum("nd,nd->n", inner, x)
        shared[rows] = inner @ fold[:, -1]

    map_chunks(run, [*range(0, seen.size, _SEEN), seen.size], thread_count())
    return variances, shared
