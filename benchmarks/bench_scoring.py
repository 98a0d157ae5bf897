"""Scoring all edges: the tensor policies against the literal loop, and a kernel that only streams the same rows."""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

import numba
import numpy as np

from tensorucb.graph import Graph
from tensorucb.learner import TensorRegression
from tensorucb.policies import PaperTensorUCB

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from reference.scoring import score_edges

NODES, EDGES = 29_000, 372_000


@numba.njit(nogil=True)
def _stream(sources, targets, A, B, out):
    """Read the rows that scoring reads (three of the source, two of the target) and add them up."""
    for e in range(sources.size):
        i, j = sources[e], targets[e]
        total = 0.0
        for r in range(A.shape[1]):
            total += A[i, r]
        for r in range(B.shape[1]):
            total += B[j, r]
        out[e] = total


def _power_law(rng, nodes, edges):
    weights = (np.arange(nodes) + 10.0) ** -0.8
    weights /= weights.sum()
    ring, count = np.arange(nodes), int(edges * 0.95)
    sources = np.concatenate([ring, rng.choice(nodes, count, p=weights)])
    targets = np.concatenate([(ring + 1) % nodes, rng.permutation(nodes)[rng.choice(nodes, count, p=weights)]])
    keep = sources != targets
    return Graph.from_edges(sources[keep], targets[keep])


def _median(function, repeats):
    function()
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append((time.process_time() - begin) * 1e3)
    return statistics.median(times)


def run(quick: bool = False) -> list[dict[str, object]]:
    os.environ["TENSORUCB_THREADS"] = "1"
    rng = np.random.default_rng(0)
    graph = _power_law(rng, NODES // 10 if quick else NODES, EDGES // 10 if quick else EDGES)
    users, product = rng.normal(size=(graph.n_nodes, 10)), rng.random(10)
    size = f"{graph.n_nodes:,} / {graph.n_edges:,}, R=10, D=3, d=10"
    rows: list[dict[str, object]] = []

    def row(what, ours, reference):
        rows.append(
            {
                "room": "scoring",
                "what": what,
                "ours": ours,
                "reference": reference,
                "ratio": reference / ours,
                "unit": "ms CPU",
            }
        )

    streams = rng.normal(size=(graph.n_nodes, 30)), rng.normal(size=(graph.n_nodes, 20))
    out = np.empty(graph.n_edges)
    streaming = _median(lambda: _stream(graph.sources, graph.targets, *streams, out), 9)
    policy = PaperTensorUCB(rank=10)
    users *= 0.2
    policy.bind(graph, users, 0)
    edges = rng.permutation(graph.n_edges)[:300]
    policy.update(product, edges, rng.integers(0, 2, 300))
    # Another product each time: the last predictions are kept.
    others = iter(rng.random((20, 10)))
    ours = _median(lambda: policy.score(next(others)), 5 if quick else 9)
    part = rng.permutation(graph.n_edges)[: 100 if quick else 400]
    learner = TensorRegression((10, 10, 10), 10)
    learner.take_arrays(policy.state().arrays)
    begin = time.process_time()
    want = score_edges(learner.state, users, graph.sources[part], graph.targets[part], [product], c=0.1, link="sigmoid")
    literal = (time.process_time() - begin) * 1e3 * graph.n_edges / part.size
    gap = float(abs(policy.score(product)[part] - want).max())
    row(f"{size}: literal loop, extrapolated from {part.size} edges; gap {gap:.0e}", ours, literal)
    row(f"{size}: kernel that only streams the same rows", ours, streaming)
    del os.environ["TENSORUCB_THREADS"]
    return rows
