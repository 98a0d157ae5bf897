"""Plain Python and NumPy transcriptions of the diffusion kernels."""

from __future__ import annotations

import itertools

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def coin(key: int, run: int, edge: int) -> float:
    state = mix64((key + (run + 1) * GOLDEN) & MASK)
    return (mix64((state + edge * GOLDEN) & MASK) >> 11) / 2**53


def live_edges(key: int, run: int, p, targets=(), redundancy: float = 0.0) -> np.ndarray:
    """Which edges are live; with ``redundancy`` nodes with one coin have two draws behind those of all edges."""
    live = np.array([coin(key, run, e) < p[e] for e in range(len(p))])
    for e, j in enumerate(targets if redundancy else ()):
        if coin(key, run, len(p) + 2 * int(j)) < redundancy:
            live[e] = coin(key, run, len(p) + 2 * int(j) + 1) < p[e]
    return live


def reached(graph, live, rows) -> list[int]:
    """Nodes in order of activation over the live edges."""
    queue = list(map(int, rows))
    for v in queue:
        for e in range(graph.out_offsets[v], graph.out_offsets[v + 1]):
            if live[e] and int(graph.targets[e]) not in queue:
                queue.append(int(graph.targets[e]))
    return queue


def exact_spread(graph, p, rows) -> float:
    """Expected spread by enumeration of all 2^m worlds."""
    total = 0.0
    for bits in itertools.product([False, True], repeat=graph.n_edges):
        weight = np.prod(np.where(bits, p, 1 - np.asarray(p)))
        total += weight * len(reached(graph, bits, rows)) if weight else 0.0
    return float(total)


def direct_spread(graph, p, rows, values) -> float:
    miss = np.ones(graph.n_nodes)
    for e in np.flatnonzero(np.isin(graph.sources, rows)):
        miss[graph.targets[e]] *= 1 - p[e]
    miss[np.asarray(rows, dtype=int)] = 0
    return float(values @ (1 - miss))
