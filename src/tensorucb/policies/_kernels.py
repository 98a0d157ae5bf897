"""Scoring all edges of a tensor model from numbers per node: a sampled dense-dense product.

Glossary (one number per rank, unless said otherwise)
    i, j     source and target of an edge
    A, B     φᵀw̄ of the source's mode times the modes 3..D, and of the target's mode
    P        |c₃|·√(xᵀΣx) of the source's mode + |a|·(roots of modes 3..D): what |B| is multiplied with in the bonus
    Q, T     |A|, and √(xᵀΣx) of the target's mode
    offset   one number per node: its intercept, with its share of the bonus
    c        the factor of the bonus
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from tensorucb._kernels import KERNEL
from tensorucb.arrays import F64, I32


@numba.njit(inline="always", **KERNEL)
def _project(value: float, sigmoid: bool) -> float:
    if not sigmoid:
        return min(max(value, 0.0), 1.0)
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    small = math.exp(value)
    return small / (1.0 + small)


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
def score_edges(
    sources: I32, targets: I32, start: int, stop: int, source: Any, target: Any, c: float, sigmoid: bool, out: F64
) -> None:
    """proj(A_i·B_j + c·(P_i·|B_j| + Q_i·T_j) + offsets): the paper's sum of roots over modes and ranks.

    ``source`` is ``(A, P, Q, offset)`` and ``target`` ``(B, T, offset)``.
    """
    A, P, Q, offset_i = source
    B, T, offset_j = target
    R = A.shape[1]
    for e in range(start, stop):
        i, j = sources[e], targets[e]
        u, x, y = 0.0, 0.0, 0.0
        if c == 0.0:
            for r in range(R):
                u += A[i, r] * B[j, r]
        else:
            for r in range(R):
                b = B[j, r]
                u += A[i, r] * b
                x += P[i, r] * abs(b)
                y += Q[i, r] * T[j, r]
            u += c * (x + y)
        out[e] = _project(u + offset_i[i] + offset_j[j], sigmoid)
