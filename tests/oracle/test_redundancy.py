"""The objective with redundancy: its definition, its RR sets, and the doors through which it is asked for."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest

from oracle.test_guarantees import tiny
from reference.oracle import ExactSpread, check_probabilities, direct_value, greedy_rows, select_pairs, select_seeds
from tensorucb import SeedOracle
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.oracle.rr import Sampler

SHARES = [0.0, 0.4, 1.0]


def subsets(n: int, most: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(most + 1) for chosen in combinations(range(n), size)]


@pytest.mark.parametrize("redundancy", SHARES)
def test_the_spread_of_any_seeds_is_the_definition(redundancy):
    for seed in range(6):
        graph, p, rng = tiny(seed)
        values = rng.random(graph.n_nodes)
        for rows in subsets(graph.n_nodes, 3)[1:]:
            arguments = {"must_include": rows, "values": values, "redundancy": redundancy}
            pick = select_seeds(graph, p, len(rows), objective="direct", **arguments)
            assert pick.spread == pytest.approx(direct_value(graph, p, rows, values, redundancy), abs=1e-12)
            assert pick.gains.sum() == pytest.approx(pick.spread, abs=1e-12)


@pytest.mark.parametrize("objective", ["direct", "cascade"])
@pytest.mark.parametrize("redundancy", SHARES)
def test_both_objectives_are_monotone_and_submodular(redundancy, objective):
    for seed in range(4):
        graph, p, _ = tiny(seed)
        value = ExactSpread(graph, p, redundancy=redundancy)
        if objective == "direct":
            value = partial(direct_value, graph, p, redundancy=redundancy)
        worth = {frozenset(rows): value(rows) for rows in subsets(graph.n_nodes, graph.n_nodes)}
        for rows, here in worth.items():
            for v in set(range(graph.n_nodes)) - rows:
                gain = worth[rows | {v}] - here
                assert gain >= -1e-12
                for u in rows:
                    fewer = rows - {u}
                    assert worth[fewer | {v}] - worth[fewer] >= gain - 1e-12


@pytest.mark.parametrize("redundancy", SHARES)
def test_direct_equals_plain_greedy(redundancy):
    for seed in range(20):
        graph, p, _ = tiny(seed)
        pick = select_seeds(graph, p, 3, objective="direct", redundancy=redundancy)
        value = partial(direct_value, graph, p, redundancy=redundancy)
        assert pick.rows.tolist() == greedy_rows(value, graph.out_degree, 3)


# Standard errors are at most 0.5 / √40,000 = 0.0025: four of them.
SETS = 40_000
NEAR = 0.01


def covered(batch, rows) -> int:
    """Stored sets that hold any of the rows, and those that stopped at a marked node."""
    members, lengths = np.concatenate(batch.members), np.concatenate(batch.lengths)
    owner = np.repeat(np.arange(lengths.size), lengths)
    return int(batch.hits.sum()) + np.unique(owner[np.isin(members, rows)]).size


@pytest.mark.parametrize("kind", ["any root", "any root, read in place", "live roots"])
@pytest.mark.parametrize("redundancy", SHARES)
def test_rr_sets_are_unbiased_wherever_their_walks_stop(redundancy, kind, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 0 if "place" in kind else 10**6)
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._SHORT", 1e9)
    for seed in range(6):
        graph, p, rng = tiny(seed)
        values = rng.random(graph.n_nodes) + 0.1
        exact = ExactSpread(graph, p, values, redundancy)
        sampler = Sampler(graph, 1)
        sampler.load(check_probabilities(graph, p), values, redundancy, live=kind == "live roots")
        order = rng.permutation(graph.n_nodes)
        for marked in (order[:0], order[:1], order[:3]):
            sampler.mark(marked)
            batch = sampler.sample(np.uint64(seed), 0, SETS, store=True, limit=2**30)
            for more in (order[3:4], order[3:5]):
                seeds = [*marked, *more]
                share = (exact(seeds) - sampler.own[seeds].sum()) / sampler.total
                assert covered(batch, more) / SETS == pytest.approx(share, abs=NEAR)


def test_live_roots_have_a_live_edge_and_the_rest_is_exact(monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._SHORT", 1e9)
    for seed in range(6):
        graph, p, rng = tiny(seed)
        values = rng.random(graph.n_nodes) + 0.1
        for redundancy in SHARES:
            sampler = Sampler(graph, 1)
            sampler.load(check_probabilities(graph, p), values, redundancy, live=True)
            batch = sampler.sample(np.uint64(seed), 0, 1000, store=True, limit=2**30)
            assert np.concatenate(batch.lengths).min() >= 2
            reached = values - [values[v] * _no_live_edge(graph, p, v, redundancy) for v in range(graph.n_nodes)]
            assert sampler.own == pytest.approx(values - reached, abs=1e-6)
            assert sampler.total == pytest.approx(reached.sum(), abs=1e-6)


def _no_live_edge(graph, p, v, redundancy):
    into = p[graph.targets == v]
    return (1.0 - redundancy) * np.prod(1.0 - into) + redundancy * (1.0 - into.max(initial=0.0))


@pytest.mark.parametrize("gathered", [True, False])
@pytest.mark.parametrize(("extra", "scale"), [(0, 0.02), (4000, 0.02), (0, 0.3), (0, 0.9)])
def test_one_number_agrees_with_every_way_of_deciding_an_edge(extra, scale, gathered, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 10**6 if gathered else 0)
    p = np.concatenate([np.linspace(0.1, 1.0, 10) ** 3 * scale, np.zeros(extra)])
    sources = np.arange(1, 11 + extra)
    graph = Graph.from_edges(sources, np.zeros(sources.size, dtype=np.int64))
    values = np.zeros(graph.n_nodes)
    values[0] = 1.0
    sampler = Sampler(graph, 1)
    sampler.load(check_probabilities(graph, p), values, 0.5)
    exact = 0.5 * (1.0 - np.prod(1.0 - p)) + 0.5 * p.max()
    for marked in ([], [9, 10], np.arange(1, 11)):
        sampler.mark(np.asarray(marked, dtype=np.int64))
        batch = sampler.sample(np.uint64(1), 0, SETS, store=True, limit=2**30)
        assert covered(batch, np.arange(1, 11)) / SETS == pytest.approx(exact, abs=NEAR)


def test_a_walk_counts_for_the_marked_node_with_a_live_edge():
    graph = Graph.from_edges([0, 1, 2], [3, 3, 3], nodes=np.arange(4))
    p = np.array([0.2, 0.7, 0.5])
    sampler = Sampler(graph, 1)
    sampler.load(check_probabilities(graph, p), np.array([0.0, 0.0, 0.0, 1.0]), 1.0)
    sampler.mark(np.array([0, 1, 2]))
    hits = sampler.sample(np.uint64(3), 0, SETS, store=False, limit=0).hits
    # One number for all: the first edge in in-edge order that is above it counts.
    assert hits / SETS == pytest.approx([0.2, 0.5, 0.0], abs=NEAR)


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_the_same_answer_on_any_number_of_threads(algorithm):
    rng = np.random.default_rng(5)
    sources, targets = (600 * rng.random((2, 4000)) ** 1.5).astype(np.int64)
    graph = Graph.from_edges(sources, targets, self_loops="drop")
    p = rng.random(graph.n_edges) * 0.3
    arguments = {"algorithm": algorithm, "epsilon": 0.3, "redundancy": 0.7, "rng": 7}
    picks = [select_seeds(graph, p, 5, threads=threads, **arguments) for threads in (1, 2, 4)]
    for other in picks[1:]:
        assert np.array_equal(picks[0].rows, other.rows)
        assert np.array_equal(picks[0].gains, other.gains)
        assert (picks[0].spread, picks[0].upper, picks[0].rr_sets) == (other.spread, other.upper, other.rr_sets)


def overlap() -> tuple[Graph, np.ndarray]:
    """Users a and b share four followers; c has three others. Coins add up at the four, one number does not."""
    graph = Graph.from_edges(list("aaaabbbbccc"), list("wxyzwxyzrst"))
    return graph, np.full(graph.n_edges, 0.4)


@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_redundancy_moves_the_choice_away_from_shared_followers(objective):
    graph, p = overlap()
    p = np.where(graph.ids[graph.sources] == "c", 0.3, p)
    arguments = {"objective": objective, "candidates": ["a", "b", "c"], "rng": 0}
    assert sorted(select_seeds(graph, p, 2, **arguments).seeds) == ["a", "b"]
    assert "c" in select_seeds(graph, p, 2, redundancy=1.0, **arguments).seeds
    pairs = {name: value for name, value in arguments.items() if name != "rng"}
    assert "c" in select_pairs(graph, [p, p / 2], 2, redundancy=1.0, rng=0, **pairs).seeds


@pytest.mark.parametrize("objective", ["direct", "cascade"])
def test_an_oracle_has_a_redundancy_and_a_call_may_have_its_own(objective):
    graph, p = overlap()
    p = np.where(graph.ids[graph.sources] == "c", 0.3, p)
    rows = {name: int(graph.rows([name])[0]) for name in "abc"}
    oracle = SeedOracle(graph, objective=objective, candidates=list(rows.values()), redundancy=1.0, rng=0)
    assert rows["c"] in oracle(p, 2)
    assert rows["c"] not in oracle(p, 2, redundancy=0.0)
    assert rows["c"] in oracle(p, 2)
    plain, same = SeedOracle(graph, objective=objective, rng=3), SeedOracle(graph, objective=objective, rng=3)
    for _ in range(3):
        one, two = plain.select(p, 2, redundancy=0.0), same.select(p, 2)
        assert (one.rows.tolist(), one.spread, one.upper) == (two.rows.tolist(), two.spread, two.upper)


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan"), "much", True])
def test_a_redundancy_outside_of_its_range_is_named(bad):
    graph, p = overlap()
    oracle = SeedOracle(graph, rng=0)
    for call in (
        lambda: select_seeds(graph, p, 1, redundancy=bad),
        lambda: select_pairs(graph, [p], 1, redundancy=bad),
        lambda: SeedOracle(graph, redundancy=bad),
        lambda: oracle(p, 1, redundancy=bad),
    ):
        with pytest.raises(InputError, match="redundancy must be"):
            call()
