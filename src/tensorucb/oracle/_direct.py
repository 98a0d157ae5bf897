"""The direct objective, by exact lazy greedy: users activated by the seeds themselves, seeds counted as active.

    f(S) = Σ_{j∈S} v_j + Σ_{j∉S} v_j { (1 - ρ) [1 - Π_{i∈S} (1 - p_ij)] + ρ max_{i∈S} p_ij }

No sampling is involved, so ``spread = lower`` is exact and ``upper`` bounds every admissible choice with certainty.

ρ is the redundancy. f is monotone and submodular for every ρ, and RR sets follow the same model (`docs/oracle.md`).
"""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._greedy import DirectTask, Rule, Run, greedy, rules
from tensorucb.oracle._greedy_kernels import ROUNDING
from tensorucb.oracle._kernels import reach_value
from tensorucb.oracle._result import Selection


def complete(graph: Graph, p: F64, problem: SeedProblem, rows: I64) -> I64:
    """``rows`` (forced ones included) completed to the full number of seeds by those of the largest direct gain.

    For seeds that add nothing measurable to a cascade. Under a budget only the groups' minima are filled: more would
    only cost.
    """
    rest = problem.after(rows)
    if problem.costs is not None:
        rest = rest.needs_only()
    if rest.picks <= 0:
        return rows
    task = DirectTask(graph, p, rest, rows)
    chosen, _ = _run(task, rest, rules(rest, task.nodes, task.gains)[0])
    return np.concatenate([rows, chosen])


def _run(task: DirectTask, problem: SeedProblem, rule: Rule) -> tuple[I64, Run]:
    """The rows that greedy picks, and its run: on the nodes of the largest gains, if none of the others can matter."""
    few = max(1024, 32 * problem.picks)
    if problem.costs is None and problem.groups is None and few < task.nodes.size:
        largest = task.largest(few)
        run = greedy(largest, problem, rule)
        if run.exact:
            return largest.nodes[run.chosen], run
    run = greedy(task, problem, rule)
    return task.nodes[run.chosen], run


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


def direct(graph: Graph, p: F64, problem: SeedProblem) -> Selection:
    """Choose seeds for the direct objective; of equal ones that with the larger out-degree, then the lower row."""
    task = DirectTask(graph, p, problem, problem.forced)
    ways = rules(problem, task.nodes, task.gains)
    runs = [_run(task, problem, rule) for rule in ways]
    chosen, run = max(runs, key=lambda pair: float(pair[1].gains.sum()))
    base = float(task.seed_gains.sum())
    spread = base + float(run.gains.sum())
    after = task.gains_of(task.nodes, run.worth_after)
    before = base + problem.best_sum(task.nodes, task.gains)
    upper = max(spread, min(before, spread + problem.best_sum(task.nodes, after)))
    ratio = spread / upper if upper > 0.0 else 1.0
    rows = np.concatenate([problem.forced, chosen])
    promise = f"at least {problem.rule} of the best admissible choice; here" if problem.factor > 0.0 else "here"
    return Selection(
        graph.ids[rows],
        rows,
        spread,
        spread,
        upper,
        ratio,
        0,
        "direct",
        np.concatenate([task.seed_gains, run.gains]),
        f"exact greedy: {promise} at least {ratio:.3f} of {'it' if problem.factor > 0.0 else 'the best'}."
        + problem.price_of_minima(spread, upper),
    )
