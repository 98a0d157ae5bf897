"""Greedy coverage of a collection under a problem's constraints, with a bound on what any other choice covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy._greedy import CoverTask, Run, greedy, rules
from tensorucb.oracle.greedy._kernels import direct_take, frequent_nodes
from tensorucb.oracle.rr import Collection

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Cover:
    """A greedy choice on a collection, in units of its sets: rows picked after the marked ones, and what they gain.

    A gain is the number of sets newly covered, and what is won without samples (`Sampler` says why) in the same
    unit. ``covered`` adds both up over marked and picked nodes, ``sets`` counts the covered sets alone. ``noise``
    is the sum of the standard errors that all gains would have if every set of any root were drawn. ``lost``
    estimates the most that the picks would add which were not made because they are lost in noise; ``bound`` is at
    least what any admissible choice gains. ``ahead`` is how much more the picks gain than as many rivals, which
    were chosen without these sets; infinite where there are no rivals, or where not all picks were made.
    """

    rows: I64
    gains: F64
    covered: float
    sets: int
    noise: float
    lost: float
    bound: float
    ahead: float


def greedy_cover(
    collection: Collection,
    problem: SeedProblem,
    sentinels: I64 = _NO_ROWS,
    *,
    noisy: bool = False,
    rivals: I64 = _NO_ROWS,
    sampled_only: bool = False,
) -> Cover:
    """Greedy on the stored sets; marked nodes (forced ones, ``sentinels``) cover ``collection.base`` sets already.

    Equal candidates go by their direct gain, then by out-degree, then by row. With ``noisy``, and no prices, so do all
    that the samples do not tell apart (see `_kernels`), and picks that would add no more than noise are left out, for
    the caller to fill in by direct gain. The bound holds for any order of picks: that of a prefix asks nothing of how
    it was chosen. ``sampled_only`` leaves out what is won without samples, which would decide between equal candidates.
    """
    rest = problem.after(np.concatenate([problem.forced, sentinels])) if sentinels.size else problem
    plain = problem.groups is None and problem.costs is None
    own = collection.sampler.own * (0.0 if sampled_only else collection.sets / collection.sampler.total)
    base = collection.base + float(own[rest.forced].sum())
    wanted = max(1024, 32 * problem.picks) if plain else problem.n
    while True:
        task = _task(collection, rest, own, wanted)
        ways = rules(rest, task.nodes, task.gains, noisy)
        runs = [greedy(task, rest, rule, problem.picks if plain else 0) for rule in ways]
        best = max(runs, key=lambda run: float(run.gains.sum()))
        if best.exact or task.floor == 0.0:
            break
        wanted *= 8  # a node that was left out might have been the better pick
    covered = base + float(best.gains.sum())
    bound = base + best.bound if plain else _bound_around(base, covered, problem, task, best)
    sampled = np.maximum(0.0, np.rint(best.gains - task.own[best.chosen]))
    sets = collection.base + int(sampled.sum())
    marked_gains = collection.hits[: rest.forced.size] + own[rest.forced]
    noise = float(np.sqrt(best.gains).sum() + np.sqrt(marked_gains).sum())
    ahead = np.inf
    if rivals.size and best.chosen.size == rest.picks:
        ahead = float(best.gains.sum()) - _gained_by(task, own, rivals, problem.n)
    return Cover(task.nodes[best.chosen], best.gains, covered, sets, noise, best.lost, max(covered, bound), ahead)


def _gained_by(task: CoverTask, own: F64, rows: I64, n: int) -> float:
    """What these rows gain on the sets of a task, after its marked nodes; rows that are no candidates cover nothing."""
    candidate = np.full(n, -1, dtype=np.int64)
    candidate[task.nodes] = np.arange(task.nodes.size)
    task.sets.arrays()
    gains = task.gains - task.own
    covered = 0.0
    for c in candidate[rows].tolist():
        if c >= 0:
            covered += float(gains[c])
            task.sets.take(c, gains)
    return covered + float(own[rows].sum())


def _task(collection: Collection, rest: SeedProblem, own: F64, wanted: int) -> CoverTask:
    """The collection seen by its most frequent nodes alone, or by all of them."""
    sampler = collection.sampler
    network = (sampler.graph.out_offsets, sampler.graph.targets, sampler.probabilities)
    worth = rest.direct_worth()
    for row in rest.forced.tolist():
        direct_take(row, *network, worth)
    floor = 0.0
    if wanted < rest.n:
        nodes, least = frequent_nodes(collection.touched, collection.counts, rest.allowed, wanted, sampler.numbers)
        floor = least + float(own.max())
    else:
        nodes = np.flatnonzero(rest.allowed)
        sampler.numbers[nodes] = np.arange(nodes.size, dtype=np.int32)
    counts = collection.counts[nodes].astype(np.int64)
    index = collection.index(nodes, counts)
    sampler.numbers[nodes] = -1
    return CoverTask(nodes, counts + own[nodes], own[nodes], worth, network, floor, index)


def _bound_around(base: float, covered: float, problem: SeedProblem, task: CoverTask, run: Run) -> float:
    """The lesser of the bounds before the first pick of a run and after its last one."""
    before = base + problem.best_sum(task.nodes, task.gains)
    open_ = np.ones(task.nodes.size, dtype=np.bool_)
    open_[run.chosen] = False
    after = covered + problem.best_sum(task.nodes[open_], run.gains_after[open_])
    return min(before, after)
