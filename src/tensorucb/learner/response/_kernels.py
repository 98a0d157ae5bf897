"""One pass over the rows of the log, and the sources' own effects.

Glossary
    q, c     a pull: one source in one round; a cell: one target in one round. Rows ptr[q] .. ptr[q+1] are what the
             pull showed, and each belongs to a cell
    y, n     a row's outcome, and how many outcomes it stands for
    a, h     the part of the logit that belongs to the pull (or source), and to the cell (or target)
    omega    the weight of a cell's rows
    x, z     what multiplies θ and d_i in a pull's logit: rows of X and Z
    V, K, H  covariance of d_i given θ; how d_i follows θ; K = Σ H_q x_qᵀ over the source's pulls
    u, p, w  logit, probability and curvature n·ω·p(1 − p);  e the residual y − p
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tensorucb._kernels import KERNEL
from tensorucb.arrays import F64, I32, I64


@numba.njit(**KERNEL)
def accumulate(
    order: I64, ptr: I64, cell: I32, y: F64, n: F64, omega: F64, whole: F64, a: F64, h: F64, start: int, stop: int,
    pulls: F64, cells: F64,
) -> tuple[float, float, float, float]:  # fmt: skip
    """The log-likelihood of pulls order[start:stop]; sums over their rows are added in place.

    ``pulls`` gets curvature and slope of each pull, ``cells`` those of each cell, then Σp and Σy. Also, over all pairs
    of rows of one cell: Σyy', Σpp' and Σmin(p, p'). ``order`` is by round and, within a round, by a: all rows of a cell
    met before have smaller probabilities. Logarithms cost more than all the rest, so the factors 1 + z of rows of
    weight 1 are multiplied first.
    """
    total, product = 0.0, 1.0
    both, independent, same = 0.0, 0.0, 0.0
    for place in range(start, stop):
        q = order[place]
        sum_w, sum_e = 0.0, 0.0
        for k in range(ptr[q], ptr[q + 1]):
            c = cell[k]
            u = a[q] + h[c]
            z = math.exp(-abs(u))
            r = 1.0 / (1.0 + z)
            p = r if u > 0.0 else z * r
            e = y[k] - p
            v = z * r * r
            weight = n[k] * omega[c]
            total += weight * (y[k] * u - max(u, 0.0))
            if weight == 1.0:
                product *= 1.0 + z
                if product > 1e300:
                    total -= math.log(product)
                    product = 1.0
            else:
                total -= weight * math.log(1.0 + z)  # faster than log1p, and z is at most 1
            sum_w += weight * v
            sum_e += weight * e
            cells[c, 0] += weight * v
            cells[c, 1] += weight * e
            both += whole[c] * y[k] * cells[c, 3]
            independent += whole[c] * p * cells[c, 2]
            same += whole[c] * cells[c, 2]
            cells[c, 2] += p
            cells[c, 3] += y[k]
        pulls[q, 0] = sum_w
        pulls[q, 1] = sum_e
    return total - math.log(product), both, independent, same


@numba.njit(**KERNEL)
def learn_effects(place: I64, Z: F64, w: F64, V: F64, H: F64) -> None:
    """V ← (V⁻¹ + Σ w z zᵀ)⁻¹ of each source, pull by pull in place; then H_q = w V z of each pull."""
    h = np.empty(Z.shape[1])
    for q in range(place.size):
        v, z = V[place[q]], Z[q]
        spread = 0.0
        for c in range(z.size):
            h[c] = 0.0
            for d in range(z.size):
                h[c] += v[c, d] * z[d]
            spread += h[c] * z[c]
        gain = w[q] / (1.0 + w[q] * spread)
        for c in range(z.size):
            for d in range(z.size):
                v[c, d] -= gain * (h[c] * h[d])
    for q in range(place.size):
        v, z = V[place[q]], Z[q]
        for c in range(z.size):
            for d in range(z.size):
                H[q, c] += w[q] * v[c, d] * z[d]


@numba.njit(inline="always", cache=True)
def _gains(pulls, H, X, K):  # type: ignore[no-untyped-def]
    """K = Σ H_q x_qᵀ over the pulls of one source."""
    K[:] = 0.0
    for q in pulls:
        for c in range(H.shape[1]):
            for d in range(X.shape[1]):
                K[c, d] += H[q, c] * X[q, d]


@numba.njit(**KERNEL)
def without_effects(order: I64, begin: I64, H: F64, X: F64, Z: F64, out: F64) -> None:
    """x_q − Kᵀz_q of each pull. A source with one pull, as most have, needs no K."""
    K = np.empty((Z.shape[1], X.shape[1]))
    for i in range(begin.size - 1):
        pulls = order[begin[i] : begin[i + 1]]
        if pulls.size > 1:
            _gains(pulls, H, X, K)
        for q in pulls:
            share = 1.0
            if pulls.size == 1:
                for c in range(Z.shape[1]):
                    share -= H[q, c] * Z[q, c]
            for d in range(X.shape[1]):
                out[q, d] = share * X[q, d]
            if pulls.size > 1:
                for c in range(Z.shape[1]):
                    for d in range(X.shape[1]):
                        out[q, d] -= Z[q, c] * K[c, d]


@numba.njit(**KERNEL)
def gain_squares(order: I64, begin: I64, H: F64, X: F64, XS: F64, out: F64) -> None:
    """Add Σ_i diag(K S Kᵀ); ``XS`` is X·S."""
    K, KS = np.empty((2, H.shape[1], X.shape[1]))
    for i in range(begin.size - 1):
        pulls = order[begin[i] : begin[i + 1]]
        if pulls.size == 1:
            q, square = pulls[0], 0.0
            for d in range(X.shape[1]):
                square += X[q, d] * XS[q, d]
            for c in range(H.shape[1]):
                out[c] += H[q, c] * H[q, c] * square
        elif pulls.size > 1:
            _gains(pulls, H, X, K)
            _gains(pulls, H, XS, KS)
            for c in range(H.shape[1]):
                for d in range(X.shape[1]):
                    out[c] += K[c, d] * KS[c, d]


@numba.njit(**KERNEL)
def add_rows(place: I64, weight: F64, X: F64, out: F64) -> None:
    """out[place] += weight · X, row by row."""
    for q in range(place.size):
        for d in range(X.shape[1]):
            out[place[q], d] += weight[q] * X[q, d]
