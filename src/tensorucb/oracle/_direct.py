"""The direct objective, by exact lazy greedy: users activated by the seeds themselves, seeds counted as active.

    f(S) = Σ_{j∈S} v_j + Σ_{j∉S} v_j { (1 - ρ) [1 - Π_{i∈S} (1 - p_ij)] + ρ max_{i∈S} p_ij }

No sampling is involved, so ``spread = lower`` is exact and ``upper`` bounds every admissible choice with certainty.

**Redundancy.** ρ says how far a second contact of the same follower brings nothing new: with ρ = 0 each edge has a coin
of its own, with ρ = 1 only the strongest edge into a node counts. Every ρ keeps greedy's factors, for this reason. Let
each node j draw a random set T_j of its in-neighbours, independently of other nodes. With probability ρ it draws one
uniform number U and takes every i with ``U < p_ij``; otherwise it takes each i with probability p_ij by itself. A seed
set S activates j if j is in S, or if S meets T_j. Given j's kind of draw, S meets T_j with probability ``max p_ij``
(that U is below the largest) or ``1 - Π (1 - p_ij)``, so f(S) is the expected value of the nodes that S activates.
For fixed sets T_j this value is a weighted coverage: seed i covers itself and every j with i in T_j. A coverage is
monotone and submodular in S. So is f, which is a mean of coverages.

A law of T_j for each node is a *triggering model* (Kempe, Kleinberg, Tardos, 2003). The cascade objective follows the
same sets from node to node: S then reaches what the edges from T_j to j connect with it, again a coverage for fixed
sets. The walk that collects all nodes from which a root is reached this way is its RR set, and S meets it exactly if
S reaches the root. So RR sets are unbiased, and all bounds that are built on them hold for every ρ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._result import Selection
from tensorucb.oracle.greedy._kernels import direct_dense, direct_gains, direct_take
from tensorucb.oracle.rr._kernels import count_invalid
from tensorucb.oracle.rr._sampler import bad_probability

_ROUNDING = 1e-12


@dataclass(frozen=True)
class DirectTask:
    """What a greedy run needs; ``worth`` is what is still to be won at each node (see `greedy._kernels`)."""

    graph: Graph
    p: F64
    problem: SeedProblem

    def gains(self, rows: I64, worth: F64) -> F64:
        """What each of these nodes adds."""
        out = np.empty(rows.size, dtype=np.float64)
        direct_gains(self.graph.out_offsets, self.graph.targets, self.p, worth, rows, out)
        return out

    def take(self, row: int, worth: F64) -> None:
        """Seed a node."""
        direct_take(row, self.graph.out_offsets, self.graph.targets, self.p, worth)


def complete(graph: Graph, p: F64, problem: SeedProblem, rows: I64) -> I64:
    """``rows`` (forced ones included) completed to the full number of seeds by those of the largest direct gain.

    For seeds that add nothing measurable to a cascade. Under a budget nothing is added: it would only cost.
    """
    if rows.size >= problem.forced.size + problem.picks or problem.costs is not None:
        return rows
    task = DirectTask(graph, p, problem.after(rows))
    worth = task.problem.direct_worth()
    for row in rows.tolist():
        task.take(row, worth)
    free = np.flatnonzero(task.problem.allowed)
    chosen, _, _ = _greedy(task, free, task.gains(free, worth), worth, -1)
    return np.concatenate([rows, np.array(chosen, dtype=np.int64)])


def best_alternatives(graph: Graph, p: F64, problem: SeedProblem, choices: I64) -> I64:
    """One node of each row of ``choices``, row by row: that of the largest direct gain, of equal ones the cheaper.

    Under a budget each choice leaves enough for the cheapest node of every row that follows.
    """
    task = DirectTask(graph, p, problem)
    worth = problem.direct_worth()
    costs = np.zeros(choices.shape) if problem.costs is None else problem.costs[choices]
    left = problem.budget - float(costs.min(axis=1, initial=np.inf).sum())
    chosen = np.empty(choices.shape[0], dtype=np.int64)
    for i, (nodes, cost) in enumerate(zip(choices, costs, strict=True)):
        extra = cost - cost.min()
        gains = np.where((extra <= left) | (extra == 0.0), task.gains(nodes, worth), -1.0)
        best = _first(gains, -cost)
        chosen[i] = nodes[best]
        left -= float(extra[best])
        task.take(int(chosen[i]), worth)
    return chosen


def direct(graph: Graph, p: F64, problem: SeedProblem) -> Selection:
    """Choose seeds for the direct objective; of equal ones that with the larger out-degree, then the lower row."""
    if count_invalid(p, 0, graph.n_edges):
        raise bad_probability(graph, p)
    return direct_choice(DirectTask(graph, p, problem))


def direct_choice(task: DirectTask) -> Selection:
    """The same, wherever the task's edges are."""
    graph, problem = task.graph, task.problem
    worth = problem.direct_worth()
    forced_gains = []
    for row in problem.forced.tolist():
        forced_gains.append(float(task.gains(np.array([row], dtype=np.int64), worth)[0]))
        task.take(row, worth)
    rows = np.flatnonzero(problem.allowed)
    first = task.gains(rows, worth)
    if problem.costs is not None and problem.groups is not None:
        runs = [_dense(task, rows, first, worth.copy(), density) for density in problem.thresholds(rows, first)]
    else:
        # From nothing, and under a budget also from the best single node.
        starts = [-1, int(np.argmax(first))] if problem.costs is not None and rows.size else [-1]
        runs = [_greedy(task, rows, first, worth.copy(), start) for start in starts]
    chosen, gains, left = max(runs, key=lambda run: sum(run[1]))
    base = sum(forced_gains)
    spread = base + sum(gains)
    after = task.gains(rows, left)
    upper = max(spread, min(base + problem.best_sum(rows, first), spread + problem.best_sum(rows, after)))
    ratio = spread / upper if upper > 0.0 else 1.0
    final = np.concatenate([problem.forced, np.array(chosen, dtype=np.int64)])
    return Selection(
        graph.ids[final],
        final,
        spread,
        spread,
        upper,
        ratio,
        0,
        "direct",
        np.array(forced_gains + gains, dtype=np.float64),
        f"exact greedy: at least {problem.rule} of the best admissible choice; here at least {ratio:.3f} of it.",
    )


