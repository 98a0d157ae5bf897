"""A Ray cluster as an engine.

The driver, the process that asks, has the graph and the probabilities, counts, and decides when to stop; the sets stay
with the workers. A greedy step sends the picked candidate to all of them, and gets back how many sets each candidate
lost. So the driver's memory does not depend on the number of sets.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.choices import Model
from tensorucb.engines._crew import Crew
from tensorucb.engines._worker import WIRES, Plan, Round, View
from tensorucb.errors import EngineError
from tensorucb.experiments._runs import is_installed
from tensorucb.graph import Graph
from tensorucb.oracle.rr import NO_INDEX, Batch, Collection, Index, Sampler
from tensorucb.oracle.rr._sampler import root_entries
from tensorucb.work import AfterRun, AfterStep, Piece, Task

_PIECES_PER_WORKER = 4
_numbers = itertools.count()


class RayEngine:
    """A Ray cluster: selections, evaluations, fits and experiments run on all of its CPUs.

    The answers are those of this machine, bit for bit. Work that a node loses is made again on another one. All nodes
    need the same release of tensorucb, Ray and Python as this process, which must run on a node of the cluster.

    Parameters
    ----------
    address
        ``HOST:PORT`` of the cluster's head, as ``ray start --head`` prints it.

    Examples
    --------
    >>> import tensorucb as tu
    >>> star = tu.Graph.from_edges(["hub"] * 3, ["a", "b", "c"])
    >>> with tu.engines.RayEngine("10.0.0.5:6379") as engine:  # doctest: +SKIP
    ...     tu.select_seeds(star, [1.0, 1.0, 1.0], 1, rng=0, engine=engine).seeds.tolist()
    ['hub']
    """

    def __init__(self, address: str) -> None:
        self._crew = Crew(address)
        self._held: dict[int, tuple[weakref.ref[Any], Any]] = {}

    @property
    def workers(self) -> int:
        """Number of worker processes that were started."""
        return self._crew.size

    def __enter__(self) -> RayEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, and the connection to the cluster."""
        self._crew.close()

    def sampler(self, graph: Graph, threads: int) -> Sampler:
        """RR sets on the cluster; ``threads`` are this machine's."""
        return _RaySampler(self._crew, graph, tuple(self.keep(getattr(graph, name)) for name in WIRES))

    def pieces(self, count: int) -> list[int]:
        """A few pieces per worker."""
        pieces = max(1, min(_PIECES_PER_WORKER * self.workers, count))
        return [count * i // pieces for i in range(pieces + 1)]

    def map(self, function: Piece, shared: tuple[Any, ...], bounds: Sequence[int]) -> list[Any]:
        """Pieces on the cluster's workers."""
        held = tuple(self.keep(each) if isinstance(each, np.ndarray) else each for each in shared)
        calls = [("piece", (function, held, int(a), int(b))) for a, b in pairwise(bounds) if b > a]
        return self._crew.run(calls)

    def fill(self, tasks: Sequence[Task], jobs: int, each_step: AfterStep, finished: AfterRun) -> None:
        """Runs on the cluster's workers. ``jobs`` are this machine's."""
        if not tasks:
            return
        with _sent_whole(self._crew.ray.cloudpickle):
            held = self._crew.ray.put(list(tasks))

        def done(number: int, played: tuple[int, Any]) -> None:
            steps, result = played
            finished(number, result)
            for _ in range(steps):
                each_step(number)

        try:
            self._crew.run([("play", (held, number)) for number in range(len(tasks))], done)
        except EngineError:
            raise
        except Exception:
            return  # something in the run: the caller repeats it, and the error is its own

    def keep(self, array: NDArray[Any]) -> Any:
        """Put an array into the cluster's memory; one that cannot change is put there once."""
        if array.flags.writeable:
            return self._crew.ray.put(array)
        entry = self._held.get(id(array))
        if entry is None or entry[0]() is not array:
            number = id(array)
            forget = weakref.ref(array, lambda _: self._held.pop(number, None))
            entry = self._held[number] = forget, self._crew.ray.put(array)
        return entry[1]


@contextmanager
def _sent_whole(pickler: Any) -> Iterator[None]:
    """Send modules that are not installed, such as a policy of one's own, by their code: no node would find them."""
    own = [module for module in list(sys.modules.values()) if _is_own(module)]
    for module in own:
        pickler.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            pickler.unregister_pickle_by_value(module)


def _is_own(module: Any) -> bool:
    name, file = getattr(module, "__name__", "__main__"), getattr(module, "__file__", None)
    home = name.partition(".")[0]
    return file is not None and home not in ("__main__", "tensorucb") and not is_installed(file)


class _RaySampler(Sampler):
    """`Sampler` whose sets are drawn by the workers."""

    def __init__(self, crew: Crew, graph: Graph, wires: tuple[Any, ...]) -> None:
        self.crew = crew
        self.graph = graph
        self._wires = wires
        self.numbers = np.full(graph.n_nodes, -1, dtype=np.int32)
        self.marked = np.empty(0, dtype=np.int64)
        self.total = float(graph.n_nodes)

    def load(
        self, p: F64, values: F64 | None = None, redundancy: float = 0.0, live: bool = False, model: Model = "ic"
    ) -> None:
        """Send the probabilities of a round to the cluster."""
        graph, put = self.graph, self.crew.ray.put
        self.probabilities = p
        ordered = p.astype(np.float32)[graph.in_edges] if live else p.astype(np.float32)
        stacked = model == "lt"
        one_number = 1.0 if stacked else redundancy
        cumulative, self.own, _ = root_entries(graph, ordered, values, one_number, stacked, live)
        self.total = float(cumulative[-1]) if cumulative.size else float(graph.n_nodes)
        sizes = graph.n_nodes, graph.n_edges
        worth = None if values is None else put(values)
        self.round = Round(next(_numbers), sizes, self._wires, put(p), worth, redundancy, live, model)

    def mark(self, rows: I64) -> None:
        """Let walks stop at these nodes."""
        self.marked = np.array(rows, dtype=np.int64)

    def collect(self, key: np.uint64, limit: int) -> Collection:
        """An empty collection, whose sets stay with the workers."""
        return _RayCollection(self, key, limit, self.marked)

    def sample(self, key: np.uint64, first: int, count: int, **_: Any) -> Batch:
        """Hits of sets that are not stored."""
        calls = [
            (shard, ("hits", (self.round, self.marked, key, start, number)))
            for shard, start, number in ranges(first, count, self.crew.size)
        ]
        return Batch(sum(self.crew.on_shards(calls)), done=count)


class _RayCollection(Collection):
    """`Collection` whose sets stay with the workers: here are the ranges that each holds, and counts."""

    def __init__(self, sampler: _RaySampler, key: np.uint64, limit: int, marks: I64) -> None:
        super().__init__(sampler, key, limit)
        self._crew, self._round = sampler.crew, sampler.round
        self._number, self._marks = next(_numbers), marks
        self._horizon: int | None = None
        self._ranges: list[tuple[tuple[int, int], ...]] = [()] * sampler.crew.size

    def extend(self, sets: int, horizon: int | None = None) -> bool:
        """Grow to ``sets`` sets; workers let go of an extension that does not fit with the next call."""
        before, self._horizon = list(self._ranges), horizon
        fits = super().extend(sets, horizon)
        if not fits:
            self._ranges = before
        return fits

    def _sample(self, first: int, count: int, limit: int, horizon: int | None) -> Batch:
        parts = ranges(first, count, self._crew.size)
        drawn = self._call("draw", [(shard, (start, number, limit)) for shard, start, number in parts])
        for shard, start, number in parts:
            self._ranges[shard] = (*self._ranges[shard], (start, number))
        hits, nodes, amounts, stored, done, work = zip(*drawn, strict=True)
        fits = sum(done) == count and sum(stored) <= limit
        return Batch(sum(hits), list(nodes), list(amounts), sum(stored), count if fits else count - 1, sum(work))

    def _keep(self, batch: Batch) -> None:
        # Here members are nodes in the order in which they first occur, and lengths are how often they do.
        for nodes, amounts in zip(batch.members, batch.lengths, strict=True):
            new = nodes[self.counts[nodes] == 0]
            self._touched[self._seen : self._seen + new.size] = new
            self._seen += new.size
            self.counts[nodes] += amounts

    def index(self, nodes: I64, counts: I64) -> Index:
        """The candidates, by which workers index their sets at the first pick."""
        return _RayIndex(self, View(next(_numbers), self._crew.ray.put(nodes)))

    def walks(self) -> tuple[I32, I32, I32]:
        """Drawn again by the workers, and brought here in the order of the sets: they are few and short."""
        pieces = sorted(itertools.chain(*self.on_all("walks")), key=lambda piece: piece[0])
        members, sizes, lengths = (np.concatenate(parts) for parts in list(zip(*pieces, strict=True))[1:])
        return members, sizes, lengths

    def mean_cover(self, odds: F64, picks: int) -> float:
        """Added up on the workers."""
        held = self._crew.ray.put(odds)
        return float(sum(self.on_all("units", held, picks)) / 2**32)

    def on_all(self, method: str, *arguments: Any) -> list[Any]:
        """The answers of all shards that hold sets."""
        return self._call(method, [(shard, arguments) for shard, held in enumerate(self._ranges) if held])

    def _call(self, method: str, calls: Sequence[tuple[int, tuple[Any, ...]]]) -> list[Any]:
        full = []
        for shard, arguments in calls:
            plan = Plan(self._number, self.key, self._marks, self._horizon, self._ranges[shard])
            full.append((shard, (method, (self._round, plan, *arguments))))
        return self._crew.on_shards(full)


class _RayIndex:
    """`Index` of sets that stay with the workers: they are told of each pick."""

    remote = True

    def __init__(self, collection: _RayCollection, view: View) -> None:
        self._collection = collection
        self._view = view
        self._taken: list[int] = []

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Nothing: the sets are not here."""
        self._taken = []
        return NO_INDEX

    def take(self, candidate: int, gains: F64) -> None:
        """Cover sets there, and take what that was out of ``gains`` here."""
        self._taken.append(int(candidate))
        for candidates, lost in self._collection.on_all("cover", self._view, self._taken):
            gains[candidates] -= lost


def ranges(first: int, count: int, shards: int) -> list[tuple[int, int, int]]:
    """Consecutive ``(shard, first, count)`` of about the same size; none that is empty."""
    bounds = [first + count * i // shards for i in range(shards + 1)]
    return [(shard, a, b - a) for shard, (a, b) in enumerate(pairwise(bounds)) if b > a]
