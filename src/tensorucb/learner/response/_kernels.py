"""One pass over the logged rows, and one over the edges.

Glossary
    q        a pull: one source in one context;  rows ptr[q] .. ptr[q+1] are what it showed
    j, y, n  a row's target (a number among those observed), its outcomes summed, and how many there were
    m        a row's liking m_j(x): the target's past taste for the context; g its weight
    a, b     the part of the logit that belongs to the pull (or source), and to the target
    u, p, w  logit, probability and curvature n·p(1 − p);  e the residual y − n·p
"""

from __future__ import annotations

import math

import numba

from tensorucb._kernels import KERNEL
from tensorucb.arrays import F64, I32, I64


@numba.njit(**KERNEL)
def accumulate(
    ptr: I64,
    target: I32,
    y: F64,
    n: F64,
    m: F64,
    a: F64,
    b: F64,
    g: float,
    pull_w: F64,
    pull_e: F64,
    target_w: F64,
    target_e: F64,
) -> tuple[float, float, float]:
    """Log-likelihood, curvature and slope in g; adds curvatures and residuals by pull and by target in place."""
    total, curvature, slope = 0.0, 0.0, 0.0
    for q in range(a.size):
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            u = a[q] + b[j] + g * m[k]
            z = math.exp(-abs(u))
            p = 1.0 / (1.0 + z) if u > 0.0 else z / (1.0 + z)
            e, w = y[k] - n[k] * p, n[k] * p * (1.0 - p)
            total += y[k] * u - n[k] * (max(u, 0.0) + math.log1p(z))
            pull_w[q] += w
            pull_e[q] += e
            target_w[j] += w
            target_e[j] += e
            curvature += w * m[k] * m[k]
            slope += e * m[k]
    return total, curvature, slope


@numba.njit(**KERNEL)
def row_likings(pull_round: I64, ptr: I64, target: I32, preference: F64, mix: F64, out: F64) -> None:
    """m_j(x) of every row: the target's preference times the context's mixture."""
    for q in range(pull_round.size):
        t = pull_round[q]
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            total = 0.0
            for c in range(mix.shape[1]):
                total += preference[j, c] * mix[t, c]
            out[k] = total


@numba.njit(**KERNEL)
def source_sums(place: I64, X: F64, Z: F64, w: F64, e: F64, precision: F64, cross: F64, natural: F64) -> None:
    """Add the pulls of each source: Σ w z zᵀ, Σ w z xᵀ and Σ e z."""
    for q in range(place.size):
        i = place[q]
        for c in range(Z.shape[1]):
            z = Z[q, c]
            if z == 0.0:
                continue
            natural[i, c] += e[q] * z
            for d in range(Z.shape[1]):
                precision[i, c, d] += w[q] * z * Z[q, d]
            for d in range(X.shape[1]):
                cross[i, c, d] += w[q] * z * X[q, d]


@numba.njit(**KERNEL)
def score_edges(offsets: I64, targets: I32, start: int, stop: int, a: F64, b: F64, p: F64) -> None:
    """Probability of every out-edge of sources start .. stop."""
    for i in range(start, stop):
        for k in range(offsets[i], offsets[i + 1]):
            u = a[i] + b[targets[k]]
            z = math.exp(-abs(u))
            p[k] = 1.0 / (1.0 + z) if u > 0.0 else z / (1.0 + z)


@numba.njit(**KERNEL)
def raise_logits(offsets: I64, start: int, stop: int, bonus: F64, p: F64) -> None:
    """Add a source's bonus to the logits of its out-edges: p ← p·o / (1 − p + p·o) with o = exp(bonus)."""
    for i in range(start, stop):
        odds = math.exp(bonus[i])
        for k in range(offsets[i], offsets[i + 1]):
            p[k] = p[k] * odds / (1.0 - p[k] + p[k] * odds)
