"""`Sampler` draws the RR sets of one round's probabilities on any number of threads; `Collection` keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.choices import Model
from tensorucb.graph import Graph
from tensorucb.oracle.rr._kernels import (
    count_members,
    cover_sets,
    gather_probabilities,
    guide_entries,
    invert,
    live_entries,
    mark_nodes,
    peak_tables,
    reduce_sets,
    sample_sets,
    scan_probabilities,
    unmark_nodes,
)
from tensorucb.threads import map_chunks

_NO_VALUES = np.empty(0, dtype=np.float64)
_NO_EDGES = np.empty(0, dtype=np.int64)
_NO_EDGES.flags.writeable = False
_NO_ROWS = np.empty(0, dtype=np.int32)
# Up to so many edges, probabilities are copied into in-edge order: the copy stays in the cache.
_GATHERED = 1_000_000
# A chunk that starts a thread should have so many nodes to expand, or edges to copy.
_CHUNKS_PER_THREAD = 4
_CHUNK_NODES = 4096
_CHUNK_EDGES = 100_000
_UNITS = 2**32
_SHORT = 0.5  # live in-edges per node, in the mean: up to here walks are short, and many are the root alone


@dataclass
class Batch:
    """Sampled sets: hits by marked node, members and lengths of the stored ones by chunk, and some numbers.

    ``sizes`` says when members joined, if that was asked for (see `sample_sets`). ``stored`` counts members, ``done``
    sets, and ``work`` nodes whose in-edges were decided.
    """

    hits: I64
    members: list[I32] = field(default_factory=list)
    lengths: list[I32] = field(default_factory=list)
    stored: int = 0
    done: int = 0
    work: int = 0
    sizes: list[I32] = field(default_factory=list)


class Sampler:
    """RR sets of one graph: :meth:`load` a round's probabilities, then :meth:`sample`.

    Where walks are short, roots are *live*: they have a live in-edge. What seeds are worth whose RR set is themselves
    is ``own``, known exactly (`docs/oracle.md`), and ``total`` is the value that sets stand for.

    Set ``i`` under a key is the same whatever the number of threads: each set has a random stream of its own.
    Loading copies the probabilities into in-edge order on a small graph. On a large one that costs a cache miss per
    edge, more than a whole selection, so loading is one pass over the edges in their own order and probabilities are
    then read in place.
    """

    def __init__(self, graph: Graph, threads: int) -> None:
        self.graph = graph
        self.threads = threads
        n = graph.n_nodes
        self._states = [np.zeros(n, dtype=np.uint8) for _ in range(threads)]
        self._peaks = np.empty((threads, n), dtype=np.uint8)
        self._tables = peak_tables()
        self._chance = np.empty((1, n), dtype=np.float64)
        self._redundancy = 0.0
        self._stacked = False
        self._credit = np.zeros(n, dtype=np.int32)
        # Scratch of the greedy choice: which candidate a node is, -1 for none.
        self.numbers = np.full(n, -1, dtype=np.int32)
        self.marked = np.empty(0, dtype=np.int64)
        self._p: NDArray[np.floating] = _NO_VALUES
        self.probabilities = _NO_VALUES
        self._order = _NO_EDGES
        self._ordered = np.empty(graph.n_edges if graph.n_edges <= _GATHERED else 0, dtype=np.float32)
        self._cumulative = _NO_VALUES
        self._guide = _NO_ROWS
        self._in_targets = _NO_ROWS
        self.own = np.zeros(n)
        self._pace = 16.0  # nodes expanded per set, in the last batch
        self.total = float(n)

    def load(
        self, p: F64, values: F64 | None = None, redundancy: float = 0.0, live: bool = False, model: Model = "ic"
    ) -> None:
        """Take the probabilities of a round, and the nodes' values if roots are to be drawn in proportion to them.

        With probability ``redundancy`` a node has one random number for all its in-edges, else one for each of them.
        ``live``: roots have a live in-edge, where that pays and the probabilities are in in-edge order. In the model
        ``lt`` every node has one number, which makes at most one in-edge live (see `_kernels`).
        """
        graph = self.graph
        self._stacked = model == "lt"
        redundancy = 1.0 if self._stacked else redundancy
        self._redundancy = redundancy
        if redundancy > 0.0 and self._chance.shape[0] == 1:
            self._chance = np.empty((2, graph.n_nodes), dtype=np.float64)
        self.probabilities = p
        if graph.n_edges <= _GATHERED:
            self._gather(p)
        else:
            self._scan(p)
        self._cumulative, self.own, lively = root_entries(graph, self._ordered, values, redundancy, self._stacked, live)
        self._in_targets = graph.targets[graph.in_edges] if lively else _NO_ROWS
        self._guide = np.empty(self._cumulative.size, dtype=np.int32)
        guide_entries(self._cumulative, self._guide)
        self.total = float(self._cumulative[-1]) if self._cumulative.size else float(graph.n_nodes)

    def _gather(self, p: F64) -> None:
        """Copy the probabilities into in-edge order."""
        graph = self.graph
        ordered = self._ordered
        peak = self._peaks[0]
        bits = ordered.view(np.int32)

        def gather(first: int, last: int) -> None:
            gather_probabilities(graph.in_offsets, graph.in_edges, p, first, last, ordered, bits, peak)

        self._p = ordered
        self._order = _NO_EDGES
        chunks = max(1, min(self.threads, graph.n_edges // _CHUNK_EDGES))
        map_chunks(gather, _bounds(graph.n_nodes, chunks), self.threads)

    def _scan(self, p: F64) -> None:
        """Note the largest probability into each node."""
        graph = self.graph
        self._peaks.fill(0)
        free = list(self._peaks)
        bits = p.view(np.uint64)

        def scan(first: int, last: int) -> None:
            scan_probabilities(graph.targets, bits, first, last, free.pop())

        self._p = p
        self._order = graph.in_edges
        map_chunks(scan, _bounds(graph.n_edges, self.threads), self.threads)
        self._peaks[0] = self._peaks.max(axis=0)

    def mark(self, rows: I64) -> None:
        """Let walks stop at these nodes; ``hits[i]`` of a batch then counts the stops at ``rows[i]``."""
        graph = self.graph
        for state in self._states:
            unmark_nodes(self.marked, graph.out_offsets, graph.targets, state)
            mark_nodes(rows, graph.out_offsets, graph.targets, self.probabilities, self._stacked, state, self._chance)
        self._credit[rows] = np.arange(rows.size, dtype=np.int32)
        self.marked = rows

    def collect(self, key: np.uint64, limit: int) -> Collection:
        """An empty collection of the sets under this key, whose walks stop at the nodes marked now."""
        return Collection(self, key, limit)

    def sample(
        self,
        key: np.uint64,
        first: int,
        count: int,
        *,
        store: bool,
        limit: int,
        traced: bool = False,
        horizon: int | None = None,
    ) -> Batch:
        """Sets ``first .. first + count``, up to the one whose members would bring the stored ones past ``limit``."""
        free = list(self._states)
        graph = self.graph
        reach = self.graph.n_nodes if horizon is None else horizon
        network = (graph.in_offsets, self._order, graph.in_sources, self._p, self._peaks[0])
        roots = (self._cumulative, self._guide, self._in_targets)
        marked = max(1, self.marked.size)

        def run(start: int, stop: int, room: int = limit) -> tuple[int, Any, Any, Any, int, int, I64]:
            state = free.pop()
            hits = np.zeros(marked, dtype=np.int64)
            number = stop - start
            marks = (state, self._chance, self._credit, hits)
            try:
                law = (self._redundancy, self._stacked)
                out = sample_sets(
                    network, self._tables, marks, roots, *law, key, start, number, store, traced, room, reach
                )
            finally:
                free.append(state)
            return number, *out, hits

        chunks = min(int(count * self._pace / _CHUNK_NODES), _CHUNKS_PER_THREAD * self.threads)
        bounds = [first + b for b in _bounds(count, max(1, chunks) if self.threads > 1 else 1)]
        batch = Batch(np.zeros(marked, dtype=np.int64))
        for number, members, sizes, lengths, done, work, hits in map_chunks(run, bounds, self.threads):
            # Each chunk was cut at the limit by itself; together they end at the same set for any chunking.
            if batch.stored + members.size > limit or done < number:
                start = first + batch.done
                _, members, sizes, lengths, done, work, hits = run(start, start + number, limit - batch.stored)
            batch.members.append(members)
            batch.lengths.append(lengths)
            batch.sizes.append(sizes)
            batch.hits += hits
            batch.stored += members.size
            batch.done += done
            batch.work += work
            if done < number:
                break
        self._pace = batch.work / max(1, batch.done)
        return batch


def root_entries(
    graph: Graph, p: NDArray[np.float32], values: F64 | None, redundancy: float, stacked: bool, live: bool
) -> tuple[F64, F64, bool]:
    """Sums of the weights of roots (none if equal), what is won without samples, and whether roots are live ones.

    ``p`` are the probabilities in in-edge order.
    """
    n = graph.n_nodes
    if live and graph.n_edges <= _GATHERED and float(p.sum()) <= _SHORT * n:
        worth = _NO_VALUES if values is None else values
        cumulative = np.empty(graph.n_edges + (n if redundancy > 0.0 else 0))
        lone = np.empty(n)
        live_entries(graph.in_offsets, p, worth, redundancy, stacked, cumulative, lone)
        whole = float(n) if values is None else float(values.sum())
        if cumulative.size and cumulative[-1] > 1e-9 * whole:
            return cumulative, lone if values is None else values * lone, True
    return _NO_VALUES if values is None else np.cumsum(values), np.zeros(n), False


def covered_units(members: I32, lengths: I32, odds: F64, picks: int) -> int:
    """`Collection.mean_cover` of some sets, in whole units: their sum is the same in any order."""
    lengths = lengths[lengths > 0]
    starts = np.cumsum(lengths) - lengths
    inside = np.add.reduceat(odds[members], starts) if starts.size else np.empty(0)
    share = 1.0 - (1.0 - np.minimum(inside, 1.0)) ** picks
    return int(np.rint(share * _UNITS).astype(np.int64).sum())


def _bounds(count: int, chunks: int) -> list[int]:
    return [count * i // chunks for i in range(chunks + 1)]


class Collection:
    """RR sets ``0 .. sets`` under one key: stored members, how often each node occurs, and hits of marked nodes.

    The sampler comes loaded with the round's probabilities, its marks set. Sets that a marked node stopped have no
    members and a length of 0, so that the i-th length is that of set i. At most ``limit`` members are stored: an
    extension that would pass it is undone, so that the number of sets never depends on what they hold. While it is
    ``traced``, it is kept when members joined.
    """

    traced = False

    def __init__(self, sampler: Sampler, key: np.uint64, limit: int) -> None:
        self.sampler = sampler
        self.key = key
        self.limit = limit
        self.sets = self.stored = self.work = 0
        self.full = False
        self.members: list[I32] = []
        self.lengths: list[I32] = []
        self.sizes: list[I32] = []
        self.counts = np.zeros(sampler.graph.n_nodes, dtype=np.int32)
        self._touched = np.empty(sampler.graph.n_nodes, dtype=np.int32)
        self._seen = 0
        self.hits = np.zeros(1, dtype=np.int64)

    def extend(self, sets: int, horizon: int | None = None) -> bool:
        """Grow to ``sets`` sets; false, and nothing changed, if they do not fit the limit."""
        pieces = []
        at = self.sets
        stored = self.stored
        work = self.work
        while at < sets:
            # Small steps while sets are large, so that several threads together stay near the limit too.
            mean = (stored + 1) / at if at else float(self.sampler.graph.n_nodes)
            step = min(sets - at, max(16, int(self.limit / (8.0 * mean))))
            batch = self._sample(at, step, self.limit - stored, horizon)
            if batch.done < step:
                self.full = True
                return False
            pieces.append(batch)
            at += step
            stored += batch.stored
            work += batch.work
        for batch in pieces:
            self.hits = self.hits + batch.hits
            self._keep(batch)
        self.sets = sets
        self.stored = stored
        self.work = work
        return True

    def _sample(self, first: int, count: int, limit: int, horizon: int | None) -> Batch:
        draw = self.sampler.sample
        return draw(self.key, first, count, store=True, limit=limit, traced=self.traced, horizon=horizon)

    def _keep(self, batch: Batch) -> None:
        self.members += batch.members
        self.lengths += batch.lengths
        self.sizes += batch.sizes
        for members in batch.members:
            self._seen = count_members(members, self.counts, self._touched, self._seen)

    def index(self, nodes: I64, counts: I64) -> Index:
        """The sets of these candidates, which are numbered in the sampler's ``numbers`` and in so many sets each."""
        return LocalIndex(self.members, self.lengths, self.sampler.numbers, counts)

    def walks(self) -> tuple[I32, I32, I32]:
        """Members, when they joined, and lengths of all sets; of a collection that was always traced."""
        return np.concatenate(self.members), np.concatenate(self.sizes), np.concatenate(self.lengths)

    def mean_cover(self, odds: F64, picks: int) -> float:
        """Stored sets that ``picks`` draws of one node each, with these odds, cover on average."""
        parts = zip(self.members, self.lengths, strict=True)
        return sum(covered_units(members, lengths, odds, picks) for members, lengths in parts) / _UNITS

    def likely_fits(self, sets: int) -> bool:
        """Whether ``sets`` sets will stay within the limit, by a wide margin."""
        mean = self.stored / self.sets if self.sets >= 64 else float(self.sampler.graph.n_nodes)
        return 4.0 * mean * sets < self.limit

    @property
    def touched(self) -> I32:
        """The nodes that are in any stored set."""
        return self._touched[: self._seen]

    @property
    def base(self) -> int:
        """Sets that a marked node covers."""
        return int(self.hits.sum())


