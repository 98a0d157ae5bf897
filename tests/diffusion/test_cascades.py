import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import diffusion as reference
from tensorucb.diffusion import LiveEdgePool, Spread, simulate_cascade, simulate_cascades, simulate_gains, spread
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.rng import stream_key


def random_graph(seed: int, n: int = 40, m: int = 150) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    keep = source != target
    graph = Graph.from_edges(source[keep], target[keep])
    return graph, rng.uniform(0, 0.5, graph.n_edges)


def key_of(seed: int) -> int:
    return int(stream_key(np.random.default_rng(seed)))


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 5))
def test_cascades_equal_the_plain_transcription(seed: int, k: int) -> None:
    graph, p = random_graph(seed)
    rows = np.random.default_rng(seed).permutation(graph.n_nodes)[:k]
    sizes = simulate_cascades(graph, p, rows, 3, rng=seed)
    for run in range(3):
        assert sizes[run] == len(reference.reached(graph, reference.live_edges(key_of(seed), run, p), rows))


def test_one_cascade_tells_the_first_run_node_by_node() -> None:
    graph, p = random_graph(3)
    p = np.minimum(2 * p, 1.0)
    story = simulate_cascade(graph, p, [4, 1], rng=5)
    live = reference.live_edges(key_of(5), 0, p)
    assert story.nodes.tolist() == reference.reached(graph, live, [4, 1])
    assert story.nodes.size > 5
    assert story.edges[:2].tolist() == [-1, -1]
    step = dict(zip(story.nodes.tolist(), story.steps.tolist(), strict=True))
    for node, edge in zip(story.nodes[2:], story.edges[2:], strict=True):
        assert live[edge]
        assert graph.targets[edge] == node
        assert step[int(node)] == step[int(graph.sources[edge])] + 1


def test_threads_do_not_change_the_result() -> None:
    graph, p = random_graph(7, 300, 2000)
    one = simulate_cascades(graph, p, [0, 1], 500, rng=2, threads=1)
    assert np.array_equal(one, simulate_cascades(graph, p, [0, 1], 500, rng=2, threads=3))
    values = np.random.default_rng(0).random(graph.n_nodes)
    a, b = (simulate_cascades(graph, p, [0, 1], 500, 2, threads, values=values) for threads in (1, 4))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, one)


def test_certain_edges_always_fire_and_impossible_ones_never() -> None:
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    assert set(simulate_cascades(graph, [1.0, 1.0, 0.0, 1.0], [0], 2000, rng=0)) == {3.0}


def test_spread_agrees_with_enumeration() -> None:
    graph = Graph.from_edges([0, 0, 1, 2, 2, 3, 4, 1], [1, 2, 3, 3, 4, 5, 5, 0])
    p = np.array([0.5, 0.3, 0.4, 0.2, 0.9, 0.6, 0.35, 0.8])
    exact = reference.exact_spread(graph, p, [0])
    estimate = spread(graph, p, [0], runs=40_000, rng=1, level=0.999)
    assert estimate.low < exact < estimate.high
    assert estimate.high - estimate.low < 0.1
    assert LiveEdgePool(graph, p, 40_000, rng=8).spread([0]) == pytest.approx(exact, abs=0.03)


def test_interval_covers_at_its_level() -> None:
    graph, p = random_graph(11)
    truth = simulate_cascades(graph, p, [0], 200_000, rng=0).mean()
    inside = 0
    for seed in range(200):
        s = spread(graph, p, [0], runs=150, rng=seed + 1, level=0.9)
        inside += s.low <= truth <= s.high
    # 90 % of 200 is 180; binomial standard deviation 4.2.
    assert 166 <= inside <= 193


def test_single_run_has_no_finite_interval() -> None:
    graph = Graph.from_edges([0, 1], [1, 2])
    assert spread(graph, [1.0, 1.0], [0], runs=1) == Spread(3.0, -np.inf, np.inf, 1)
    with pytest.raises(InputError, match="level"):
        spread(graph, [1.0, 1.0], [0], level=95)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([99], "must lie in 0..4"),
        ([-1], "must lie in"),
        ([1, 1], "more than once"),
        ([0.5], "whole"),
        ([[0]], "one-dimensional"),
    ],
)
def test_bad_seeds_are_named(rows: list[object], message: str) -> None:
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    with pytest.raises(InputError, match=message):
        simulate_cascades(graph, np.full(4, 0.5), rows)


def test_bad_probabilities_values_and_counts_are_named() -> None:
    graph = Graph.from_edges([0, 1], [1, 2])
    with pytest.raises(InputError, match=r"edge 1 \(1 -> 2\) has 1\.5"):
        simulate_cascades(graph, [0.5, 1.5], [0])
    with pytest.raises(InputError, match=r"edge 0 \(0 -> 1\) has nan"):
        simulate_cascades(graph, [np.nan, 0.5], [0])
    with pytest.raises(ShapeError, match="One number per edge"):
        simulate_cascades(graph, [0.5], [0])
    with pytest.raises(ShapeError, match="One entry per node"):
        simulate_cascades(graph, [0.5, 0.5], [0], values=[1.0])
    with pytest.raises(InputError, match="at least 0"):
        simulate_cascades(graph, [0.5, 0.5], [0], values=[1.0, -1.0, 0.0])
    with pytest.raises(InputError, match="runs"):
        simulate_cascades(graph, [0.5, 0.5], [0], runs=0)


def test_no_seed_reaches_nobody() -> None:
    graph = Graph.from_edges([0, 1], [1, 2])
    assert simulate_cascades(graph, [1.0, 1.0], [], 3, rng=0).tolist() == [0, 0, 0]


def test_gains_sum_to_the_cascade_and_the_first_seed_has_its_own() -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 40, (200, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1], nodes=np.arange(40))
    p, rows = rng.random(graph.n_edges) * 0.4, [3, 17, 5]
    gains = simulate_gains(graph, p, rows, 300, rng=4, threads=2)
    np.testing.assert_array_equal(gains.sum(axis=1) + 3, simulate_cascades(graph, p, rows, 300, rng=4))
    # Alone, a seed would also reach the two others at times, which count for nobody here.
    alone = simulate_cascades(graph, p, [3], 300, rng=4) - 1
    assert (gains[:, 0] <= alone).all()
    assert (gains[:, 0] >= alone - 2).mean() > 0.3
