"""Probabilities of all edges, and the uncertainty of each source's response to a product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._problem import mixture, mode_slices
from tensorucb.learner.blocks._state import BlockState, free_ranks
from tensorucb.threads import map_chunks, thread_count

__all__ = ["Scores", "raised", "score"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

_CHUNK = 2048


@dataclass(frozen=True)
class Scores:
    """Mean probability of every edge, and per source the standard deviation of its logits (None if not asked for)."""

    probabilities: F64
    deviations: F64 | None


def _bounds(n: int) -> list[int]:
    return [*range(0, n, _CHUNK), n]


def _spans(n: int) -> list[slice]:
    return [slice(a, min(a + _CHUNK, n)) for a in range(0, n, _CHUNK)]


def score(
    nodes: NodeFeatures,
    state: BlockState,
    product: F64,
    out_offsets: I64,
    targets: NDArray[np.int32],
    *,
    deviations: bool,
) -> Scores:
    """Score one product (its vectors side by side, scaled) on all edges.

    A source's deviation is the root of ``(ψ − Kᵀz)ᵀ Σ (ψ − Kᵀz) + zᵀVz``, where ψ holds its features times the
    p(1 − p)-weighted mean of what multiplies them over its out-edges, and the product's times its features. It never
    exceeds the deviation of an effect (τ, as learned), so that all sources not yet tried are equally uncertain,
    whatever their features.
    """
    from tensorucb.learner.blocks._kernels import score_edges

    w, z = state.point.weights, np.append(product, 1.0)
    mix = mixture(product, w[2].shape[1] - 1)
    X = nodes.sources(mix)
    A, B = X @ w[0].T, nodes.target @ w[1].T
    C = np.prod([u @ np.append(product[part], 1.0) for u, part in zip(w[2:], mode_slices(w), strict=True)], axis=0)
    crossed = nodes.crossed(product.size)
    offset = crossed @ (product @ state.point.responses)
    offset[state.seen] += state.point.effects @ z
    b = state.point.targets + state.point.taste * nodes.taste(mix)
    p, f = np.empty(targets.size), np.empty((nodes.n, C.size))

    def run(start: int, stop: int) -> None:
        score_edges(out_offsets, targets, start, stop, A, B, C, offset, b, p, f)

    map_chunks(run, _bounds(nodes.n), thread_count())
    return Scores(p, _deviations(state, z, X, crossed, f) if deviations else None)


def _deviations(state: BlockState, z: F64, X: F64, crossed: F64, f: F64) -> F64:
    f, S, seen = f[:, free_ranks(f.shape[1])], state.weight_covariance, state.seen
    ranks, k, c = f.shape[1] * X.shape[1], z.size - 1, crossed.shape[1]
    # One product for all: of M's covariance only its action on this product counts.
    half = (S[:, ranks:].reshape(len(S), k, c).transpose(0, 2, 1) @ z[:-1]).reshape(len(S), c)
    corner = np.tensordot(z[:-1], half[ranks:].reshape(k, c, c), 1)
    reduced = np.block([[S[:ranks, :ranks], half[:ranks]], [half[:ranks].T, corner]])
    widest = float(z**2 @ state.prior.variances)
    variance = np.full(len(X), widest)
    for rows in _spans(len(X)):
        psi = np.hstack([_outer(f[rows], X[rows]), crossed[rows]])
        variance[rows] += np.einsum("nd,nd->n", psi @ reduced, psi)
    for rows in _spans(seen.size):
        at = seen[rows]
        psi = np.hstack([_outer(f[at], X[at]), _outer(np.broadcast_to(z[:-1], (at.size, k)), crossed[at])])
        psi -= np.einsum("k,ikd->id", z, state.gains[rows])
        variance[at] = (state.effect_covariances[rows] @ z) @ z + np.einsum("nd,nd->n", psi @ S, psi)
    deviations: F64 = np.sqrt(np.clip(variance, 0.0, widest))
    return deviations


def _outer(a: F64, b: F64) -> F64:
    """The outer product of each row of ``a`` and of ``b``, flat."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])


def raised(probabilities: F64, out_offsets: I64, bonus: F64) -> F64:
    """Probabilities with each source's bonus added to the logits of its out-edges."""
    from tensorucb.learner.blocks._kernels import raise_logits

    p = probabilities.copy()
    raise_logits(out_offsets, 0, bonus.size, bonus, p)
    return p
