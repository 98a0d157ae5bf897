"""Greedy coverage of a collection under a problem's constraints, with a bound on what any other choice covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorucb.arrays import I64
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy._greedy import CoverTask, Run, greedy, rules
from tensorucb.oracle.greedy._kernels import direct_take, frequent_nodes
from tensorucb.oracle.rr import Collection

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Cover:
    """A greedy choice: rows picked after the marked ones, sets each newly covered, and counts of sets.

    ``covered`` is by marked and picked nodes together; ``lost`` estimates the most that the picks would add which were
    not made because they are lost in noise; ``bound`` is at least what any admissible choice covers.
    """

    rows: I64
    gains: I64
    covered: int
    lost: float
    bound: int


def greedy_cover(
    collection: Collection, problem: SeedProblem, sentinels: I64 = _NO_ROWS, *, noisy: bool = False
) -> Cover:
    """Greedy on the stored sets; marked nodes (forced ones, ``sentinels``) cover ``collection.base`` sets already.

    Equal candidates go by their direct gain, then by out-degree, then by row. With ``noisy``, and no prices, so do all
    that the samples do not tell apart (see `_kernels`), and picks that would add no more than noise are left out, for
    the caller to fill in by direct gain. The bound holds for any order of picks: that of a prefix asks nothing of how
    it was chosen.
    """
    rest = problem.after(np.concatenate([problem.forced, sentinels])) if sentinels.size else problem
    plain = problem.groups is None and problem.costs is None
    wanted = max(1024, 32 * problem.picks) if plain else problem.n
    while True:
        task = _task(collection, rest, wanted)
        ways = rules(rest, task.nodes, task.gains, noisy)
        runs = [greedy(task, rest, rule, problem.picks if plain else 0) for rule in ways]
        best = max(runs, key=lambda run: int(run.gains.sum()))
        if best.exact or task.floor == 0:
            break
        wanted *= 8  # a node that was left out might have been the better pick
    covered = collection.base + int(best.gains.sum())
    if plain:
        bound = collection.base + best.bound
    else:
        bound = max(covered, _bound_around(collection.base, covered, problem, task, best))
    return Cover(task.nodes[best.chosen], best.gains, covered, best.lost, min(collection.sets, bound))


def _task(collection: Collection, rest: SeedProblem, wanted: int) -> CoverTask:
    """The collection seen by its most frequent nodes alone."""
    sampler = collection.sampler
    network = (sampler.graph.out_offsets, sampler.graph.targets, sampler.probabilities)
    worth = rest.direct_worth()
    for row in rest.forced.tolist():
        direct_take(row, *network, worth)
    nodes, floor = frequent_nodes(collection.touched, collection.counts, rest.allowed, wanted, sampler.numbers)
    counts = collection.counts[nodes].astype(np.int64)
    index = collection.index(nodes, counts)
    sampler.numbers[nodes] = -1
    return CoverTask(nodes, counts, int(floor), index, network, worth)


def _bound_around(base: int, covered: int, problem: SeedProblem, task: CoverTask, run: Run) -> int:
    """The lesser of the bounds before the first pick of a run and after its last one."""
    before = base + problem.best_sum(task.nodes, task.gains)
    after = covered + problem.best_sum(task.nodes, run.gains_after)
    return int(np.floor(min(before, after) + 1e-6))
