"""A selection on a local Ray cluster of two nodes, against the same in this process; and the bytes that it moves."""

from __future__ import annotations

import contextlib
import os
import pickle
import statistics
import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np

from benchmarks.hot_paths import power_law
from tensorucb import Sampling, select_seeds
from tensorucb.engines import RayEngine

_ADDRESS = "127.0.0.2"


@contextlib.contextmanager
def cluster(memory: int):
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": memory, "node_ip_address": _ADDRESS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
        try:
            found.add_node(**node)
            yield found.address
        finally:
            found.shutdown()


def traffic(engine: RayEngine) -> dict[str, list[int]]:
    """Bytes of every call to the shards, by method: what goes there and comes back."""
    crew, moved = engine._crew, {}
    usual = crew.on_shards

    def on_shards(calls: Any) -> list[Any]:
        found = usual(calls)
        sizes = moved.setdefault(calls[0][1][0], [])
        arguments = [
            [each for each in call[1][1] if not type(each).__module__.startswith("ray") and each is not None]
            for call in calls
        ]
        plain = [[a for a in each if type(a).__name__ not in ("Round", "View")] for each in arguments]
        sizes.append(len(pickle.dumps((plain, found), 5)))
        return found

    crew.on_shards = on_shards
    return moved


def wall_ms(function, repeat: int) -> tuple[float, Any]:
    times, found = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        found = function()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times), found


def run(quick: bool = False) -> list[dict[str, object]]:
    sizes = [(3_000, 37_000, 10, 3)]
    if not quick:
        sizes = [(29_384, 371_722, 10, 7), (29_384, 371_722, 50, 7), (1_000_000, 10_000_000, 10, 3)]
    rows = []
    with cluster(100 * 2**20 if quick else 1000 * 2**20) as address, RayEngine(address) as engine:
        moved = traffic(engine)
        graph = p = None
        for n, m, k, repeat in sizes:
            if graph is None or graph.n_nodes != n:
                graph = power_law(n, m, 0)
                p = 1.0 / graph.in_degree[graph.targets]
            for epsilon in (0.1,) if quick else (0.1, 0.02):
                sampling = Sampling(epsilon=epsilon, quality=1.4 / epsilon)
                select = partial(select_seeds, graph, p, k, sampling=sampling, rng=0)
                select(engine=engine)
                moved.clear()
                there, pick = wall_ms(partial(select, engine=engine), repeat)
                here, same = wall_ms(partial(select, threads=2), repeat)
                assert np.array_equal(pick.rows, same.rows)
                assert pick.lower == same.lower
                what = f"a selection on 2 Ray nodes of one CPU, {graph.n_nodes:,} / {graph.n_edges:,}, K = {k}"
                step = statistics.median(moved["cover"])
                calls = sum(map(len, moved.values())) // repeat
                total = sum(map(sum, moved.values())) // repeat
                what += f", {pick.rr_sets:,} sets; {step / 1000:.1f} kB per greedy step, "
                what += f"{total / 1e6:.2f} MB in {calls} calls"
                row = {"room": "engines", "what": what, "ours": there, "reference": here, "unit": "ms"}
                rows.append({**row, "ratio": here / there})
                print(row, file=sys.stderr, flush=True)
    return rows
