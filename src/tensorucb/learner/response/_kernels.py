"""One pass over the logged rows, and one over the edges.

Glossary
    q        a pull: one source in one context;  rows ptr[q] .. ptr[q+1] are what it showed
    j, y, n  a row's target (a number among those observed), its outcomes summed, and how many there were
    m        a row's m_j(x), the target's past taste for the context; g its weight
    a, b     the part of the logit that belongs to the pull (or source), and to the target
    x, z     what multiplies θ and d_i in a pull's logit: rows of X and Z
    V, K, H  covariance of d_i given θ; how d_i follows θ; K = Σ H_q x_qᵀ over the source's pulls
    odds     exp(a) of every source; factor is exp(b) of every target
    u, p, w  logit, probability and curvature n·p(1 − p);  e the residual y − n·p
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tensorucb._kernels import KERNEL
from tensorucb.arrays import F32, F64, I32, I64


@numba.njit(**KERNEL)
def accumulate(
    ptr: I64, target: I32, y: F64, n: F64, m: F64, a: F64, b: F64, g: float,
    pull_w: F64, pull_e: F64, target_w: F64, target_e: F64,
) -> tuple[float, float, float]:  # fmt: skip
    """Log-likelihood, curvature and slope in g; adds curvatures and residuals by pull and by target in place.

    Logarithms cost more than all the rest, so the factors 1 + z of rows seen once are multiplied first.
    """
    total, curvature, slope, product = 0.0, 0.0, 0.0, 1.0
    for q in range(a.size):
        sum_w, sum_e = 0.0, 0.0
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            u = a[q] + b[j] + g * m[k]
            z = math.exp(-abs(u))
            r = 1.0 / (1.0 + z)
            e, w = y[k] - n[k] * (r if u > 0.0 else z * r), n[k] * (z * r * r)
            total += y[k] * u - n[k] * max(u, 0.0)
            if n[k] == 1.0:
                product *= 1.0 + z
            else:
                total -= n[k] * math.log1p(z)
            if product > 1e300:
                total -= math.log(product)
                product = 1.0
            sum_w += w
            sum_e += e
            target_w[j] += w
            target_e[j] += e
            curvature += w * m[k] * m[k]
            slope += e * m[k]
        pull_w[q] += sum_w
        pull_e[q] += sum_e
    return total - math.log(product), curvature, slope


@numba.njit(**KERNEL)
def row_tastes(pull_round: I64, ptr: I64, target: I32, taste: F64, mix: F64, out: F64) -> None:
    """m_j(x) of every row: the target's taste by topic times the context's mixture."""
    for q in range(pull_round.size):
        t = pull_round[q]
        for k in range(ptr[q], ptr[q + 1]):
            j = target[k]
            total = 0.0
            for c in range(mix.shape[1]):
                total += taste[j, c] * mix[t, c]
            out[k] = total


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


@numba.njit(**KERNEL)
def probabilities_of_odds(offsets: I64, targets: I32, start: int, stop: int, odds: F64, factor: F32, p: F64) -> None:
    """Probability of every out-edge of sources start .. stop: o / (1 + o) with o = odds of the source × factor."""
    for i in range(start, stop):
        for k in range(offsets[i], offsets[i + 1]):
            o = odds[i] * factor[targets[k]]
            p[k] = o / (1.0 + o)


@numba.njit(**KERNEL)
def probabilities_of_two_odds(
    offsets: I64, targets: I32, start: int, stop: int, odds: tuple[F64, F64], factor: F32, p: tuple[F64, F64]
) -> None:
    """The same for two odds of every source; what waits for memory is the target's factor, which is read once."""
    (first, second), (p_first, p_second) = odds, p
    for i in range(start, stop):
        for k in range(offsets[i], offsets[i + 1]):
            f = factor[targets[k]]
            o = first[i] * f
            p_first[k] = o / (1.0 + o)
            o = second[i] * f
            p_second[k] = o / (1.0 + o)
