"""`greedy`: the one loop of all choices, over what it is told of an objective and of a problem's constraints.

`greedy_cover` runs it on a collection of RR sets, with a bound on what any other choice covers. `direct` runs it on the
direct objective: users activated by the seeds themselves, seeds counted as active. With the redundancy ρ that is

    f(S) = Σ_{j∈S} v_j + Σ_{j∉S} v_j { (1 - ρ) [1 - Π_{i∈S} (1 - p_ij)] + ρ max_{i∈S} p_ij }

No sampling is involved, so ``spread = lower`` is exact and ``upper`` bounds every admissible choice with certainty. f
is monotone and submodular for every ρ, and RR sets follow the same model (`docs/oracle.md`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.graph import Graph
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._greedy_kernels import (
    ROUNDING,
    advance,
    direct_gains,
    direct_take,
    first_gains,
    frequent_nodes,
)
from tensorucb.oracle._kernels import reach_value
from tensorucb.oracle.rr import NO_INDEX, Collection, Index

_NO_PRICES = np.empty(0, dtype=np.float64)
_NO_ROWS = np.empty(0, dtype=np.int64)
NO_WALKS = tuple(
    np.empty(0, dtype=kind) for kind in (np.int32, np.int64, np.int64, np.int32, np.int64, np.float64, np.float64)
)
Network = tuple[I64, I32, F64]


@dataclass(frozen=True)
class Outcome:
    """Chosen rows in order, what each gained, an estimate and bounds of the objective, and how many sets were drawn.

    ``stopped``: the memory for sets was used up.
    """

    rows: I64
    gains: F64
    spread: float
    lower: float
    upper: float
    rr_sets: int = 0
    stopped: bool = False


class Rule(NamedTuple):
    """Who comes next: the largest gain, or with ``by_value`` the largest gain per weight.

    ``single``: the first pick is by gain in any case. ``noisy``: candidates whose gains the samples do not tell apart
    go by direct gain, and picks that would add no more than noise are not made. ``density``: the least gain per cost
    to begin with; when nothing of it is left it falls.
    """

    by_value: bool = False
    single: bool = False
    noisy: bool = False
    density: float = 0.0


def rules(problem: SeedProblem, nodes: I64, gains: F64, noisy: bool = False) -> list[Rule]:
    """The runs of which the best is kept, so that the problem's factor holds (`docs/oracle.md` has the proofs)."""
    if problem.costs is None:
        return [Rule(noisy=noisy)]
    if problem.groups is None:
        return [Rule(by_value=True), Rule(by_value=True, single=True)]
    return [Rule(density=density) for density in problem.thresholds(nodes, gains)]


@dataclass(frozen=True)
class Run:
    """Picks (numbers of candidates) with their gains, and what is left to gain.

    ``gains_after`` and ``worth_after`` are those of all candidates and nodes after the last pick. ``bound`` is what no
    ``bound_picks`` candidates exceed, ``exact`` whether every pick was made in view of the best of all nodes, and
    ``lost`` an estimate of what picks might add that were lost in noise.
    """

    chosen: I64
    gains: F64
    gains_after: F64
    worth_after: F64
    bound: float
    exact: bool
    lost: float


def greedy(task: CoverTask | DirectTask | WalkTask, problem: SeedProblem, rule: Rule, bound_picks: int = 0) -> Run:
    """Pick up to ``problem.picks`` candidates, each the best by the rule that places and money allow."""
    nodes = task.nodes
    lazy = task.sets is None
    gains = task.gains.copy()
    worth = task.worth.copy()
    priced = problem.costs is not None
    costs = problem.costs[nodes] if problem.costs is not None else _NO_PRICES
    weights = problem.weights[nodes] if rule.by_value else _NO_PRICES
    # Direct gains are computed; those by which sampled gains are told apart are not, and any is below infinity.
    direct = gains if lazy else np.full(nodes.size, np.inf)
    age = np.full(nodes.size, 0 if lazy and task.walks is NO_WALKS else -1, dtype=np.int64)
    candidates = (nodes, gains, task.own, direct, age, np.ones(nodes.size, dtype=np.uint8), costs, weights)
    places = (problem.groups_of(nodes), problem.room.copy(), problem.need.copy(), np.array([problem.free]))
    reserve = problem.reserve(nodes)
    purse = np.array([problem.budget, reserve[2].sum(), rule.density, rule.density / 64.0])
    least = -1.0 if lazy and not priced else 0.0
    chosen = np.empty(problem.picks, dtype=np.int64)
    picked_gains = np.empty(problem.picks)
    tally = np.array([0.0, 0.0, np.inf, 1.0])
    lost = np.zeros(1)
    scratch = (np.empty(nodes.size, dtype=np.int64), np.empty(bound_picks))
    run = (chosen, picked_gains, *scratch, tally, lost)
    how = (rule.by_value, rule.single, rule.noisy, lazy, least)
    index = NO_INDEX if task.sets is None else task.sets.arrays()
    remote = task.sets is not None and task.sets.remote
    while True:
        c = advance(
            candidates, places, purse, reserve, how, task.floor, task.network, worth, index, task.walks, remote, run
        )
        if c < 0 or task.sets is None:
            break
        task.sets.take(c, gains)
    count = int(tally[0])
    return Run(chosen[:count], picked_gains[:count], gains, worth, float(tally[2]), bool(tally[3]), float(lost[0]))


