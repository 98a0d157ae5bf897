"""What drives a generated truth: influence, and users' traits for topics and strategies; and the features that show it.

Traits come in columns, one per topic or strategy: how much a user likes it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph

_CLIP = 2.5


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
