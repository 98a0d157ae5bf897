"""Direction, estimates, threads, values, memory: what select_seeds does beyond its factor."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.oracle import (
    ExactSpread,
    check_probabilities,
    direct_value,
    greedy_rows,
    select_pairs,
    select_seeds,
    simulate,
)
from tensorucb.graph import Graph
from tensorucb.oracle import SeedOracle
from tensorucb.oracle.rr import Sampler


def random_graph(n, m, seed, skew=0.0):
    rng = np.random.default_rng(seed)
    weights = (np.arange(n) + 5.0) ** -skew
    s = rng.choice(n, m, p=weights / weights.sum())
    t = rng.choice(n, m, p=weights / weights.sum())
    keep = s != t
    return Graph.from_edges(s[keep], t[keep], nodes=np.arange(n, dtype=np.int64)), rng


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_direction_an_edge_influences_its_target(algorithm):
    out = Graph.from_edges(["hub"] * 6, list("abcdef"))
    into = Graph.from_edges(list("abcdef"), ["hub"] * 6)
    chain = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    pick = select_seeds(out, np.ones(6), 1, algorithm=algorithm, rng=0)
    assert pick.seeds.tolist() == ["hub"]
    assert pick.spread == pytest.approx(7.0)
    pick = select_seeds(into, np.ones(6), 1, algorithm=algorithm, rng=0)
    assert pick.seeds.tolist() != ["hub"]
    assert pick.spread == pytest.approx(2.0, rel=0.2)
    assert select_seeds(chain, np.ones(4), 1, algorithm=algorithm, rng=0).seeds.tolist() == [0]


def test_certain_edges_always_and_impossible_ones_never_carry():
    graph = Graph.from_edges([0, 0, 5], [1, 2, 6], nodes=np.arange(8))
    pick = select_seeds(graph, [1.0, 1.0, 0.0], 2, rng=0)
    assert 0 in pick.seeds
    assert pick.spread == pytest.approx(4.0, rel=0.15)
    assert pick.lower <= 4.0 <= pick.upper


def test_estimate_agrees_with_forward_simulation():
    graph, rng = random_graph(60, 300, 3)
    p = rng.random(graph.n_edges) * 0.25
    seeds = select_seeds(graph, p, 4, rng=1).seeds
    sizes = simulate(graph, p, graph.rows(seeds), 3000, rng)
    picks = [select_seeds(graph, p, 4, must_include=seeds, rng=seed) for seed in range(40)]
    # 40 estimates of 7 % each: 1.1 %; the simulation: about 0.6 %. Four standard errors in all.
    assert np.mean([pick.spread for pick in picks]) == pytest.approx(sizes.mean(), rel=0.05)
    assert all(pick.lower <= sizes.mean() * 1.03 for pick in picks)


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize(("extra", "scale"), [(0, 0.02), (4000, 0.02), (0, 0.3), (0, 0.9)])
def test_every_way_of_deciding_an_edge_agrees_with_the_exact_spread(extra, scale, gathered, monkeypatch):
    # Probabilities are copied into in-edge order on small graphs, and read in place on large ones.
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 10**6 if gathered else 0)
    # Ten in-edges: eight a draw below 0.5, two a draw above; 4000 more of probability 0 make skipping pay.
    p = np.linspace(0.1, 1.0, 10) ** 3 * scale
    sources = np.arange(1, 11 + extra)
    graph = Graph.from_edges(sources, np.zeros(sources.size, dtype=np.int64))
    values = np.zeros(graph.n_nodes)
    values[0] = 1.0
    arguments = {"must_include": np.arange(1, 11), "values": values}
    p = np.concatenate([p, np.zeros(extra)])
    picks = [select_seeds(graph, p, 10, rng=seed, **arguments) for seed in range(20)]
    exact = 1.0 - np.prod(1.0 - p)
    assert all(pick.lower <= exact <= pick.upper for pick in picks)
    # Twenty estimates of at least 200 hits each: four standard errors are 6 %.
    assert np.mean([pick.spread for pick in picks]) == pytest.approx(exact, rel=0.06)


@pytest.mark.parametrize("gathered", [True, False])
def test_a_walk_counts_for_the_marked_node_that_it_meets(gathered, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 10**6 if gathered else 0)
    graph = Graph.from_edges([0, 1, 2, 3, 5], [4, 4, 4, 4, 3], nodes=np.arange(6))
    p = np.array([0.6, 0.5, 0.0, 0.5, 0.8])
    sampler = Sampler(graph, 1)
    values = np.zeros(6)
    values[4] = 1.0
    sampler.load(check_probabilities(graph, p), values)
    sampler.mark(np.array([0, 1, 2, 5]))
    sets = 40_000
    batch = sampler.sample(np.uint64(3), 0, sets, store=True, limit=10**6)
    # The first in in-edge order counts; node 5 only if none of those next to the root does. Standard error: 0.0025.
    assert batch.hits / sets == pytest.approx([0.6, 0.4 * 0.5, 0.0, 0.2 * 0.4], abs=0.01)
    assert np.isin(batch.members[0], [3, 4]).all()
    sampler.mark(np.array([5]))
    assert sampler.sample(np.uint64(3), 0, sets, store=True, limit=10**6).hits / sets == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
@pytest.mark.parametrize("scale", [0.1, 0.5])
def test_same_answer_on_one_two_and_four_threads(algorithm, scale):
    graph, rng = random_graph(800, 5000, 5, skew=0.7)
    p = rng.random(graph.n_edges) * scale
    epsilon = 0.1 if algorithm == "opim" else 0.3
    picks = [select_seeds(graph, p, 5, algorithm=algorithm, epsilon=epsilon, threads=t, rng=7) for t in (1, 2, 4)]
    for other in picks[1:]:
        assert np.array_equal(picks[0].rows, other.rows)
        assert picks[0].spread == other.spread
        assert picks[0].rr_sets == other.rr_sets
        assert picks[0].upper == other.upper


def test_values_move_the_choice():
    graph = Graph.from_edges([0, 0, 0, 4], [1, 2, 3, 5])
    p = np.ones(4)
    assert select_seeds(graph, p, 1, rng=0).seeds.tolist() == [0]
    values = np.array([1.0, 1, 1, 1, 1, 50])
    pick = select_seeds(graph, p, 1, values=values, rng=0)
    assert pick.seeds[0] in (4, 5)
    assert pick.spread == pytest.approx(51.0, rel=0.1)


def test_sentinels_keep_the_certificate_valid():
    # Dense enough that walks are long, so sentinels are used; the exact spread comes from a large simulation.
    graph, rng = random_graph(300, 3000, 11, skew=0.5)
    p = np.full(graph.n_edges, 0.15)
    means = []
    for seed in range(8):
        pick = select_seeds(graph, p, 4, rng=seed, delta=0.05)
        sizes = simulate(graph, p, pick.rows, 60, rng)
        means.append(sizes.mean())
        assert pick.lower <= sizes.mean() + 5 * sizes.std() / np.sqrt(sizes.size)
        assert pick.upper >= max(means) - 20.0
    assert max(means) / min(means) < 1.1


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000))
def test_direct_equals_plain_greedy(seed):
    rng = np.random.default_rng(seed)
    n, m = 7, 14
    s, t = rng.integers(0, n, m), rng.integers(0, n, m)
    s, t = np.append(s[s != t], 0), np.append(t[s != t], 1)
    graph = Graph.from_edges(s, t, nodes=np.arange(n))
    p, values = rng.random(graph.n_edges), rng.random(n)
    k = int(rng.integers(1, 5))
    pick = select_seeds(graph, p, k, objective="direct", values=values)
    reference = greedy_rows(lambda rows: direct_value(graph, p, rows, values), graph.out_degree, k)
    assert pick.rows.tolist() == reference
    assert pick.spread == pytest.approx(direct_value(graph, p, reference, values))
    assert pick.gains.sum() == pytest.approx(pick.spread)
    assert pick.lower == pick.spread <= pick.upper


def test_gains_and_order():
    graph, rng = random_graph(200, 800, 13, skew=0.8)
    pick = select_seeds(graph, rng.random(graph.n_edges) * 0.1, 6, rng=0)
    assert pick.gains.shape == (6,)
    # Near-equal candidates go by their direct gain, so a later gain may exceed an earlier one by the noise.
    assert np.all(np.diff(pick.gains) <= 0.35 * pick.gains[:-1])
    assert pick.gains.sum() == pytest.approx(pick.spread, rel=0.35)
    assert np.array_equal(graph.ids[pick.rows], pick.seeds)
    assert "(wanted: 1 - 1/e - 0.1 = 0.532)" in pick.guarantee


def test_no_negative_share_is_promised():
    graph, rng = random_graph(50, 200, 3)
    p = rng.random(graph.n_edges) * 0.1
    for algorithm in ("opim", "tim"):
        told = select_seeds(graph, p, 2, epsilon=0.9, algorithm=algorithm, rng=0).guarantee
        assert "nothing, since epsilon 0.9 is not below 1 - 1/e = 0.632" in told
        assert "-0." not in told


def test_memory_is_bounded_when_every_edge_is_certain():
    graph, _ = random_graph(30_000, 200_000, 17)
    tracked = {}
    import tracemalloc

    select_seeds(graph, np.ones(graph.n_edges), 3, rng=0)  # compiled, and the graph's own arrays built
    for memory in (2.0**31, 2.0**22):
        tracemalloc.start()
        pick = select_seeds(graph, np.ones(graph.n_edges), 3, max_memory=memory, threads=2, rng=0)
        tracked[memory] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert pick.ratio > 0.5
        assert pick.lower <= 30_000
    assert max(tracked.values()) < 64e6


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_memory_limit_stops_with_an_honest_ratio(algorithm):
    # Many strongly connected islands: walks are long and a few sentinels cannot shorten them.
    size, islands = 400, 100
    ring = np.arange(size)
    s = np.concatenate([i * size + ring for i in range(islands)])
    t = np.concatenate([i * size + (ring + 1) % size for i in range(islands)])
    graph = Graph.from_edges(s, t)
    picks = [
        select_seeds(graph, np.ones(graph.n_edges), 5, algorithm=algorithm, max_memory=2.0**20, threads=t, rng=0)
        for t in (1, 3)
    ]
    assert picks[0].rows.tolist() == picks[1].rows.tolist()
    assert picks[0].ratio == picks[1].ratio < 0.53
    assert "memory limit" in picks[0].guarantee
    assert picks[0].lower <= 5 * size <= picks[0].upper


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_a_choice_that_is_worth_nothing_ends_and_says_so(algorithm):
    # Only node 3 has a value, and the candidates have no path to it that can carry.
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    values = [0.0, 0.0, 0.0, 1.0]
    given = {"values": values, "candidates": [0, 1], "algorithm": algorithm, "rng": 0}
    pick = select_seeds(graph, [0.5, 0.5, 0.0, 1.0], 2, **given)
    assert sorted(pick.rows.tolist()) == [0, 1]
    assert (pick.spread, pick.lower, pick.upper, pick.ratio, pick.rr_sets) == (0.0, 0.0, 0.0, 1.0, 0)
    # Two steps away and unlikely: the memory ends it, and the exact value is within the bounds.
    rare = select_seeds(graph, [0.5, 1e-4, 1e-4, 1.0], 1, max_memory=2.0**20, **given)
    assert rare.lower <= 1e-8 <= rare.upper
    # Likely enough to be sampled.
    some = select_seeds(graph, [0.5, 0.5, 0.2, 1.0], 1, **given)
    assert some.rows.tolist() == [1]
    assert some.lower <= 0.1 <= some.upper


def test_no_more_samples_where_what_seeds_are_themselves_is_enough():
    # Few edges live: what seeds are worth without samples is more than the certificate asks for.
    graph, rng = random_graph(2000, 8000, 5)
    pick = select_seeds(graph, 0.05 * rng.random(graph.n_edges) ** 2, 10, rng=0)
    assert pick.ratio > 0.8
    assert pick.rr_sets < 300_000


def test_nothing_carries_and_every_node_is_alike():
    graph, _ = random_graph(50, 100, 19)
    pick = select_seeds(graph, np.zeros(graph.n_edges), 5, rng=0)
    assert pick.rows.size == np.unique(pick.rows).size == 5
    assert pick.lower <= 5.0 <= pick.upper
    everyone = select_seeds(graph, np.zeros(graph.n_edges), 50, rng=0)
    assert sorted(everyone.rows.tolist()) == list(range(50))
    assert everyone.spread == pytest.approx(50.0)


def test_exact_upper_bound_holds_on_small_worlds():
    graph = Graph.from_edges([0, 1, 2, 0, 3], [1, 2, 3, 3, 4])
    p = np.array([0.5, 0.5, 0.5, 0.2, 0.9])
    exact = ExactSpread(graph, p)
    pick = select_seeds(graph, p, 2, epsilon=0.01, quality=100, rng=0)
    assert pick.lower <= exact(pick.rows.tolist()) <= pick.upper
    assert pick.ratio > 0.6


def test_oracle_object_works_in_rows_and_repeats():
    graph, rng = random_graph(300, 1500, 23)
    p = rng.random(graph.n_edges) * 0.2
    first, second = SeedOracle(graph, rng=3), SeedOracle(graph, rng=3, threads=2)
    for _ in range(3):
        assert np.array_equal(first(p, 4), second(p, 4))
    rows = first(p, 4, candidates=np.arange(20), must_include=[7])
    assert rows.dtype == np.int64
    assert rows[0] == 7
    assert set(rows.tolist()) <= set(range(20))
    limited = SeedOracle(graph, candidates=[1, 2, 3], objective="direct")
    assert sorted(limited(p, 3).tolist()) == [1, 2, 3]
    assert limited.candidates.tolist() == [1, 2, 3]


def test_oracle_object_forgets_the_last_round():
    graph, rng = random_graph(400, 3000, 29, skew=0.6)
    p = rng.random(graph.n_edges) * 0.3
    oracle = SeedOracle(graph, rng=0)
    oracle(p, 5)
    after = oracle.select(np.zeros(graph.n_edges), 5)
    assert after.spread < 15.0


def priced(graph, dear, groups=False):
    """Costs of 0.5 and 0.1 for a and b within 0.6, where 0.6 - 0.5 < 0.1 in floats; with groups, both are wanted."""
    ids = graph.ids.tolist()
    rules = {"costs": np.array([{"a": 0.5, "b": 0.1}.get(node, dear) for node in ids]), "budget": 0.6}
    if groups:
        rules |= {"groups": ["m" if node in "ab" else "o" for node in ids], "minima": {"m": 2}}
    return rules


def test_money_that_is_just_enough_pays_for_a_minimum():
    graph = Graph.from_edges(list("abc"), ["x"] * 3, nodes=list("abcx"))
    pick = select_seeds(graph, [0.5, 0.0, 0.2], 2, values=[1.0, 0.0, 1.0, 1.0], rng=0, **priced(graph, 9.0, True))
    assert sorted(pick.seeds.tolist()) == ["a", "b"]


def test_money_that_is_just_enough_is_spent_after_forced_seeds():
    graph = Graph.from_edges(list("abc"), list("xyz"))
    p = np.full(3, 0.9)
    rules = {**priced(graph, 1.0), "must_include": ["a"]}
    for objective in ("direct", "cascade"):
        assert select_seeds(graph, p, 2, objective=objective, rng=0, **rules).seeds.tolist() == ["a", "b"]
        rows = {**rules, "costs": rules["costs"][None, :]}
        pick = select_pairs(graph, p[None, :], 2, objective=objective, rng=0, **rows)
        assert pick.seeds.tolist() == ["a", "b"]
        assert pick.cost == pytest.approx(0.6)


def test_nothing_is_paid_for_a_seed_that_gains_nothing_and_that_no_group_needs():
    graph = Graph.from_edges([0, 1, 1, 1, 2, 3], [3, 0, 2, 3, 3, 2])
    groups = {"groups": ["a", "a", "b", "b"], "minima": {"a": 1, "b": 1}}
    money = {"costs": [3.0, 3.0, 2.0, 1.0], "budget": 6.0}
    values = [0.0, 0.0, 0.0, 2.0]
    probabilities = [0.0, 0.3, 0.0, 0.0, 0.0, 0.0]
    pick = select_seeds(graph, probabilities, 3, objective="direct", values=values, **groups, **money)
    # 3 is worth 2, and one of group a has to come along; 2, whose group has its seed, is cheaper and brings nothing.
    assert pick.seeds.tolist() == [3, 1]


@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_tenths_add_up_to_the_budget(objective):
    graph = Graph.from_edges([0, 2, 4], [1, 3, 5])
    money = {"costs": np.full(6, 0.1), "budget": 0.3}
    pick = select_seeds(graph, np.full(3, 0.5), None, objective=objective, rng=0, **money)
    assert sorted(pick.seeds.tolist()) == [0, 2, 4]


def chain_and_hub():
    """A hub with three followers, a chain of 42 and a pair of users."""
    chain = ["s", *(f"c{i}" for i in range(41))]
    edges = [("hub", f"l{i}") for i in range(1, 4)] + [*pairwise(chain), ("w1", "w2")]
    return Graph.from_edges([source for source, _ in edges], [target for _, target in edges])


def test_values_of_users_who_may_not_be_chosen_do_not_end_the_search_early():
    graph = chain_and_hub()
    values = np.where(np.isin(graph.ids, ["w1", "w2"]), 1e3, 1.0)
    pick = select_seeds(graph, np.ones(graph.n_edges), 1, values=values, exclude=["w1", "w2"], rng=0)
    assert pick.seeds.tolist() == ["s"]
    # The same where candidates have no value of their own.
    values[np.isin(graph.ids, ["s", "hub"])] = 0.0
    pick = select_seeds(graph, np.ones(graph.n_edges), 1, values=values, candidates=["s", "hub"], rng=0)
    assert pick.seeds.tolist() == ["s"]


def test_a_choice_that_is_worth_nothing_ends():
    graph = Graph.from_edges(["a", "c"], ["b", "d"])
    pick = select_seeds(
        graph, [1.0, 1.0], 1, values=np.isin(graph.ids, ["c", "d"]).astype(float), candidates=["a"], rng=0
    )
    assert pick.seeds.tolist() == ["a"]
    assert pick.spread == 0.0
