"""Original files into data sets, and the eigenmap, against plain Python and plain SciPy."""

from __future__ import annotations

import csv
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from tensorucb.data import flixster_like, read_dataset
from tensorucb.features import eigenmap, topic_mixtures
from tensorucb.graph import Graph


def _seconds(call: Callable[[], object], repeats: int = 3) -> float:
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return statistics.median(spent)


def _row(what: str, ours: float, reference: float | None) -> dict[str, object]:
    ratio = None if reference is None else reference / ours
    return {"room": "features", "what": what, "ours": ours, "reference": reference, "ratio": ratio, "unit": "s CPU"}


def _write_digg(folder: Path, n: int) -> None:
    rng = np.random.default_rng(0)
    users = max(n // 20, 50)
    votes = {"t": rng.integers(10**9, 2 * 10**9, n), "u": rng.integers(0, users, n), "s": rng.integers(0, 3500, n)}
    friends = {
        "m": rng.integers(0, 2, n // 2),
        "d": rng.integers(10**9, 2 * 10**9, n // 2),
        "u": rng.integers(0, users, n // 2),
        "f": rng.integers(0, users, n // 2),
    }
    for name, columns in (("digg_votes1.csv", votes), ("digg_friends.csv", friends)):
        pl.DataFrame(columns).write_csv(folder / name, include_header=False, quote_style="always")


def _plain_python(folder: Path) -> tuple[set[tuple[int, int]], dict[tuple[int, int], int]]:
    """The same edges and first votes with the csv module, sets and dictionaries."""
    edges: set[tuple[int, int]] = set()
    with (folder / "digg_friends.csv").open() as file:
        for mutual, _, user, friend in csv.reader(file):
            if user != friend:
                edges.add((int(friend), int(user)))
                if mutual == "1":
                    edges.add((int(user), int(friend)))
    known = {end for edge in edges for end in edge}
    first: dict[tuple[int, int], int] = {}
    with (folder / "digg_votes1.csv").open() as file:
        for moment, user, story in csv.reader(file):
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
        _write_digg(folder, n)
        read_dataset(folder)
        ours, plain = _seconds(lambda: read_dataset(folder)), _seconds(lambda: _plain_python(folder), 1)
    rows.append(_row(f"read Digg's files, {n:,} votes and {n // 2:,} links", ours, plain))
    made = flixster_like(0.1 if quick else 1.0, rng=0)
    label = f"{made.graph.n_nodes:,} users / {made.graph.n_edges:,} edges"
    ours, plain = _seconds(lambda: eigenmap(made.graph, 10)), _seconds(lambda: _plain_eigsh(made.graph, 10), 1)
    rows.append(_row(f"eigenmap, 10 dimensions, {label}", ours, plain))
    rows.append(_row("topics of 200 items, 10,000 votes", _seconds(_topics, 1), None))
    return rows


def _topics() -> object:
    from tensorucb.data import ActionLog

    rng = np.random.default_rng(0)
    log = ActionLog.from_arrays(
        rng.integers(0, 2000, 10_000), rng.integers(0, 200, 10_000), np.arange(10_000), range(200)
    )
    return topic_mixtures(log, 10, n_nodes=2000)
