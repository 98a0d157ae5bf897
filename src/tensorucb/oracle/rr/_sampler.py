"""`Sampler`: one round's probabilities, ready for sampling RR sets on any number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_array
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.oracle.rr._kernels import (
    gather_probabilities,
    mark_nodes,
    peak_tables,
    sample_sets,
    scan_probabilities,
    unmark_nodes,
)
from tensorucb.threads import map_chunks

_NONE = np.empty(0, dtype=np.float64)
_NO_EDGES = np.empty(0, dtype=np.int64)
_NO_EDGES.flags.writeable = False
# Up to so many edges, probabilities are copied into in-edge order: the copy stays in the cache.
_GATHERED = 1_000_000
_CHUNKS_PER_THREAD = 4


@dataclass(frozen=True)
class Batch:
    """Sampled sets: members and lengths of the stored ones by chunk, hits by marked node, how many were done."""

    members: list[NDArray[np.int32]]
    lengths: list[NDArray[np.int32]]
    hits: NDArray[np.int64]
    done: int
    work: int


def check_probabilities(graph: Graph, probabilities: object) -> NDArray[np.float64]:
    """Probabilities as a contiguous float64 array of the graph's length; their range is checked while scanning."""
    hint = "One number per edge, in the graph's edge order (graph.sources, graph.targets)."
    p = check_array("probabilities", probabilities, (graph.n_edges,), hint=hint, ranged=False).view()
    p.flags.writeable = False  # one array type, one compiled kernel
    return p


def bad_probability(graph: Graph, p: NDArray[np.float64]) -> InputError:
    """The error that names the first edge whose probability is not in [0, 1]."""
    edge = int(np.flatnonzero(~((p >= 0.0) & (p <= 1.0)))[0])
    source, target = graph.ids[graph.sources[edge]], graph.ids[graph.targets[edge]]
    return InputError(
        f"probabilities must be in [0, 1]; edge {edge} ({source} -> {target}) has {float(p[edge])}. "
        "Clip or drop such values."
    )


class Sampler:
    """RR sets of one graph: :meth:`load` a round's probabilities, then :meth:`sample`.

    Set ``i`` under a key is the same whatever the number of threads: each set has a random stream of its own.
    Loading copies the probabilities into in-edge order on a small graph. On a large one that costs a cache miss an
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
        self._chance = np.empty(n, dtype=np.float64)
        self._credit = np.zeros(n, dtype=np.int32)
        # Scratch of the greedy choice: which candidate a node is, -1 for none.
        self.numbers = np.full(n, -1, dtype=np.int32)
        self._marked = np.empty(0, dtype=np.int64)
        self._p: NDArray[np.floating] = _NONE
        self.probabilities = _NONE
        self._order = _NO_EDGES
        self._scratch = np.empty(0, dtype=np.float32)
        self._cumulative = _NONE
        self.total = float(n)

    def load(self, p: NDArray[np.float64], values: NDArray[np.float64] | None = None) -> None:
        """Take the probabilities of a round, and the nodes' values if roots are to be drawn in proportion to them."""
        graph = self.graph
        self.probabilities = p
        self._cumulative = _NONE if values is None else np.cumsum(values)
        self.total = float(graph.n_nodes) if values is None else float(self._cumulative[-1])
        if graph.n_edges <= _GATHERED:
            self._gather(p)
        else:
            self._scan(p)

    def _gather(self, p: NDArray[np.float64]) -> None:
        graph = self.graph
        ordered = self._scratch
        if ordered.size < graph.n_edges:
            ordered = self._scratch = np.empty(graph.n_edges, dtype=np.float32)
        bits = ordered.view(np.int32)

        def gather(first: int, last: int) -> int:
            peak = self._peaks[0]
            return int(gather_probabilities(graph.in_offsets, graph.in_edges, p, first, last, ordered, bits, peak))

        if any(map_chunks(gather, self._bounds(graph.n_nodes, self.threads), self.threads)):
            raise bad_probability(graph, p)
        self._p, self._order = ordered, _NO_EDGES

    def _scan(self, p: NDArray[np.float64]) -> None:
        graph = self.graph
        self._peaks.fill(0)
        free = list(self._peaks)
        bits = p.view(np.uint64)

        def scan(first: int, last: int) -> bool:
            return bool(scan_probabilities(graph.targets, bits, first, last, free.pop()))

        if not all(map_chunks(scan, self._bounds(graph.n_edges, self.threads), self.threads)):
            raise bad_probability(graph, p)
        peak = self._peaks[0]
        for other in self._peaks[1:]:
            np.maximum(peak, other, out=peak)
        self._p, self._order = p, graph.in_edges

    def mark(self, rows: NDArray[np.int64]) -> None:
        """Let walks stop at these nodes; ``hits[i]`` of a batch then counts the stops at ``rows[i]``."""
        graph = self.graph
        for state in self._states:
            unmark_nodes(self._marked, graph.out_offsets, graph.targets, state)
            mark_nodes(rows, graph.out_offsets, graph.targets, self.probabilities, state, self._chance)
        self._credit[rows] = np.arange(rows.size, dtype=np.int32)
        self._marked = rows

    def sample(
        self, key: np.uint64, first: int, count: int, *, store: bool, limit: int, horizon: int | None = None
    ) -> Batch:
        """Sets ``first .. first + count``, up to the one whose members would bring the stored ones past ``limit``."""
        free = list(self._states)
        graph, reach = self.graph, self.graph.n_nodes if horizon is None else horizon
        network = (graph.in_offsets, self._order, graph.in_sources, self._p, self._peaks[0])

        def run(start: int, stop: int, room: int = limit) -> tuple[int, int, NDArray[np.int64], tuple[object, ...]]:
            state = free.pop()
            hits = np.zeros(max(1, self._marked.size), dtype=np.int64)
            try:
                marks = (state, self._chance, self._credit, hits)
                count = stop - start
                out = sample_sets(network, self._tables, marks, self._cumulative, key, start, count, store, room, reach)
            finally:
                free.append(state)
            return start, stop, hits, out

        chunks = 1 if self.threads == 1 or count < 64 else self.threads * _CHUNKS_PER_THREAD
        bounds = [first + b for b in self._bounds(count, chunks)]
        return _merge(map_chunks(run, bounds, self.threads), run, limit, max(1, self._marked.size))

    @staticmethod
    def _bounds(count: int, chunks: int) -> Sequence[int]:
        return [count * i // chunks for i in range(chunks + 1)]


def _merge(results, run, limit: int, marks: int) -> Batch:  # type: ignore[no-untyped-def]
    """Chunks in order, cut where the stored members would pass the limit: the same cut for any chunking."""
    members: list[NDArray[np.int32]] = []
    lengths: list[NDArray[np.int32]] = []
    hits = np.zeros(marks, dtype=np.int64)
    stored = done = work = 0
    for start, stop, chunk_hits, out in results:
        full = out[2] < stop - start
        if stored + out[0].size > limit or full:
            _, _, chunk_hits, out = run(start, stop, limit - stored)
            full = True
        members.append(out[0])
        lengths.append(out[1])
        hits += chunk_hits
        stored += out[0].size
        done += out[2]
        work += out[3]
        if full and out[2] < stop - start:
            break
    return Batch(members, lengths, hits, done, work)
