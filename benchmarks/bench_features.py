"""Files into data sets, eigenmap, topics and the past, against plain Python, SciPy and scikit-learn."""

from __future__ import annotations

import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.hot_paths import measurement
from tensorucb.data import ActionLog, Dataset, flixster_like, make_sandbox, read_dataset
from tensorucb.features import TopicModel, eigenmap
from tensorucb.features._users import _count_past
from tensorucb.graph import Graph

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from reference.features import count_past, lda_mixtures


def _seconds(call: Callable[[], object], repeats: int = 3) -> float:
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def _write_votes(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    users = max(n // 20, 50)
    times = rng.integers(10**9, 2 * 10**9, n)
    votes = {"timestamp": times, "user": rng.integers(0, users, n), "item": rng.integers(0, 3500, n)}
    links = {"source": rng.integers(0, users, n // 2), "target": rng.integers(0, users, n // 2)}
    for name, columns in (("actions.csv", votes), ("edges.csv", links)):
        pl.DataFrame(columns).write_csv(folder / name, quote_style="always")


def _plain_python(folder: Path) -> tuple[set[tuple[int, int]], dict[tuple[int, int], int]]:
    """The same edges and first votes with the csv module, sets and dictionaries."""
    edges: set[tuple[int, int]] = set()
    with (folder / "edges.csv").open() as file:
        for source, target in [*csv.reader(file)][1:]:
            if source != target:
                edges.add((int(source), int(target)))
    known = {end for edge in edges for end in edge}
    first: dict[tuple[int, int], int] = {}
    with (folder / "actions.csv").open() as file:
        for moment, user, story in [*csv.reader(file)][1:]:
            key = (int(user), int(story))
            if key[0] in known and int(moment) < first.get(key, 2**62):
                first[key] = int(moment)
    return edges, first


def _plain_eigsh(graph: Graph, dim: int) -> object:
    """SciPy's defaults: full accuracy, its own number of Lanczos vectors."""
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import eigsh

    shape = (graph.n_nodes, graph.n_nodes)
    forward = csr_array((np.ones(graph.n_edges), (graph.sources.copy(), graph.targets.copy())), shape=shape)
    both = ((forward + forward.T) > 0).astype(float)
    scale = diags_array(1 / np.sqrt(np.maximum(both.sum(axis=1), 1)))
    return eigsh(scale @ both @ scale, k=dim + 1, which="LA")


def run(quick: bool = False) -> list[dict[str, object]]:
    """Timings of the room; ``quick`` takes a tenth of the sizes."""
    rows = []
    n = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_votes(folder, n)
        read_dataset(folder)
        ours, plain = _seconds(lambda: read_dataset(folder)), _seconds(lambda: _plain_python(folder), 1)
    rows.append(measurement("features", f"read two files, {n:,} votes and {n // 2:,} links", ours, plain, "s CPU"))
    made = flixster_like(0.1 if quick else 1.0, rng=0)
    label = f"{made.graph.n_nodes:,} users / {made.graph.n_edges:,} edges"
    ours, plain = _seconds(lambda: eigenmap(made.graph, 10)), _seconds(lambda: _plain_eigsh(made.graph, 10), 1)
    rows.append(measurement("features", f"eigenmap, 10 dimensions, {label}", ours, plain, "s CPU"))
    data = _large_log(0.1 if quick else 1.0)
    log, n = data.log, data.graph.n_nodes
    label = f"{log.n_items:,} items, {log.n_actions:,} actions"
    TopicModel.fit(log, [0], n_topics=2, n_nodes=n).transform(log)
    ours = _seconds(lambda: TopicModel.fit(log, n_nodes=n).transform(log))
    plain = _seconds(lambda: lda_mixtures(log, 10, n, 0), 1)
    rows.append(measurement("features", f"topics, 10 of them, {label}", ours, plain, "s CPU"))
    mixtures, items = np.full((log.n_items, 10), 0.1), np.arange(0, log.n_items, 50)
    few = np.isin(log.items, items)
    past = (data.graph, ActionLog(log.users[few], log.items[few], log.times[few], log.item_ids), mixtures, items)
    ours, plain = _seconds(lambda: _count_past(*past)), _seconds(lambda: count_past(*past), 1)
    what = f"the users' past by topic, {items.size:,} of these items, {n:,} users"
    rows.append(measurement("features", what, ours, plain, "s CPU"))
    return rows


def _large_log(scale: float) -> Dataset:
    """A log of the size of Ciao's: most items have few actions, and a few users most of them."""
    n, edges, items, actions = (round(scale * size) for size in (7_000, 110_000, 104_975, 280_000))
    rng = np.random.default_rng(0)
    popular, busy = (np.arange(items) + 10.0) ** -0.8, (np.arange(n) + 20.0) ** -0.9
    item = np.append(np.arange(items), rng.choice(items, actions - items, p=popular / popular.sum()))
    user = rng.permutation(n)[rng.choice(n, actions, p=busy / busy.sum())]
    log = ActionLog.from_arrays(user, item, rng.integers(0, 10**8, actions), range(items))
    return Dataset(make_sandbox(n, edges, 8, rng=0).graph, log, "large")
