"""Milliseconds per cascade and per pool query at Flixster size, against plain NumPy in the same run."""

from __future__ import annotations

import statistics
import time

import numpy as np

from tensorucb.diffusion import LiveEdgePool, simulate_cascades
from tensorucb.graph import Graph


def power_law_graph(n: int, m: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    weight = (np.arange(n) + 10.0) ** -0.7
    cumulative = np.cumsum(weight / weight.sum())
    # Hubs both listen and speak, as in social networks: cascades then reach thousands of users.
    source, target = np.minimum(np.searchsorted(cumulative, rng.random((2, int(1.3 * m)))), n - 1)
    keys = np.unique((source * n + target)[source != target])
    keys = rng.permutation(keys)[:m]
    return Graph.from_edges(keys // n, keys % n)


def numpy_cascade(graph: Graph, p: np.ndarray, rows: np.ndarray, rng: np.random.Generator) -> int:
    offsets, targets = graph.out_offsets, graph.targets
    active = np.zeros(graph.n_nodes, dtype=bool)
    active[rows] = True
    frontier = rows
    while frontier.size:
        edges = np.concatenate([np.arange(offsets[v], offsets[v + 1]) for v in frontier])
        fired = targets[edges[rng.random(edges.size) < p[edges]]]
        frontier = np.unique(fired[~active[fired]])
        active[frontier] = True
    return int(active.sum())


def cpu_ms(function, repeat: int, per: int = 1) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append((time.process_time() - start) * 1000 / per)
    return statistics.median(times)


def run(quick: bool = False) -> list[dict[str, object]]:
    n, m, runs = (3_000, 37_000, 50) if quick else (29_384, 371_722, 300)
    graph = power_law_graph(n, m, 0)
    p = np.full(graph.n_edges, 0.02)
    rows = np.argsort(-graph.out_degree)[:10]
    simulate_cascades(graph, p, rows, 1, 0, 1)
    ours = cpu_ms(lambda: simulate_cascades(graph, p, rows, runs, 0, 1), 5, runs)
    rng = np.random.default_rng(0)
    plain = cpu_ms(lambda: numpy_cascade(graph, p, rows, rng), 10)
    size = simulate_cascades(graph, p, rows, runs, 0, 1).mean()
    what = f"a cascade, p = 0.02, 10 seeds, {graph.n_nodes:,} / {graph.n_edges:,}, reaching {size:.0f} users"
    rows_out = [_row(what, ours, plain)]
    for storage in ("packed", "hashed"):
        pool = LiveEdgePool(graph, p, runs, 0, storage=storage, threads=1)
        pool.reach(rows)
        query = cpu_ms(lambda pool=pool: pool.reach(rows), 5, runs)
        rows_out.append(_row(f"a world of a {storage} pool, same seeds", query, plain))
    return rows_out


def _row(what: str, ours: float, reference: float) -> dict[str, object]:
    return {
        "room": "diffusion",
        "what": what,
        "ours": round(ours, 4),
        "reference": round(reference, 3),
        "ratio": round(reference / ours, 1),
        "unit": "CPU ms",
    }


if __name__ == "__main__":
    for row in run():
        print(row)
