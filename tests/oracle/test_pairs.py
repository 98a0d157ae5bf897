"""`select_pairs` against brute force over all sets of (user, strategy) pairs, and what every choice must obey."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.oracle import select_pairs, select_seeds
from reference.pairs import CascadePairs, DirectPairs, best_pairs, literal_cascade, pair_sets
from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph import Graph

# private: the bound of the constraints alone, against every choice written out
from tensorucb.oracle._constraints import SeedProblem

DELTA = 1e-9  # so that no certificate fails in any number of runs of these tests
EPSILON = 0.1
SLACK = 1e-9
CASES = [
    "plain",
    "values",
    "candidates",
    "quotas",
    "must_include",
    "must_quotas",
    "budget",
    "budget_k",
    "budget_free",
    "budget_quotas",
    "budget_must",
    "responders",
    "budget_responders",
    "minima",
    "budget_minima_must",
]


def tiny(seed: int):
    """A random graph with strategies that help different users, and what they cost."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 8))
    edges = [(i, j) for i in range(n) for j in range(n) if i != j]
    chosen = rng.permutation(len(edges))[: int(rng.integers(4, 9))]
    graph = Graph.from_edges(*zip(*(edges[c] for c in chosen), strict=True), nodes=np.arange(n))
    strategies = int(rng.integers(2, 4))
    p = rng.random((strategies, graph.n_edges)) ** rng.integers(1, 4)
    p[rng.random(p.shape) < 0.1] = 1.0
    costs = rng.integers(1, 9, (strategies, n)) / 2.0
    return graph, p, costs, rng


def case(name: str, graph: Graph, costs, rng):
    """Arguments, and brute force's test of admissibility (without forced pairs)."""
    n = graph.n_nodes
    arguments: dict = {"k": int(rng.integers(1, 4))}
    rules = [lambda pairs: len(pairs) <= arguments["k"]]
    if name == "values":
        arguments["values"] = rng.integers(0, 5, n) + (np.arange(n) == 0)
    if name == "candidates":
        arguments["candidates"], arguments["exclude"] = np.arange(n - 1), [0]
        arguments["k"] = min(arguments["k"], n - 2)
        rules.append(lambda pairs: all(0 < user < n - 1 for user, _ in pairs))
    if "quotas" in name:
        groups = np.arange(n) % 2
        arguments |= {"groups": groups, "quotas": {0: 1, 1: 2}}
        rules.append(lambda pairs: sum(u % 2 == 0 for u, _ in pairs) <= 1 and sum(u % 2 for u, _ in pairs) <= 2)
    if "minima" in name:
        arguments["k"] = max(2, arguments["k"])
        arguments |= {"groups": np.arange(n) % 2, "minima": 1}
        rules.append(lambda pairs: any(u % 2 == 0 for u, _ in pairs) and any(u % 2 for u, _ in pairs))
    if "responders" in name:
        arguments["count_seeds"] = False
    if "must" in name:
        arguments["must_include"] = [2]
    if "budget" in name:
        if name == "budget_free":
            costs[0] = 0.0
        arguments |= {"costs": costs, "budget": max(5.0, costs[:, 2].max() + costs[:, 1::2].min())}
        rules.append(lambda pairs: sum(costs[s, u] for u, s in pairs) <= arguments["budget"])
        if name in ("budget", "budget_must", "budget_responders"):
            arguments["k"] = None
            rules[0] = lambda pairs: True
    return arguments, lambda pairs: all(rule(pairs) for rule in rules)


def run(seed: int, name: str, objective: str, redundancy: float = 0.0):
    """One choice and brute force: the pick, what it is worth, and the best that holds its forced pairs."""
    graph, p, costs, rng = tiny(seed)
    arguments, admissible = case(name, graph, costs, rng)
    spread = None if objective == "direct" or seed % 2 else rng.random(graph.n_edges) * 0.5
    pick = select_pairs(
        graph, p, objective=objective, spread=spread, epsilon=EPSILON, delta=DELTA, threads=1,
        rng=seed, redundancy=redundancy, **arguments,
    )  # fmt: skip
    values = arguments.get("values")
    passed = p.mean(axis=0) if spread is None else spread
    counted = {"values": values, "count_seeds": arguments.get("count_seeds", True)}
    worth = CascadePairs(graph, p, passed, **counted)
    if objective == "direct":
        worth = DirectPairs(graph, p, **counted, redundancy=redundancy)
    pairs = tuple(zip(pick.rows.tolist(), pick.strategies.tolist(), strict=True))
    assert len(set(pick.rows.tolist())) == len(pairs)
    assert admissible(pairs)
    forced = pairs[: len(arguments.get("must_include", []))]
    assert [user for user, _ in forced] == list(arguments.get("must_include", []))
    most = graph.n_nodes if arguments["k"] is None else arguments["k"]
    sets = pair_sets(range(graph.n_nodes), p.shape[0], most)
    best = best_pairs(worth, (s for s in sets if set(forced) <= set(s)), admissible)
    return pick, worth(pairs), best


