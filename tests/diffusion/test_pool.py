import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import diffusion as reference
from tensorucb.diffusion import LiveEdgePool, direct_spread, observe, simulate_cascades
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.rng import stream_key

seeds = st.integers(0, 10_000)


def random_graph(seed: int, n: int = 30, m: int = 200) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    # A hub whose out-edges cross several 64-bit words.
    source, target = np.append(source, np.full(n, 3)), np.append(target, np.arange(n))
    keep = source != target
    graph = Graph.from_edges(source[keep], target[keep])
    return graph, rng.uniform(0, 0.4, graph.n_edges)


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_frozen_and_simulated_worlds_are_the_same(seed: int) -> None:
    graph, p = random_graph(seed)
    rows = np.random.default_rng(seed).permutation(graph.n_nodes)[:3]
    pool = LiveEdgePool(graph, p, 40, rng=seed, threads=1)
    assert np.array_equal(pool.reach(rows), LiveEdgePool(graph, p, 40, rng=seed, threads=2).reach(rows))
    assert np.array_equal(pool.reach(rows), simulate_cascades(graph, p, rows, 40, rng=seed))
    assert pool.spread(rows) == pool.reach(rows).mean()


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_larger_probabilities_and_more_seeds_never_reach_less(seed: int) -> None:
    graph, p = random_graph(seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(graph.n_nodes)
    larger = p + rng.random(p.size) * (1 - p)
    low, high = (LiveEdgePool(graph, q, 30, rng=seed) for q in (p, larger))
    assert (low.reach(order[:2]) <= high.reach(order[:2])).all()
    small, large = low.reach(order[:2]), low.reach(order[:4])
    assert (small <= large).all()
    # Submodular in every world: the fifth seed adds no more to the larger set.
    gain_small = low.reach(np.append(order[:2], order[4])) - small
    gain_large = low.reach(order[:5]) - large
    assert (gain_large <= gain_small).all()


def test_a_pool_keeps_its_own_probabilities() -> None:
    graph, p = random_graph(1)
    pool = LiveEdgePool(graph, p, 20, rng=0)
    before = pool.reach([0])
    p[:] = 1.0
    assert np.array_equal(before, pool.reach([0]))


def test_a_pool_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="do not fit in memory"):
        LiveEdgePool(Graph.from_edges(np.zeros(20_000, int), np.arange(1, 20_001)), np.zeros(20_000), 10_000_000)


@settings(deadline=None, max_examples=30)
@given(seeds, st.integers(0, 6))
def test_direct_spread_is_exact(seed: int, k: int) -> None:
    graph, p = random_graph(seed)
    rng = np.random.default_rng(seed)
    rows, values = rng.permutation(graph.n_nodes)[:k], rng.random(graph.n_nodes)
    ones = np.ones(graph.n_nodes)
    assert direct_spread(graph, p, rows) == pytest.approx(reference.direct_spread(graph, p, rows, ones), abs=1e-12)
    expected = reference.direct_spread(graph, p, rows, values)
    assert direct_spread(graph, p, rows, values) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=30)
@given(seeds)
def test_feedback_is_every_tried_edge_once_with_its_own_coin(seed: int) -> None:
    graph, p = random_graph(seed)
    rows = np.random.default_rng(seed).permutation(graph.n_nodes)[:3]
    live = reference.live_edges(int(stream_key(np.random.default_rng(seed))), 0, p)
    for feedback, nodes in (("one_hop", rows), ("cascade", reference.reached(graph, live, rows))):
        edges, outcomes = observe(graph, p, rows, feedback, rng=seed)  # type: ignore[arg-type]
        expected = np.concatenate([np.arange(graph.out_offsets[v], graph.out_offsets[v + 1]) for v in nodes])
        assert np.array_equal(edges, expected)
        assert np.array_equal(outcomes, live[edges].astype(float))
    one_hop = observe(graph, p, rows, "one_hop", rng=seed)[1]
    assert np.array_equal(one_hop, outcomes[: one_hop.size])


def test_an_edge_into_an_active_target_still_shows_its_coin() -> None:
    graph = Graph.from_edges([0, 1], [1, 0])
    edges, outcomes = observe(graph, [1.0, 1.0], [0, 1], rng=0)
    assert edges.tolist() == [0, 1]
    assert outcomes.tolist() == [1.0, 1.0]


def test_coins_have_the_right_rate() -> None:
    graph = Graph.from_edges(np.zeros(50_000, int), np.arange(1, 50_001))
    outcomes = observe(graph, np.full(50_000, 0.02), [0], rng=4)[1]
    # Standard deviation 0.00063: four of them.
    assert outcomes.mean() == pytest.approx(0.02, abs=0.0025)


def test_unknown_feedback_is_named() -> None:
    graph = Graph.from_edges([0], [1])
    with pytest.raises(InputError, match="feedback"):
        observe(graph, [0.5], [0], "two_hop")  # type: ignore[arg-type]
