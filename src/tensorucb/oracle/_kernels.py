"""Confidence bounds of a share of RR sets (see `_bounds`), and the edges of pairs (see `_virtual`).

Glossary
    x, q        an observed share, and a candidate for the true one
    hits, sets  how many of so many RR sets are covered;  a the log of one over the probability of a miss
    s, t, p     sources, targets and probabilities of edges
"""

from __future__ import annotations

import math

import numba

from tensorucb._kernels import KERNEL

_STEPS = 28  # of bisection; the side returned is the safe one


@numba.njit(**KERNEL)
def divergence(x, q):  # type: ignore[no-untyped-def]
    """Kullback-Leibler divergence of two coins."""
    first = x * math.log(x / q) if x > 0.0 else 0.0
    second = (1.0 - x) * math.log((1.0 - x) / (1.0 - q)) if x < 1.0 else 0.0
    return first + second


@numba.njit(**KERNEL)
def _lower(hits, sets, a):  # type: ignore[no-untyped-def]
    if sets <= 0.0 or hits <= 0.0:
        return 0.0
    x = min(1.0, hits / sets)
    low, high = 0.0, x
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if middle <= 0.0 or sets * divergence(x, middle) > a:
            low = middle
        else:
            high = middle
    return low


@numba.njit(**KERNEL)
def _upper(hits, sets, a):  # type: ignore[no-untyped-def]
    if sets <= 0.0 or hits >= sets:
        return 1.0
    x = max(0.0, hits / sets)
    low, high = x, 1.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if middle >= 1.0 or sets * divergence(x, middle) > a:
            high = middle
        else:
            low = middle
    return high


def share_lower(hits: float, sets: int, a: float) -> float:
    """The least share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    return float(_lower(float(hits), float(sets), float(a)))  # one type, one compiled kernel


def share_upper(hits: float, sets: int, a: float) -> float:
    """The largest share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    return float(_upper(float(hits), float(sets), float(a)))


@numba.njit(**KERNEL)
def source_edges(users, out_offsets, targets, p, own, certain, first, at, s_out, t_out, p_out):  # type: ignore[no-untyped-def]
    """Edges of one source per user and row of ``p``: one to ``own + user``, and to all targets of the user.

    The source of ``users[u]`` and row ``r`` is node ``first + u * rows + r``; ``certain`` is the probability of the
    first edge. Edges are written from position ``at`` on; returns the position after the last.
    """
    for u in range(users.size):
        start, stop = out_offsets[users[u]], out_offsets[users[u] + 1]
        for r in range(p.shape[0]):
            node = first + u * p.shape[0] + r
            s_out[at] = node
            t_out[at] = own + users[u]
            p_out[at] = certain
            at += 1
            for e in range(start, stop):
                s_out[at] = node
                t_out[at] = targets[e]
                p_out[at] = p[r, e]
                at += 1
    return at
