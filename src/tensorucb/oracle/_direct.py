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

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._result import Selection
from tensorucb.oracle.greedy import DirectTask, greedy, rules
from tensorucb.oracle.greedy._greedy import Rule, Run
from tensorucb.oracle.greedy._kernels import ROUNDING
from tensorucb.oracle.rr._kernels import count_invalid
from tensorucb.oracle.rr._sampler import bad_probability


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
    if count_invalid(p, 0, graph.n_edges):
        raise bad_probability(graph, p)
    return direct_choice(graph, problem, DirectTask(graph, p, problem, problem.forced))


def direct_choice(graph: Graph, problem: SeedProblem, task: DirectTask) -> Selection:
    """The same, wherever the task's edges are."""
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