def _first(score: F64, preference: I64 | F64) -> int:
    """The largest score; of those equal up to the rounding of sums the most preferred, then the lowest row."""
    equal = np.flatnonzero(score >= score.max() - _ROUNDING * abs(score.max()))
    return int(equal[np.argmax(preference[equal])])


def _greedy(task: DirectTask, rows: I64, first: F64, worth: F64, start: int) -> tuple[list[int], list[float], F64]:
    """Lazy greedy: a stale gain is an upper bound, so only the node on top is computed again."""
    problem = task.problem
    stale = first.copy()
    fresh = np.zeros(rows.size, dtype=np.int64)
    degree = task.graph.out_degree[rows]
    weight = problem.weights[rows] if problem.costs is not None else None
    groups, room, budget = problem.groups_of(rows), problem.room.copy(), problem.budget
    open_: NDArray[np.bool_] = np.all(room[groups] > 0, axis=0)
    chosen: list[int] = []
    gains: list[float] = []
    while len(chosen) < problem.picks:
        score = np.where(open_, stale if weight is None else stale / weight, -1.0)
        best = start if start >= 0 and not chosen else _first(score, degree)
        if not open_[best] or (weight is not None and stale[best] <= 0.0):
            break
        if fresh[best] < len(chosen):
            stale[best] = task.gains(rows[best : best + 1], worth)[0]
            fresh[best] = len(chosen)
            continue
        chosen.append(int(rows[best]))
        gains.append(float(stale[best]))
        task.take(int(rows[best]), worth)
        open_[best] = False
        room[groups[:, best]] -= 1
        open_ &= np.all(room[groups] > 0, axis=0)
        if problem.costs is not None:
            budget -= float(problem.costs[rows[best]])
            open_ &= problem.costs[rows] <= budget
    return chosen, gains, worth


def _dense(task: DirectTask, rows: I64, first: F64, worth: F64, density: float) -> tuple[list[int], list[float], F64]:
    """The same under a budget with quotas: by gain among what gains at least ``density`` for its cost."""
    problem, graph = task.problem, task.graph
    assert problem.costs is not None
    chosen, gains = direct_dense(
        rows, first.copy(), problem.costs[rows], problem.budget, problem.picks, problem.groups_of(rows),
        problem.room.copy(), density, (graph.out_offsets, graph.targets, task.p), worth,
    )  # fmt: skip
    return rows[chosen].tolist(), gains.tolist(), worth
