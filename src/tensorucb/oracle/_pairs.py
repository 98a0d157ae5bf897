"""`select_pairs`: which users to contact, and with which strategy.

The seed oracle chooses from a graph in which each (user, strategy) pair is a node.

Direct objective. Nodes are the users and the pairs. Pair (i, s) has an edge to each follower j of i with the
probability ``p_s(i, j)`` of its strategy, and one to user i with probability 1. Users have no edges and carry the
values, pairs have none. So a set of pairs activates what the contacted users activate directly, and themselves.

Cascade. Users keep their edges with the probabilities ``spread``, so that whoever is reached passes it on. Pair (i, s)
has an edge to each follower with its strategy's probability, but none to user i, who would pass it on a second time
with ``spread``. For user i to count as active all the same there is a third kind of node: a counter of i, reached for
certain from user i and from every pair (i, s). The counters carry the values. What is left: a contacted user who is
*also* reached by others does pass it on once more, as user i, with ``spread``.

If seeds do not count, the edge from a pair to its own user (or counter) has probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_choice, check_flag
from tensorucb.choices import Objective
from tensorucb.errors import InputError, argument
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.graph._ids import frozen
from tensorucb.oracle._constraints import (
    SeedProblem,
    make_problem,
    spendable,
)
from tensorucb.oracle._greedy import best_alternatives
from tensorucb.oracle._kernels import source_edges
from tensorucb.oracle._records import Constraints, PairSelection, Sampling, check_constraints, check_sampling
from tensorucb.oracle._select import SeedOracle, solve
from tensorucb.rng import RngLike
from tensorucb.work import Engine


def select_pairs(
    graph: Graph,
    probabilities: ArrayLike,
    k: int | None,
    *,
    objective: Objective = "cascade",
    constraints: Constraints | None = None,
    values: ArrayLike | None = None,
    redundancy: float = 0.0,
    spread: ArrayLike | None = None,
    count_seeds: bool = True,
    sampling: Sampling | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    engine: Engine | None = None,
) -> PairSelection:
    """Pick users and a strategy for each of them, at most one, whose expected spread is near the largest possible.

    Each (user, strategy) pair becomes a node of a larger graph, from which :func:`select_seeds` would choose, with the
    further rule that a user has at most one pair. Greedy reaches at least 1/2 of the best choice under this rule, with
    or without quotas, and 1/5 with a budget; with one strategy, what :func:`select_seeds` reaches. ``ratio`` is what is
    certified for the pairs returned, and is usually far more.

    Parameters
    ----------
    graph
        The network.
    probabilities
        One row per strategy, one column per edge in the graph's edge order: the probability of the edge if its source
        is contacted with the strategy.
    k
        How many users, ``must_include`` among them. With costs and a budget, the most users; None for no limit.
    objective
        ``"direct"``: users activated by those contacted, who count as active themselves; computed exactly.
        ``"cascade"``: whoever is activated passes it on with the probabilities ``spread``. A contacted user passes it
        on with the strategy's probabilities and, if others reach this user too, once more with ``spread``. So where
        contacted users reach each other this objective is somewhat above that of one attempt per edge, and the
        guarantee is about the objective as it is.
    spread
        For the cascade, one number per edge: the probability with which a user who was not contacted passes it on.
        Default: the mean over the strategies.
    constraints
        As in :func:`select_seeds`, in terms of users. Costs have one row per strategy and one column per user: what
        contacting each user with each strategy costs. Each user who must be included gets the strategy of the largest
        direct gain that leaves enough money for the rest of them. The guarantee is then against the best choice that
        holds these pairs.
    count_seeds
        False: contacted users count only as far as others reach them, so that a budget is not spent on contacting many
        users who bring few responses.
    values, redundancy, sampling, rng, threads, engine
        As in :func:`select_seeds`. The redundancy is that of all contacts of a user, whatever their strategies.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> letter, call = [0.1, 0.1, 0.1], [0.9, 0.9, 0.2]
    >>> prices = [[1.0] * 3, [3.0] * 3]
    >>> money = Constraints(costs=prices, budget=4.0)
    >>> pick = select_pairs(graph, [letter, call], 2, constraints=money, objective="direct")
    >>> list(zip(pick.seeds.tolist(), pick.strategies.tolist())), pick.cost
    ([('ann', 1), ('bob', 0)], 4.0)
    """
    check_graph(graph)
    return choose_pairs(
        graph,
        probabilities,
        k,
        check_constraints(constraints).by_row(graph),
        objective=objective,
        values=values,
        redundancy=redundancy,
        spread=spread,
        count_seeds=count_seeds,
        sampling=sampling,
        rng=rng,
        threads=threads,
        engine=engine,
    )


def choose_pairs(
    graph: Graph,
    probabilities: ArrayLike,
    k: int | None,
    rules: Constraints,
    *,
    objective: Objective = "cascade",
    values: ArrayLike | None = None,
    redundancy: float = 0.0,
    spread: ArrayLike | None = None,
    count_seeds: bool = True,
    sampling: Sampling | None = None,
    rng: RngLike = None,
    threads: int | None = None,
    engine: Engine | None = None,
) -> PairSelection:
    """`select_pairs` for rules that name users by graph row."""
    goal = check_choice("objective", objective, get_args(Objective))
    how = check_sampling(sampling)
    if how.algorithm == "tim":
        raise InputError("algorithm 'tim' does not choose pairs, of which a user may have one only; use 'opim'.")
    hint = "One row per strategy, one column per edge in the graph's edge order (graph.sources, graph.targets)."
    p = check_array("probabilities", probabilities, ("strategies", graph.n_edges), low=0.0, high=1.0, hint=hint)
    passed = _spread(graph, p, spread, goal)
    prices = None
    cheapest = None
    if rules.costs is not None:
        hint = "One row per strategy, one column per user in the order of graph.ids."
        prices = check_array("costs", rules.costs, (p.shape[0], graph.n_nodes), low=0.0, hint=hint)
        # With the cheapest strategies, so that what no choice can pay is refused in terms of users.
        cheapest = np.maximum(prices.min(axis=0), np.finfo(np.float64).tiny)
    users = make_problem(graph, k, replace(rules, costs=cheapest), values, redundancy)
    counted = check_flag("count_seeds", count_seeds)
    in_play = users.allowed.astype(np.bool_)
    in_play[users.forced] = True
    virtual = _make_virtual(graph, p, np.flatnonzero(in_play), passed, counted)
    problem = _pair_problem(virtual, users, prices, rules.budget, counted)
    oracle = SeedOracle(virtual.graph, objective=objective, sampling=how, rng=rng, threads=threads, engine=engine)
    nodes = solve(oracle, virtual.p, problem, users=graph.n_nodes)
    position, strategies = np.divmod(nodes.rows - virtual.first, virtual.strategies)
    rows = virtual.users[position]
    cost = None if problem.costs is None else float(problem.costs[nodes.rows].sum())
    return PairSelection(**{**vars(nodes), "seeds": graph.ids[rows], "rows": rows}, strategies=strategies, cost=cost)


@dataclass(frozen=True)
class _Virtual:
    """The graph, the probabilities of its edges, and where the pairs of ``users`` are: ``first + u * strategies + s``.

    ``counters`` is the row of the node that carries the value of the first user.
    """

    graph: Graph
    p: F64
    users: I64
    strategies: int
    first: int
    counters: int

    def pairs(self, positions: I64) -> I64:
        """Rows of all pairs of ``users[positions]``, as an array (positions, strategies)."""
        return self.first + positions[:, None] * self.strategies + np.arange(self.strategies)


def _make_virtual(graph: Graph, p: F64, users: I64, spread: F64 | None, count_seeds: bool) -> _Virtual:
    """Pairs of ``users`` and the rows of ``p``: with ``spread`` for the cascade, without it for direct activations."""
    n = graph.n_nodes
    strategies = p.shape[0]
    counters = 0 if spread is None else n
    first = counters + n
    size = strategies * (users.size + int(graph.out_degree[users].sum()))
    size += 0 if spread is None else n + graph.n_edges
    s = np.empty(size, dtype=np.int32)
    t = np.empty(size, dtype=np.int32)
    q = np.empty(size)
    edges = (s, t, q)
    at = 0
    if spread is not None:
        network = (graph.out_offsets, graph.targets, frozen(spread[None, :]))
        at = source_edges(np.arange(n, dtype=np.int64), network, counters, 1.0, 0, at, edges)
    network = (graph.out_offsets, graph.targets, frozen(p))
    source_edges(users, network, counters, float(count_seeds), first, at, edges)
    nodes = first + users.size * strategies
    # Edges of one source are not sorted by target: the oracle never looks an edge up.
    virtual = Graph(nodes, s, t, np.arange(nodes, dtype=np.int64))
    return _Virtual(virtual, frozen(q), users, strategies, first, counters)


def _spread(graph: Graph, p: F64, spread: ArrayLike | None, objective: str) -> F64 | None:
    if objective == "direct":
        if spread is not None:
            raise InputError(
                "says how users who were not contacted pass it on, which only the cascade counts.",
                argument="spread",
                advice=("Leave it out, or ask for ", argument("objective", "cascade"), "."),
            )
        return None
    if spread is None:
        return np.asarray(p.mean(axis=0).clip(0.0, 1.0), dtype=np.float64)
    return check_array("spread", spread, (graph.n_edges,), low=0.0, high=1.0, hint="One number per edge.")


def _pair_problem(
    virtual: _Virtual, users: SeedProblem, prices: F64 | None, budget: float | None, count_seeds: bool
) -> SeedProblem:
    """The users' problem as one of pairs: at most one pair per user, below the users' own quotas."""
    n = virtual.graph.n_nodes
    pairs = virtual.pairs(np.arange(virtual.users.size))
    worth = np.ones(users.n) if users.values is None else users.values
    values = np.zeros(n)
    own = np.zeros(n)
    values[virtual.counters : virtual.counters + users.n] = worth
    if count_seeds:
        own[pairs] = worth[virtual.users, None]
    allowed = np.zeros(n, dtype=np.uint8)
    allowed[pairs] = users.allowed[virtual.users, None]
    problem = replace(users, n=n, allowed=allowed, forced=users.forced[:0], values=values, own=own)
    if virtual.counters:
        # The values lie two steps away from a pair; for direct gains its followers count as well.
        direct_worth = values.copy()
        direct_worth[: users.n] = worth
        problem = replace(problem, worth=direct_worth)
    if prices is not None and budget is not None:
        costs = np.zeros(n)
        weights = np.ones(n)
        costs[pairs] = prices[:, virtual.users].T
        weights[pairs] = users.weights[virtual.users, None]
        problem = replace(problem, costs=costs, weights=weights, budget=spendable(float(budget)))
    return _forced(_levels(problem, virtual, users, pairs), virtual, users.forced)


def _levels(problem: SeedProblem, virtual: _Virtual, users: SeedProblem, pairs: I64) -> SeedProblem:
    """The quotas of pairs: one per user if there is a choice, and those of the groups."""
    levels: list[I64] = []
    rooms: list[I64] = []
    needs: list[I64] = []
    # What is free has no value for money, but it has a gain: quotas go by that.
    if virtual.strategies > 1 or (problem.costs is not None and not problem.costs[pairs].all()):
        levels.append(np.arange(virtual.users.size))
        rooms.append(1 - np.isin(virtual.users, users.forced).astype(np.int64))
        needs.append(np.zeros(virtual.users.size, dtype=np.int64))
    if users.groups is not None:
        levels.append(sum(room.size for room in rooms) + users.groups[0][virtual.users])
        rooms.append(users.room)
        needs.append(users.need)
    if not levels:
        return problem
    groups = np.zeros((len(levels), problem.n), dtype=np.int64)
    for level, codes in zip(groups, levels, strict=True):
        level[pairs] = codes[:, None]
    return replace(problem, groups=groups, room=np.concatenate(rooms), need=np.concatenate(needs))


def _forced(problem: SeedProblem, virtual: _Virtual, forced: I64) -> SeedProblem:
    """The problem after the best pair of each user in ``forced`` was taken, in their order."""
    pairs = virtual.pairs(np.searchsorted(virtual.users, forced))
    chosen = best_alternatives(virtual.graph, virtual.p, problem, pairs)
    allowed = problem.allowed
    budget = problem.budget
    if problem.costs is not None:
        budget = max(0.0, budget - float(problem.costs[chosen].sum()))
        allowed = (allowed.astype(np.bool_) & (problem.costs <= budget)).astype(np.uint8)
    return replace(problem, allowed=allowed, forced=chosen, picks=min(problem.picks, int(allowed.sum())), budget=budget)
