"""One pass over the rows of the log, and the sources' own effects.

Glossary
    q, c     a pull: one source in one round; a cell: one target in one round. Rows ptr[q] .. ptr[q+1] are what the
             pull showed, and each belongs to a cell
    n        the weight of a row
    o, p     the odds of a row, a factor of its pull times a factor of its cell; its probability o / (1 + o)
    w, e     curvature n·p(1 − p) and slope n·(y − p)
    x, z     what multiplies θ and d_i in a pull's logit: rows of X and Z
    V, K, H  covariance of d_i given θ; how d_i follows θ; K = Σ H_q x_qᵀ over the source's pulls
"""

from __future__ import annotations

import numpy as np

from tensorucb._kernels import inlined, kernel
from tensorucb.arrays import F64, I32, I64


@kernel
def accumulate(ptr: I64, cell: I32, n: F64, pulls: F64, cells: F64, curvature: F64, expected: F64, rest: F64) -> None:
    """Σw and Σnp of each pull, and 1 + o of each row; ``pulls`` and ``cells`` are the factors of the odds."""
    for q in range(pulls.size):
        sum_w = 0.0
        sum_p = 0.0
        for k in range(ptr[q], ptr[q + 1]):
            o = pulls[q] * cells[cell[k]]
            rest[k] = 1.0 + o
            r = 1.0 / (1.0 + o)
            p = n[k] * (o * r)
            sum_w += p * r
            sum_p += p
        curvature[q] = sum_w
        expected[q] = sum_p


@kernel
def pairs(order: I64, ptr: I64, cell: I32, pulls: F64, cells: F64, so_far: F64) -> tuple[float, float]:
    """Σpp' and Σmin(p, p') over all pairs of rows of one cell; ``so_far`` is 0 for each cell.

    ``order`` is by round and, within a round, by the pull's odds: all rows of a cell met before are less probable.
    """
    independent = 0.0
    same = 0.0
    for q in order:
        for k in range(ptr[q], ptr[q + 1]):
            c = cell[k]
            o = pulls[q] * cells[c]
            p = o / (1.0 + o)
            independent += p * so_far[c]
            same += so_far[c]
            so_far[c] += p
    return independent, same


@kernel
def target_sums(
    ptr: I64, cell: I32, n: F64, pulls: F64, cells: F64, place: I64, taste: F64, more: F64, out: F64, totals: F64
) -> None:
    """Add to each target Σw, Σnp, Σw·f and Σw·g over its rows, f and g being taste and ``more`` of the row's cell.

    ``totals`` gets Σnp·f, Σnp·g, Σw·ff, Σw·fg and Σw·gg over all rows.
    """
    sum_f = 0.0
    sum_g = 0.0
    sum_ff = 0.0
    sum_fg = 0.0
    sum_gg = 0.0
    for q in range(pulls.size):
        for k in range(ptr[q], ptr[q + 1]):
            c = cell[k]
            o = pulls[q] * cells[c]
            r = 1.0 / (1.0 + o)
            p = n[k] * (o * r)
            w = p * r
            f = w * taste[c]
            g = w * more[c]
            j = place[c]
            out[j, 0] += w
            out[j, 1] += p
            out[j, 2] += f
            out[j, 3] += g
            sum_f += p * taste[c]
            sum_g += p * more[c]
            sum_ff += f * taste[c]
            sum_fg += f * more[c]
            sum_gg += g * more[c]
    totals[:] = (sum_f, sum_g, sum_ff, sum_fg, sum_gg)


@kernel
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


@inlined
def _gains(pulls, H, X, K):  # type: ignore[no-untyped-def]
    """K = Σ H_q x_qᵀ over the pulls of one source."""
    K[:] = 0.0
    for q in pulls:
        for c in range(H.shape[1]):
            for d in range(X.shape[1]):
                K[c, d] += H[q, c] * X[q, d]


@kernel
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


@kernel
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
