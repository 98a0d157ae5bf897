"""What runs on the nodes of a cluster: a `Worker` process, and the `Shard` of RR sets that it owns.

Every call says what a shard must hold: the round (graph and probabilities), the nodes at which walks stop, and the
ranges of sets under a key. A shard that holds less, because its node is new, makes the rest again: set ``i`` under a
key is the same everywhere. So nothing has to be told of a loss but the call itself, to somebody else.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tensorucb import __version__
from tensorucb.arrays import F64, I32, I64
from tensorucb.choices import Model
from tensorucb.graph import Graph
from tensorucb.oracle.rr import Batch, LocalIndex, Sampler
from tensorucb.oracle.rr._kernels import count_members
from tensorucb.oracle.rr._sampler import covered_units
from tensorucb.work import Piece

WIRES = ("out_offsets", "targets", "in_offsets", "in_edges", "in_sources")
"""The arrays of a graph that sampling needs: they go to the cluster in place of the graph."""
_NO_LIMIT = 2**62


@dataclass(frozen=True)
class Round:
    """A round's probabilities: its number, and where the cluster keeps the graph's arrays, these, and node values.

    ``redundancy``, ``live`` and ``model`` are as `Sampler.load` takes them.
    """

    number: int
    sizes: tuple[int, int]
    wires: tuple[Any, ...]
    probabilities: Any
    values: Any = None
    redundancy: float = 0.0
    live: bool = False
    model: Model = "ic"


@dataclass(frozen=True)
class Plan:
    """The sets that a shard must hold: ranges ``(first, count)`` under a key, of walks that stop at ``marks``."""

    number: int
    key: np.uint64
    marks: I64
    horizon: int | None
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class View:
    """A greedy choice: its number, and where the cluster keeps the rows of its candidates."""

    number: int
    nodes: Any


class Shard:
    """Some of the RR sets of a round."""

    def __init__(self) -> None:
        self._round = self._plan = self._view = -1
        self._wires: tuple[Any, ...] = ()
        self._sets: dict[tuple[int, int], Batch] = {}
        self._taken: list[int] = []
        self._marks: I64 | None = None

    def hits(self, current: Round, marks: I64, key: np.uint64, first: int, count: int) -> I64:
        """How many of these sets each of the marked nodes stops; nothing is stored."""
        return self._loaded(current, marks).sample(key, first, count, store=False, limit=0).hits

    def draw(self, current: Round, plan: Plan, first: int, count: int, limit: int) -> tuple[Any, ...]:
        """Draw and keep one more range: hits, nodes in order of occurrence, how often each, members, sets, work."""
        self._restore(current, plan)
        batch = self._sample(plan, first, count, limit)
        if batch.done == count:
            self._sets[first, count] = batch
        nodes, counts = self._occurrences(batch.members)
        amounts = counts[nodes]
        counts[nodes] = 0
        return batch.hits, nodes, amounts, batch.stored, batch.done, batch.work

    def cover(self, current: Round, plan: Plan, view: View, taken: list[int]) -> tuple[I32, I32]:
        """Candidates that lose sets by the last one ``taken``, and how many; the others were taken before."""
        self._restore(current, plan)
        nodes = _get(view.nodes)
        if self._view != view.number:
            self._index = self._new_index(nodes)
            self._view = view.number
            self._taken = []
        if self._taken != taken[:-1]:
            self._index.arrays()  # none is covered
            self._taken = []
            for candidate in taken[:-1]:
                self._index.take(candidate, np.zeros(nodes.size))
        lost = np.zeros(nodes.size)
        self._index.take(taken[-1], lost)
        self._taken = list(taken)
        changed = np.flatnonzero(lost)
        return changed.astype(np.int32), (-lost[changed]).astype(np.int32)

    def units(self, current: Round, plan: Plan, odds: Any, picks: int) -> int:
        """`covered_units` of all sets."""
        self._restore(current, plan)
        shares: F64 = _get(odds)
        parts = ((m, n) for batch in self._sets.values() for m, n in zip(batch.members, batch.lengths, strict=True))
        return sum(covered_units(members, lengths, shares, picks) for members, lengths in parts)

    def walks(self, current: Round, plan: Plan) -> list[tuple[int, I32, I32, I32]]:
        """All sets with when members joined, drawn again: first set, members, sizes and lengths of each range."""
        sampler = self._loaded(current, plan.marks)
        drawn = []
        for first, count in plan.ranges:
            batch = sampler.sample(plan.key, first, count, store=True, limit=_NO_LIMIT, traced=True)
            drawn.append((first, batch.members[0], batch.sizes[0], batch.lengths[0]))
        return drawn

    def _loaded(self, current: Round, marks: I64) -> Sampler:
        """The sampler, loaded with the round's probabilities, its marks set."""
        if self._round != current.number:
            if self._wires != current.wires:
                nodes, edges = current.sizes
                arrays = dict(zip(WIRES, map(_get, current.wires), strict=True))
                self._sampler = Sampler(cast(Graph, SimpleNamespace(n_nodes=nodes, n_edges=edges, **arrays)), 1)
                self._scratch = np.zeros(nodes, dtype=np.int32), np.empty(nodes, dtype=np.int32)
                self._wires = current.wires
            self._sampler.load(
                _get(current.probabilities), _get(current.values), current.redundancy, current.live, current.model
            )
            self._round = current.number
            self._plan = -1
            self._marks = None
        if self._marks is None or not np.array_equal(self._marks, marks):
            self._sampler.mark(marks)
            self._marks = marks
        return self._sampler

    def _restore(self, current: Round, plan: Plan) -> None:
        """Hold the sets of the plan: make what is missing, and let go of what is not in it."""
        self._loaded(current, plan.marks)
        if self._plan != plan.number:
            self._sets = {}
            self._plan = plan.number
            self._view = -1
        if self._sets.keys() != set(plan.ranges):
            missing = [part for part in plan.ranges if part not in self._sets]
            made = {(first, count): self._sample(plan, first, count, _NO_LIMIT) for first, count in missing}
            self._sets = {part: made.get(part) or self._sets[part] for part in plan.ranges}
            self._view = -1

    def _sample(self, plan: Plan, first: int, count: int, limit: int) -> Batch:
        return self._sampler.sample(plan.key, first, count, store=True, limit=limit, horizon=plan.horizon)

    def _occurrences(self, members: list[I32]) -> tuple[I32, I32]:
        """Nodes in order of occurrence, and how often each node occurs: an array to be set to 0 there again."""
        counts, touched = self._scratch
        seen = 0
        for part in members:
            seen = count_members(part, counts, touched, seen)
        return touched[:seen].copy(), counts

    def _new_index(self, nodes: I64) -> LocalIndex:
        number = self._sampler.numbers
        number[nodes] = np.arange(nodes.size, dtype=np.int32)
        members = [part for batch in self._sets.values() for part in batch.members]
        lengths = [part for batch in self._sets.values() for part in batch.lengths]
        touched, counts = self._occurrences(members)
        index = LocalIndex(members, lengths, number, counts[nodes].astype(np.int64))
        counts[touched] = 0
        number[nodes] = -1
        return index


class Worker:
    """One process on a node: it owns shards, and does pieces of work."""

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}
        self._tasks: tuple[Any, Any] = (None, None)

    def about(self) -> str:
        """The release that runs here."""
        return __version__

    def shard(self, number: int, method: str, *arguments: Any) -> Any:
        """A call on one of the shards."""
        return getattr(self._shards.setdefault(number, Shard()), method)(*arguments)

    def piece(self, function: Piece, shared: tuple[Any, ...], start: int, stop: int) -> Any:
        """A piece of `Engine.map`."""
        return function(tuple(_get(each) for each in shared), start, stop)

    def play(self, tasks: Any, number: int) -> tuple[int, Any]:
        """Play a run; the number of its steps and its result come back."""
        if self._tasks[0] != tasks:
            self._tasks = tasks, _get(tasks)
        steps = itertools.count()
        result = self._tasks[1][number](lambda: next(steps))
        return next(steps), result


def _get(held: Any) -> Any:
    """What the cluster keeps under a reference; anything else as it is."""
    import ray

    return ray.get(held) if isinstance(held, ray.ObjectRef) else held
