"""Confidence bounds of a coverage, and sample sizes.

RR sets are independent, so the sets that a *fixed* node set covers are binomial and the Chernoff bound in its
Kullback-Leibler form holds: with probability at least ``1 - exp(-a)`` the true share is not below
``share_lower(hits, sets, a)``, and likewise above. Where shares are small this equals the martingale bounds of OPIM-C
(Tang, Tang, Xiao, Yuan, SIGMOD 2018); where RR sets cover much of the graph it is far tighter.
"""

from __future__ import annotations

import math

__all__ = ["log_binomial", "sets_for_lower", "share_lower", "share_upper"]

_STEPS = 28  # of bisection; the side returned is the safe one


def _divergence(x: float, q: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    first = x * math.log(x / q) if x > 0.0 else 0.0
    second = (1.0 - x) * math.log((1.0 - x) / (1.0 - q)) if x < 1.0 else 0.0
    return first + second


def share_lower(hits: float, sets: int, a: float) -> float:
    """The least share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    if sets <= 0 or hits <= 0:
        return 0.0
    x = min(1.0, hits / sets)
    low, high = 0.0, x
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if middle <= 0.0 or sets * _divergence(x, middle) > a:
            low = middle
        else:
            high = middle
    return low


def share_upper(hits: float, sets: int, a: float) -> float:
    """The largest share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    if sets <= 0 or hits >= sets:
        return 1.0
    x = max(0.0, hits / sets)
    low, high = x, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if middle >= 1.0 or sets * _divergence(x, middle) > a:
            high = middle
        else:
            low = middle
    return high


def sets_for_lower(share: float, wanted: float, a: float) -> float:
    """How many sets bring the lower bound to ``wanted`` if a share ``share`` of them is covered."""
    if share <= wanted:
        return math.inf
    return a / max(1e-300, _divergence(min(share, 1.0), wanted)) if wanted > 0.0 else 1.0


def log_binomial(n: int, k: int) -> float:
    """Logarithm of the number of ``k``-subsets of ``n``."""
    if k <= 0 or k >= n:
        return 0.0
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
