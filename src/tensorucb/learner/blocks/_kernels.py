"""One pass over the logged rows, or over the edges, of the logistic tensor with node effects.

Glossary
    q, t     a pull (one source in one round) and its round;  rows ptr[q] .. ptr[q+1] are what the pull showed
    j, y, n  a row's target (a number among those observed), its outcomes summed, and how many there were
    m        a row's taste m_j(z)
    R        rank
    A, B, C  (pulls, R), (targets, R), (rounds, R): the weighted features of the three sides of the tensor
    off, b   d_i·z of each pull, and the offset of each target;  g the weight of taste
    u, p, w  logit, probability and curvature n·p(1 − p)
    f        what multiplies a block's own factor: B·C, A·C or A·B

Sums go by pull (block 0), target (1) or round (2): the normal equations of a block follow from them.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from tensorucb._kernels import KERNEL

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]


@numba.njit(inline="always", **KERNEL)
def _logit(A: F64, B: F64, C: F64, q: int, j: int, t: int, offset: float) -> float:
    u = offset
    for r in range(A.shape[1]):
        u += A[q, r] * B[j, r] * C[t, r]
    return u


@numba.njit(inline="always", **KERNEL)
def _sigmoid(u: float) -> float:
    z = math.exp(-abs(u))
    return 1.0 / (1.0 + z) if u > 0.0 else z / (1.0 + z)


@numba.njit(**KERNEL)
def accumulate(
    block: int,
    pull_round: I64,
    ptr: I64,
    target: I32,
    y: F64,
    n: F64,
    m: F64,
    A: F64,
    B: F64,
    C: F64,
    off: F64,
    b: F64,
    g: float,
    second: F64,
    first: F64,
    weight: F64,
    score: F64,
    residual: F64,
) -> None:
    """Add Σ w f fᵀ (lower half), Σ w f, Σ w, Σ (y − n·p) f and Σ (y − n·p) of each item of the block."""
    R = A.shape[1]
    f = np.empty(R)
    for q in range(pull_round.size):
        t = pull_round[q]
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            p = _sigmoid(_logit(A, B, C, q, j, t, off[q] + b[j] + g * m[k]))
            e, w = y[k] - n[k] * p, n[k] * p * (1.0 - p)
            if block == 0:
                x = q
                for r in range(R):
                    f[r] = B[j, r] * C[t, r]
            elif block == 1:
                x = j
                for r in range(R):
                    f[r] = A[q, r] * C[t, r]
            else:
                x = t
                for r in range(R):
                    f[r] = A[q, r] * B[j, r]
            weight[x] += w
            residual[x] += e
            for r in range(R):
                first[x, r] += w * f[r]
                score[x, r] += e * f[r]
                for s in range(r + 1):
                    second[x, r, s] += w * f[r] * f[s]


@numba.njit(**KERNEL)
def likelihood(
    pull_round: I64,
    ptr: I64,
    target: I32,
    y: F64,
    n: F64,
    m: F64,
    A: F64,
    B: F64,
    C: F64,
    off: F64,
    b: F64,
    g: float,
) -> tuple[float, float, float]:
    """Log-likelihood of all rows; its slope and (negative) curvature in the weight of taste."""
    total, slope, curvature = 0.0, 0.0, 0.0
    for q in range(pull_round.size):
        t = pull_round[q]
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            u = _logit(A, B, C, q, j, t, off[q] + b[j] + g * m[k])
            z = math.exp(-abs(u))
            p = 1.0 / (1.0 + z) if u > 0.0 else z / (1.0 + z)
            total += y[k] * u - n[k] * (max(u, 0.0) + math.log1p(z))
            slope += (y[k] - n[k] * p) * m[k]
            curvature += n[k] * p * (1.0 - p) * m[k] * m[k]
    return total, slope, curvature


@numba.njit(**KERNEL)
def row_taste(pull_round: I64, ptr: I64, target: I32, preference: F64, mix: F64, out: F64) -> None:
    """m_j(z) of every row: the target's preference times the product's mixture."""
    for q in range(pull_round.size):
        t = pull_round[q]
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            total = 0.0
            for c in range(mix.shape[1]):
                total += preference[j, c] * mix[t, c]
            out[k] = total


@numba.njit(**KERNEL)
def source_sums(
    place: I64, Z: F64, psi: F64, weight: F64, residual: F64, precision: F64, cross: F64, natural: F64
) -> None:
    """Add the pulls of each source: Σ w z zᵀ, Σ z ⊗ ψ (ψ: a pull's w-weighted features) and Σ (y − p) z."""
    K, P = Z.shape[1], psi.shape[1]
    for q in range(place.size):
        i = place[q]
        for a in range(K):
            z = Z[q, a]
            if z == 0.0:
                continue
            natural[i, a] += residual[q] * z
            for c in range(K):
                precision[i, a, c] += weight[q] * z * Z[q, c]
            for c in range(P):
                cross[i, a, c] += z * psi[q, c]


@numba.njit(**KERNEL)
def score_edges(
    offsets: I64, targets: I32, start: int, stop: int, A: F64, B: F64, C: F64, off: F64, b: F64, p: F64, f: F64
) -> None:
    """Probability of every out-edge of sources start .. stop, and per source the p(1 − p)-weighted mean of B_j·C."""
    R = A.shape[1]
    for i in range(start, stop):
        total = 1e-12
        for r in range(R):
            f[i, r] = 0.0
        for e in range(offsets[i], offsets[i + 1]):
            j = targets[e]
            u = off[i] + b[j]
            for r in range(R):
                u += A[i, r] * B[j, r] * C[r]
            p[e] = _sigmoid(u)
            w = p[e] * (1.0 - p[e])
            total += w
            for r in range(R):
                f[i, r] += w * B[j, r] * C[r]
        for r in range(R):
            f[i, r] /= total


@numba.njit(**KERNEL)
def raise_logits(offsets: I64, start: int, stop: int, bonus: F64, p: F64) -> None:
    """Add a source's bonus to the logits of its out-edges: p ← p·o / (1 − p + p·o) with o = exp(bonus)."""
    for i in range(start, stop):
        odds = math.exp(bonus[i])
        for e in range(offsets[i], offsets[i + 1]):
            p[e] = p[e] * odds / (1.0 - p[e] + p[e] * odds)
