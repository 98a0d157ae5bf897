"""Diffusion with redundancy: the same definition as the oracle's, in every function that tosses coins."""

from __future__ import annotations

import numpy as np
import pytest

from engines.here import HereEngine
from reference import diffusion as reference
from reference.oracle import ExactSpread, direct_value
from tensorucb.diffusion import (
    LiveEdgePool,
    direct_spread,
    observe,
    simulate_cascade,
    simulate_cascades,
    simulate_gains,
    spread,
)
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.rng import stream_key

RUNS = 40_000


def network() -> tuple[Graph, np.ndarray]:
    graph = Graph.from_edges([0, 0, 1, 2, 2, 3, 4, 1], [1, 2, 3, 3, 4, 5, 5, 0])
    return graph, np.array([0.5, 0.3, 0.4, 0.2, 0.9, 0.6, 0.35, 0.8])


def random_network(seed: int, n: int = 30, m: int = 200) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    graph = Graph.from_edges(rng.integers(0, n, m), rng.integers(0, n, m), self_loops="drop")
    return graph, rng.uniform(0, 0.4, graph.n_edges)


@pytest.mark.parametrize("redundancy", [0.4, 1.0])
def test_spread_agrees_with_enumeration(redundancy):
    graph, p = network()
    exact = ExactSpread(graph, p, redundancy=redundancy)
    for rows in ([0], [1, 2], [0, 3, 4]):
        estimate = spread(graph, p, rows, runs=RUNS, rng=1, level=0.999, redundancy=redundancy)
        assert estimate.low < exact(rows) < estimate.high
        pool = LiveEdgePool(graph, p, RUNS, rng=8, redundancy=redundancy)
        # The standard deviation of a run is below 1.5: four standard errors.
        assert pool.spread(rows) == pytest.approx(exact(rows), abs=0.03)


@pytest.mark.parametrize("redundancy", [0.0, 0.4, 1.0])
def test_direct_spread_is_the_definition(redundancy):
    for seed in range(10):
        graph, p = random_network(seed)
        rng = np.random.default_rng(seed)
        rows, values = rng.permutation(graph.n_nodes)[:6], rng.random(graph.n_nodes)
        expected = direct_value(graph, p, rows.tolist(), values, redundancy)
        assert direct_spread(graph, p, rows, values, redundancy=redundancy) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("redundancy", [0.4, 1.0])
def test_all_look_at_the_coins_of_the_plain_transcription(redundancy):
    graph, p = random_network(3)
    key, rows = int(stream_key(np.random.default_rng(5))), np.array([4, 1, 7])
    worlds = [reference.live_edges(key, run, p, graph.targets, redundancy) for run in range(20)]
    sizes = [len(reference.reached(graph, live, rows)) for live in worlds]
    coins = {"rng": 5, "redundancy": redundancy}
    assert simulate_cascades(graph, p, rows, 20, **coins).tolist() == sizes
    assert simulate_cascades(graph, p, rows, 20, threads=3, engine=HereEngine(), **coins).tolist() == sizes
    assert (simulate_gains(graph, p, rows, 20, **coins).sum(axis=1) + rows.size).tolist() == sizes
    assert LiveEdgePool(graph, p, 20, **coins).reach(rows).tolist() == sizes
    assert LiveEdgePool(graph, p, 20, engine=HereEngine(), **coins).reach(rows).tolist() == sizes
    nodes = reference.reached(graph, worlds[0], rows)
    assert simulate_cascade(graph, p, rows, **coins).nodes.tolist() == nodes
    for feedback, tried in (("one_hop", rows), ("cascade", nodes)):
        edges, outcomes = observe(graph, p, rows, feedback, **coins)
        assert edges.tolist() == np.concatenate([graph.out_edges([v]) for v in tried]).tolist()
        assert np.array_equal(outcomes, worlds[0][edges].astype(float))


def test_with_one_coin_the_responses_to_several_contacts_are_one():
    followers = np.arange(3, 2003)
    graph = Graph.from_edges(np.repeat([0, 1, 2], followers.size), np.tile(followers, 3))
    p = np.full(graph.n_edges, 0.3)
    for redundancy, expected in ((1.0, 0.3), (0.0, 0.3**3)):
        edges, outcomes = observe(graph, p, [0, 1, 2], rng=0, redundancy=redundancy)
        answers = np.bincount(graph.targets[edges], weights=outcomes, minlength=graph.n_nodes)[3:]
        # Standard errors: 0.010 and 0.004.
        assert (answers == 3).mean() == pytest.approx(expected, abs=0.04)
        assert (redundancy == 0.0) or set(answers) == {0.0, 3.0}


def test_no_redundancy_is_the_default():
    graph, p = random_network(1)
    assert np.array_equal(
        simulate_cascades(graph, p, [0, 1], 200, rng=3), simulate_cascades(graph, p, [0, 1], 200, rng=3, redundancy=0)
    )


def test_a_redundancy_outside_of_its_range_is_named():
    graph, p = network()
    for call in (
        lambda: simulate_cascade(graph, p, [0], redundancy=2.0),
        lambda: simulate_cascades(graph, p, [0], redundancy=-1.0),
        lambda: simulate_gains(graph, p, [0], redundancy=float("nan")),
        lambda: spread(graph, p, [0], redundancy="some"),
        lambda: direct_spread(graph, p, [0], redundancy=1.5),
        lambda: observe(graph, p, [0], redundancy=None),
        lambda: LiveEdgePool(graph, p, 5, redundancy=1.5),
    ):
        with pytest.raises(InputError, match="redundancy must be"):
            call()
