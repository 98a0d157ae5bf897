"""Policies at Flixster size (29k users, 372k edges): a round, against the slow transcription on a subset.

A round is the score of all edges, the choice where a policy makes its own (with an oracle that costs nothing), and an
update from the ten largest hubs' out-edges. The reference scores and learns on a 40-user graph; its time is scaled up
by the number of edges.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb import policies
from tensorucb.graph import Graph
from tensorucb.policies.registry import class_files

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from reference import policies as slow

DIM = 10


def _graph(nodes: int, edges: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, nodes + 1) ** 0.7
    sources = rng.choice(nodes, edges, p=weight / weight.sum())
    targets = rng.integers(0, nodes, edges)
    return Graph.from_edges(sources, targets, nodes=np.arange(nodes), self_loops="drop")


def _hub_feedback(graph: Graph, hubs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    seeds = np.argsort(-graph.out_degree, kind="stable")[:hubs]
    edges = np.flatnonzero(np.isin(graph.sources, seeds))
    return edges, (np.random.default_rng(seed).random(edges.size) < 0.05).astype(float)


class _FirstRows:
    candidates = None

    def __call__(self, probabilities: Any, k: int, *, candidates: Any = None, **options: Any) -> Any:
        return np.arange(k) if candidates is None else candidates[:k]


def _cpu(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def _round_time(policy: Any, product: np.ndarray, feedback: tuple[np.ndarray, np.ndarray], repeats: int) -> float:
    picks_itself = type(policy).pick is not policies.UCBPolicy.pick

    def one() -> None:
        policy.score(product)
        if picks_itself:
            policy.choose(product, 10, _FirstRows())
        policy.update(product, *feedback)

    one()  # compiles the kernels
    return statistics.median(_cpu(one) for _ in range(repeats))


def _references(graph: Graph, users: np.ndarray) -> dict[str, tuple[Any, Callable[[Any, Any], object]]]:
    start = np.random.default_rng(0).random((graph.n_nodes, DIM)) / DIM
    scored = lambda model, z: model.score(z)  # noqa: E731
    cells, shared = (lambda z: int(np.argmax(z))), (lambda z: 0)
    return {
        "COIN": (slow.CountReference(graph, cells), lambda model, z: model.coin(z)),
        "CUCB": (slow.CountReference(graph, shared), lambda model, z: model.cucb(z, 1.0)),
        "IMFB": (slow.IMFBReference(graph, start, start, 0.1, 0.4, 4.0, 0.25), scored),
        "IMLinUCB": (slow.LinearReference(graph, lambda i, j, z: users[i] * users[j], 0.1, 0.1, 1.0), scored),
        "LinUCB": (
            slow.LinearReference(graph, lambda i, j, z: np.concatenate([users[i], users[j], z, [1.0]]), 0.1, 0.1, 1.0),
            scored,
        ),
        "DILinUCB": (slow.DILinUCBReference(graph, lambda z: users, 0.1, 0.1, 1.0), scored),
        "DILinUCBOriginal": (slow.ReachabilityReference(graph, users, 0.1, 0.1, 1.0), scored),
    }


def run(quick: bool = False) -> list[dict[str, object]]:
    """Rows of the benchmark."""
    graph = _graph(29_384, 371_722, seed=0)
    small = _graph(40, 300, seed=1)
    rng = np.random.default_rng(2)
    users, few = rng.normal(size=(graph.n_nodes, DIM)) / 3, rng.normal(size=(small.n_nodes, DIM)) / 3
    product = rng.dirichlet(np.ones(DIM))
    feedback, fewer = _hub_feedback(graph, 10, 3), _hub_feedback(small, 2, 4)
    references = _references(small, few)
    rows: list[dict[str, object]] = []
    for name in class_files():
        if name == "TensorUCB":
            continue  # has a file of its own
        policy = getattr(policies, name)()
        policy.bind(graph, users, 0)
        ours = 1e3 * _round_time(policy, product, feedback, 3 if quick else 9)
        reference = None
        if name in references:
            model, score = references[name]

            def slow_round(model: Any = model, score: Any = score) -> None:
                model.update(product, *fewer)
                score(model, product)

            reference = 1e3 * _cpu(slow_round) * graph.n_edges / small.n_edges
        rows.append(
            {
                "room": "policies",
                "what": f"{name}: a round at 29k / {graph.n_edges // 1000}k, {feedback[0].size} edges learned",
                "ours": round(ours, 2),
                "reference": None if reference is None else round(reference, 1),
                "ratio": None if reference is None else round(reference / ours, 1),
                "unit": "ms CPU",
            }
        )
    return rows
