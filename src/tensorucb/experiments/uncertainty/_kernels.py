"""Numbers of successes among independent coins of different rates (the Poisson-binomial distribution).

Glossary
    p       rate of each coin; ``offsets`` splits the coins into groups
    c       count asked about, one a group
    pmf     scratch, P(k successes so far) for k = 0..c
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from tensorucb._kernels import KERNEL

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@numba.njit(**KERNEL)
def count_masses(offsets: I64, p: F64, counts: I64, pmf: F64, below: F64, at: F64) -> None:
    """``below[g] = P(K < c)`` and ``at[g] = P(K = c)``, exactly: counts beyond c are let go, as they never return."""
    for group in range(counts.size):
        c, top = counts[group], 0
        pmf[0] = 1.0
        pmf[1 : c + 1] = 0.0
        for coin in range(offsets[group], offsets[group + 1]):
            q = p[coin]
            rest = 1.0 - q
            top = min(top + 1, c)
            for k in range(top, 0, -1):
                pmf[k] = rest * pmf[k] + q * pmf[k - 1]
            pmf[0] *= rest
        total = 0.0
        for k in range(c):
            total += pmf[k]
        below[group], at[group] = total, pmf[c]
