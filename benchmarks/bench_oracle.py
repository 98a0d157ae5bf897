"""The oracle: RR sets a second beside a plain NumPy sampler, and whole selections beside our own TIM+ on one evaluator.

``python -m benchmarks.bench_oracle --quality`` compares the spread of default seeds with that of TIM+'s for more K;
``--threads`` times selections on one thread and on two, medians of ten seeds; ``--peers`` times the cases for which
C++ engines were timed on the same kind of machine, with their figures beside. Networks of the shared data are looked
for in ``../shared/data``, or where the environment variable ``TENSORUCB_DATA`` says.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.hot_paths import measurement, power_law, probabilities, selections
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_probabilities
from tensorucb.oracle import Sampling, SeedOracle
from tensorucb.oracle.rr import Sampler

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from reference.oracle import Judge, rr_set  # noqa: E402

REPEATS = 3
SEEDS = (10, 50)


def real(name: str) -> Graph | None:
    """A network of the shared data, where its file is at hand."""
    path = Path(os.environ.get("TENSORUCB_DATA", ROOT / ".." / "shared" / "data")) / name / "edges.csv.gz"
    if not path.exists():
        return None
    import polars as pl

    frame = pl.read_csv(path)
    return Graph.from_edges(frame[:, 0], frame[:, 1], self_loops="drop")


def nethept() -> tuple[str, Graph]:
    """The real network, else one of its size."""
    graph = real("nethept")
    return ("power law 15k/62k", power_law(15_233, 62_774, 0)) if graph is None else ("NetHEPT 15k/62k", graph)


def quality_rows(runs: int = 8, references: int = 2) -> Iterator[str]:
    """Mean spread of default seeds over that of TIM+'s, the error of the common walks that judge them, CPU seconds."""
    yield "| network | p | K | spread beside TIM+ | evaluator's error | runs, lowest | CPU s |\n" + "| --- " * 7 + "|"
    for name, graph in (nethept(), ("digg_core 3k/66k", real("digg_core"))):
        for kind in ("wc", "uni") if graph is not None else ():
            p = probabilities(graph, kind)
            # Walks of digg_core are long under uni: TIM+ at 0.1 would take a minute and more.
            walks, epsilon = (2**17, 0.3) if name.startswith("digg") and kind == "uni" else (2**21, 0.1)
            judge = Judge(graph, p, walks)
            for k in (10, 20, 50, 100, 200):
                tim = [oracle(p, k) for oracle in references_of(graph, epsilon, references)]
                oracle, seeds, times = SeedOracle(graph, threads=1, rng=0), [], []
                for _ in range(runs):
                    start = time.process_time()
                    seeds.append(oracle(p, k))
                    times.append(time.process_time() - start)
                ratio, error = judge.ratio(seeds, tim)
                lowest = min(judge.ratio([rows], tim)[0] for rows in seeds)
                yield (
                    f"| {name} | {kind} | {k} | {ratio:.4f} | {error:.4f} | {runs}, {lowest:.4f} "
                    f"| {statistics.median(times):.3f} |"
                )


def references_of(graph: Graph, epsilon: float, count: int) -> list[SeedOracle]:
    """TIM+ with several seeds."""
    return [SeedOracle(graph, sampling=Sampling("tim", epsilon), rng=i) for i in range(count)]


def plain_rate(graph: Graph, p: np.ndarray, seconds: float = 1.0) -> float:
    """Sets a second of the plain sampler, from as many as fit the time."""
    rng = np.random.default_rng(0)
    sets = 0
    start = time.process_time()
    while time.process_time() - start < seconds:
        rr_set(graph, p, int(rng.integers(graph.n_nodes)), rng)
        sets += 1
    return sets / (time.process_time() - start)


def sets_in(sampler: Sampler, seconds: float) -> int:
    """How many sets take about this long: a few where they are large, thousands where they are small."""
    size, spent = 4, 0.0
    while spent < seconds / 4:
        size *= 2
        start = time.process_time()
        sampler.sample(np.uint64(0), 0, size, store=True, limit=2**28)
        spent = time.process_time() - start
    return max(1, int(size * seconds / spent))


