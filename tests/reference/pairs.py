"""Plain references for pairs of user and strategy: both objectives by their definition, and brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from reference.oracle import reachability, world_chances

Pairs = tuple[tuple[int, int], ...]


def contact_chances(graph, probabilities, pairs: Pairs, redundancy: float = 0.0) -> NDArray:
    """The chance of each user to be activated by those contacted, each of whom tries every follower once."""
    fail, strongest = np.ones(graph.n_nodes), np.zeros(graph.n_nodes)
    for user, strategy in pairs:
        for e in range(graph.n_edges):
            if graph.sources[e] == user:
                target, p = graph.targets[e], probabilities[strategy, e]
                fail[target] *= 1.0 - p
                strongest[target] = max(strongest[target], p)
    return (1.0 - redundancy) * (1.0 - fail) + redundancy * strongest


class DirectPairs:
    """``Σ v_j {(1 - ρ) [1 - Π (1 - p_ij)] + ρ max p_ij}``, contacted users active, if they count at all."""

    def __init__(self, graph, probabilities, values=None, *, count_seeds=True, redundancy=0.0) -> None:
        self.graph, self.p, self.count_seeds = graph, np.asarray(probabilities), count_seeds
        self.values = np.ones(graph.n_nodes) if values is None else np.asarray(values)
        self.redundancy = redundancy

    def __call__(self, pairs: Pairs) -> float:
        chance = contact_chances(self.graph, self.p, pairs, self.redundancy)
        if self.count_seeds:
            chance[[user for user, _ in pairs]] = 1.0
        return float(self.values @ chance)


class CascadePairs:
    """Users activated by those contacted pass it on along edges that live with ``spread``: over all such worlds.

    A contacted user counts as active, and passes it on with ``spread`` only if somebody else activates this user too.
    Given the world, user u is active if any user who reaches u was activated by a contacted one, independently.
    """

    def __init__(self, graph, probabilities, spread, values=None, *, count_seeds=True) -> None:
        self.graph, self.p, self.count_seeds = graph, np.asarray(probabilities), count_seeds
        live, self.reach = reachability(graph.n_nodes, graph.sources, graph.targets)
        self.weight = np.where(live, spread, 1.0 - np.asarray(spread)).prod(axis=1)
        self.values = np.ones(graph.n_nodes) if values is None else np.asarray(values)

    def __call__(self, pairs: Pairs) -> float:
        fail = 1.0 - contact_chances(self.graph, self.p, pairs)
        active = 1.0 - np.where(self.reach, fail[None, :, None], 1.0).prod(axis=1)
        if self.count_seeds:
            active[:, [user for user, _ in pairs]] = 1.0
        return float(self.weight @ (active @ self.values))


def literal_cascade(graph, probabilities, spread, pairs: Pairs, redundancy: float = 0.0) -> float:
    """The same, edge by edge: every outcome of every contact's and every user's attempts."""
    attempts = [
        (("pair", user), int(graph.targets[e]), probabilities[strategy][e])
        for user, strategy in pairs
        for e in range(graph.n_edges)
        if graph.sources[e] == user
    ]
    attempts += [(int(graph.sources[e]), int(graph.targets[e]), spread[e]) for e in range(graph.n_edges)]
    total = 0.0
    outcomes = list(product((False, True), repeat=len(attempts)))
    targets, p = (np.array([attempt[part] for attempt in attempts]) for part in (1, 2))
    chances = world_chances(np.array(outcomes), p, targets, redundancy)
    for outcome, chance in zip(outcomes, chances.tolist(), strict=True):
        reached: set = {("pair", user) for user, _ in pairs}
        while True:
            more = {t for (s, t, _), lives in zip(attempts, outcome, strict=True) if lives and s in reached} - reached
            if not more:
                break
            reached |= more
        total += chance * len({u for u in reached if isinstance(u, int)} | {user for user, _ in pairs})
    return total


def pair_sets(users, strategies: int, most: int) -> Iterator[Pairs]:
    """All sets of at most ``most`` pairs with at most one pair per user."""
    for size in range(1, most + 1):
        for chosen in combinations(users, size):
            for rows in product(range(strategies), repeat=size):
                yield tuple(zip(chosen, rows, strict=True))


def best_pairs(objective: Callable, sets: Iterator[Pairs], admissible: Callable) -> float:
    """The largest objective of an admissible set, by brute force."""
    return max((objective(pairs) for pairs in sets if admissible(pairs)), default=0.0)
