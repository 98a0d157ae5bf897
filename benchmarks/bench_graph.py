"""Reading an edge list into a `Graph`, against plain NumPy (``np.unique`` and ``np.lexsort``)."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tensorucb.graph import Graph


def _edges(n: int, m: int, scattered: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A power-law edge list in random order; ids dense, or scattered over 62 bits."""
    rng = np.random.default_rng(0)
    names = rng.permutation(n) if not scattered else rng.integers(0, 2**62, n)
    sources = (n * rng.random(m) ** 2).astype(np.int64)
    targets = (sources + 1 + (n - 1) * rng.random(m) ** 2).astype(np.int64) % n
    keep = sources != targets
    return names[sources[keep]], names[targets[keep]]


def _reference(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
    ids, rows = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    s, t = rows[: sources.size], rows[sources.size :]
    order = np.lexsort((t, s))
    s, t = s[order], t[order]
    fresh = np.append(True, (s[1:] != s[:-1]) | (t[1:] != t[:-1]))
    s, t = s[fresh], t[fresh]
    in_edges = np.lexsort((s, t))
    out_offsets = np.concatenate([[0], np.cumsum(np.bincount(s, minlength=ids.size))])
    in_offsets = np.concatenate([[0], np.cumsum(np.bincount(t, minlength=ids.size))])
    return ids, s, t, out_offsets, in_offsets, in_edges, s[in_edges]


def _finished(graph: Graph) -> Graph:
    """Both compressed forms, which are made on first use."""
    assert graph.out_offsets[-1] == graph.in_offsets[-1] == graph.in_edges.size
    return graph


def _seconds(function: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times)


def run(quick: bool = False) -> list[dict[str, object]]:
    """CPU seconds from a Parquet file to a finished graph, and from arrays already in memory."""
    n, m, repeats = (20_000, 200_000, 3) if quick else (1_000_000, 10_000_000, 3)
    _finished(Graph.from_edges([0, 1], [1, 2]))
    rows = []
    for scattered in (False, True):
        sources, targets = _edges(n, m, scattered)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "edges.parquet"
            pl.DataFrame({"source": sources, "target": targets}).write_parquet(path)

            def reference_read(path: Path = path) -> object:
                frame = pl.read_parquet(path)
                return _reference(frame["source"].to_numpy(), frame["target"].to_numpy())

            ours = _seconds(lambda path=path: _finished(Graph.read(path)), repeats)
            theirs = _seconds(reference_read, 1)
        what = f"Parquet to Graph, {n:,} nodes, {m:,} edges, ids {'scattered' if scattered else 'dense'}"
        rows.append(_row(what, ours, theirs))
    return rows


def _row(what: str, ours: float, reference: float) -> dict[str, object]:
    return {
        "room": "graph",
        "what": what,
        "ours": ours,
        "reference": reference,
        "ratio": reference / ours,
        "unit": "CPU s",
    }