def sampling_row(name: str, graph: Graph, kind: str, plain: float) -> dict[str, object]:
    p = check_probabilities(graph, probabilities(graph, kind))
    sampler = Sampler(graph, 1)
    sampler.load(p)
    size = sets_in(sampler, 0.3)
    rates = []
    for i in range(REPEATS):
        start = time.process_time()
        sampler.sample(np.uint64(1), i * size, size, store=True, limit=2**28)
        rates.append(size / (time.process_time() - start))
    return measurement("oracle", f"{name}, {kind}: RR sets", statistics.median(rates), plain, "sets/s")


def graph_rows(name: str, graph: Graph, kind: str) -> list[dict[str, object]]:
    """Sampling on one graph beside the plain sampler, and selections beside TIM+."""
    rows = [sampling_row(name, graph, kind, plain_rate(graph, probabilities(graph, kind)))]
    if name.startswith("power law 1M") and kind == "uni":
        return rows  # TIM+ would take hours
    return [*rows, *(row.document() for row in selections(name, graph, kind, SEEDS))]


def thread_row(name: str, graph: Graph, kind: str, k: int) -> dict[str, object]:
    """Wall time on two threads beside one; the seeds must agree."""
    p = probabilities(graph, kind)
    wall, chosen = [], []
    for threads in (2, 1):
        oracle = SeedOracle(graph, threads=threads, rng=0)
        chosen.append(oracle(p, k).tolist())
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            oracle(p, k)
            times.append(time.perf_counter() - start)
        wall.append(statistics.median(times))
    assert chosen[0] == chosen[1]
    return measurement("oracle", f"{name}, {kind}, K={k}: two threads beside one, wall", wall[0], wall[1], "s")


def redundancy_rows(name: str, graph: Graph, kind: str, k: int) -> list[dict[str, object]]:
    """CPU time of a selection with redundancy 0.9 beside one without."""
    p = probabilities(graph, kind)
    rows = []
    for objective in ("cascade", "direct"):
        seconds = []
        for redundancy in (0.9, 0.0):
            oracle = SeedOracle(graph, objective=objective, redundancy=redundancy, threads=1, rng=0)
            oracle(p, k)
            times = []
            for _ in range(3 * REPEATS):
                start = time.process_time()
                oracle(p, k)
                times.append(time.process_time() - start)
            seconds.append(statistics.median(times))
        rows.append(
            measurement("oracle", f"{name}, {kind}, K={k}: {objective}, redundancy 0.9 beside 0, CPU", *seconds, "s")
        )
    return rows


def thread_rows(seeds: int = 10) -> Iterator[str]:
    """Whole selections with a new oracle each time: CPU and wall time on one thread, wall time on two."""
    yield "| network | p | K | CPU s, one thread | wall s, one | wall s, two | one / two |\n" + "| --- " * 7 + "|"
    worlds = [(*nethept(), ("wc", "uni")), ("power law 29k/372k", power_law(29_000, 372_000, 1), ("wc", "uni"))]
    worlds.append(("power law 1M/10M", power_law(1_000_000, 10_000_000, 2), ("wc",)))
    for name, graph, kinds in worlds:
        for kind in kinds:
            for k in SEEDS:
                found = [_selection(graph, kind, k, threads, i) for i in range(seeds) for threads in (1, 2)]
                cpu, one = (statistics.median(part) for part in zip(*found[::2], strict=True))
                two = statistics.median(wall for _, wall in found[1::2])
                yield f"| {name} | {kind} | {k} | {cpu:.3f} | {one:.3f} | {two:.3f} | {one / two:.2f} |"


# CPU ms of OPIM-C, SUBSIM and HIST at ε = 0.1, and in brackets the spread of their seeds beside ours (quality 14 then).
PEERS = {
    ("NetHEPT", "wc", 10): "41 (.979) | 46 (.969) | 123 (.983)",
    ("NetHEPT", "wc", 50): "33 (.961) | 33 (.961) | 68 (.966)",
    ("NetHEPT", "uni", 10): "94 (.994) | 120 (.985) | 176 (.990)",
    ("29k / 372k", "wc", 10): "75 (.993) | 48 (.992) | 36 (.992)",
    ("29k / 372k", "uni", 10): "503 (.978) | 408 (.982) | 64 (.986)",
    ("29k / 372k", "uni", 50): "766 (.951) | 593 (.953) | 45 (.955)",
    ("1M / 10M", "wc", 10): "675 (.992) | 416 (.984) | 441 (1.000)",
}


QUALITIES = (0.0, 3.0, 5.0, 7.0, 9.0, 14.0)