def factor(name: str) -> float:
    if name.startswith("budget_minima"):
        return 0.0
    return 0.2 if "budget" in name else 0.5


@pytest.mark.parametrize("redundancy", [0.0, 0.7])
@pytest.mark.parametrize("name", CASES)
def test_direct_against_brute_force(name, redundancy):
    for seed in range(25):
        pick, reached, best = run(seed, name, "direct", redundancy=redundancy)
        assert pick.spread == pytest.approx(reached, abs=1e-9)
        assert pick.lower == pick.spread
        assert pick.gains.sum() == pytest.approx(reached)
        assert reached >= factor(name) * best - SLACK
        assert pick.upper >= best - SLACK
        assert pick.ratio <= reached / best + SLACK


@pytest.mark.parametrize("name", CASES)
def test_cascade_against_brute_force(name):
    estimates = []
    for seed in range(8):
        pick, reached, best = run(seed, name, "cascade")
        estimates.append(pick.spread / reached)
        assert reached >= (factor(name) - EPSILON) * best - SLACK
        assert pick.lower <= reached + SLACK
        assert pick.upper >= best - SLACK
        assert pick.ratio <= reached / best + SLACK
    assert np.mean(estimates) == pytest.approx(1.0, abs=0.1)  # four standard errors: at least 200 hits each


@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_where_nobody_can_respond_the_choice_is_still_made(objective):
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    pick = select_pairs(graph, np.zeros((2, 3)), 2, objective=objective, count_seeds=False, rng=0)
    assert pick.rows.size == 2
    assert pick.spread == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["direct", "cascade"])
@pytest.mark.parametrize("name", CASES)
def test_many_graphs_against_brute_force(name, objective):
    ratios = []
    for seed in range(100, 300 if objective == "direct" else 150):
        pick, reached, best = run(seed, name, objective)
        assert pick.lower <= reached + SLACK
        assert pick.upper >= best - SLACK
        ratios.append(reached / best)
    assert min(ratios) >= factor(name) - (0.0 if objective == "direct" else EPSILON)
    assert np.mean(ratios) >= 0.97


@pytest.mark.parametrize("budget", [math.inf, 4.0])
def test_the_bound_on_marginals_is_that_of_the_heaviest_admissible_set(budget):
    # Six users of two pairs each, in two groups with room for 1 and 2, at most three in all.
    user, group = np.repeat(np.arange(6), 2), np.repeat([6, 6, 6, 7, 7, 7], 2)
    room = np.array([1] * 6 + [1, 2])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        weights, costs = rng.integers(0, 50, 12).astype(float), rng.integers(0, 5, 12) / 2.0
        problem = SeedProblem(
            12, np.ones(12, dtype=np.uint8), np.empty(0, dtype=np.int64), 3, groups=np.stack([user, group]),
            room=room, costs=None if math.isinf(budget) else costs, budget=budget,
        )  # fmt: skip
        sets = (s for size in range(4) for s in combinations(range(12), size))
        free = [s for s in sets if (np.bincount(np.r_[user[list(s)], group[list(s)]], minlength=8) <= room).all()]
        best = max(weights[list(s)].sum() for s in free if math.isinf(budget) or costs[list(s)].sum() <= budget)
        bound = problem.best_sum(np.arange(12), weights)
        assert bound >= best - SLACK
        if math.isinf(budget):
            assert bound == best
        else:  # the relaxation is below what each constraint alone lets through
            assert bound <= max(weights[list(s)].sum() for s in free) + SLACK


def test_the_cascade_reference_agrees_with_every_single_outcome():
    graph = Graph.from_edges([0, 0, 1, 2, 2], [1, 2, 2, 0, 3])
    p = np.random.default_rng(0).random((2, 5))
    spread = np.array([0.3, 0.8, 0.5, 0.2, 0.6])
    for pairs in [((0, 0),), ((0, 1), (2, 0)), ((1, 0), (2, 1))]:
        assert CascadePairs(graph, p, spread)(pairs) == pytest.approx(literal_cascade(graph, p, spread, pairs))


