"""The parts of a generated network: communities, skewed degrees and an exact number of edges, and its truth.

The truth is driven by influence, and by users' traits for topics and strategies. Traits come in columns, one per topic
or strategy: how much a user likes it. Letters: ``n`` nodes, ``m`` edges, ``v`` a node.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph

_LEVELS = (0.0, 0.5, 0.9, 0.99, 1.0)
_RANDOM_PASSES = 12
_CLIP = 2.5


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


def _standardised(values: F64) -> F64:
    # Plainer than the one of tensorucb._columns, whose rounding would change every generated network.
    deviation = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def correlated(values: F64, correlation: float, rng: np.random.Generator) -> F64:
    """Standard normal noise with the given correlation to ``values``."""
    noise = rng.standard_normal(values.size)
    return np.asarray(correlation * _standardised(values) + (1.0 - correlation**2) ** 0.5 * noise)


def draw_traits(members: I64, count: int, rng: np.random.Generator) -> F64:
    """Standardised traits of each user, ``(n, count)``; half of their variance is shared by the community."""
    shared = rng.standard_normal((int(members.max()) + 1, count))
    traits = shared[members] + rng.standard_normal((members.size, count))
    return np.clip(_standardised(traits), -_CLIP, _CLIP)


def strategy_effects(weight: float, traits: F64, mixtures: F64, rng: np.random.Generator) -> tuple[F64, F64]:
    """What each strategy adds to logits: by source, its main effect included, and by topic."""
    n = traits.shape[1]
    if n == 0:
        return traits, np.zeros((mixtures.shape[1], 0))
    main, topics = np.asarray(rng.standard_normal(n)), rng.standard_normal((mixtures.shape[1], n))
    # A mixture's shares sum to 1, so what is taken from all topics is taken from every product.
    of_products = mixtures @ topics
    deviation = of_products.std(axis=0)
    topics = (topics - of_products.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return weight / 3.0**0.5 * (_standardised(main) + traits), weight / 3.0**0.5 * topics


def _probability(logit: NDArray[np.float32], base: float) -> NDArray[np.float32]:
    return np.asarray(1.0 / (1.0 + np.exp(-(logit + np.float32(base)))))


def edge_topics(
    graph: Graph, source_effect: F64, target_effect: F64, product_effect: float, traits: F64, base_rate: float
) -> NDArray[np.float32]:
    """``(n_edges, n_topics)`` true probabilities with the mean ``base_rate``."""
    g = traits.astype(np.float32)
    a, b = g[graph.sources], g[graph.targets]
    # e·(a + b + a·b)/√3, in place: with ten topics these arrays are the largest of all.
    logit = a * b
    logit += a
    logit += b
    logit *= np.float32(product_effect / 3.0**0.5)
    logit += (source_effect[graph.sources] + target_effect[graph.targets]).astype(np.float32)[:, None]
    sample = logit[:: max(1, graph.n_edges // 20_000)]
    base, high = -60.0, 60.0
    for _ in range(40):  # bisection on some of the edges
        middle = 0.5 * (base + high)
        too_high = _probability(sample, middle).mean(dtype=np.float64) > base_rate
        base, high = (base, middle) if too_high else (middle, high)
    for _ in range(3):  # Newton's method from there to all edges' answer
        p = _probability(logit, base)
        mean = float(p.mean(dtype=np.float64))
        base += (base_rate - mean) / (mean - float((p * p).mean(dtype=np.float64)))
    return _probability(logit, base).astype(np.float32, copy=False)


def observable_features(
    graph: Graph, influence: F64, susceptibility: F64, traits: F64, noise: float, rng: np.random.Generator
) -> F64:
    """What a policy may see of the users: a noisy view of what drives them, and their degrees."""
    hidden = np.column_stack([influence, susceptibility, traits])
    seen = _standardised(hidden + noise * rng.standard_normal(hidden.shape))
    degrees = _standardised(np.log1p(np.column_stack([graph.out_degree, graph.in_degree])))
    users = np.column_stack([seen[:, :2], degrees, seen[:, 2:]])
    return np.asarray(users / np.linalg.norm(users, axis=1).max())
