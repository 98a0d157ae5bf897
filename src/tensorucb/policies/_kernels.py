"""Scoring all edges of a tensor model from numbers per node: a sampled dense-dense product.

Glossary
    a, b     φᵀw̄ of the source's and of the target's mode, one number a rank;  c the product of modes 3..D
    K        number of quadratic forms a node: R (factorised) or R(R+1)/2 (joint, upper triangle over rank pairs)
    Ma, Mb   those forms xᵀΣx of the source's and of the target's mode
    link     0: clip to [0, 1], 1: sigmoid
    roots    True: a root for each mode (the paper's sum), False: one root of the summed variance
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from tensorucb._kernels import KERNEL

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]


@numba.njit(inline="always", **KERNEL)
def _project(value: float, link: int) -> float:
    if link == 0:
        return min(max(value, 0.0), 1.0)
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    small = math.exp(value)
    return small / (1.0 + small)


@numba.njit(inline="always", **KERNEL)
def _dot(x: F64, y: F64) -> float:
    """x·y in four fixed lanes: quicker than one chain of additions, and the same everywhere."""
    n = x.size
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for k in range(0, whole, 4):
        s0 += x[k] * y[k]
        s1 += x[k + 1] * y[k + 1]
        s2 += x[k + 2] * y[k + 2]
        s3 += x[k + 3] * y[k + 3]
    for k in range(whole, n):
        s0 += x[k] * y[k]
    return (s0 + s1) + (s2 + s3)


@numba.njit(**KERNEL)
def quadratic_forms(X: F64, coefficients: F64, start: int, stop: int, first: F64, second: F64) -> None:
    """Σ_{i≤j} x_i x_j coefficients[ij] of each node, for the forms of both node modes in one pass over its pairs."""
    d, K = X.shape[1], first.shape[1]
    total = np.empty(2 * K)
    for v in range(start, stop):
        total[:] = 0.0
        row = 0
        for i in range(d):
            xi = X[v, i]
            for j in range(i, d):
                weight = xi * X[v, j]
                for k in range(2 * K):
                    total[k] += weight * coefficients[row, k]
                row += 1
        first[v] = total[:K]
        second[v] = total[K:]


@numba.njit(**KERNEL)
def score_factorised(
    sources: I32, targets: I32, start: int, stop: int, A: F64, P: F64, Q: F64, B: F64, T: F64,
    offset_i: F64, offset_j: F64, var_i: F64, var_j: F64, c: float, roots: bool, link: int, out: F64,
) -> None:  # fmt: skip
    """proj(A_i·B_j + c·bonus), the bonus being |B_j|·P_i + T_j·Q_i, or the root of B_j²·P_i + T_j·Q_i + variances."""
    R = A.shape[1]
    for e in range(start, stop):
        i, j = sources[e], targets[e]
        u, x, y = 0.0, 0.0, 0.0
        if c == 0.0:
            for r in range(R):
                u += A[i, r] * B[j, r]
        elif roots:
            for r in range(R):
                b = B[j, r]
                u += A[i, r] * b
                x += P[i, r] * abs(b)
                y += Q[i, r] * T[j, r]
            u += c * (x + y)
        else:
            for r in range(R):
                b = B[j, r]
                u += A[i, r] * b
                x += P[i, r] * (b * b)
                y += Q[i, r] * T[j, r]
            u += c * math.sqrt(max(x + y + var_i[i] + var_j[j], 0.0))
        out[e] = _project(u + offset_i[i] + offset_j[j], link)


@numba.njit(**KERNEL)
def score_joint(
    sources: I32, targets: I32, start: int, stop: int, a: F64, Ma: F64, B: F64, Mb: F64, folded: F64, extra: F64,
    moment: F64, offset_i: F64, offset_j: F64, var_i: F64, var_j: F64, c: float, roots: bool, full: bool,
    link: int, out: F64,
) -> None:  # fmt: skip
    """As above with rank pairs: bᵀF_i b for modes 1 and 3..D, ⟨G_i, M_j⟩ for mode 2; pairs r ≤ s, r < s doubled."""
    R, K, L = a.shape[1], Ma.shape[1], extra.shape[0]
    F, G, pairs = np.empty((L + 1, K)), np.empty(K), np.empty(K)
    last = -1
    for e in range(start, stop):
        i, j = sources[e], targets[e]
        if i != last:
            last = i
            k = 0
            for r in range(R):
                for s in range(r, R):
                    twice = 1.0 if r == s else 2.0
                    square, cc = a[i, r] * a[i, s], folded[r] * folded[s]
                    if full:
                        G[k] = twice * (square + Ma[i, k]) * moment[k]
                        F[0, k] = G[k] - twice * square * cc
                    else:
                        G[k] = twice * square * cc
                        F[0, k] = twice * Ma[i, k] * cc
                        for m in range(L):
                            F[m + 1, k] = twice * square * extra[m, k]
                    k += 1
        u, k = 0.0, 0
        for r in range(R):
            br = B[j, r]
            u += a[i, r] * folded[r] * br
            for s in range(r, R):
                pairs[k] = br * B[j, s]
                k += 1
        second = _dot(G, Mb[j])
        total = 0.0
        bonus = math.sqrt(max(second, 0.0))
        for m in range(1 if full else L + 1):
            form = _dot(F[m], pairs)
            total += form
            bonus += math.sqrt(max(form, 0.0))
        if not roots:
            bonus = math.sqrt(max(total + second + var_i[i] + var_j[j], 0.0))
        out[e] = _project(u + c * bonus + offset_i[i] + offset_j[j], link)