@dataclass(frozen=True)
class CoverTask:
    """Sampled sets as a task: candidates ``nodes`` with their first ``gains``, and what a pick takes.

    ``own`` is what is known of the gains without samples, in units of sets. ``worth`` is what is to be won directly
    (see `_greedy_kernels`), by which equal candidates are told apart.
    """

    nodes: I64
    gains: F64
    own: F64
    worth: F64
    network: Network
    floor: float
    sets: Index
    walks = NO_WALKS


@dataclass(frozen=True)
class WalkTask:
    """Walks as a task: direct gains where each step counts like a user, less what those who join them give away.

    See `_compensated_kernels`. ``gains`` come before what is given away.
    """

    nodes: I64
    gains: F64
    worth: F64
    network: Network
    walks: tuple[NDArray[Any], ...]
    own = _NO_PRICES
    floor = 0.0
    sets = None


class DirectTask:
    """Direct gains of a graph's nodes as a task, without sampled sets."""

    sets = None
    walks = NO_WALKS
    floor = 0.0
    own = _NO_PRICES

    def __init__(self, graph: Graph, p: F64, problem: SeedProblem, seeds: I64) -> None:
        self.network = (graph.out_offsets, graph.targets, p)
        self.worth = problem.direct_worth()
        self.seed_gains = np.empty(seeds.size)
        for i, row in enumerate(seeds.tolist()):
            self.seed_gains[i] = self.gains_of(seeds[i : i + 1], self.worth)[0]
            self.take_row(row, self.worth)
        self.nodes = np.flatnonzero(problem.allowed)
        if seeds.size or problem.redundancy > 0.0 or not (problem.values is None and problem.worth is None):
            self.gains = self.gains_of(self.nodes, self.worth)
        else:
            self.gains = np.empty(self.nodes.size)
            first_gains(*self.network, self.nodes, self.gains)

    def largest(self, problem: SeedProblem) -> DirectTask | None:
        """The task of the candidates of the largest gains alone; None where all have to be looked at."""
        count = max(1024, 32 * problem.picks)
        if problem.costs is not None or problem.groups is not None or count >= self.nodes.size:
            return None
        order = np.argpartition(self.gains, self.gains.size - count - 1)
        part = copy(self)
        kept = np.sort(order[self.gains.size - count :])
        part.nodes = self.nodes[kept]
        part.gains = self.gains[kept]
        part.floor = float(self.gains[order[self.gains.size - count - 1]]) * (1.0 + 2.0 * ROUNDING)
        return part

    def gains_of(self, rows: I64, worth: F64) -> F64:
        """What each of these nodes adds."""
        gains = np.empty(rows.size, dtype=np.float64)
        direct_gains(*self.network, worth, rows, gains)
        return gains

    def take_row(self, row: int, worth: F64) -> None:
        """Seed a node."""
        direct_take(row, *self.network, worth)


@dataclass(frozen=True)
class Cover:
    """A greedy choice on a collection, in units of its sets: rows picked after the marked ones, and what they gain.

    A gain is the number of sets newly covered, and what is won without samples (`Sampler` says why) in the same
    unit. ``covered`` adds both up over marked and picked nodes, ``sets`` counts the covered sets alone. ``noise``
    is the sum of the standard errors that all gains would have if every set of any root were drawn, ``deviation`` that
    of ``covered``. ``lost``
    estimates the most that the picks would add which were not made because they are lost in noise; ``bound`` is at
    least what any admissible choice gains. ``ahead`` is how much more the picks gain than as many rivals, which
    were chosen without these sets; infinite where there are no rivals, or where not all picks were made.
    """

    rows: I64
    gains: F64
    covered: float
    sets: float
    noise: float
    deviation: float
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
    that the samples do not tell apart (see `_greedy_kernels`), and picks that would add no more than noise are left
    out, for the caller to fill in by direct gain. The bound holds for any order of picks: that of a prefix asks nothing
    of how it was chosen. ``sampled_only`` leaves out what is won without samples, which would decide between equal
    candidates.
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
    return Cover(
        task.nodes[best.chosen],
        best.gains,
        covered,
        sets,
        noise,
        math.sqrt(covered),
        best.lost,
        max(covered, bound),
        ahead,
    )


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