class Index(Protocol):
    """`LocalIndex`, wherever the sets are."""

    remote: bool

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The index as kernels take it, with no set covered; empty where sets are elsewhere."""

    def take(self, candidate: int, gains: F64) -> None:
        """Cover the sets of one candidate, and take them out of ``gains``."""


NO_INDEX = tuple(np.empty(0, dtype=kind) for kind in (np.int64, np.int32, np.int64, np.int32, np.uint8))


class LocalIndex:
    """Which sets hold which candidates, in this process; ``number[v]`` is the candidate of node ``v``, or -1."""

    remote = False

    def __init__(self, members: list[I32], lengths: list[I32], number: I32, counts: I64) -> None:
        reduced = np.empty(int(counts.sum()) + 1, dtype=np.int32)
        offsets = np.zeros(sum(x.size for x in lengths) + 1, dtype=np.int64)
        row = at = 0
        for part, sizes in zip(members, lengths, strict=True):
            row, at = reduce_sets(part, sizes, number, offsets, reduced, row, at)
        self._index = (offsets, reduced, *invert(offsets, reduced, row, counts))
        self._covered = np.zeros(row, dtype=np.uint8)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The index as kernels take it, with no set covered."""
        self._covered.fill(0)
        return (*self._index, self._covered)

    def take(self, candidate: int, gains: F64) -> None:
        """Cover the sets of one candidate, and take them out of ``gains``."""
        cover_sets((*self._index, self._covered), candidate, gains)
