"""A network on disk, in partitions by source, for one that is larger than a machine's memory.

Scores factor over nodes (a number of the source plus a number of the target), and so do learning sums and direct gains.
So each needs one partition at a time, and arrays of one number per node. Cascades follow edges anywhere and need the
whole graph in the memory of every node.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F32, F64, I32, I64
from tensorucb.checks import check_array, check_path, shown, shown_path
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.graph._build import rows_by_id
from tensorucb.graph._ids import IdIndex, frozen
from tensorucb.oracle import Selection
from tensorucb.oracle._constraints import make_problem
from tensorucb.oracle._direct import DirectTask, direct_choice
from tensorucb.oracle._select import rows_of
from tensorucb.policies.prediction import source_odds, target_odds
from tensorucb.threads import single_threaded_blas, thread_count
from tensorucb.work import Engine, Piece, check_engine, map_pieces

HEADER = "partitions.json"
_reading = threading.Lock()


class LearningSums(NamedTuple):
    """``Σ x xᵀ``, ``Σ x y`` and the number of trials, with x the features of source and target side by side.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.engines import write_partitions
    >>> graph = write_partitions(Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"]), "network")
    >>> sums = graph.learning_sums([[1.0], [2.0], [3.0]], ["ann"], (["ann"], ["cid"]))
    >>> sums.precision.tolist(), sums.response.tolist(), sums.trials
    ([[2.0, 5.0], [5.0, 13.0]], [1.0, 3.0], 2)
    """

    precision: F64
    response: F64
    trials: int


class PartitionedGraph:
    """A network in memory-mapped files, which :func:`write_partitions` wrote.

    A process holds the ids and one offset per node. Edges are read where they are needed, so each node of a cluster
    must see the directory under the same path.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.engines import PartitionedGraph, write_partitions
    >>> graph = write_partitions(Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"]), "network")
    >>> pick = graph.select_direct(1, sources=[0.5, 0.0, 0.0], targets=[0.0, 0.0, 0.0])
    >>> pick.seeds.tolist(), round(pick.spread, 3)
    (['ann'], 2.245)
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = folder = check_path("directory", directory).absolute()
        try:
            header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
            ids, offsets = (_mapped(folder / name) for name in ("ids.npy", "offsets.npy"))
            sizes = [(folder / part_file(part)).stat().st_size for part in range(len(header["bytes"]))]
            sound = sizes == header["bytes"] and offsets.size == ids.size + 1 and offsets[-1] == header["edges"]
        except FileNotFoundError as error:
            raise FileFormatError(
                f"{shown_path(folder)} holds no partitions: {Path(error.filename).name!r} is not there. "
                "Make them with write_partitions."
            ) from error
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise FileFormatError(f"the partitions in {shown_path(folder)} are damaged ({error}).") from error
        if not sound:
            raise FileFormatError(f"the partitions in {shown_path(folder)} are damaged: a file has the wrong size.")
        self.ids: NDArray[Any] = frozen(ids)
        self.out_offsets: I64 = frozen(offsets)
        self.bounds: I64 = np.array(header["bounds"], dtype=np.int64)
        self._parts: dict[int, Part] = {}

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.ids.size)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.out_offsets[-1])

    @property
    def n_parts(self) -> int:
        """Number of partitions."""
        return self.bounds.size - 1

    @cached_property
    def out_degree(self) -> I64:
        """Out-degree of each node."""
        return frozen(np.diff(self.out_offsets))

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.ids)

    def rows(self, ids: ArrayLike) -> I64:
        """Row numbers of ids; unknown ones raise `UnknownIdError`."""
        return rows_by_id(self._index, ids)

    def part(self, number: int) -> Part:
        """A partition; its edges are read when they are touched."""
        if number not in self._parts:
            a, b = int(self.bounds[number]), int(self.bounds[number + 1])
            targets = _mapped(self.directory / part_file(number))
            offsets = self.out_offsets[a : b + 1] - self.out_offsets[a]
            self._parts[number] = Part(a, frozen(offsets), frozen(targets))
        return self._parts[number]

    def select_direct(
        self,
        k: int,
        *,
        sources: ArrayLike,
        targets: ArrayLike,
        candidates: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
        must_include: ArrayLike | None = None,
        values: ArrayLike | None = None,
        redundancy: float = 0.0,
        engine: Engine | None = None,
    ) -> Selection:
        """Pick seeds for the direct objective, as :func:`tensorucb.select_seeds` would from the whole graph.

        Parameters
        ----------
        k, candidates, exclude, must_include, values, redundancy
            As in :func:`tensorucb.select_seeds`.
        sources, targets
            One number per node: the probability of an edge is the logistic function of its source's number plus its
            target's. No array of all edges is ever made.
        engine
            Where partitions are scored: None for this machine, or a cluster.
        """
        like = cast(Graph, self)
        own, theirs = (self._per_node(name, x) for name, x in (("sources", sources), ("targets", targets)))
        named = rows_of(like, candidates=candidates, exclude=exclude, must_include=must_include)
        problem = make_problem(like, k, **named, values=values, redundancy=redundancy)
        odds, factor = frozen(source_odds(own)), frozen(target_odds(theirs))
        return direct_choice(_PartitionedTask(like, _NO_EDGES, problem, self, odds, factor, check_engine(engine)))

    def learning_sums(
        self,
        users: ArrayLike,
        contacted: ArrayLike,
        responses: tuple[ArrayLike, ArrayLike],
        engine: Engine | None = None,
    ) -> LearningSums:
        """Add up what a linear model learns of a round: each out-edge of a contacted user is a trial.

        Parameters
        ----------
        users
            (n, d) features, in the order of ``ids``.
        contacted
            Ids of the users who were contacted.
        responses
            Ids of sources and of targets: the edges that responded. All other trials have the outcome 0.
        engine
            Where partitions are added up: None for this machine, or a cluster.
        """
        x = check_array("users", users, (self.n_nodes, "d"), hint="One row per node.")
        rows = np.unique(self.rows(contacted))
        if not isinstance(responses, list | tuple) or len(responses) != 2:
            raise InputError(f"responses must be ids of sources and ids of targets; got {shown(responses)}.")
        fired, reached = (self.rows(ids) for ids in responses)
        if fired.size != reached.size:
            raise ShapeError(f"responses must name as many sources as targets; got {fired.size} and {reached.size}.")
        pairs = fired * self.n_nodes + reached
        shared = (str(self.directory), frozen(x), frozen(rows), frozen(np.unique(pairs)))
        parts = self.map(_part_sums, shared, check_engine(engine))
        sums = [one for several in parts for one in several]
        return LearningSums(sum(s[0] for s in sums), sum(s[1] for s in sums), sum(s[2] for s in sums))

    def map(self, function: Piece, shared: tuple[Any, ...], engine: Engine | None) -> list[Any]:
        """``function(shared, start, stop)`` over all partitions; a process reads one of them at a time."""
        workers = thread_count()
        bounds = [self.n_parts * i // workers for i in range(workers + 1)]
        return map_pieces(engine, function, shared, bounds, workers)

    def _per_node(self, name: str, numbers: ArrayLike) -> F64:
        return frozen(check_array(name, numbers, (self.n_nodes,), hint="One number per node, in the order of ids."))


_NO_EDGES: F64 = np.empty(0)


class Part(NamedTuple):
    """A partition: the row of its first source, and the out-edges of each source in compressed rows."""

    first: int
    offsets: I64
    targets: I32

    def probabilities(self, sources: F64, targets: F32, start: int = 0, stop: int | None = None) -> F64:
        """Probabilities of the out-edges of sources ``start .. stop``, counted from the first, by factors of odds."""
        from tensorucb.policies._kernels import probabilities_of_odds

        last = self.offsets.size - 1 if stop is None else stop
        offsets = self.offsets[start : last + 1] - self.offsets[start]
        p = np.empty(int(offsets[-1]))
        own, edges = sources[self.first + start : self.first + last], self.targets[self.offsets[start] :]
        probabilities_of_odds(frozen(offsets), edges, 0, last - start, own[:, None], np.ones(1), targets, p)
        return p


@dataclass(frozen=True)
class _PartitionedTask(DirectTask):
    """`DirectTask` whose edges are on disk: all gains partition by partition, that of one node from its out-edges."""

    network: PartitionedGraph
    own: F64
    theirs: F32
    engine: Engine | None

    def gains(self, rows: I64, worth: F64) -> F64:
        if rows.size == 1:
            (targets, p), row = self._out_edges(int(rows[0])), int(rows[0])
            return np.array([_one_gain(row, targets, p, worth)])
        shared = (str(self.network.directory), self.own, self.theirs, frozen(worth.copy()))
        parts = self.network.map(_part_gains, shared, self.engine)
        return np.asarray(np.concatenate(parts)[rows])

    def take(self, row: int, worth: F64) -> None:
        targets, p = self._out_edges(row)
        worth[0, targets] *= 1.0 - p
        worth[0, row] = 0.0
        if len(worth) > 1:
            worth[2, targets] = np.maximum(worth[2, targets], p)
            worth[2, row] = 1.0

    def _out_edges(self, row: int) -> tuple[I32, F64]:
        part = self.network.part(int(np.searchsorted(self.network.bounds, row, side="right")) - 1)
        place = row - part.first
        edges = part.targets[part.offsets[place] : part.offsets[place + 1]]
        return edges, part.probabilities(self.own, self.theirs, place, place + 1)


def _one_gain(row: int, targets: I32, p: F64, worth: F64) -> float:
    from tensorucb.engines._kernels import source_gains

    gains = np.empty(1)
    source_gains(row, frozen(np.array([0, targets.size])), frozen(targets), p, worth, gains)
    return float(gains[0])


def _part_gains(shared: tuple[Any, ...], start: int, stop: int) -> F64:
    """Gains of all sources of partitions ``start .. stop``."""
    from tensorucb.engines._kernels import source_gains

    directory, own, theirs, worth = shared
    network, found = PartitionedGraph(directory), []
    for number in range(start, stop):
        part = network.part(number)
        _check_targets(part, network)
        gains = np.empty(part.offsets.size - 1)
        source_gains(part.first, part.offsets, part.targets, part.probabilities(own, theirs), worth, gains)
        found.append(gains)
    return np.concatenate(found)


@single_threaded_blas()
def _part_sums(shared: tuple[Any, ...], start: int, stop: int) -> list[tuple[F64, F64, int]]:
    """Sums of partitions ``start .. stop``, one for each, so that they are added in one order."""
    directory, x, rows, pairs = shared
    network, found = PartitionedGraph(directory), []
    for number in range(start, stop):
        part = network.part(number)
        _check_targets(part, network)
        here = rows[(rows >= part.first) & (rows < part.first + part.offsets.size - 1)] - part.first
        sizes = part.offsets[here + 1] - part.offsets[here]
        edges = [part.targets[part.offsets[r] : part.offsets[r + 1]] for r in here.tolist()]
        targets = np.concatenate([*edges, np.empty(0, dtype=np.int32)]).astype(np.int64)
        sources = np.repeat(here + part.first, sizes)
        both = np.hstack([x[sources], x[targets]])
        fired = np.isin(sources * network.n_nodes + targets, pairs)
        found.append((both.T @ both, both.T @ fired.astype(np.float64), int(targets.size)))
    return found


def _check_targets(part: Part, network: PartitionedGraph) -> None:
    if part.targets.size and not (part.targets.min() >= 0 and part.targets.max() < network.n_nodes):
        raise FileFormatError(f"the partitions in {shown_path(network.directory)} are damaged: unknown targets.")


def _mapped(path: Path) -> NDArray[Any]:
    """An array on disk, read when it is touched."""
    # NumPy parses the header as Python, and the parser of Python 3.11 fails if a second thread parses at that moment.
    with _reading:
        return cast(NDArray[Any], np.load(path, mmap_mode="r"))


def part_file(part: int) -> str:
    """The name of a partition's file."""
    return f"targets-{part:05d}.npy"
