"""A round's strategies: the contexts that they make, the choice of users together with them, and who got which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._choice import Choice, Constraints, PairOracle, RoundOracle, check_choice
from tensorucb.campaign._reach import untouched
from tensorucb.campaign._world import World
from tensorucb.errors import InputError, StateError
from tensorucb.graph import Graph
from tensorucb.oracle import PairSelection
from tensorucb.policies import Policy, Product

if TYPE_CHECKING:
    from tensorucb.campaign._ask import Request

__all__ = [
    "best_strategies",
    "choose_users",
    "contexts",
    "contexts_of",
    "of_sources",
    "strategies_of",
    "strategy_names",
]

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def contexts(vectors: Sequence[Floats], features: Floats | None) -> list[Product]:
    """The context of each strategy, as policies take it; without strategies one. The strategy always stands second."""
    first, *rest = vectors
    modes = [[first, *rest]] if features is None else [[first, row, *rest] for row in features]
    return [parts[0] if len(parts) == 1 else parts for parts in modes]


def contexts_of(payload: Mapping[str, Any]) -> list[Product]:
    """The same for a round in the log, which holds all features itself."""
    vectors = [np.array(vector, dtype=np.float64) for vector in payload["product"]["vectors"]]
    offered = payload.get("strategies")
    return contexts(vectors, None if offered is None else np.array(offered["vectors"], dtype=np.float64))


def strategies_of(world: World, payload: Mapping[str, Any]) -> Rows:
    """For each user the place of the strategy they were contacted with; 0 for all others."""
    places = np.zeros(world.graph.n_nodes, dtype=np.int64)
    offered = payload.get("strategies")
    if offered is not None:
        keys = np.array(payload["contacted"], dtype=np.int64)
        places[world.rows(keys)] = np.array(offered["contacted"], dtype=np.int64)[np.isin(keys, world.keys)]
    return places


def strategy_names(payload: Mapping[str, Any], users: str) -> dict[int, int | str] | None:
    """Ids of the strategies of a round's ``seeds`` or ``contacted``, by the users' keys; None if it had none by id."""
    offered, given = payload.get("strategies"), payload["product"].get("strategy")
    if offered is not None:
        return {key: offered["ids"][place] for key, place in zip(payload[users], offered[users], strict=True)}
    return None if given is None else dict.fromkeys(payload[users], given)


def of_sources(graph: Graph, values: Floats, strategies: Rows) -> Floats:
    """Of (strategies, edges) values the one of each edge for its source's strategy; (edges,) values as they are."""
    if values.ndim == 1:
        return values
    return np.asarray(values[0] if len(values) == 1 else values[strategies[graph.sources], np.arange(graph.n_edges)])


def best_strategies(graph: Graph, values: Floats, costs: Floats) -> Rows:
    """For each user the strategy with most responses by (strategies, edges) values; ties go to the cheaper one."""
    order = np.argsort(costs, kind="stable")
    sums = np.array([np.bincount(graph.sources, weights=values[s], minlength=graph.n_nodes) for s in order])
    return np.asarray(order[np.argmax(sums, axis=0)], dtype=np.int64)


def choose_users(
    policy: Policy,
    world: World,
    rules: Constraints,
    request: Request,
    products: Sequence[Product],
    rng: np.random.Generator,
) -> Choice:
    """Choose users under the request's constraints, and what each of them gets; ``products``: one per strategy."""
    k = _count(rules, request)
    if request.per_user:
        return _each_their_own(policy, world, rules, request, products, k, rng)
    if len(products) == 1:
        oracle = RoundOracle(world, rules, request.objective, request.epsilon, rng)
        return _all_the_same(policy, oracle, products[0], k)[0]
    return _best_for_all(policy, world, rules, request, products, k, rng)


def _count(rules: Constraints, request: Request) -> int:
    available = rules.allowed.size
    if request.k is None and rules.budget is None:
        raise InputError("k may be left out only with a budget; got neither.")
    k = available if request.k is None else request.k
    if rules.budget is None and k > available:
        raise InputError(f"k = {k} users are wanted but only {available} may be chosen ({rules.counts()}). Lower k.")
    k = min(k, available)
    if k == 0:
        raise InputError(f"nobody may be chosen ({rules.counts()}). Loosen the constraints.")
    return k


def _all_the_same(policy: Policy, oracle: RoundOracle, product: Product, k: int) -> tuple[Choice, float]:
    """The choice in one context, and its value to the policy, exploration included."""
    world, rules = oracle.world, oracle.constraints
    rows = np.asarray(policy.choose(product, k, oracle), dtype=np.int64)
    strategies = np.full(rows.size, oracle.strategy, dtype=np.int64)
    check_choice(policy.name, world, rules, rows, strategies, k)
    selection = oracle.selection
    if selection is not None and np.array_equal(selection.rows, rows):
        return Choice(rows, strategies, policy.name, oracle.objective, oracle.scores), selection.spread
    value = 0.0
    if rules.surcharges.size > 1:
        value = world.graph.n_nodes - float(untouched(world.graph, policy.score(product), rows).sum())
    return Choice(rows, strategies, policy.name, "own", None), value


def _best_for_all(
    policy: Policy,
    world: World,
    rules: Constraints,
    request: Request,
    products: Sequence[Product],
    k: int,
    rng: np.random.Generator,
) -> Choice:
    """One strategy for everybody: the one whose choice of users has the largest value; ties go to the cheaper one.

    A strategy with which the constraints cannot be kept, such as one beyond the budget, is left out.
    """
    # The same random numbers for all, so that strategies which the policy does not tell apart have the same value.
    seed = int(rng.integers(2**63))
    found: list[tuple[float, float, Choice]] = []
    refused: InputError | StateError | None = None
    for place, product in enumerate(products):
        oracle = RoundOracle(world, rules, request.objective, request.epsilon, np.random.default_rng(seed), place)
        try:
            choice, value = _all_the_same(policy, oracle, product, k)
        except (InputError, StateError) as error:
            refused = refused or error
            continue
        found.append((value, -float(rules.surcharges[place]), choice))
    if refused is not None and not found:
        raise refused
    return max(found, key=lambda entry: entry[:2])[2]


def _each_their_own(
    policy: Policy,
    world: World,
    rules: Constraints,
    request: Request,
    products: Sequence[Product],
    k: int,
    rng: np.random.Generator,
) -> Choice:
    """The best strategy for each user, chosen together with the users.

    Users that the policy picks without the oracle get the strategy with most responses by the policy's scores.
    """
    stack = np.stack([np.asarray(policy.score(product), dtype=np.float64) for product in products])
    oracle = PairOracle(world, rules, request.objective, request.epsilon, rng, stack=stack)
    rows = np.asarray(policy.choose(products[0], k, oracle), dtype=np.int64)
    places = best_strategies(world.graph, stack, rules.surcharges)
    selection = oracle.selection
    if isinstance(selection, PairSelection):
        places[selection.rows] = selection.strategies
    check_choice(policy.name, world, rules, rows, places[rows], k)
    own = selection is None or not np.array_equal(selection.rows, rows)
    rule, scores = ("own", None) if own else (request.objective, oracle.scores)
    return Choice(rows, places[rows], policy.name, rule, scores, per_user=True)
