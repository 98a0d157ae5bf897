"""A directed social network with communities, skewed degrees and an exact number of edges.

Letters: ``n`` nodes, ``m`` edges, ``v`` a node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorucb.arrays import F64, I64

_LEVELS = (0.0, 0.5, 0.9, 0.99, 1.0)
_RANDOM_PASSES = 12


def skewed_degrees(n: int, m: int, shape: Sequence[float], rng: np.random.Generator) -> I64:
    """Out-degrees in 1..n-1 with sum ``m`` and percentiles 50, 90, 99, 100 in the ratios of ``shape``."""
    knots = np.log([1.0, *shape])
    weights = np.exp(np.interp((np.arange(n) + 0.5) / n, _LEVELS, knots))

    def scaled(factor: float) -> I64:
        return np.clip(np.rint(factor * weights), 1, n - 1).astype(np.int64)

    low, high = 0.0, float(n)
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if scaled(middle).sum() <= m else (low, middle)
    degrees = rng.permutation(scaled(low))
    missing = m - int(degrees.sum())
    while missing > 0:
        # One edge each to the best connected nodes that have room, which moves no percentile much.
        room = np.flatnonzero(degrees < n - 1)
        order = room[np.argsort(-degrees[room], kind="stable")][:missing]
        degrees[rng.permutation(order)] += 1
        missing -= order.size
    return degrees


def community_members(n: int, communities: int, rng: np.random.Generator) -> I64:
    """A community for each node; sizes vary by a factor of a few, and none is empty."""
    sizes = np.exp(0.5 * rng.standard_normal(communities))
    members = rng.choice(communities, size=n, p=sizes / sizes.sum())
    members[rng.permutation(n)[:communities]] = np.arange(communities)
    return members.astype(np.int64)


def draw_edges(degrees: I64, members: I64, attraction: F64, mixing: float, rng: np.random.Generator) -> tuple[I64, I64]:
    """Distinct targets for each source's ``degrees`` edges, no self-loops.

    A target is drawn in proportion to ``attraction``, inside the source's community except for a share ``mixing`` of
    the edges. Hubs exhaust their community: what is still missing after a few passes is drawn evenly from all others.
    """
    n = degrees.size
    # By community, so that a community is one stretch of the cumulative attraction, and a uniform number in that
    # stretch picks one of its members in proportion to attraction.
    order = np.argsort(members, kind="stable")
    cumulative = np.concatenate([[0.0], np.cumsum(attraction[order])])
    ends = np.searchsorted(members[order], np.arange(members.max() + 2))
    keys, missing = np.empty(0, dtype=np.int64), degrees.copy()
    for turn in range(_RANDOM_PASSES):
        if not missing.any():
            break
        source = np.repeat(np.arange(n), missing)
        anywhere = rng.random(source.size) < mixing + (1 - mixing) * turn / _RANDOM_PASSES
        low = np.where(anywhere, 0.0, cumulative[ends[members[source]]])
        high = np.where(anywhere, cumulative[-1], cumulative[ends[members[source] + 1]])
        place = np.searchsorted(cumulative, low + rng.random(source.size) * (high - low), side="right") - 1
        target = order[np.minimum(place, n - 1)]
        # An edge as one number, so that repeats of earlier passes go as well.
        keys = np.unique(np.concatenate([keys, (source * n + target)[source != target]]))
        missing = degrees - np.bincount(keys // n, minlength=n)
    rest = [_fill(keys, int(v), int(missing[v]), n, rng) for v in np.flatnonzero(missing)]
    keys = np.sort(np.concatenate([keys, *rest]))
    return keys // n, keys % n


def _fill(keys: I64, v: int, count: int, n: int, rng: np.random.Generator) -> I64:
    """``count`` further edges of ``v``, evenly from the nodes that it does not reach yet."""
    start, stop = np.searchsorted(keys, [v * n, (v + 1) * n])
    free = np.ones(n, dtype=bool)
    free[keys[start:stop] % n] = False
    free[v] = False
    return v * n + rng.choice(np.flatnonzero(free), size=count, replace=False)
