"""Confidence bounds of a coverage, and sample sizes.

RR sets are independent, so the sets that a *fixed* node set covers are binomial and the Chernoff bound in its
Kullback-Leibler form holds: with probability at least ``1 - exp(-a)`` the true share is not below
``share_lower(hits, sets, a)``, and the same holds above. Where shares are small this equals the martingale bounds of
OPIM-C (Tang, Tang, Xiao, Yuan, SIGMOD 2018); where RR sets cover much of the graph it is far tighter.
"""

from __future__ import annotations

import math

from tensorucb.oracle._kernels import divergence


def sets_for_lower(share: float, wanted: float, a: float) -> float:
    """How many sets bring the lower bound to ``wanted`` if a share ``share`` of them is covered."""
    if share <= wanted:
        return math.inf
    return a / max(1e-300, divergence(min(share, 1.0), wanted)) if wanted > 0.0 else 1.0


def log_binomial(n: int, k: int) -> float:
    """Logarithm of the number of ``k``-subsets of ``n``."""
    if k <= 0 or k >= n:
        return 0.0
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
