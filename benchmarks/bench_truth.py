"""Seconds per EM iteration of the topic-aware model at Digg size, against NumPy in the same run."""

from __future__ import annotations

import time

import numpy as np

from tensorucb.data import make_sandbox
from tensorucb.graph import Graph
from tensorucb.truth import activations, fit_topic_aware_ic


def numpy_iteration(graph: Graph, item, edge, hit, mixtures, p, group) -> np.ndarray:
    """The same exact iteration in NumPy, a topic at a time."""
    gamma = mixtures[item]
    q = np.einsum("tk,tk->t", gamma, p[edge])
    miss = np.bincount(group, weights=np.log1p(-q[hit]))
    at_least_one = -np.expm1(miss)[group]
    fired = np.zeros(q.size)
    fired[hit] = 1 / at_least_one
    missed = 1 / (1 - q)
    missed[hit] = -np.expm1(miss[group] - np.log1p(-q[hit])) / at_least_one
    result = np.empty_like(p)
    for k in range(p.shape[1]):
        on = p[:, k] * np.bincount(edge, weights=gamma[:, k] * fired, minlength=graph.n_edges)
        off = (1 - p[:, k]) * np.bincount(edge, weights=gamma[:, k] * missed, minlength=graph.n_edges)
        result[:, k] = (on + 0.1) / (on + off + 2.1)
    return result


def run(quick: bool = False) -> list[dict[str, object]]:
    n, m, n_items, actions = (500, 6_000, 60, 6_000) if quick else (2_528, 66_460, 256, 53_513)
    box = make_sandbox(n, m, n_items, degree_shape=(2.0, 95.0, 277.0, 457.0), rng=0)
    rng = np.random.default_rng(0)
    log = rng.integers(0, n, actions), rng.integers(0, n_items, actions), rng.integers(0, 10**6, actions)

    def seconds(iterations: int) -> float:
        start = time.process_time()
        fit_topic_aware_ic(box.graph, *log, box.mixtures, max_iterations=iterations, tolerance=0.0, threads=1)
        return time.process_time() - start

    seconds(1)
    ours = (seconds(11) - seconds(1)) / 10
    found = activations(box.graph, *log)
    hit, target = found.successes, box.graph.targets[found.edges]
    group = np.unique(found.items[hit] * n + target[hit], return_inverse=True)[1]
    p = np.full((m, box.mixtures.shape[1]), 0.1)
    start = time.process_time()
    numpy_iteration(box.graph, found.items, found.edges, hit, box.mixtures, p, group)
    plain = time.process_time() - start
    what = f"an EM iteration, {found.items.size:,} trials, {m:,} edges, 10 topics"
    row = {"room": "truth", "what": what, "ours": round(ours, 4), "reference": round(plain, 3)}
    return [{**row, "ratio": round(plain / ours, 1), "unit": "CPU s"}]
