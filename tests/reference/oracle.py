"""Plain NumPy references for the oracle: exact spread over all live-edge worlds, simulation, RR sets, brute force."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb import oracle

# private: a sampler of RR sets takes probabilities that this has checked
from tensorucb.graph._arguments import check_probabilities


def packed(**given: Any) -> dict[str, Any]:
    """The arguments of a choice, those of `Constraints` and `Sampling` put into these records."""
    for name, record in (("constraints", oracle.Constraints), ("sampling", oracle.Sampling)):
        parts = {part.name: given.pop(part.name) for part in fields(record) if part.name in given}
        if parts:
            given[name] = record(**parts)
    return given


def select_seeds(graph: Any, probabilities: Any, k: Any, **given: Any) -> oracle.Selection:
    """`tensorucb.select_seeds` with the fields of both records as arguments."""
    return oracle.select_seeds(graph, probabilities, k, **packed(**given))


def select_pairs(graph: Any, probabilities: Any, k: Any, **given: Any) -> oracle.PairSelection:
    """`tensorucb.select_pairs`, the same."""
    return oracle.select_pairs(graph, probabilities, k, **packed(**given))


def reachability(n: int, sources: NDArray, targets: NDArray) -> tuple[NDArray, NDArray]:
    """For each of the 2^m worlds: which edges live, and who reaches whom (worlds, n, n)."""
    m = sources.size
    live = (np.arange(2**m)[:, None] >> np.arange(m)) & 1
    reach = np.broadcast_to(np.eye(n, dtype=bool), (2**m, n, n)).copy()
    for e in range(m):
        reach[live[:, e] == 1, sources[e], targets[e]] = True
    for v in range(n):
        reach |= reach[:, :, v, None] & reach[:, None, v, :]
    return live.astype(bool), reach


def world_chances(live: NDArray, probabilities, targets: NDArray, redundancy: float = 0.0) -> NDArray:
    """How likely each world is (a row of ``live`` says which edges live).

    With probability ``redundancy`` a node has one uniform number for all its in-edges, else one for each of them.
    """
    p = np.asarray(probabilities, dtype=float)
    chance = np.ones(len(live))
    for node in np.unique(targets):
        lives, q = live[:, targets == node], p[targets == node]
        by_coins = np.where(lives, q, 1.0 - q).prod(axis=1)
        # The number is below the probability of all edges that live, and not below that of any other.
        by_one_number = np.where(lives, q, 1.0).min(axis=1) - np.where(lives, 0.0, q).max(axis=1)
        chance *= (1.0 - redundancy) * by_coins + redundancy * np.maximum(0.0, by_one_number)
    return chance


class ExactSpread:
    """Expected (value of the) spread of any seed set, by enumerating the worlds of a tiny graph."""

    def __init__(self, graph, probabilities, values=None, redundancy=0.0) -> None:
        live, self.reach = reachability(graph.n_nodes, graph.sources, graph.targets)
        self.weight = world_chances(live, probabilities, graph.targets, redundancy)
        self.values = np.ones(graph.n_nodes) if values is None else np.asarray(values, dtype=float)

    def __call__(self, rows: Iterable[int]) -> float:
        rows = list(rows)
        if not rows:
            return 0.0
        return float(self.weight @ (self.reach[:, rows, :].any(axis=1) @ self.values))


def simulate(graph, probabilities, rows, runs: int, rng: np.random.Generator) -> NDArray:
    """Spread of ``runs`` independent cascades, edge by edge."""
    sizes = np.empty(runs)
    for i in range(runs):
        live = rng.random(graph.n_edges) < probabilities
        active = {int(r) for r in rows}
        frontier = list(active)
        while frontier:
            v = frontier.pop()
            for e in np.flatnonzero((graph.sources == v) & live):
                u = int(graph.targets[e])
                if u not in active:
                    active.add(u)
                    frontier.append(u)
        sizes[i] = len(active)
    return sizes


def threshold_spread(graph, weights, rows, values=None) -> float:
    """Expected value under linear thresholds: over all choices of one in-edge, or none, for each node."""
    n = graph.n_nodes
    v = np.ones(n) if values is None else np.asarray(values, dtype=float)
    choices = []
    for node in range(n):
        into = np.flatnonzero(graph.targets == node)
        choices.append([(None, 1.0 - weights[into].sum()), *((int(graph.sources[e]), weights[e]) for e in into)])
    expected = 0.0
    for world in product(*choices):
        active = set(rows)
        for _ in range(n):
            active |= {node for node in range(n) if world[node][0] in active}
        expected += math.prod(chance for _, chance in world) * v[list(active)].sum()
    return expected


def rr_set(graph, probabilities, root: int, rng: np.random.Generator) -> list[int]:
    """One RR set with NumPy coins: the plain sampler that the kernels are timed against."""
    members, seen = [root], {root}
    at = 0
    while at < len(members):
        v = members[at]
        at += 1
        edges = graph.in_edges[graph.in_offsets[v] : graph.in_offsets[v + 1]]
        hit = edges[rng.random(edges.size) < probabilities[edges]]
        for u in graph.sources[hit].tolist():
            if u not in seen:
                seen.add(u)
                members.append(u)
    return members


def direct_value(graph, probabilities, rows, values=None, redundancy=0.0) -> float:
    """The direct objective by its formula."""
    v = np.ones(graph.n_nodes) if values is None else np.asarray(values, dtype=float)
    survive, strongest = np.ones(graph.n_nodes), np.zeros(graph.n_nodes)
    for e in range(graph.n_edges):
        if graph.sources[e] in set(rows):
            survive[graph.targets[e]] *= 1.0 - probabilities[e]
            strongest[graph.targets[e]] = max(strongest[graph.targets[e]], probabilities[e])
    survive[list(rows)] = 0.0
    strongest[list(rows)] = 1.0
    return float(v @ ((1.0 - redundancy) * (1.0 - survive) + redundancy * strongest))


def greedy_rows(objective: Callable, degree, k: int) -> list[int]:
    """Plain greedy, ties to the larger out-degree, then to the lower row."""
    chosen: list[int] = []
    for _ in range(k):
        rest = [v for v in range(len(degree)) if v not in chosen]
        chosen.append(max(rest, key=lambda v: (round(objective([*chosen, v]), 12), degree[v], -v)))
    return chosen


class Judge:
    """The share of one fixed collection of RR walks that a seed set covers: the same walks for every set.

    ``judge(rows)`` gives one share for each of ``blocks`` equal parts of the walks, so that the error of a comparison
    is seen from how much it differs between them.
    """

    def __init__(self, graph, probabilities, walks: int, blocks: int = 16):
        from tensorucb.oracle.rr import Sampler

        self._sampler = Sampler(graph, 1)
        self._sampler.load(check_probabilities(graph, probabilities))
        self._size, self._blocks = walks // blocks, blocks

    def __call__(self, rows) -> NDArray:
        self._sampler.mark(np.asarray(rows))
        parts = (
            self._sampler.sample(np.uint64(987654), i * self._size, self._size, store=False, limit=0)
            for i in range(self._blocks)
        )
        return np.array([part.hits.sum() / self._size for part in parts])

    def ratio(self, some, others) -> tuple[float, float]:
        """Mean share of several sets over that of others, and the standard error that the walks leave it with."""
        ours, theirs = (np.mean([self(rows) for rows in sets], axis=0) for sets in (some, others))
        value = ours.mean() / theirs.mean()
        apart = ours - value * theirs
        return float(value), float(apart.std(ddof=1) / theirs.mean() / math.sqrt(self._blocks))


def best_set(objective: Callable, nodes: Iterable[int], sizes: Iterable[int], admissible: Callable) -> float:
    """The largest objective of an admissible set, by brute force."""
    nodes = list(nodes)
    sets = (s for k in sizes for s in combinations(nodes, k) if admissible(s))
    return max((objective(s) for s in sets), default=0.0)


def reverse_walk(graph, live, root: int) -> tuple[list[int], list[int]]:
    """The members of an RR set in a given world, and the step at which each joined (-1 for the root)."""
    members, joined = [root], [-1]
    at = 0
    while at < len(members):
        v = members[at]
        for e in graph.in_edges[graph.in_offsets[v] : graph.in_offsets[v + 1]]:
            u = int(graph.sources[e])
            if live[e] and u not in members:
                members.append(u)
                joined.append(at)
        at += 1
    return members, joined


def compensated_score(graph, probabilities, members, joined, rows, first: int = 0) -> float:
    """What a walk scores by seeds: at each step from ``first`` on until one of them joined, the chance of a hit."""
    score = 0.0
    last = min((step for u, step in zip(members, joined, strict=True) if u in rows), default=len(members) - 1)
    for v in members[first : last + 1]:
        into = [e for e in graph.in_edges[graph.in_offsets[v] : graph.in_offsets[v + 1]] if graph.sources[e] in rows]
        score += 1.0 - math.prod(1.0 - probabilities[e] for e in into)
    return score