def test_in_a_cascade_all_contacts_of_a_user_share_the_redundancy():
    graph = Graph.from_edges([0, 1, 1, 2], [2, 2, 3, 3], nodes=np.arange(4))
    p = np.array([[0.6, 0.5, 0.3, 0.2], [0.3, 0.7, 0.5, 0.1]])
    passed = np.array([0.4, 0.3, 0.2, 0.6])
    for redundancy in (0.0, 0.5, 1.0):
        arguments = {"spread": passed, "redundancy": redundancy, "must_include": [0, 1]}
        picks = [select_pairs(graph, p, 2, rng=seed, **arguments) for seed in range(20)]
        pairs = tuple(zip(picks[0].rows.tolist(), picks[0].strategies.tolist(), strict=True))
        exact = literal_cascade(graph, p, passed, pairs, redundancy)
        assert all(pick.lower <= exact <= pick.upper for pick in picks)
        # Twenty estimates of at least 200 hits each: four standard errors are 6 %.
        assert np.mean([pick.spread for pick in picks]) == pytest.approx(exact, rel=0.06)


def test_a_cheap_strategy_does_not_block_a_better_dear_one():
    # Value for money prefers the letter (2 for 1 against 101 for 100), after which no call to the hub is possible.
    graph = Graph.from_edges([0] * 100, np.arange(1, 101))
    p = np.stack([np.full(100, 0.01), np.ones(100)])
    costs = np.stack([np.ones(101), np.full(101, 100.0)])
    pick = select_pairs(graph, p, None, costs=costs, budget=100.0, objective="direct", candidates=[0])
    assert (pick.seeds.tolist(), pick.strategies.tolist(), pick.cost) == ([0], [1], 100.0)


@pytest.mark.parametrize(
    "more", [{}, {"must_include": [3]}, {"budget": 4.0}, {"groups": np.arange(40) % 3, "quotas": 1}]
)
def test_one_strategy_is_the_choice_of_seeds(more):
    rng = np.random.default_rng(4)
    graph = Graph.from_edges(rng.integers(0, 20, 200), rng.integers(20, 40, 200), nodes=np.arange(40))
    p = rng.random(graph.n_edges) * 0.3
    costs = rng.random(40) + 0.5
    more = dict(more)
    k = None if "budget" in more else 3
    seeds = select_seeds(graph, p, k, objective="direct", **more, **({"costs": costs} if k is None else {}))
    pairs = select_pairs(graph, [p], k, objective="direct", **more, **({"costs": [costs]} if k is None else {}))
    assert pairs.rows.tolist() == seeds.rows.tolist()
    assert pairs.strategies.tolist() == [0] * seeds.rows.size
    assert (pairs.spread, pairs.upper) == pytest.approx((seeds.spread, seeds.upper))
    assert pairs.guarantee == seeds.guarantee


def test_equal_strategies_go_to_the_cheaper_and_then_to_the_first():
    graph = Graph.from_edges([0, 0], [1, 2])
    p = np.full((3, 2), 0.5)
    costs = np.array([[2.0], [1.0], [1.0]]) * np.ones(3)
    assert select_pairs(graph, p, 1, objective="direct").strategies.tolist() == [0]
    assert select_pairs(graph, p, 1, costs=costs, budget=3.0, objective="direct").strategies.tolist() == [1]
    assert select_pairs(graph, p, 1, must_include=[0], costs=costs, budget=3.0, objective="direct").strategies[0] == 1


def test_ids_come_back_and_spread_has_a_default():
    graph = Graph.from_edges(["a", "a", "b"], ["b", "c", "c"])
    p = np.array([[0.1, 0.1, 0.9], [0.8, 0.7, 0.1]])
    pick = select_pairs(graph, p, 2, rng=3)
    assert set(pick.seeds.tolist()) <= {"a", "b", "c"}
    assert pick.cost is None
    same = select_pairs(graph, p, 2, spread=p.mean(axis=0), rng=3, threads=2)
    assert (same.rows.tolist(), same.strategies.tolist(), same.spread) == (
        pick.rows.tolist(), pick.strategies.tolist(), pick.spread,
    )  # fmt: skip


def test_a_contacted_user_passes_it_on_with_the_strategy_alone():
    # Strategy 0 persuades nobody, though everybody who is persuaded by others persuades all of their followers.
    graph = Graph.from_edges([0, 0, 0, 1, 2], [1, 2, 3, 4, 5])
    p = np.stack([np.zeros(5), np.array([1.0, 0.0, 0.0, 0.0, 0.0])])
    alone = select_pairs(graph, p[:1], 1, spread=np.ones(5), quality=50.0, rng=0)
    assert alone.spread == pytest.approx(1.0, rel=0.2)
    pick = select_pairs(graph, p, 1, spread=np.ones(5), quality=50.0, rng=0)
    assert (pick.rows.tolist(), pick.strategies.tolist()) == ([0], [1])
    assert pick.spread == pytest.approx(3.0, rel=0.2)  # 0, 1 and, from 1 on, 4


