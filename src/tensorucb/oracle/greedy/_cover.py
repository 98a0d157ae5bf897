"""Greedy coverage of a collection under a problem's constraints, with a bound on what any other choice covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy._index import Index
from tensorucb.oracle.greedy._kernels import choose, choose_priced, direct_take, frequent_nodes, pick, pick_priced
from tensorucb.oracle.rr import Collection

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Cover:
    """A greedy choice: rows picked after the marked ones, sets each newly covered, and counts of sets.

    ``covered`` is by marked and picked nodes together; ``left`` estimates the most that the picks would add which were
    not made because they are lost in noise; ``bound`` is at least what any admissible choice covers.
    """

    rows: I64
    gains: I64
    covered: int
    left: float
    bound: int


@dataclass(frozen=True)
class _Reduced:
    """A collection seen by its most frequent nodes alone: candidates, an ``index`` of their sets, and marginals."""

    nodes: I64
    floor: int
    index: Index
    marginal: I64


def _reduce(collection: Collection, allowed: NDArray[np.uint8], wanted: int) -> _Reduced:
    number = collection.sampler.numbers
    nodes, floor = frequent_nodes(collection.touched, collection.counts, allowed, wanted, number)
    marginal = collection.counts[nodes].astype(np.int64)
    index = collection.index(nodes, marginal)
    number[nodes] = -1
    return _Reduced(nodes, int(floor), index, marginal)


def greedy_cover(
    collection: Collection, problem: SeedProblem, sentinels: I64 = _NO_ROWS, *, noisy: bool = False
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
        marginal = view.marginal.copy()
        run = _new_run(marginal, rest.picks, problem.picks)
        view.index.run(
            (pick, choose), marginal, view.floor, (rest.groups_of(view.nodes), rest.room.copy()), noisy,
            view.nodes, (graph.out_offsets, graph.targets, p), left_worth.copy(), run,
        )  # fmt: skip
        chosen, gains, tally, left = run[0], run[1], run[-2], float(run[-1][0])
        found, bound, exact = int(tally[0]), int(tally[2]), bool(tally[3])
        chosen, gains = chosen[:found], gains[:found]
        if exact or view.floor == 0:
            break
        wanted *= 8  # a node that was left out might have been the better pick
    if problem.groups is not None:
        return _bounded(collection, problem, view, marginal, chosen, gains, left)
    covered = collection.base + int(gains.sum())
    return Cover(view.nodes[chosen], gains, covered, left, min(collection.sets, collection.base + bound))


def _new_run(marginal: I64, picks: int, bound_picks: int) -> tuple[NDArray[Any], ...]:
    """What a run of `choose` knows: picks and their gains, direct gains and when each was computed, and scratch.

    Last two: the number of picks, the sets that these cover, the least bound so far, and whether every pick was made in
    view of the best of all nodes, not only of the candidates; and what the picks left out might cover.
    """
    n, most = marginal.size, np.iinfo(np.int64).max
    whole = [np.empty(size, dtype=np.int64) for size in (picks, picks, n, n, bound_picks)]
    chosen, gains, age, tied, heap = whole
    age.fill(-1)
    return chosen, gains, np.full(n, np.inf), age, tied, heap, np.array([0, 0, most, 1]), np.zeros(1)


def _priced(collection: Collection, problem: SeedProblem, rest: SeedProblem) -> Cover:
    """The best of several runs: by value for money, or with quotas by gain over several least densities."""
    assert rest.costs is not None
    view = _reduce(collection, rest.allowed, problem.n)
    cost, weight, group = rest.costs[view.nodes], rest.weights[view.nodes], rest.groups_of(view.nodes)
    if problem.groups is None:
        affordable = np.flatnonzero(cost <= rest.budget)
        # From nothing, and from the best single node.
        singles = [int(affordable[np.argmax(view.marginal[affordable])])] if affordable.size else []
        starts = [(0.0, first) for first in (-1, *singles)]
    else:
        starts = [(density, -1) for density in rest.thresholds(view.nodes, view.marginal)]
    runs = []
    for start in starts:
        density, first = start
        marginal, tally = view.marginal.copy(), np.zeros(1, dtype=np.int64)
        picked, gained = np.empty(rest.picks, dtype=np.int64), np.empty(rest.picks, dtype=np.int64)
        run = (picked, gained, tally, np.array([rest.budget, density, density / 64.0]))
        quotas = (group, rest.room.copy())
        view.index.run((pick_priced, choose_priced), marginal, cost, weight, quotas, first, run)
        runs.append((picked[: tally[0]], gained[: tally[0]], marginal))
    chosen, gains, marginal = max(runs, key=lambda run: int(run[1].sum()))
    return _bounded(collection, problem, view, marginal, chosen, gains)


def _bounded(
    collection: Collection,
    problem: SeedProblem,
    view: _Reduced,
    marginal: I64,
    chosen: I64,
    gains: I64,
    left: float = 0.0,
) -> Cover:
    """The choice with the lesser of the bounds before its first and after its last pick."""
    covered = collection.base + int(gains.sum())
    before = collection.base + problem.best_sum(view.nodes, view.marginal)
    after = covered + problem.best_sum(view.nodes, marginal)
    bound = min(collection.sets, int(np.floor(min(before, after) + 1e-6)))
    return Cover(view.nodes[chosen], gains, covered, left, max(bound, covered))
