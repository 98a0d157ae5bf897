"""Public objects used from eight threads at the same time: ``python eight_threads.py CASE …`` runs these cases in turn.

A case ends with an error if a thread gets another answer than a single thread does. The cases run in a process of their
own, because broken memory ends the process; what it has printed says in which case.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import LiveEdgePool, simulate_cascades
from tensorucb.experiments import Environment, WorldSettings

THREADS = 8
CALLS = 16


def in_eight_threads(work: Callable[[int], Any]) -> list[Any]:
    """``work(0) .. work(CALLS - 1)``; all threads begin together."""
    together = Barrier(THREADS, timeout=120)
    with ThreadPoolExecutor(THREADS, initializer=together.wait) as pool:
        return list(pool.map(work, range(CALLS)))


def world() -> tuple[tu.Graph, np.ndarray]:
    sandbox = make_sandbox(2000, 30_000, 5, base_rate=0.03, rng=0)
    return sandbox.graph, sandbox.probabilities(0)


def oracle(**options: Any) -> None:
    """Each call takes the next key, so the answers are those of one thread in some order."""
    graph, p = world()
    alone = tu.SeedOracle(graph, rng=0, **options)
    expected = sorted(alone(p, 10).tolist() for _ in range(CALLS))
    shared = tu.SeedOracle(graph, rng=0, **options)
    assert sorted(in_eight_threads(lambda _: shared(p, 10).tolist())) == expected


def oracle_with_errors() -> None:
    """A call that is refused disturbs nobody."""
    graph, p = world()
    wrong = p.copy()
    wrong[-1] = 2.0
    shared = tu.SeedOracle(graph, rng=0)

    def call(i: int) -> int:
        try:
            return shared(wrong if i % 2 else p, 10).size
        except tu.errors.InputError:
            return -1

    assert in_eight_threads(call) == [10, -1] * (CALLS // 2)


def selections() -> None:
    """`select_seeds` and `select_pairs`."""
    graph, p = world()

    def call(i: int) -> list[int]:
        if i % 2:
            return tu.select_seeds(graph, p, 5, rng=0).rows.tolist()
        return tu.select_pairs(graph, [p, p * 0.5], 5, objective="direct").rows.tolist()

    expected = [call(0), call(1)]
    assert in_eight_threads(call) == expected * (CALLS // 2)


def diffusion() -> None:
    """A pool of live edges, cascades, and a graph whose parts are made on first use."""
    graph, p = world()
    pool = LiveEdgePool(graph, p, 64, rng=0)

    def call(i: int, on: tu.Graph) -> list[Any]:
        rows = [i, i + 100]
        return [
            pool.reach(rows).tolist(),
            simulate_cascades(on, p, rows, 20, rng=i).tolist(),
            on.rows(on.ids[rows]).tolist(),
            on.in_degree[rows].tolist(),
        ]

    expected = [call(i, graph) for i in range(CALLS)]
    fresh = tu.Graph.from_edges(graph.sources, graph.targets, nodes=np.arange(graph.n_nodes))
    assert in_eight_threads(lambda i: call(i, fresh)) == expected


def environment() -> None:
    """What a world computes on first use: truth, optimum, frozen worlds."""
    sandbox = make_sandbox(300, 3000, 5, rng=0)

    def call(i: int, on: Environment) -> list[Any]:
        best = on.optimum(i % 3)
        edges, outcomes = on.observe(i % 3, best.rows, seed=0, run=0, round_number=i)
        return [best.rows.tolist(), on.evaluate(i % 3, [i, 7 + i]), edges.tolist(), outcomes.tolist()]

    for objective in ("direct", "cascade"):
        settings = WorldSettings(k=4, objective=objective, worlds=32)
        alone, shared = (Environment.from_sandbox(sandbox, settings=settings) for _ in range(2))
        assert in_eight_threads(lambda i, on=shared: call(i, on)) == [call(i, alone) for i in range(CALLS)]


def campaign(storage: str = "memory://") -> None:
    """Rounds asked, told, closed and looked at; the model is that of the log."""
    sandbox = make_sandbox(60, 400, 5, rng=0)
    graph = sandbox.graph
    with tu.create_campaign("spring", graph=graph, users=sandbox.users, storage=storage) as shared:

        def call(i: int) -> None:
            ask = shared.ask(sandbox.products[i % 5], 3)
            edges = graph.out_edges(graph.rows(ask.seeds))[: i + 1]
            told = [
                {"source": graph.ids[graph.sources[e]], "target": graph.ids[graph.targets[e]], "outcome": e % 2}
                for e in edges.tolist()
            ]
            report = shared.tell(ask.id, told)
            assert report.accepted == len(told)
            shared.close(ask.id)
            shared.preview(sandbox.products[0], 3)
            shared.status()

        in_eight_threads(call)
        assert [record.status for record in shared.rounds()] == ["closed"] * CALLS
        assert shared.model_hash() == shared.replay_hash()


def campaign_on_disk() -> None:
    """The same in a database file."""
    with tempfile.TemporaryDirectory() as folder:
        campaign(f"sqlite:///{folder}/campaigns.db")


def regression() -> None:
    """A learner that predicts for all."""
    rng = np.random.default_rng(0)
    features = [rng.normal(size=(200, 3)) for _ in range(3)]
    model = tu.TensorRegression((3, 3, 3), rank=2)
    model.update(features, rng.random(200))

    def call(i: int) -> list[float]:
        mean, deviation = model.predict([part[i : i + 50] for part in features])
        return [*mean.tolist(), *deviation.tolist()]

    expected = [call(i) for i in range(CALLS)]
    assert in_eight_threads(call) == expected


CASES: dict[str, Callable[[], None]] = {
    "oracle, one kernel thread each": lambda: oracle(threads=1),
    "oracle, two kernel threads each": lambda: oracle(threads=2),
    "oracle with errors": oracle_with_errors,
    "oracle, direct": lambda: oracle(objective="direct"),
    "selections": selections,
    "diffusion": diffusion,
    "environment": environment,
    "campaign": campaign,
    "campaign on disk": campaign_on_disk,
    "regression": regression,
}


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        CASES[name]()