def peer_rows(seeds: int = 5) -> Iterator[str]:
    """CPU ms of a selection by default, of one whose seeds are no poorer than any engine's, and of PyNetIM's OPIM-C.

    In brackets the spread over that of the default's seeds. PyNetIM is timed where it is installed.
    """
    yield "| network | p | K | OPIM-C | SUBSIM | HIST | PyNetIM | ours | ours at their spread |\n" + "| --- " * 9 + "|"
    graphs = {
        "NetHEPT": nethept()[1],
        "29k / 372k": power_law(29_000, 372_000, 1),
        "1M / 10M": power_law(1_000_000, 10_000_000, 2),
    }
    for (name, kind, k), theirs in PEERS.items():
        graph = graphs[name]
        p = probabilities(graph, kind)
        judge = Judge(graph, p, 2**20 if name == "NetHEPT" else 2**15)
        default, chosen = _timed(graph, p, k, Sampling(), seeds)
        best = max(float(cell.split("(")[1].rstrip(") ")) for cell in theirs.split("|"))
        for quality in QUALITIES:
            least, rows = _timed(graph, p, k, Sampling(quality=quality), seeds)
            ratio, _ = judge.ratio(rows, chosen)
            if ratio >= best or quality == QUALITIES[-1]:
                break
        peer = "–"
        if find_spec("pynetim") is not None and graph.n_edges < 10**6:
            spent, rows = _pynetim(graph, p, k)
            peer = f"{spent:.0f} ({judge.ratio(rows, chosen)[0]:.3f})"
        same = f"{least:.0f} ({ratio:.3f}, quality {quality:g})"
        yield f"| {name} | {kind} | {k} | {theirs} | {peer} | {default:.0f} | {same} |"


def _pynetim(graph: Graph, p: np.ndarray, k: int, seeds: int = 3) -> tuple[float, list[np.ndarray]]:
    """The least CPU ms of several selections by PyNetIM's OPIM-C at the same ε, and their seeds."""
    import pynetim

    edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
    network = pynetim.IMGraph(edges, weights=p.tolist(), renumber=False)
    chosen, times = [], []
    for seed in range(seeds):
        start = time.process_time()
        rows = pynetim.OPIMCAlgorithm(network, "IC", random_seed=seed).run(k, 0.1)
        times.append(1e3 * (time.process_time() - start))
        chosen.append(np.array(sorted(rows)))
    return min(times), chosen


def _timed(graph: Graph, p: np.ndarray, k: int, sampling: Sampling, seeds: int) -> tuple[float, list[np.ndarray]]:
    """The least CPU ms of several selections, and their seeds."""
    chosen, times = [], []
    for seed in range(seeds):
        oracle = SeedOracle(graph, sampling=sampling, threads=1, rng=seed)
        start = time.process_time()
        chosen.append(oracle(p, k))
        times.append(1e3 * (time.process_time() - start))
    return min(times), chosen


def _selection(graph: Graph, kind: str, k: int, threads: int, seed: int) -> tuple[float, float]:
    p = probabilities(graph, kind)
    cpu, wall = time.process_time(), time.perf_counter()
    SeedOracle(graph, threads=threads, rng=seed)(p, k)
    return time.process_time() - cpu, time.perf_counter() - wall


def run(quick: bool = False) -> list[dict[str, object]]:
    """Rows of the table; ``quick`` leaves out the graph of a million nodes."""
    small_name, small = nethept()
    middle = power_law(29_000, 372_000, 1)
    rows = []
    for kind in ("wc", "uni"):
        for name, graph in ((small_name, small), ("power law 29k/372k", middle)):
            rows += graph_rows(name, graph, kind)
            rows += redundancy_rows(name, graph, kind, SEEDS[0])
    rows.append(thread_row("power law 29k/372k", middle, "uni", 50))
    if not quick:
        large = power_law(1_000_000, 10_000_000, 2)
        for kind in ("wc", "uni"):
            rows += graph_rows("power law 1M/10M", large, kind)
        rows.append(thread_row("power law 1M/10M", large, "uni", 10))
    return rows


if __name__ == "__main__" and "--quality" in sys.argv:
    for row in quality_rows():
        print(row, flush=True)
elif __name__ == "__main__" and "--peers" in sys.argv:
    for row in peer_rows():
        print(row, flush=True)
elif __name__ == "__main__" and "--threads" in sys.argv:
    for row in thread_rows():
        print(row, flush=True)
