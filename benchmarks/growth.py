"""``python -m benchmarks.growth [--most EDGES] [--out DIRECTORY]``: time and memory over the number of edges.

Networks of power-law degrees with 14 edges per user, from 100,000 edges up to 70 million. On each: from a Parquet file
to a graph, the same graph kept, `TensorUCB` bound, and rounds (score all edges, choose ten users, learn their
followers' responses), by the direct objective and by cascades. Writes ``growth.csv`` and ``growth.png`` / ``.svg``.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tensorucb.files import atomic_write
from tensorucb.graph import Graph
from tensorucb.oracle import SeedOracle
from tensorucb.policies import TensorUCB

SIZES = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 70_000_000)
EDGES_PER_USER = 14
FEATURES = 10
TOPICS = 4
SEEDS = 10
LOADED = 1  # the first round does not count: kernels may be loaded
_BLOCK = 5_000_000
_NAMES = {"direct": "direct objective", "cascade": "cascades"}
_OBJECTIVES = tuple(_NAMES)


def write_edges(path: Path, n: int, m: int) -> None:
    """A power-law edge list in random order, as a Parquet file."""
    rng = np.random.default_rng(0)
    out_weight, in_weight = (np.cumsum((np.arange(n) + 11.0) ** (-1 / power)) for power in (1.3, 1.5))
    users = rng.permutation(n)
    sources, targets = np.empty((2, m), dtype=np.int64)
    for start in range(0, m, _BLOCK):
        part = slice(start, min(m, start + _BLOCK))
        size = part.stop - start
        sources[part] = users[np.searchsorted(out_weight, rng.random(size) * out_weight[-1])]
        targets[part] = users[np.searchsorted(in_weight, rng.random(size) * in_weight[-1])]
    loops = sources == targets
    targets[loops] = (targets[loops] + 1) % n
    pl.DataFrame({"source": sources, "target": targets}).write_parquet(path)


class Clock:
    """Wall and CPU seconds of steps, memory held after each, and the most that it took with mapped files."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        """The result of ``call``, timed under the name ``step``."""
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        wall, spent = time.perf_counter(), time.process_time()
        result = call()
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - spent}
        held = {"anonymous_mib": _mib("RssAnon"), "peak_mib": _mib("VmHWM")}
        self.rows.append({"step": step, **seconds, **held})
        return result


def _mib(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def measure(m: int, folder: Path) -> Iterator[dict[str, Any]]:
    """All steps on a network of about ``m`` edges."""
    path, clock = folder / f"{m}.parquet", Clock()
    write_edges(path, m // EDGES_PER_USER, m)
    clock("read", lambda: Graph.read(path).in_edges)
    clock("keep", lambda: Graph.read(path, cache=folder))
    graph = clock("load", lambda: Graph.read(path, cache=folder))
    rng = np.random.default_rng(0)
    users = rng.normal(size=(graph.n_nodes, FEATURES))
    policy = TensorUCB()
    clock("bind", lambda: policy.bind(graph, users, 0))
    oracles = {objective: SeedOracle(graph, objective=objective, rng=0) for objective in _OBJECTIVES}
    for _ in range(LOADED + max(1, min(9, 30_000_000 // m))):
        product = rng.dirichlet(np.full(TOPICS, 0.3))
        scores = clock("score", lambda z=product: policy.score(z))
        chosen = [clock(f"select {name}", lambda o=oracle, p=scores: o(p, SEEDS)) for name, oracle in oracles.items()]
        edges = graph.out_edges(chosen[0])
        outcomes = (rng.random(edges.size) < 0.03).astype(np.float64)
        del scores
        clock("learn", lambda z=product, e=edges, y=outcomes: policy.update(z, e, y))
    yield from ({"users": graph.n_nodes, "edges": graph.n_edges, **row} for row in clock.rows)


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """One line per size and step: medians over the rounds that count, and the largest peak of memory."""
    keys = ["users", "edges", "step"]
    kept = pl.col("cpu").slice(pl.when(pl.len() > LOADED).then(LOADED).otherwise(0))
    wall = pl.col("wall").slice(pl.when(pl.len() > LOADED).then(LOADED).otherwise(0))
    return rows.group_by(keys, maintain_order=True).agg(
        cpu=kept.median(),
        largest=kept.max(),
        wall=wall.median(),
        anonymous_mib=pl.col("anonymous_mib").max(),
        peak_mib=pl.col("peak_mib").max(),
    )


def slope(edges: Any, seconds: Any) -> float:
    """The power with which time grows: a straight line through the logarithms."""
    return float(np.polyfit(np.log(edges), np.log(seconds), 1)[0])


def round_times(table: pl.DataFrame, objective: str) -> pl.DataFrame:
    """Median CPU seconds of a whole round by size."""
    whole = table.filter(pl.col("step").is_in(["score", f"select {objective}", "learn"]))
    return whole.group_by("edges").agg(pl.col("cpu").sum()).sort("edges")


def draw(table: pl.DataFrame, out: Path) -> None:
    """The figure: both axes logarithmic, the slope of each line in its name, and a line of slope 1 beside them."""
    import altair as alt

    from tensorucb.plots import save_figure

    lines: list[dict[str, Any]] = []
    for objective in _OBJECTIVES:
        part = round_times(table, objective)
        named = f"{_NAMES[objective]} (slope {slope(part['edges'], part['cpu']):.2f})"
        lines += [{"edges": m, "seconds": cpu, "line": named} for m, cpu in part.rows()]
    ends = [lines[0]["edges"], lines[-1]["edges"]]
    one = [{"edges": m, "seconds": lines[0]["seconds"] * m / ends[0], "line": "slope 1"} for m in ends]
    x = alt.X(
        "edges:Q", title="Edges in the network", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s", tickCount=4)
    )
    y = alt.Y(
        "seconds:Q", title="CPU seconds per round", scale=alt.Scale(type="log"), axis=alt.Axis(format="~g", tickCount=5)
    )
    colour = alt.Color("line:N", title=None, legend=alt.Legend(orient="top", labelLimit=400))
    drawn = alt.Chart(alt.Data(values=lines)).mark_line(point=True).encode(x=x, y=y, color=colour)
    beside = alt.Chart(alt.Data(values=one)).mark_line(strokeDash=[4, 3], color="#6b7280").encode(x=x, y=y)
    title = alt.TitleParams(
        "A round of TensorUCB over the size of the network",
        subtitle="Median over rounds: score all edges, choose ten users, learn. Dashed: slope 1.",
    )
    save_figure(alt.layer(beside, drawn).properties(width=560, height=340, title=title), out, "growth")


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--most", metavar="EDGES", type=int, default=SIZES[-1], help="the largest network")
    parser.add_argument("--out", metavar="DIRECTORY", type=Path, default=Path("docs/figures"))
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for m in (size for size in SIZES if size <= options.most):
        print(f"measuring {m:,} edges …", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(m, Path(folder))
        table = summary(pl.DataFrame(rows))
        with atomic_write(options.out / "growth.csv") as file:
            table.write_csv(file)
        if table["edges"].n_unique() > 1:
            draw(table, options.out)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, fmt_str_lengths=40, float_precision=3):
        print(table)


if __name__ == "__main__":
    main()
