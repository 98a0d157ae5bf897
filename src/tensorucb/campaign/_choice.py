"""The choice of users, and of what each of them gets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Unpack, cast

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import Contacts, contexts
from tensorucb.campaign._constraints import Constraints, check_choice, check_list
from tensorucb.campaign._network import Network
from tensorucb.campaign._reach import Beliefs, Covered, direct_gains, stacked
from tensorucb.choices import Objective
from tensorucb.errors import InputError, StateError, argument
from tensorucb.graph._arguments import check_probabilities
from tensorucb.oracle import Constraints as SeedConstraints
from tensorucb.oracle import PairSelection, Sampling, SeedOracle, Selection
from tensorucb.oracle._constraints import make_problem, spendable
from tensorucb.oracle._pairs import choose_pairs
from tensorucb.oracle._select import solve
from tensorucb.policies import Policy, Product
from tensorucb.policies._base import OracleOptions
from tensorucb.question import Question
from tensorucb.work import Engine


@dataclass(frozen=True)
class Choice:
    """The users chosen, and how.

    ``rows`` are in the order of choice. ``beliefs`` is what the policy believes, with the strategy that each user of
    the network gets or would get: in a round with one strategy for all that one, otherwise the best for them. ``rule``
    is the oracle's objective (``direct`` or ``cascade``), ``own``: the policy picked without the oracle, or ``list``: a
    person made the list. ``optimistic`` are the probabilities that the oracle chose by, exploration included: one for
    each edge, or (strategies, edges); None if it did not choose. ``certificate`` is what the oracle proves of its
    choice; empty if it did not choose, or if part of that was dropped.
    """

    rows: I64
    beliefs: Beliefs
    policy: str
    per_user: bool
    rule: str
    optimistic: F64 | None = None
    certificate: str = ""

    @property
    def strategies(self) -> I64:
        """The place of the strategy of each user chosen; 0 without strategies."""
        return self.beliefs.places[self.rows]


@dataclass(eq=False)
class Chooser:
    """Chooses users under a question's constraints, and what each of them gets.

    ``values`` is what a response of each user is worth; None if all count the same. What the policy believes is
    computed once in each context of the round (one per strategy): ``beliefs`` without exploration, ``optimistic``,
    (strategies, edges), with it.
    """

    policy: Policy
    network: Network
    rules: Constraints
    question: Question
    rng: np.random.Generator
    engine: Engine | None = None
    values: F64 | None = None
    products: list[Product] = field(init=False)
    beliefs: Beliefs = field(init=False)

    def __post_init__(self) -> None:
        offered = self.question.strategies
        self.products = contexts(self.question.product.vectors, None if offered is None else offered.features)
        predictions = [self.policy.prediction(product) for product in self.products]
        graph = self.network.graph
        self.beliefs = Beliefs(graph, predictions, np.zeros(graph.n_nodes, dtype=np.int64))

    @cached_property
    def optimistic(self) -> F64:
        """What to choose by."""
        return stacked([np.asarray(self.policy.score(product), dtype=np.float64) for product in self.products])

    def choice(self) -> Choice:
        """Who is chosen."""
        places = self.beliefs.places.copy()
        oracle = RoundOracle(self, self.rng)
        if self.question.users is not None:
            rows = self._listed(self.question.users, places)
        elif self.question.per_user:
            rows = self._each_their_own(oracle, self._count(), places)
        elif len(self.products) == 1:
            rows = self._all_the_same(oracle, self._count())
        else:
            oracle, rows = self._best_for_all(self._count())
            places[:] = oracle.strategy if rows.size else 0
        beliefs = replace(self.beliefs, places=places)
        rule = "own" if self.question.users is None else "list"
        choice = Choice(rows, beliefs, self.policy.name, self.question.per_user, rule)
        selection = oracle.chose(rows)
        if selection is None:
            return choice
        return replace(choice, rule=self.question.objective, optimistic=oracle.scores, certificate=selection.guarantee)

    def _best_strategies(self, scores: F64) -> I64:
        """For each user the strategy with most responses by (strategies, edges) scores; ties go to the cheaper one."""
        graph = self.network.graph
        order = np.argsort(self.rules.surcharges, kind="stable")
        weighted = scores if self.values is None else scores * self.values[graph.targets]
        sums = np.array([np.bincount(graph.sources, weights=weighted[s], minlength=graph.n_nodes) for s in order])
        return np.asarray(order[np.argmax(sums, axis=0)], dtype=np.int64)

    def _expected(self, p: F64, rows: I64) -> float:
        """What a choice brings by these probabilities."""
        return float(direct_gains(self.network.graph, p, rows, self.beliefs.redundancy, self.values).sum())

    def _listed(self, users: Contacts, places: I64) -> I64:
        """The users that a person listed, each with the strategy given there, or else with the best one."""
        per_user = self.question.per_user
        rows, named = users.rows, users.places
        if per_user:
            places[:] = self._best_strategies(self.beliefs.means)
        elif len(self.products) > 1 and named is None:
            places[:] = self._best_for_list(rows)
        if named is not None:
            if not per_user and len(set(named)) > 1:
                raise InputError(
                    "gives out several strategies, but all users of this round get the same one.",
                    argument="users",
                    advice=("Set ", argument("per_user"), " to let each have their own."),
                )
            places[:] = places if per_user else named[0]
            places[rows] = named
        check_list(self.network, self.rules, rows, places[rows])
        return rows

    def _best_for_list(self, rows: I64) -> int:
        """The strategy that brings most with a list, among those that it can pay for; ties: the cheaper one."""
        rules, means = self.rules, self.beliefs.means
        costs = [rules.spent(rows, np.full(rows.size, place)) or 0.0 for place in range(len(means))]
        fits = [place for place, cost in enumerate(costs) if rules.budget is None or cost <= spendable(rules.budget)]
        expected = [self._expected(mean, rows) for mean in means]
        return max(fits or range(len(means)), key=lambda place: (expected[place], -costs[place]))

    def _count(self) -> int:
        rules, k = self.rules, self.question.k
        available = rules.allowed.size
        if rules.budget is None:
            if k is None:
                raise InputError("may be left out only with a budget; got neither.", argument="k")
            if k > available:
                left = f"only {available:,} may be chosen ({rules.left_out()}). Ask for fewer."
                raise InputError(f"= {k:,} users are wanted but {left}", argument="k")
        if available == 0:
            raise InputError(f"nobody may be chosen ({rules.left_out()}). Loosen the constraints.")
        return available if k is None else min(k, available)

    def _all_the_same(self, oracle: RoundOracle, k: int) -> I64:
        """The choice in one context."""
        rows = np.asarray(self.policy.choose(self.products[oracle.strategy], k, oracle), dtype=np.int64)
        check_choice(self.policy.name, self.network, self.rules, rows, np.full(rows.size, oracle.strategy), k)
        return rows

    def _best_for_all(self, k: int) -> tuple[RoundOracle, I64]:
        """One strategy for everybody: the one whose choice of users has the largest value; ties go to the cheaper one.

        The value is what the policy expects, exploration included. A strategy with which the constraints cannot be
        kept, such as one beyond the budget, is left out.
        """
        # The same random numbers for all, so that strategies which the policy does not tell apart have the same value.
        seed = int(self.rng.integers(2**63))
        choices: list[tuple[float, float, tuple[RoundOracle, I64]]] = []
        refused: InputError | StateError | None = None
        for place, surcharge in enumerate(self.rules.surcharges.tolist()):
            oracle = RoundOracle(self, np.random.default_rng(seed), place)
            try:
                rows = self._all_the_same(oracle, k)
            except (InputError, StateError) as error:
                refused = refused or error
                continue
            selection = oracle.chose(rows)
            value = self._expected(self.optimistic[place], rows) if selection is None else selection.spread
            choices.append((value, -surcharge, (oracle, rows)))
        if refused is not None and not choices:
            raise refused
        return max(choices, key=lambda entry: entry[:2])[2]

    def _each_their_own(self, oracle: RoundOracle, k: int, places: I64) -> I64:
        """The best strategy for each user, chosen together with the users.

        Users that the policy picks without the oracle get the strategy with most responses by the policy's scores.
        """
        rows = np.asarray(self.policy.choose(self.products[0], k, oracle), dtype=np.int64)
        given = self._best_strategies(self.optimistic)
        if isinstance(oracle.selection, PairSelection):
            given[oracle.selection.rows] = oracle.selection.strategies
        check_choice(self.policy.name, self.network, self.rules, rows, given[rows], k)
        places[:] = self._best_strategies(self.beliefs.means)
        places[rows] = given[rows]
        return rows


@dataclass(eq=False)
class RoundOracle:
    """The oracle that a policy chooses through: the best users under the round's constraints, in graph rows.

    A policy that chooses on its own finds the rows it may use in ``candidates``. After a choice, ``selection`` is the
    answer and ``scores`` are the probabilities that it was made by, exploration included. ``strategy`` is the place of
    the strategy that everybody gets. If each user gets their own, the scores of all strategies count instead of those
    that the policy passes.
    """

    chooser: Chooser
    rng: np.random.Generator
    strategy: int = 0
    selection: Selection | None = field(init=False, default=None)
    scores: F64 | None = field(init=False, default=None)

    @property
    def candidates(self) -> I64 | None:
        """Rows that may be chosen, where not all may."""
        rules = self.chooser.rules
        return rules.allowed if rules.reasons.any() else None

    def chose(self, rows: I64) -> Selection | None:
        """The answer that a policy took; None if it picked others."""
        return self.selection if self.selection is not None and np.array_equal(self.selection.rows, rows) else None

    def __call__(self, probabilities: F64, k: int, **options: Unpack[OracleOptions]) -> I64:
        """The chosen rows, in the order of choice."""
        rules = self.chooser.rules
        candidates = options.get("candidates")
        must_include = options.get("must_include")
        forced = rules.must_include if must_include is None else np.union1d(rules.must_include, must_include)
        barred = rules.reasons != 0
        if candidates is not None:
            outside = np.ones(barred.size, dtype=np.bool_)
            outside[candidates] = outside[forced] = False
            barred |= outside
        per_user = self.chooser.question.per_user
        self.scores = self.chooser.optimistic if per_user else probabilities
        costs = rules.costs()
        if costs is not None and not per_user:
            costs = costs[self.strategy : self.strategy + 1]
        constraints = rules.for_oracle(np.flatnonzero(barred), forced, costs)
        self.selection = self._select(np.atleast_2d(self.scores), k, constraints, options.get("redundancy") or 0.0)
        return self.selection.rows

    def _select(self, scores: F64, k: int, constraints: SeedConstraints, redundancy: float) -> Selection:
        """The best users for (strategies, edges) scores, and their strategies if there are several."""
        chooser = self.chooser
        graph, values = chooser.network.graph, chooser.values
        objective = cast(Objective, chooser.question.objective)
        sampling = Sampling(epsilon=chooser.question.epsilon)
        # With money to spend or to earn, users who were contacted must not count, which only the choice of pairs can
        # do: whoever spends much is not a good one to contact for that.
        if constraints.costs is None and values is None and not chooser.question.per_user:
            p = check_probabilities(graph, scores[0])
            problem = make_problem(graph, k, constraints, redundancy=redundancy)
            oracle = SeedOracle(graph, objective=objective, sampling=sampling, rng=self.rng, engine=chooser.engine)
            return solve(oracle, p, problem)
        forced = np.asarray(constraints.must_include)
        pairs = choose_pairs(
            graph,
            scores,
            k,
            constraints,
            objective=objective,
            values=values,
            redundancy=redundancy,
            count_seeds=constraints.budget is None and values is None,
            sampling=sampling,
            rng=self.rng,
            engine=chooser.engine,
        )
        if constraints.costs is None:
            return pairs
        least = max(forced.size, chooser.rules.fewest(pairs.rows))
        return self._while_it_pays(scores, np.asarray(constraints.costs), pairs, least, redundancy)

    def _while_it_pays(
        self, scores: F64, costs: F64, pairs: PairSelection, least: int, redundancy: float
    ) -> PairSelection:
        """The first of the chosen users, as many as bring the most responses of users who are not contacted themselves.

        At least the first ``least`` stay: must-includes, and those that groups with a minimum need.

        A budget may be large enough to contact those who would have responded: more users, and fewer responses.
        """
        graph, values = self.chooser.network.graph, self.chooser.values
        covered = Covered.nobody(graph)
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
