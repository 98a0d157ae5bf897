"""Simulated rounds whose followers answer in one of three ways; everything from a seed."""

from __future__ import annotations

import numpy as np

from tensorucb.graph import Graph

TOPICS = 3
BASE = -2.2


def crowd(seed, n=150, m=3000):
    """A network in which followers follow several of the contacted users, and the users' features."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(np.column_stack([(n * rng.random(m) ** 1.5).astype(int), rng.integers(0, n, m)]), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], nodes=np.arange(n))
    return graph, rng.normal(size=(n, 2))


def rounds_of(graph, users, kind, rounds=40, k=8, seed=1, noise=0.0, spread=0.4):
    """Product, edges and outcomes of each round, and the rate of each source.

    ``kind``: ``"coins"``, one for each contact; ``"one answer"``, whatever the number of contacts, told to all of them;
    ``"adding up"``: each contact has its coin, and whether one of them succeeded is told to all. ``noise`` is the
    deviation of what a round adds to all logits, ``spread`` that of what is a source's own.
    """
    rng = np.random.default_rng([seed, 7])
    own = BASE + 0.4 * users[:, 0] + rng.normal(0.0, spread, len(users))
    told = []
    for _ in range(rounds):
        product = rng.dirichlet(np.ones(TOPICS))
        edges = graph.out_edges(rng.choice(len(users), k, replace=False))
        shift = rng.normal(0.0, noise) if noise else 0.0
        p = 1.0 / (1.0 + np.exp(-own[graph.sources[edges]] - shift))
        targets = graph.targets[edges]
        coins = rng.random(edges.size) < p
        if kind == "one answer":
            level = 1.0 / (1.0 + np.exp(-BASE - shift))
            coins = (rng.random(len(users)) < level)[targets]
        elif kind == "adding up":
            coins = (np.bincount(targets, coins, len(users)) > 0.0)[targets]
        told.append((product, edges, coins.astype(np.float64)))
    return told, own
