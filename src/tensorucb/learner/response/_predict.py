"""What the model says of one context: a number of every source and of every target, and how uncertain the source's is.

Features are read once, block by block. The logit of an edge is a number of its source plus one of its target.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tensorucb.arrays import F64
from tensorucb.learner.response._features import NodeFeatures, mixture
from tensorucb.learner.response._fit import Fitted, Point, dose_of, rows_at
from tensorucb.learner.response._log import LoggedRound, design_of
from tensorucb.threads import map_chunks, thread_count

# Nodes of one block: their features stay in the cache. Fixed, so that rounding does not depend on the threads.
_NODES, _SEEN = 4096, 1024


class NodeLogits(NamedTuple):
    """Parts of the logits in one context, and deviations of what is not known, as `Prediction` calls them."""

    mean: F64  # the source's part
    deviation: F64
    target: F64
    apart: F64  # deviation of the source's part if the context's part, which all sources share, were known
    level: float  # of the round's own effect
    doubt: float  # of the context's part, round effects integrated out


def node_logits(nodes: NodeFeatures, fitted: Fitted, own: F64) -> NodeLogits:
    """What is believed of every source and target in a context (scaled)."""
    point, context = fitted.point, fitted.context
    mix = mixture(own[context.parts[0]])
    z = np.append(1.0, own)
    c = context.features(own[None])[0]
    fold = _fold(nodes, point.weights.size, own, c)
    weights = fold.T @ point.weights
    square = fold.T @ fitted.covariance @ fold
    unseen = float(z**2 @ fitted.prior.variance("effects"))
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
        target[rows] = nodes.as_target[rows] @ point.target_weights[:features] + fitted.offsets[rows]
        target[rows] += nodes.readiness[rows]
        if nodes.taste is not None:
            target[rows] += point.target_weights[-1] * (nodes.taste[rows] @ mix)

    map_chunks(run, [*range(0, nodes.n, _NODES), nodes.n], thread_count())
    seen = fitted.pulls.seen
    source[seen] += point.effects @ z
    variance[seen], shared[seen] = _seen_variances(nodes, fitted, mix, z, fold)
    # Of two normal numbers, the variance of one if the other is known.
    apart = variance - shared**2 / max(float(square[-1, -1]), 1e-12)
    return NodeLogits(
        mean=source,
        deviation=np.sqrt(np.maximum(variance, 0.0)),
        target=target,
        apart=np.sqrt(np.maximum(apart, 0.0)),
        level=float(np.sqrt(fitted.prior.variance("rounds")[0])),
        doubt=float(np.sqrt(max(float(c @ fitted.level_covariance @ c), 0.0))),
    )


def log_likelihood(nodes: NodeFeatures, fitted: Fitted, record: LoggedRound) -> float:
    """How probable a round is that the parameters do not know yet, each target counted once."""
    data = design_of(nodes, fitted.context, (record,))
    effects = np.zeros((data.pulls.seen.size, fitted.point.effects.shape[1]))
    _, here, there = np.intersect1d(data.pulls.seen, fitted.pulls.seen, assume_unique=True, return_indices=True)
    effects[here] = fitted.point.effects[there]
    point = Point(
        weights=fitted.point.weights,
        effects=effects,
        target_weights=fitted.point.target_weights,
        offsets=fitted.offsets[data.observed],
        rounds=np.zeros(1),
        saturation=fitted.point.saturation,
    )
    return rows_at(data, point, dose_of(data, fitted.redundancy)).likelihood


def _fold(nodes: NodeFeatures, size: int, own: F64, features: F64) -> F64:
    """The matrix that makes x, what multiplies θ in this context, of a source's (features, 1)."""
    d = nodes.as_source.shape[1]
    axes = nodes.crossing(own.size)
    fold = np.zeros((size, d + 1))
    fold[:d, :d] = np.eye(d)
    fold[d : d + features.size, d] = features
    fold[d + features.size :, : len(axes)] = np.kron(own[:, None], axes.T)
    return fold


def _seen_variances(nodes: NodeFeatures, fitted: Fitted, mix: F64, z: F64, fold: F64) -> tuple[F64, F64]:
    """``(x − Kᵀz)ᵀ S (x − Kᵀz) + zᵀVz`` of each source seen; K = 0 and V = diag(τ²) of all others.

    And its covariance with the context's part, ``(x − Kᵀz)ᵀ S (0, c(x), 0)``.
    """
    pulls = fitted.pulls
    spread = fitted.effect_covariances @ z
    # Kᵀz = Σ w_q (z_qᵀ V z) x_q over the pulls of the source.
    follows = fitted.curvature * np.einsum("qk,qk->q", pulls.Z, spread[pulls.place])
    variances, shared = np.empty((2, pulls.seen.size))

    def run(start: int, stop: int) -> None:
        rows = slice(start, stop)
        begin = pulls.begin[start : stop + 1]
        of = pulls.order[begin[0] : begin[-1]]
        x = nodes.sources(mix, pulls.seen[rows]) @ fold[:, :-1].T + fold[:, -1]
        x -= np.add.reduceat(follows[of, None] * pulls.X[of], begin[:-1] - begin[0], axis=0)
        inner = x @ fitted.covariance
        variances[rows] = spread[rows] @ z + np.einsum("nd,nd->n", inner, x)
        shared[rows] = inner @ fold[:, -1]

    map_chunks(run, [*range(0, pulls.seen.size, _SEEN), pulls.seen.size], thread_count())
    return variances, shared
