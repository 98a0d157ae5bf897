"""What drives a generated truth: influence, tastes, likings of strategies; and the features that show them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.graph import Graph

_CLIP = 2.5


def _standardised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = values.std(axis=0)
    return np.asarray((values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def correlated(values: NDArray[np.float64], correlation: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standard normal noise with the given correlation to ``values``."""
    noise = rng.standard_normal(values.size)
    return np.asarray(correlation * _standardised(values) + (1.0 - correlation**2) ** 0.5 * noise)


def tastes_of(members: NDArray[np.int64], n_topics: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Standardised taste of each user for each topic, half of its variance shared by the community."""
    shared = rng.standard_normal((int(members.max()) + 1, n_topics))
    tastes = shared[members] + rng.standard_normal((members.size, n_topics))
    return np.clip(_standardised(tastes), -_CLIP, _CLIP)


def strategy_effects(
    weight: float, likings: NDArray[np.float64], mixtures: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each strategy adds to logits: by source, its main effect included, and by topic."""
    n = likings.shape[1]
    if n == 0:
        return likings, np.zeros((mixtures.shape[1], 0))
    main, topics = np.asarray(rng.standard_normal(n)), rng.standard_normal((mixtures.shape[1], n))
    # A mixture's shares sum to 1, so what is taken from all topics is taken from every product.
    of_products = mixtures @ topics
    deviation = of_products.std(axis=0)
    topics = (topics - of_products.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return weight / 3.0**0.5 * (_standardised(main) + likings), weight / 3.0**0.5 * topics


def edge_topics(
    graph: Graph,
    source_effect: NDArray[np.float64],
    target_effect: NDArray[np.float64],
    product_effect: float,
    tastes: NDArray[np.float64],
    base_rate: float,
) -> NDArray[np.float32]:
    """``(n_edges, n_topics)`` true probabilities with the mean ``base_rate``."""
    g = tastes.astype(np.float32)
    a, b = g[graph.sources], g[graph.targets]
    logit = a * b
    logit += a
    logit += b
    logit *= np.float32(product_effect / 3.0**0.5)
    logit += (source_effect[graph.sources] + target_effect[graph.targets]).astype(np.float32)[:, None]
    step = max(1, graph.n_edges // 20_000)
    base = _base_logit(logit[::step], base_rate)
    for _ in range(3):  # Newton from the sampled edges' answer to all edges'
        p = 1.0 / (1.0 + np.exp(-(logit + np.float32(base))))
        mean = float(p.mean(dtype=np.float64))
        base += (base_rate - mean) / (mean - float((p * p).mean(dtype=np.float64)))
    return np.asarray(1.0 / (1.0 + np.exp(-(logit + np.float32(base)))), dtype=np.float32)


def _base_logit(logit: NDArray[np.float32], base_rate: float) -> float:
    low, high = -60.0, 60.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        too_high = (1.0 / (1.0 + np.exp(-(logit + np.float32(middle))))).mean(dtype=np.float64) > base_rate
        low, high = (low, middle) if too_high else (middle, high)
    return low


def user_features(
    graph: Graph,
    influence: NDArray[np.float64],
    susceptibility: NDArray[np.float64],
    tastes: NDArray[np.float64],
    noise: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """What a policy may see of the users: a noisy view of what drives them, and their degrees."""
    hidden = np.column_stack([influence, susceptibility, tastes])
    seen = _standardised(hidden + noise * rng.standard_normal(hidden.shape))
    degrees = _standardised(np.log1p(np.column_stack([graph.out_degree, graph.in_degree])))
    users = np.column_stack([seen[:, :2], degrees, seen[:, 2:]])
    return np.asarray(users / np.linalg.norm(users, axis=1).max())
