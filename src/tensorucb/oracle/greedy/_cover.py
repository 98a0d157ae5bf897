"""Greedy coverage of a collection under a problem's constraints, with a bound on what any other choice covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import Problem
from tensorucb.oracle.greedy._kernels import (
    frequent_nodes,
    invert,
    pick_grouped,
    pick_priced,
    pick_uniform,
    reduce_sets,
)
from tensorucb.oracle.rr import Collection

__all__ = ["Cover", "greedy_cover"]


@dataclass(frozen=True)
class Cover:
    """A greedy choice: rows picked after the marked ones, sets each newly covered, and two counts of covered sets.

    ``rivals`` is what the runner-up of each pick would have covered; ``covered`` is by marked and picked nodes
    together; ``bound`` is at least what any admissible choice covers.
    """

    rows: NDArray[np.int64]
    gains: NDArray[np.int64]
    rivals: NDArray[np.int64]
    covered: int
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


def greedy_cover(collection: Collection, problem: Problem, sentinels: NDArray[np.int64]) -> Cover:
    """Greedy on the stored sets; marked nodes (forced ones, ``sentinels``) cover ``collection.base`` sets already."""
    allowed = problem.allowed
    if sentinels.size:
        allowed = allowed.copy()
        allowed[sentinels] = 0
    if problem.costs is not None:
        return _priced(collection, problem, allowed)
    if problem.groups is not None:
        return _grouped(collection, problem, allowed, sentinels)
    return _plain(collection, problem, allowed, problem.picks - sentinels.size)


def _plain(collection: Collection, problem: Problem, allowed: NDArray[np.uint8], picks: int) -> Cover:
    wanted = max(1024, 32 * problem.picks)
    while True:
        view = _reduce(collection, allowed, wanted)
        chosen, gains, rivals, bound, exact = pick_uniform(
            *view.index, view.marginal.copy(), view.floor, picks, problem.picks
        )
        if exact or view.floor == 0:
            covered = collection.base + int(gains.sum())
            least = min(collection.sets, collection.base + int(bound))
            return Cover(view.nodes[chosen], gains, rivals, covered, least)
        wanted *= 8


def _grouped(
    collection: Collection, problem: Problem, allowed: NDArray[np.uint8], sentinels: NDArray[np.int64]
) -> Cover:
    assert problem.groups is not None
    view = _reduce(collection, allowed, problem.n)
    groups = problem.groups[view.nodes]
    room = problem.room - np.bincount(problem.groups[sentinels], minlength=problem.room.size)
    marginal = view.marginal.copy()
    chosen, gains = pick_grouped(*view.index, marginal, groups, room, problem.picks - sentinels.size)
    return _bounded(collection, problem, view, marginal, chosen, gains)


def _priced(collection: Collection, problem: Problem, allowed: NDArray[np.uint8]) -> Cover:
    assert problem.costs is not None
    view = _reduce(collection, allowed, problem.n)
    cost, weight = problem.costs[view.nodes], problem.weights[view.nodes]
    options = []
    affordable = np.flatnonzero(cost <= problem.budget)
    starts = [-1] if affordable.size == 0 else [-1, int(affordable[np.argmax(view.marginal[affordable])])]
    for first in starts:
        marginal = view.marginal.copy()
        options.append(
            (*pick_priced(*view.index, marginal, cost, weight, problem.budget, problem.picks, first), marginal)
        )
    chosen, gains, marginal = max(options, key=lambda option: int(option[1].sum()))
    return _bounded(collection, problem, view, marginal, chosen, gains)


def _bounded(  # the least of the bounds before the first and after the last pick
    collection: Collection,
    problem: Problem,
    view: _Reduced,
    marginal: NDArray[np.int64],
    chosen: NDArray[np.int64],
    gains: NDArray[np.int64],
) -> Cover:
    covered = collection.base + int(gains.sum())
    before = collection.base + problem.best_sum(view.nodes, view.marginal)
    after = covered + problem.best_sum(view.nodes, marginal)
    bound = min(collection.sets, int(np.floor(min(before, after) + 1e-6)))
    return Cover(view.nodes[chosen], gains, gains, covered, max(bound, covered))