def complete(graph: Graph, p: F64, problem: SeedProblem, rows: I64) -> I64:
    """``rows`` (forced ones included) completed to the full number of seeds by those of the largest direct gain.

    For seeds that add nothing measurable to a cascade. Under a budget only the groups' minima are filled: more would
    only cost.
    """
    rest = problem.after(rows)
    if problem.costs is not None:
        rest = replace(rest, picks=int(rest.need.sum()))
    if rest.picks <= 0:
        return rows
    task = DirectTask(graph, p, rest, rows)
    chosen, _ = _run(task, task.largest(rest), rest, rules(rest, task.nodes, task.gains)[0])
    return np.concatenate([rows, chosen])


def _run(task: DirectTask, largest: DirectTask | None, problem: SeedProblem, rule: Rule) -> tuple[I64, Run]:
    """The rows that greedy picks, and its run: on the nodes of the largest gains, if none of the others can matter."""
    if largest is not None:
        run = greedy(largest, problem, rule)
        if run.exact:
            return largest.nodes[run.chosen], run
    run = greedy(task, problem, rule)
    return task.nodes[run.chosen], run


def _best_after(task: DirectTask, largest: DirectTask | None, problem: SeedProblem, worth: F64) -> float:
    """The most that an admissible set could still add; gains only shrink, so small ones need no second look."""
    if largest is not None and problem.picks:
        after = largest.gains_of(largest.nodes, worth)
        if np.sort(after)[-problem.picks] >= largest.floor:
            return problem.best_sum(largest.nodes, after)
    return problem.best_sum(task.nodes, task.gains_of(task.nodes, worth))


def least_worth(graph: Graph, p: F64, problem: SeedProblem) -> float:
    """What the best admissible set is worth at least: its own best node, or else the most that a node brings directly.

    0 only where no node that may be chosen has a value, or an edge to one that has.
    """
    least = problem.least_value()
    if least > 0.0:
        return least
    worth = problem.direct_worth().sum(axis=0)
    direct_worth = np.bincount(graph.sources, weights=p * worth[graph.targets], minlength=graph.n_nodes)
    return float(direct_worth[problem.admissible()].max(initial=0.0))


def worth_nothing(graph: Graph, p: F64, problem: SeedProblem) -> bool:
    """Whether no admissible set is worth anything: no node that may be chosen reaches one of positive value."""
    if problem.values is None or problem.least_value() > 0.0:
        return False
    return not reach_value(problem.admissible(), graph.out_offsets, graph.targets, p, problem.values)


def best_alternatives(graph: Graph, p: F64, problem: SeedProblem, choices: I64) -> I64:
    """One node of each row of ``choices``, row by row: that of the largest direct gain, of equal ones the cheaper.

    Under a budget each choice leaves enough for the cheapest node of every row that follows, and for the minima.
    """
    task = DirectTask(graph, p, problem, choices[:0, 0])
    costs = np.zeros(choices.shape) if problem.costs is None else problem.costs[choices]
    reserved = float(problem.reserve(choices[:0, 0])[2].sum())
    left = problem.budget - reserved - float(costs.min(axis=1, initial=np.inf).sum())
    chosen = np.empty(choices.shape[0], dtype=np.int64)
    for i, (nodes, cost) in enumerate(zip(choices, costs, strict=True)):
        extra = cost - cost.min()
        gains = np.where((extra <= left) | (extra == 0.0), task.gains_of(nodes, task.worth), -1.0)
        equal = np.flatnonzero(gains >= gains.max() - ROUNDING * abs(gains.max()))
        best = int(equal[np.argmin(cost[equal])])
        chosen[i] = nodes[best]
        left -= float(extra[best])
        task.take_row(int(chosen[i]), task.worth)
    return chosen


def direct(graph: Graph, p: F64, problem: SeedProblem) -> Outcome:
    """Choose seeds for the direct objective; of equal ones that with the larger out-degree, then the lower row."""
    task = DirectTask(graph, p, problem, problem.forced)
    largest = task.largest(problem)
    ways = rules(problem, task.nodes, task.gains)
    runs = [_run(task, largest, problem, rule) for rule in ways]
    chosen, run = max(runs, key=lambda pair: float(pair[1].gains.sum()))
    base = float(task.seed_gains.sum())
    spread = base + float(run.gains.sum())
    before = base + problem.best_sum(task.nodes, task.gains)
    upper = max(spread, min(before, spread + _best_after(task, largest, problem, run.worth_after)))
    rows = np.concatenate([problem.forced, chosen])
    return Outcome(rows, np.concatenate([task.seed_gains, run.gains]), spread, spread, upper)
