"""Confidence bounds of a coverage, sample sizes, what nodes can reach, and the edges of pairs (see `_pairs`).

RR sets are independent, so the sets that a *fixed* node set covers are binomial and the Chernoff bound in its
Kullback-Leibler form holds: with probability at least ``1 - exp(-a)`` the true share is not below
``share_lower(hits, sets, a)``, and the same holds above. Where shares are small this equals the martingale bounds of
OPIM-C (Tang, Tang, Xiao, Yuan, SIGMOD 2018); where RR sets cover much of the graph it is far tighter.

Glossary
    x, q        an observed share, and a candidate for the true one
    hits, sets  how many of so many RR sets are covered;  a the log of one over the probability of a miss
    network     ``(out_offsets, targets, p)``: the graph, and one row of edge probabilities per strategy
    edges       ``(s, t, p)``: sources, targets and probabilities that are written
    own         the node of user 0 that counts a user as active; that of user u is ``own + u``
"""

from __future__ import annotations

import math

import numpy as np

from tensorucb._kernels import kernel

_STEPS = 28  # of bisection; the side returned is the safe one


@kernel
def divergence(x, q):  # type: ignore[no-untyped-def]
    """Kullback-Leibler divergence of two coins."""
    first = x * math.log(x / q) if x > 0.0 else 0.0
    second = (1.0 - x) * math.log((1.0 - x) / (1.0 - q)) if x < 1.0 else 0.0
    return first + second


@kernel
def _limit(x, sets, a, end):  # type: ignore[no-untyped-def]
    """How far from ``x`` towards ``end`` (0 or 1) the true share may be: where ``sets * divergence`` reaches ``a``."""
    near, far = x, end
    for _ in range(_STEPS):
        middle = 0.5 * (near + far)
        if middle == end or sets * divergence(x, middle) > a:
            far = middle
        else:
            near = middle
    return far


def share_lower(hits: float, sets: int, a: float) -> float:
    """The least share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    if sets <= 0 or hits <= 0.0:
        return 0.0
    return float(_limit(min(1.0, hits / sets), float(sets), float(a), 0.0))


def share_upper(hits: float, sets: int, a: float) -> float:
    """The largest share that ``hits`` of ``sets`` allow at confidence ``1 - exp(-a)``."""
    if sets <= 0 or hits >= sets:
        return 1.0
    return float(_limit(max(0.0, hits / sets), float(sets), float(a), 1.0))


def sets_for_lower(share: float, wanted: float, a: float) -> float:
    """How many sets bring the lower bound to ``wanted`` if a share ``share`` of them is covered."""
    if wanted <= 0.0:
        return 1.0
    if share <= wanted:
        return math.inf
    return float(a / max(1e-300, divergence(min(share, 1.0), wanted)))


def log_binomial(n: int, k: int) -> float:
    """Logarithm of the number of ``k``-subsets of ``n``."""
    if k <= 0 or k >= n:
        return 0.0
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


@kernel
def reach_value(rows, out_offsets, targets, p, values):  # type: ignore[no-untyped-def]
    """Whether a node of positive value can be reached from ``rows`` over edges of positive probability."""
    seen = np.zeros(values.size, np.bool_)
    queue = np.empty(values.size, np.int64)
    size = 0
    for r in range(rows.size):
        if not seen[rows[r]]:
            seen[rows[r]] = True
            queue[size] = rows[r]
            size += 1
    at = 0
    while at < size:
        v = queue[at]
        at += 1
        if values[v] > 0.0:
            return True
        for e in range(out_offsets[v], out_offsets[v + 1]):
            if p[e] > 0.0 and not seen[targets[e]]:
                seen[targets[e]] = True
                queue[size] = targets[e]
                size += 1
    return False


@kernel
def source_edges(users, network, own, certain, first, at, edges):  # type: ignore[no-untyped-def]
    """Edges of one source per user and row of ``p``: one to ``own + user``, and to all targets of the user.

    The source of ``users[u]`` and row ``r`` is node ``first + u * rows + r``; ``certain`` is the probability of the
    first edge. They are written to ``edges`` from position ``at`` on; returns the position after the last.
    """
    out_offsets, targets, p = network
    s_out, t_out, p_out = edges
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
