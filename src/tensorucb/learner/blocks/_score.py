"""Probabilities of all edges, and the uncertainty of each source's response to a product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._problem import mixture, mode_slices
from tensorucb.learner.blocks._settings import BlockSettings
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


def score(
    settings: BlockSettings,
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
    p(1 − p)-weighted mean of what multiplies them over its out-edges. It never exceeds the default deviation of an
    effect, so that all sources not yet tried are equally uncertain, whatever their features.
    """
    from tensorucb.learner.blocks._kernels import score_edges

    w, z = state.point.weights, np.append(product, 1.0)
    mix = mixture(product, w[2].shape[1] - 1)
    X = nodes.sources(mix)
    A, B = X @ w[0].T, nodes.target @ w[1].T
    C = np.prod([u @ np.append(product[part], 1.0) for u, part in zip(w[2:], mode_slices(w), strict=True)], axis=0)
    offset = np.zeros(nodes.n)
    offset[state.seen] = state.point.effects @ z
    b = state.point.targets + state.point.taste * nodes.taste(mix)
    p, f = np.empty(targets.size), np.empty((nodes.n, C.size))

    def run(start: int, stop: int) -> None:
        score_edges(out_offsets, targets, start, stop, A, B, C, offset, b, p, f)

    map_chunks(run, _bounds(nodes.n), thread_count())
    return Scores(p, _deviations(settings, state, z, X, f) if deviations else None)


def _deviations(settings: BlockSettings, state: BlockState, z: F64, X: F64, f: F64) -> F64:
    variance = np.full(len(X), float(z**2 @ state.prior.variances))
    variance[state.seen] = (state.effect_covariances @ z) @ z
    shift = np.einsum("k,ikd->id", z, state.gains)
    at, f = np.searchsorted(state.seen, _bounds(len(X))), f[:, free_ranks(f.shape[1])]
    for number, start in enumerate(range(0, len(X), _CHUNK)):
        stop = min(start + _CHUNK, len(X))
        psi = (f[start:stop, :, None] * X[start:stop, None, :]).reshape(stop - start, shift.shape[1])
        known = slice(at[number], at[number + 1])
        psi[state.seen[known] - start] -= shift[known]
        variance[start:stop] += np.einsum("nd,nd->n", psi @ state.weight_covariance, psi)
    default = np.append(np.full(z.size - 1, settings.product_deviation**2), settings.source_deviation**2)
    deviations: F64 = np.sqrt(np.clip(variance, 0.0, float(z**2 @ default)))
    return deviations


def raised(probabilities: F64, out_offsets: I64, bonus: F64) -> F64:
    """Probabilities with each source's bonus added to the logits of its out-edges."""
    from tensorucb.learner.blocks._kernels import raise_logits

    p = probabilities.copy()
    raise_logits(out_offsets, 0, bonus.size, bonus, p)
    return p
