"""Greedy coverage of a collection under a problem's constraints, with a bound on what any other choice covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy._kernels import (
    direct_take,
    frequent_nodes,
    invert,
    pick,
    pick_dense,
    pick_priced,
    reduce_sets,
)
from tensorucb.oracle.rr import Collection


@dataclass(frozen=True)
class Cover:
    """A greedy choice: rows picked after the marked ones, sets each newly covered, and counts of sets.

    ``covered`` is by marked and picked nodes together; ``left`` estimates the most that the picks would add which were
    not made because they are lost in noise; ``bound`` is at least what any admissible choice covers.
    """

    rows: NDArray[np.int64]
    gains: NDArray[np.int64]
    covered: int
    left: float
    bound: int


@dataclass(frozen=True)
class _Reduced:
    nodes: NDArray[np.int64]
    floor: int
    offsets: NDArray[np.int64]
    members: NDArray[np.int32]
    rows: int
    starts: NDArray[np.int64]
    sets: NDArray[np.int32]
    marginal: NDArray[np.int64]

    @property
    def index(self) -> tuple[NDArray[np.int64], NDArray[np.int32], int, NDArray[np.int64], NDArray[np.int32]]:
        return self.offsets, self.members, self.rows, self.starts, self.sets


def _reduce(collection: Collection, allowed: NDArray[np.uint8], wanted: int) -> _Reduced:
    """The collection seen by its most frequent nodes alone."""
    number = collection.sampler.numbers
    nodes, floor = frequent_nodes(collection.touched, collection.counts, allowed, wanted, number)
    marginal = collection.counts[nodes].astype(np.int64)
    members = np.empty(int(marginal.sum()) + 1, dtype=np.int32)
    offsets = np.zeros(sum(x.size for x in collection.lengths) + 1, dtype=np.int64)
    row = at = 0
    for part, lengths in zip(collection.members, collection.lengths, strict=True):
        row, at = reduce_sets(part, lengths, number, offsets, members, row, at)
    number[nodes] = -1
    starts, sets = invert(offsets, members, row, marginal)
    return _Reduced(nodes, int(floor), offsets, members, row, starts, sets, marginal)


def greedy_cover(
    collection: Collection, problem: SeedProblem, sentinels: NDArray[np.int64], *, noisy: bool = False
) -> Cover:
    """Greedy on the stored sets; marked nodes (forced ones, ``sentinels``) cover ``collection.base`` sets already.

    Equal candidates go by their direct gain, then by out-degree, then by row. With ``noisy`` so do all that the samples
    do not tell apart (see `_kernels`), and picks that would add no more than noise are left out, for the caller to fill
    in by direct gain. The bound holds for any order of picks: that of a prefix asks nothing of how it was chosen.
    """
    rest = problem.after(np.concatenate([problem.forced, sentinels])) if sentinels.size else problem
    if problem.costs is not None:
        return _priced(collection, problem, rest)
    return _unpriced(collection, problem, rest, noisy)


def _unpriced(collection: Collection, problem: SeedProblem, rest: SeedProblem, noisy: bool) -> Cover:
    wanted = max(1024, 32 * problem.picks) if problem.groups is None else problem.n
    graph, p = collection.sampler.graph, collection.sampler.probabilities
    left_worth = problem.direct_worth()
    for row in rest.forced.tolist():
        direct_take(row, graph.out_offsets, graph.targets, p, left_worth)
    while True:
        view = _reduce(collection, rest.allowed, wanted)
        group, room = np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
        if problem.groups is not None:
            group = np.ascontiguousarray(problem.groups[:, view.nodes])
            room = rest.room.copy()
        marginal, worth = view.marginal.copy(), left_worth.copy()
        chosen, gains, left, bound, exact = pick(
            view.index, marginal, view.floor, rest.picks, problem.picks, group, room, noisy,
            view.nodes, (graph.out_offsets, graph.targets, p), worth,
        )  # fmt: skip
        if exact or view.floor == 0:
            break
        wanted *= 8
    if problem.groups is not None:
        return _bounded(collection, problem, view, marginal, chosen, gains, left)
    covered = collection.base + int(gains.sum())
    return Cover(view.nodes[chosen], gains, covered, left, min(collection.sets, collection.base + int(bound)))


def _priced(collection: Collection, problem: SeedProblem, rest: SeedProblem) -> Cover:
    view = _reduce(collection, rest.allowed, problem.n)
    runs = _by_weight(view, rest) if problem.groups is None else _by_density(view, rest)
    chosen, gains, marginal = max(runs, key=lambda run: int(run[1].sum()))
    return _bounded(collection, problem, view, marginal, chosen, gains)


_Run = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def _by_weight(view: _Reduced, problem: SeedProblem) -> list[_Run]:
    """Chosen candidates, their gains and all marginals afterwards: from nothing, and from the best single one."""
    assert problem.costs is not None
    cost, weight = problem.costs[view.nodes], problem.weights[view.nodes]
    runs = []
    affordable = np.flatnonzero(cost <= problem.budget)
    starts = [-1] if affordable.size == 0 else [-1, int(affordable[np.argmax(view.marginal[affordable])])]
    for first in starts:
        marginal = view.marginal.copy()
        runs.append((*pick_priced(view.index, marginal, cost, weight, problem.budget, problem.picks, first), marginal))
    return runs


def _by_density(view: _Reduced, problem: SeedProblem) -> list[_Run]:
    """The same for a budget with quotas: once for each least density."""
    assert problem.costs is not None
    assert problem.groups is not None
    cost, group = problem.costs[view.nodes], np.ascontiguousarray(problem.groups[:, view.nodes])
    runs = []
    for density in problem.thresholds(view.nodes, view.marginal):
        marginal, room = view.marginal.copy(), problem.room.copy()
        picked = pick_dense(view.index, marginal, cost, problem.budget, problem.picks, group, room, density)
        runs.append((*picked, marginal))
    return runs


def _bounded(  # the least of the bounds before the first and after the last pick
    collection: Collection,
    problem: SeedProblem,
    view: _Reduced,
    marginal: NDArray[np.int64],
    chosen: NDArray[np.int64],
    gains: NDArray[np.int64],
    left: float = 0.0,
) -> Cover:
    covered = collection.base + int(gains.sum())
    before = collection.base + problem.best_sum(view.nodes, view.marginal)
    after = covered + problem.best_sum(view.nodes, marginal)
    bound = min(collection.sets, int(np.floor(min(before, after) + 1e-6)))
    return Cover(view.nodes[chosen], gains, covered, left, max(bound, covered))
