"""The choice of users, and of what each of them gets: each context is scored once, and the scores are handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Unpack, cast

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Contacts, contexts
from tensorucb.campaign._constraints import Constraints, check_choice, check_list, fewest
from tensorucb.campaign._network import Network
from tensorucb.campaign._reach import Covered, direct_gains
from tensorucb.choices import Objective
from tensorucb.errors import InputError, StateError, argument
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_probabilities
from tensorucb.oracle import Constraints as SeedConstraints
from tensorucb.oracle import PairSelection, Sampling, SeedOracle, Selection, select_pairs
from tensorucb.oracle._constraints import make_problem, spendable
from tensorucb.oracle._select import solve
from tensorucb.policies import Policy, Prediction, Product
from tensorucb.policies._base import OracleOptions
from tensorucb.question import Question
from tensorucb.work import Engine


def best_strategies(graph: Graph, scores: F64, costs: F64, values: F64 | None = None) -> I64:
    """For each user the strategy with most responses by (strategies, edges) scores; ties go to the cheaper one.

    With ``values``, one for each user, what these responses are worth.
    """
    order = np.argsort(costs, kind="stable")
    weighted = scores if values is None else scores * values[graph.targets]
    sums = np.array([np.bincount(graph.sources, weights=weighted[s], minlength=graph.n_nodes) for s in order])
    return np.asarray(order[np.argmax(sums, axis=0)], dtype=np.int64)


class Scores:
    """What a policy believes of every edge in each context of a round (one per strategy), each computed once.

    ``means`` (without exploration) and ``optimistic`` are (strategies, edges).
    """

    def __init__(self, policy: Policy, products: Sequence[Product]) -> None:
        self.policy, self._products = policy, products
        self.predictions = [policy.prediction(product) for product in products]

    def choose(self, place: int, k: int, oracle: RoundOracle) -> I64:
        """The users that the policy chooses in one context."""
        return np.asarray(self.policy.choose(self._products[place], k, oracle), dtype=np.int64)

    @cached_property
    def means(self) -> F64:
        """What to expect."""
        return _stacked([prediction.expected() for prediction in self.predictions])

    @cached_property
    def optimistic(self) -> F64:
        """What to choose by."""
        return _stacked([np.asarray(self.policy.score(product), dtype=np.float64) for product in self._products])


def _stacked(rows: list[F64]) -> F64:
    return rows[0][None] if len(rows) == 1 else np.stack(rows)  # one strategy: a view, not a copy


@dataclass
class RoundOracle:
    """The oracle that a policy chooses through: the best users under the round's constraints, in graph rows.

    A policy that chooses on its own finds the rows it may use in ``candidates``. After a choice, ``selection`` is the
    answer and ``scores`` are the probabilities that it was made by, exploration included. ``strategy`` is the place of
    the strategy that everybody gets. With (strategies, edges) ``pairs`` each user gets a strategy of their own, and
    these scores count instead of those that the policy passes. ``values`` is what a response of each user is worth;
    None if all count the same.
    """

    network: Network
    rules: Constraints
    request: Question
    rng: np.random.Generator
    strategy: int = 0
    pairs: F64 | None = None
    engine: Engine | None = None
    values: F64 | None = None
    selection: Selection | None = field(init=False, default=None)
    scores: F64 | None = field(init=False, default=None)
    redundancy: float = field(init=False, default=0.0)

    @property
    def candidates(self) -> I64 | None:
        """Rows that may be chosen, where not all may."""
        return self.rules.allowed if self.rules.reasons.any() else None

    def __call__(self, probabilities: F64, k: int, **options: Unpack[OracleOptions]) -> I64:
        """The chosen rows, in the order of choice."""
        rules = self.rules
        candidates = options.get("candidates")
        must_include = options.get("must_include")
        self.redundancy = options.get("redundancy") or 0.0
        forced = rules.must_include if must_include is None else np.union1d(rules.must_include, must_include)
        barred = rules.reasons != 0
        if candidates is not None:
            outside = np.ones(barred.size, dtype=np.bool_)
            outside[candidates] = outside[forced] = False
            barred |= outside
        self.scores = probabilities if self.pairs is None else self.pairs
        self.selection = self._select(k, np.flatnonzero(barred), forced)
        return self.selection.rows

    def _select(self, k: int, barred: I64, forced: I64) -> Selection:
        graph = self.network.graph
        rules = self.rules
        request = self.request
        costs = self.rules.costs()
        if self.pairs is not None:
            return self._select_pairs(self.pairs, k, costs, barred, forced)
        if costs is not None or self.values is not None:
            # With money to spend or to earn, users who were contacted must not count, which only the choice of pairs
            # can do: whoever spends much is not a good one to contact for that.
            one = None if costs is None else costs[self.strategy : self.strategy + 1]
            return self._select_pairs(np.asarray(self.scores)[None], k, one, barred, forced)
        p = check_probabilities(graph, self.scores)
        constraints = SeedConstraints(
            exclude=barred, must_include=forced, groups=rules.groups, quotas=rules.quotas, minima=rules.minima
        )
        problem = make_problem(graph, k, constraints, redundancy=self.redundancy)
        objective = cast(Objective, request.objective)
        sampling = Sampling(epsilon=request.epsilon)
        oracle = SeedOracle(graph, objective=objective, sampling=sampling, rng=self.rng, engine=self.engine)
        return solve(oracle, p, problem)

    def _select_pairs(self, scores: F64, k: int, costs: F64 | None, barred: I64, forced: I64) -> PairSelection:
        graph = self.network.graph
        rules = self.rules
        ids = self.network.graph.ids
        constraints = SeedConstraints(
            exclude=ids[barred] if barred.size else None,
            must_include=ids[forced] if forced.size else None,
            costs=costs,
            budget=rules.budget,
            groups=rules.groups,
            quotas=rules.quotas,
            minima=rules.minima,
        )
        pairs = select_pairs(
            graph,
            scores,
            k,
            objective=cast(Objective, self.request.objective),
            constraints=constraints,
            values=self.values,
            redundancy=self.redundancy,
            count_seeds=rules.budget is None and self.values is None,
            sampling=Sampling(epsilon=self.request.epsilon),
            rng=self.rng,
            engine=self.engine,
        )
        if costs is None:
            return pairs
        least = max(forced.size, fewest(rules, pairs.rows))
        return _while_it_pays(graph, scores, costs, pairs, least, self.redundancy, self.values)


def _while_it_pays(
    graph: Graph,
    scores: F64,
    costs: F64,
    pairs: PairSelection,
    least: int,
    redundancy: float,
    values: F64 | None,
) -> PairSelection:
    """The first of the chosen users, as many as bring the most responses of users who are not contacted themselves.

    At least the first ``least`` stay: must-includes, and those that groups with a minimum need.

    A budget may be large enough to contact those who would have responded: more users, and fewer responses.
    """
    covered = Covered.of(graph, scores[0], pairs.rows[:0])
    worth = np.ones(graph.n_nodes) if values is None else values
    contacted = np.zeros(graph.n_nodes, dtype=np.bool_)
    expected = 0.0
    best = -1.0
    count = least
    for place, (row, strategy) in enumerate(zip(pairs.rows.tolist(), pairs.strategies.tolist(), strict=True), 1):
        expected -= float(worth[row]) * (1.0 - float(covered.own(redundancy, row)))
        contacted[row] = True
        edges = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
        targets, p = graph.targets[edges], scores[strategy, edges]
        expected += float((covered.added(p, targets, redundancy) * worth[targets])[~contacted[targets]].sum())
        covered.take(p, targets)
        if place >= least and expected > best:
            best, count = expected, place
    if count == pairs.rows.size:
        return pairs
    kept = {name: getattr(pairs, name)[:count] for name in ("seeds", "rows", "strategies", "gains")}
    value, cost = float(kept["gains"].sum()), float(costs[kept["strategies"], kept["rows"]].sum())
    return replace(pairs, **kept, spread=value, lower=min(pairs.lower, value), cost=cost, guarantee="")


@dataclass(frozen=True)
class Choice:
    """The users chosen, and how.

    ``rows`` are in the order of choice; ``strategies`` holds for each of them the place of the strategy they get, 0
    without strategies. ``rule`` is the oracle's objective (``direct`` or ``cascade``), ``own``: the policy picked
    without the oracle, or ``list``: a person made the list. ``optimistic`` are the probabilities that the oracle chose
    by, exploration included: one for each edge, or (strategies, edges); None if it did not choose. ``predictions`` is
    what the policy believes with each strategy. ``places`` holds for each user of the network the place of the strategy
    that they get or would get: in a round with one strategy for all that one, otherwise the best for them.
    ``certificate`` is what the oracle proves of its choice; empty if it did not choose, or if part of that was dropped.
    """

    rows: I64
    strategies: I64
    policy: str
    rule: str
    optimistic: F64 | None
    predictions: Sequence[Prediction]
    places: I64
    per_user: bool = False
    certificate: str = ""


def choose_users(
    policy: Policy,
    network: Network,
    rules: Constraints,
    request: Question,
    rng: np.random.Generator,
    engine: Engine | None = None,
    values: F64 | None = None,
) -> Choice:
    """Choose users under the request's constraints, and what each of them gets.

    ``values`` is what a response of each user is worth; None if all count the same.
    """
    offered = request.strategies
    products = contexts(request.product.vectors, None if offered is None else offered.features)
    if request.users is not None:
        return _as_listed(Scores(policy, products), network, rules, request, request.users, values)
    k = _count(rules, request)
    scores, graph = Scores(policy, products), network.graph
    oracle = RoundOracle(network, rules, request, rng, engine=engine, values=values)
    if request.per_user:
        oracle.pairs = scores.optimistic
        rows, strategies = _each_their_own(scores, oracle, k)
        places = best_strategies(graph, scores.means, rules.surcharges, values)
        places[rows] = strategies
    elif len(products) == 1:
        rows, strategies, _ = _all_the_same(scores, oracle, k)
        places = np.zeros(graph.n_nodes, dtype=np.int64)
    else:
        oracle, rows, strategies = _best_for_all(scores, oracle, k)
        places = np.full(graph.n_nodes, strategies[0] if rows.size else 0, dtype=np.int64)
    own = oracle.selection is None or not np.array_equal(oracle.selection.rows, rows)
    rule, optimistic = ("own", None) if own else (request.objective, oracle.scores)
    proven = "" if own or oracle.selection is None else oracle.selection.guarantee
    return Choice(rows, strategies, policy.name, rule, optimistic, scores.predictions, places, request.per_user, proven)


def _as_listed(
    scores: Scores, network: Network, rules: Constraints, request: Question, users: Contacts, values: F64 | None
) -> Choice:
    """The users that a person listed, each with the strategy given there, or else with the best one."""
    graph, means = network.graph, scores.means
    rows, named = users.rows, users.places
    places = np.zeros(graph.n_nodes, dtype=np.int64)
    if request.per_user:
        places = best_strategies(graph, means, rules.surcharges, values)
    elif len(means) > 1 and named is None:
        places[:] = _best_for_list(graph, means, scores.predictions[0].redundancy, rules, rows, values)
    if named is not None:
        if not request.per_user and len(set(named)) > 1:
            raise InputError(
                "gives out several strategies, but all users of this round get the same one.",
                argument="users",
                advice=("Set ", argument("per_user"), " to let each have their own."),
            )
        places[:] = places if request.per_user else named[0]
        places[rows] = named
    check_list(network, rules, rows, places[rows])
    return Choice(rows, places[rows], scores.policy.name, "list", None, scores.predictions, places, request.per_user)


def _best_for_list(
    graph: Graph, means: F64, redundancy: float, rules: Constraints, rows: I64, values: F64 | None
) -> int:
    """The strategy that brings most with a list, among those that it can pay for; ties: the cheaper one."""
    costs = [rules.spent(rows, np.full(rows.size, place)) or 0.0 for place in range(len(means))]
    fits = [place for place, cost in enumerate(costs) if rules.budget is None or cost <= spendable(rules.budget)]
    expected = [float(direct_gains(graph, mean, rows, redundancy, values).sum()) for mean in means]
    return max(fits or range(len(means)), key=lambda place: (expected[place], -costs[place]))


def _count(rules: Constraints, request: Question) -> int:
    available = rules.allowed.size
    if request.k is None and rules.budget is None:
        raise InputError("may be left out only with a budget; got neither.", argument="k")
    k = available if request.k is None else request.k
    if rules.budget is None and k > available:
        raise InputError(
            f"= {k:,} users are wanted but only {available:,} may be chosen ({rules.left_out()}). Ask for fewer.",
            argument="k",
        )
    k = min(k, available)
    if k == 0:
        raise InputError(f"nobody may be chosen ({rules.left_out()}). Loosen the constraints.")
    return k


def _all_the_same(scores: Scores, oracle: RoundOracle, k: int) -> tuple[I64, I64, float]:
    """The choice in one context, and its value to the policy, exploration included."""
    network, rules = oracle.network, oracle.rules
    rows = scores.choose(oracle.strategy, k, oracle)
    strategies = np.full(rows.size, oracle.strategy, dtype=np.int64)
    check_choice((scores.policy.name,), network, rules, rows, strategies, k)
    selection = oracle.selection
    if selection is not None and np.array_equal(selection.rows, rows):
        return rows, strategies, selection.spread
    value = 0.0
    if rules.surcharges.size > 1:
        p, redundancy = scores.optimistic[oracle.strategy], scores.predictions[oracle.strategy].redundancy
        value = float(direct_gains(network.graph, p, rows, redundancy, oracle.values).sum())
    return rows, strategies, value


def _best_for_all(scores: Scores, oracle: RoundOracle, k: int) -> tuple[RoundOracle, I64, I64]:
    """One strategy for everybody: the one whose choice of users has the largest value; ties go to the cheaper one.

    A strategy with which the constraints cannot be kept, such as one beyond the budget, is left out.
    """
    # The same random numbers for all, so that strategies which the policy does not tell apart have the same value.
    seed = int(oracle.rng.integers(2**63))
    choices: list[tuple[float, float, tuple[RoundOracle, I64, I64]]] = []
    refused: InputError | StateError | None = None
    for place, surcharge in enumerate(oracle.rules.surcharges.tolist()):
        one = replace(oracle, rng=np.random.default_rng(seed), strategy=place)
        try:
            rows, strategies, value = _all_the_same(scores, one, k)
        except (InputError, StateError) as error:
            refused = refused or error
            continue
        choices.append((value, -surcharge, (one, rows, strategies)))
    if refused is not None and not choices:
        raise refused
    return max(choices, key=lambda entry: entry[:2])[2]


def _each_their_own(scores: Scores, oracle: RoundOracle, k: int) -> tuple[I64, I64]:
    """The best strategy for each user, chosen together with the users.

    Users that the policy picks without the oracle get the strategy with most responses by the policy's scores.
    """
    network, rules = oracle.network, oracle.rules
    rows = scores.choose(0, k, oracle)
    places = best_strategies(network.graph, scores.optimistic, rules.surcharges, oracle.values)
    if isinstance(oracle.selection, PairSelection):
        places[oracle.selection.rows] = oracle.selection.strategies
    check_choice((scores.policy.name,), network, rules, rows, places[rows], k)
    return rows, places[rows]