def test_must_include_leaves_money_for_the_rest():
    graph = Graph.from_edges([0, 1, 2], [3, 4, 5])
    p = np.array([[0.1] * 3, [0.9] * 3])
    costs = np.array([[1.0], [3.0]]) * np.ones(6)
    pick = select_pairs(graph, p, None, costs=costs, budget=5.0, must_include=[2, 0, 1], objective="direct")
    assert pick.rows.tolist() == [2, 0, 1]
    assert pick.strategies.tolist() == [1, 0, 0]
    assert pick.cost == 5.0


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["direct", "cascade"]), st.booleans(), st.booleans())
def test_whatever_comes_out_is_admissible(seed, objective, priced, grouped):
    graph, p, costs, rng = tiny(seed)
    n = graph.n_nodes
    forced, excluded = rng.permutation(n)[:2]
    more: dict = {"must_include": [forced], "exclude": [excluded], "values": rng.random(n) + 0.01}
    if priced:
        more |= {"costs": costs, "budget": float(costs[:, forced].min() + rng.integers(0, 6))}
    if grouped:
        more |= {"groups": rng.integers(0, 2, n), "quotas": 2}
    pick = select_pairs(graph, p, 2, objective=objective, quality=2.0, threads=1, rng=seed, **more)
    assert pick.rows[0] == forced
    assert excluded not in pick.rows
    assert len(pick.rows) <= 2
    assert np.unique(pick.rows).size == pick.rows.size == pick.strategies.size == pick.gains.size
    assert pick.strategies.min() >= 0
    assert pick.strategies.max() < p.shape[0]
    assert pick.lower <= pick.spread + SLACK
    assert pick.spread <= more["values"].sum() + SLACK
    assert math.isclose(pick.ratio, pick.lower / pick.upper)
    if priced:
        assert pick.cost == pytest.approx(costs[pick.strategies, pick.rows].sum())
        assert pick.cost <= more["budget"] + SLACK


GRAPH = Graph.from_edges([0, 0, 1, 2], [1, 2, 3, 3])
P = np.full((2, 4), 0.5)
ONES = np.ones((2, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probabilities": P[0]}, "One row per strategy"),
        ({"probabilities": P[:, :3]}, "One row per strategy"),
        ({"probabilities": P[:0]}, "probabilities must have shape"),
        ({"probabilities": np.where(np.eye(2, 4), np.nan, P)}, "probabilities must be"),
        ({"probabilities": P + 1.0}, "probabilities must be"),
        ({"probabilities": "a"}, "probabilities must be"),
        ({"costs": ONES}, "go together"),
        ({"budget": 1.0}, "go together"),
        ({"costs": ONES[0], "budget": 1.0}, "costs must have shape"),
        ({"costs": -ONES, "budget": 1.0}, "costs must be numbers of at least 0"),
        ({"costs": ONES * np.nan, "budget": 1.0}, "costs must be"),
        ({"costs": ONES, "budget": 0.5}, "no candidate costs"),
        ({"costs": ONES, "budget": -1.0}, "budget must be"),
        ({"costs": ONES, "budget": 1.0, "k": 2, "must_include": [0, 1]}, "more than the budget"),
        ({"spread": np.full(3, 0.5)}, "spread must have shape"),
        ({"spread": np.full(4, 1.5)}, "spread must be"),
        ({"spread": np.full(4, 0.5), "objective": "direct"}, "objective='cascade'"),
        ({"k": None}, "k must be"),
        ({"k": 5}, "only 4 nodes"),
        ({"k": 3, "groups": [0, 0, 0, 0], "quotas": 2}, "admit only 2"),
        ({"must_include": [1], "exclude": [1]}, "excluded"),
        ({"objective": "reach"}, "objective must be 'cascade' or 'direct'"),
        ({"algorithm": "tim"}, "does not choose pairs"),
        ({"values": np.zeros(4)}, "all zero"),
    ],
)
def test_impossible_requests_are_refused(arguments, message):
    arguments = {"probabilities": P, "k": 1, **arguments}
    with pytest.raises(InputError, match=message):
        select_pairs(GRAPH, **arguments)


def test_shapes_and_ids():
    with pytest.raises(ShapeError):
        select_pairs(GRAPH, P, 1, groups=[1], quotas=1)
    with pytest.raises(UnknownIdError):
        select_pairs(GRAPH, P, 1, candidates=[77])
    with pytest.raises(InputError, match="graph must be"):
        select_pairs("g", P, 1)
