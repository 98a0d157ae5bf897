"""The hot paths of a user, each timed beside a reference in the same process; several rooms run them.

A reference is a plain program for the same task (NumPy, ``sqlite3``, our own TIM+), or another library (CyNetDiff,
ndlib, MABWiser, river, bayesianbandits) where the extra ``bench`` is installed.
"""

from __future__ import annotations

import array
import importlib
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import polars as pl

from tensorucb.arrays import F64, I64
from tensorucb.campaign import create_campaign
from tensorucb.choices import Algorithm
from tensorucb.diffusion import LiveEdgePool, simulate_cascades
from tensorucb.graph import Graph
from tensorucb.oracle import Sampling, SeedOracle
from tensorucb.policies import LinUCB, TensorUCB

_TOPICS, _FEATURES = 10, 10
_ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)
_WORLDS = 2_000
_ROWS = 2_000  # that a library scores and learns
_LIBRARIES = {
    "CyNetDiff": "cynetdiff.models",
    "ndlib": "ndlib.models.epidemics",
    "MABWiser": "mabwiser.mab",
    "river": "river.linear_model",
    "bayesianbandits": "bayesianbandits",
}


class Row(NamedTuple):
    """One measurement: a time, or a rate if the unit is per second."""

    room: str
    what: str
    beside: str
    ours: float
    reference: float
    unit: str

    @property
    def ratio(self) -> float:
        """How many times as fast as the reference ours is."""
        return self.ours / self.reference if self.unit.endswith("/s") else self.reference / self.ours

    def document(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {**self._asdict(), "ratio": self.ratio}


def measurement(room: str, what: str, ours: float, reference: float | None, unit: str) -> dict[str, Any]:
    """A row whose text says itself what the reference is; a rate (a unit per second) is better the larger it is."""
    ratio = None
    if reference is not None:
        ratio = ours / reference if unit.endswith("/s") else reference / ours
    return {"room": room, "what": what, "ours": ours, "reference": reference, "ratio": ratio, "unit": unit}


def power_law(n: int, m: int, seed: int) -> Graph:
    """A directed power-law graph whose hubs are partly the same in both directions."""
    rng = np.random.default_rng(seed)
    out_weight = np.cumsum((np.arange(n) + 11.0) ** (-1 / 1.3))
    in_weight = np.cumsum((np.arange(n) + 11.0) ** (-1 / 1.5))
    out_node = rng.permutation(n)
    in_node = out_node.copy()
    moved = np.flatnonzero(rng.random(n) < 0.5)
    in_node[moved] = in_node[rng.permutation(moved)]
    keys = np.empty(0, dtype=np.int64)
    while keys.size < m:
        size = int((m - keys.size) * 1.3) + 1000
        s = out_node[np.searchsorted(out_weight, rng.random(size) * out_weight[-1])].astype(np.int64)
        t = in_node[np.searchsorted(in_weight, rng.random(size) * in_weight[-1])]
        keys = np.unique(np.concatenate([keys, (s * n + t)[s != t]]))
    keys = rng.permutation(keys)[:m]
    return Graph.from_edges(keys // n, keys % n, nodes=np.arange(n))


def probabilities(graph: Graph, kind: str) -> F64:
    """``wc``: 1 / in-degree of the target; ``uni``: uniform up to 0.1."""
    if kind == "wc":
        return np.asarray(1.0 / graph.in_degree[graph.targets])
    return np.random.default_rng(7).random(graph.n_edges) * 0.1


def _size(graph: Graph) -> str:
    return f"{graph.n_nodes:,} / {graph.n_edges:,}"


def cpu(call: Callable[[], object], repeats: int) -> float:
    """CPU seconds of a call, the median of some; the first call, which may load kernels, does not count."""
    call()
    return statistics.median(_spent(call, time.process_time) for _ in range(repeats))


def _spent(call: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    call()
    return clock() - started


# -- a network from a file --


def reading(n: int, m: int, *, scattered: bool) -> Iterator[Row]:
    """CPU seconds from a Parquet file in random order to both compressed forms."""
    rng = np.random.default_rng(0)
    names = rng.integers(0, 2**62, n) if scattered else rng.permutation(n)
    sources = (n * rng.random(m) ** 2).astype(np.int64)
    targets = (sources + 1 + (n - 1) * rng.random(m) ** 2).astype(np.int64) % n
    keep = sources != targets
    what = f"Parquet to Graph, {n:,} / {m:,}, ids {'scattered' if scattered else 'dense'}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.parquet"
        pl.DataFrame({"source": names[sources[keep]], "target": names[targets[keep]]}).write_parquet(path)

        def ours(**more: Any) -> object:
            return Graph.read(path, **more).in_edges

        fresh, again = cpu(ours, 3), cpu(lambda: ours(cache=folder), 3)
        theirs = _spent(lambda: _numpy_graph(path), time.process_time)
        yield Row("graph", what, "NumPy", fresh, theirs, "CPU s")
        yield Row("graph", f"{what}, from the cache", "reading it", again, fresh, "CPU s")


def _numpy_graph(path: Path) -> object:
    frame = pl.read_parquet(path)
    ends = np.concatenate([frame["source"].to_numpy(), frame["target"].to_numpy()])
    ids, rows = np.unique(ends, return_inverse=True)
    s, t = rows[: ends.size // 2], rows[ends.size // 2 :]
    order = np.lexsort((t, s))
    s, t = s[order], t[order]
    fresh = np.append(True, (s[1:] != s[:-1]) | (t[1:] != t[:-1]))
    s, t = s[fresh], t[fresh]
    offsets = [np.concatenate([[0], np.cumsum(np.bincount(x, minlength=ids.size))]) for x in (s, t)]
    return ids, s, t, offsets, np.lexsort((s, t))


# -- cascades and selections --


def cascades(graph: Graph, runs: int) -> Iterator[Row]:
    """CPU milliseconds of a cascade from the ten largest hubs, p = 0.02."""
    p, rows = np.full(graph.n_edges, 0.02), np.argsort(-graph.out_degree)[:10]
    ours = 1e3 / runs * cpu(lambda: simulate_cascades(graph, p, rows, runs, 0, 1), 5)
    size = simulate_cascades(graph, p, rows, runs, 0, 1).mean()
    what = f"a cascade of {size:,.0f} users, {_size(graph)}"
    rng = np.random.default_rng(0)
    plain = 1e3 * cpu(lambda: _numpy_cascade(graph, p, rows, rng), 10)
    yield Row("diffusion", what, "NumPy", ours, plain, "CPU ms")
    for name, cascade in _library_cascades(graph, 0.02, rows).items():
        theirs = 1e3 * cpu(cascade, 3 if name == "ndlib" else 100)
        yield Row("diffusion", what, name, ours, theirs, "CPU ms")
    pool = LiveEdgePool(graph, p, runs, 0, threads=1)
    query = 1e3 / runs * cpu(lambda: pool.reach(rows), 5)
    yield Row("diffusion", "its reach in a world drawn before", "NumPy", query, plain, "CPU ms")


def _numpy_cascade(graph: Graph, p: F64, rows: I64, rng: np.random.Generator) -> int:
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


def selections(name: str, graph: Graph, kind: str, counts: tuple[int, ...], tim_runs: int = 1) -> Iterator[Row]:
    """CPU seconds of a selection beside our own TIM+, with both spreads on the same worlds; all at ε = 0.1."""
    p = probabilities(graph, kind)
    small = power_law(100, 500, 0)
    for algorithm in _ALGORITHMS:  # kernels are loaded on first use
        SeedOracle(small, sampling=Sampling(algorithm=algorithm), threads=1, rng=0)(probabilities(small, kind), 2)
    pool = LiveEdgePool(graph, p, _WORLDS if graph.n_edges < 10**6 else _WORLDS // 20, 3)
    for k in counts:
        ours, tim = (
            SeedOracle(graph, sampling=Sampling(algorithm=algorithm), threads=1, rng=0) for algorithm in _ALGORITHMS
        )
        ours(p, k)  # scratch memory is made once
        spread, spent = _selected(ours, p, k, pool, 3)
        wanted, theirs = _selected(tim, p, k, pool, tim_runs)
        quality = f"spread {spread / wanted:.3f} of TIM+'s"
        what = f"select {k} seeds, {name}, {kind}; {quality}"
        yield Row("oracle", what, "our TIM+", spent, theirs, "CPU s")


def _selected(oracle: SeedOracle, p: F64, k: int, pool: LiveEdgePool, runs: int) -> tuple[float, float]:
    """Mean spread of the seeds, and median CPU seconds of a selection."""
    spreads, spent = [], []
    for _ in range(runs):
        started = time.process_time()
        rows = oracle(p, k)
        spent.append(time.process_time() - started)
        spreads.append(float(pool.reach(rows).mean()))
    return statistics.mean(spreads), statistics.median(spent)


# -- scoring and learning --


def rounds(graph: Graph, told: int = 20) -> Iterator[Row]:
    """Edges scored and learned per CPU second by TensorUCB, refits included."""
    rng = np.random.default_rng(0)
    users = rng.normal(size=(graph.n_nodes, _FEATURES))
    scored: list[float] = []
    learned: list[float] = []
    policy, edges_told = TensorUCB(), 0
    hubs = np.argsort(-graph.out_degree)[:200]
    for _ in range(2):  # the first time kernels are loaded
        policy.bind(graph, users, 0)
        scored, learned, edges_told = [], [], 0
        for _ in range(told):
            product = rng.dirichlet(np.full(_TOPICS, 0.3))
            scored.append(_spent(lambda z=product: policy.score(z), time.process_time))
            edges = graph.out_edges(rng.choice(hubs, 5, replace=False))
            outcomes = (rng.random(edges.size) < 0.05).astype(np.float64)
            started = time.process_time()
            policy.update(product, edges, outcomes)
            learned.append(time.process_time() - started)
            edges_told += edges.size
    what, size = "edges per CPU second by TensorUCB", _size(graph)
    scoring = graph.n_edges / statistics.median(scored)
    a, b = rng.normal(size=(2, graph.n_nodes))
    plain = cpu(lambda: 1.0 / (1.0 + np.exp(-(a[graph.sources] + b[graph.targets]))), 9)
    yield Row("policies", f"scored {what}, {size}", "NumPy, a sigmoid", scoring, graph.n_edges / plain, "edges/s")
    learning = edges_told / sum(learned)
    for name, (score, learn) in _library_learners(2 * _FEATURES + _TOPICS).items():
        yield Row("policies", f"scored {what}, {size}", name, scoring, score, "edges/s")
        yield Row("policies", f"learned {what}, {size}", name, learning, learn, "edges/s")


# -- responses --

_TABLE = "CREATE TABLE r (c, n, s, t, y, time, e, q, PRIMARY KEY (c, n, s, t)) WITHOUT ROWID"


def plain_database(folder: str) -> sqlite3.Connection:
    """A table of responses in plain SQLite, as durable as a campaign's."""
    connection = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)
    return connection


def plain_insert(connection: sqlite3.Connection, number: int, rows: list[tuple[int, int, int]]) -> None:
    """Write the responses of a round in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    lines = [(1, number, s, t, y, None, None, number) for s, t, y in rows]
    connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lines)
    connection.execute("COMMIT")


def telling(told: int) -> Iterator[Row]:
    """Responses told per second, rounds of 5,000, on disk when the call returns."""
    n, rng = 1_000, np.random.default_rng(0)
    sources = np.repeat(np.arange(n), 100)
    graph = Graph.from_edges(sources, (sources + np.tile(np.arange(1, 101), n)) % n)
    rates: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        plain = plain_database(folder)
        storage, users = Path(folder) / "c.db", np.ones((n, 1))
        with create_campaign("bench", graph=graph, policy=LinUCB(), users=users, storage=storage) as campaign:
            for number in range(told):
                chosen = rng.choice(n, 50, replace=False)
                ask, edges = campaign.ask([1.0], 1, shadow=chosen), graph.out_edges(np.sort(chosen))
                outcomes = (rng.random(edges.size) < 0.05).astype(np.int64)
                columns = {"source": graph.sources[edges], "target": graph.targets[edges], "outcome": outcomes}
                frame = pl.DataFrame(columns)
                ours = _spent(lambda a=ask, f=frame: campaign.tell(a.id, f), time.perf_counter)
                rows = frame.rows()
                theirs = _spent(lambda i=number, r=rows: plain_insert(plain, i, r), time.perf_counter)
                rates.append((edges.size / ours, edges.size / theirs))
        plain.close()
    ours, theirs = (statistics.median(rate[i] for rate in rates[1:]) for i in (0, 1))
    yield Row("campaign", "tell in rounds of 5,000, durable", "sqlite3", ours, theirs, "responses/s")


# -- other libraries --


def _loads(name: str) -> bool:
    try:
        importlib.import_module(_LIBRARIES[name])
    except ImportError:
        return False
    return True


def _library_cascades(graph: Graph, p: float, rows: I64) -> dict[str, Callable[[], object]]:
    """For each library that simulates cascades, a function that runs one from these rows."""
    makers = {"CyNetDiff": _cynetdiff, "ndlib": _ndlib}
    return {name: make(graph, p, rows) for name, make in makers.items() if _loads(name)}


def _cynetdiff(graph: Graph, p: float, rows: I64) -> Callable[[], object]:
    from cynetdiff.models import IndependentCascadeModel

    starts = array.array("I", graph.out_offsets[:-1].tolist())
    model = IndependentCascadeModel(starts, array.array("I", graph.targets.tolist()), activation_prob=p, rng=0)
    model.set_seeds(rows.tolist())

    def run() -> None:
        model.reset_model()
        model.advance_until_completion()

    return run


def _ndlib(graph: Graph, p: float, rows: I64) -> Callable[[], object]:
    import networkx as nx
    from ndlib.models.epidemics import IndependentCascadesModel
    from ndlib.models.ModelConfig import Configuration

    network = nx.DiGraph()
    network.add_nodes_from(range(graph.n_nodes))
    network.add_edges_from(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    model, settings = IndependentCascadesModel(network, seed=0), Configuration()
    settings.add_model_initial_configuration("Infected", rows.tolist())
    for edge in network.edges:
        settings.add_edge_configuration("threshold", edge, p)
    model.set_initial_status(settings)

    def run() -> None:
        model.reset(infected_nodes=rows.tolist())
        while model.iteration(node_status=False)["node_count"][1]:
            pass

    return run


def _library_learners(width: int) -> dict[str, tuple[float, float]]:
    """For each library that learns from contexts, rows of this width scored and learned per CPU second."""
    rng = np.random.default_rng(0)
    contexts, outcomes = rng.normal(size=(_ROWS, width)), rng.integers(0, 2, _ROWS)
    learners = {"river": _river, "MABWiser": _mabwiser, "bayesianbandits": _bayesianbandits}
    calls = [learn(contexts, outcomes) for name, learn in learners.items() if _loads(name)]
    return {label: (_ROWS / cpu(score, 1), _ROWS / cpu(learn, 1)) for label, score, learn in calls}


def _river(contexts: Any, outcomes: Any) -> tuple[str, Callable[[], object], Callable[[], object]]:
    from river.linear_model import LogisticRegression

    model = LogisticRegression()
    rows = [dict(enumerate(row)) for row in contexts.tolist()]

    def learn() -> None:
        for row, label in zip(rows, outcomes.tolist(), strict=True):
            model.learn_one(row, label)

    return "river, LogisticRegression", lambda: [model.predict_proba_one(row) for row in rows], learn


def _mabwiser(contexts: Any, outcomes: Any) -> tuple[str, Callable[[], object], Callable[[], object]]:
    from mabwiser.mab import MAB, LearningPolicy

    model = MAB([0], LearningPolicy.LinUCB(alpha=0.5), seed=0)
    decisions = np.zeros(_ROWS, dtype=int)
    model.fit(decisions, outcomes, contexts)

    def learn() -> None:
        model.partial_fit(decisions, outcomes, contexts)

    return "MABWiser, LinUCB", lambda: model.predict_expectations(contexts), learn


def _bayesianbandits(contexts: Any, outcomes: Any) -> tuple[str, Callable[[], object], Callable[[], object]]:
    from bayesianbandits import Arm, BayesianGLM, ContextualAgent, UpperConfidenceBound

    arm = Arm(0, learner=BayesianGLM(alpha=1.0, link="logit"))
    agent = ContextualAgent([arm], UpperConfidenceBound(), random_seed=0)
    agent.update(contexts, outcomes)

    def learn() -> None:
        agent.select_for_update(0).update(contexts, outcomes)

    return "bayesianbandits, logistic", lambda: agent.pull(contexts), learn
