"""`greedy`: the one loop of all choices, over what it is told of an objective and of a problem's constraints."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I32, I64
from tensorucb.graph import Graph
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy._kernels import (
    ROUNDING,
    advance,
    cover_sets,
    direct_gains,
    direct_take,
    invert,
    reduce_sets,
)

_NO_PRICES = np.empty(0, dtype=np.float64)
Network = tuple[I64, I32, F64]


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


class Index(Protocol):
    """`LocalIndex`, wherever the sets are."""

    remote: bool

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The index as kernels take it, with no set covered; empty where sets are elsewhere."""

    def take(self, candidate: int, gains: F64) -> None:
        """Cover the sets of one candidate, and take them out of ``gains``."""


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


def greedy(task: CoverTask | DirectTask, problem: SeedProblem, rule: Rule, bound_picks: int = 0) -> Run:
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
    age = np.full(nodes.size, 0 if lazy else -1, dtype=np.int64)
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
        c = advance(candidates, places, purse, reserve, how, task.floor, task.network, worth, index, remote, run)
        if c < 0 or task.sets is None:
            break
        task.sets.take(c, gains)
    count = int(tally[0])
    return Run(chosen[:count], picked_gains[:count], gains, worth, float(tally[2]), bool(tally[3]), float(lost[0]))


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


@dataclass(frozen=True)
class CoverTask:
    """Sampled sets as a task: candidates ``nodes`` with their first ``gains``, and what a pick takes.

    ``own`` is what is known of the gains without samples, in units of sets. ``worth`` is what is to be won directly
    (see `_kernels`), by which equal candidates are told apart.
    """

    nodes: I64
    gains: F64
    own: F64
    worth: F64
    network: Network
    floor: float
    sets: Index


class DirectTask:
    """Direct gains of a graph's nodes as a task, without sampled sets."""

    sets = None
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
        self.gains = self.gains_of(self.nodes, self.worth)

    def largest(self, count: int) -> DirectTask:
        """The task of the candidates of the largest gains alone."""
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
