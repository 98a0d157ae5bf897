"""Plain NumPy references for the oracle: exact spread over all live-edge worlds, simulation, RR sets, brute force."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray


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


class ExactSpread:
    """Expected (value of the) spread of any seed set, by enumerating the worlds of a tiny graph."""

    def __init__(self, graph, probabilities, values=None) -> None:
        live, self.reach = reachability(graph.n_nodes, graph.sources, graph.targets)
        p = np.asarray(probabilities, dtype=float)
        self.weight = np.where(live, p, 1.0 - p).prod(axis=1)
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


def direct_value(graph, probabilities, rows, values=None) -> float:
    """The direct objective by its formula."""
    v = np.ones(graph.n_nodes) if values is None else np.asarray(values, dtype=float)
    survive = np.ones(graph.n_nodes)
    for e in range(graph.n_edges):
        if graph.sources[e] in set(rows):
            survive[graph.targets[e]] *= 1.0 - probabilities[e]
    survive[list(rows)] = 0.0
    return float(v @ (1.0 - survive))


def greedy_rows(objective: Callable, n: int, k: int) -> list[int]:
    """Plain greedy, ties to the lower row."""
    chosen: list[int] = []
    for _ in range(k):
        rest = [v for v in range(n) if v not in chosen]
        chosen.append(max(rest, key=lambda v: (round(objective([*chosen, v]), 12), -v)))
    return chosen


def best_set(objective: Callable, nodes: Iterable[int], sizes: Iterable[int], admissible: Callable) -> float:
    """The largest objective of an admissible set, by brute force."""
    nodes = list(nodes)
    sets = (s for k in sizes for s in combinations(nodes, k) if admissible(s))
    return max((objective(s) for s in sets), default=0.0)
