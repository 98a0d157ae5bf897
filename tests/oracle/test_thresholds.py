"""Linear thresholds: RR sets, certificates and simulated cascades beside all live-edge worlds of small graphs."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from oracle.test_guarantees import tiny
from oracle.test_redundancy import NEAR, SETS, covered
from reference.oracle import best_set, check_probabilities, select_seeds, threshold_spread
from tensorucb import Graph, SeedOracle
from tensorucb.diffusion import LiveEdgePool, simulate_cascade, simulate_cascades, simulate_gains
from tensorucb.errors import InputError
from tensorucb.oracle.rr import Sampler


def weighted(seed: int):
    """A small graph whose weights into a node add up to 1 at most, often to 1."""
    graph, p, rng = tiny(seed)
    sums = np.bincount(graph.targets, weights=p, minlength=graph.n_nodes)
    full = np.maximum(sums, np.where(rng.random(graph.n_nodes) < 0.5, 0.0, 1.5))
    return graph, p / np.maximum(full, 1e-9)[graph.targets], rng


@pytest.mark.parametrize("kind", ["any root", "any root, read in place", "live roots"])
def test_rr_sets_are_unbiased_wherever_their_walks_stop(kind, monkeypatch):
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._GATHERED", 0 if "place" in kind else 10**6)
    monkeypatch.setattr("tensorucb.oracle.rr._sampler._SHORT", 1e9)
    for seed in range(6):
        graph, p, rng = weighted(seed)
        values = rng.random(graph.n_nodes) + 0.1
        sampler = Sampler(graph, 1)
        sampler.load(check_probabilities(graph, p), values, live=kind == "live roots", model="lt")
        order = rng.permutation(graph.n_nodes)
        for marked in (order[:0], order[:1], order[:3]):
            sampler.mark(marked)
            batch = sampler.sample(np.uint64(seed), 0, SETS, store=True, limit=2**30)
            seeds = [*marked, *order[3:4]]
            share = (threshold_spread(graph, p, seeds, values) - sampler.own[seeds].sum()) / sampler.total
            assert covered(batch, order[3:4]) / SETS == pytest.approx(share, abs=NEAR)


@pytest.mark.parametrize("algorithm", ["opim", "tim"])
def test_never_below_its_factor_and_within_its_certificate(algorithm):
    for seed in range(20):
        graph, p, _ = weighted(seed)
        options = {
            "algorithm": algorithm,
            "epsilon": 0.1,
            "delta": 1e-9,
        }  # no certificate fails in any run of this test
        pick = select_seeds(graph, p, 2, model="lt", rng=seed, **options)
        worth = partial(threshold_spread, graph, p)
        best = best_set(worth, range(graph.n_nodes), [2], lambda s: True)
        reached = worth(pick.rows.tolist())
        assert reached >= (1.0 - np.exp(-1.0) - 0.1) * best
        assert pick.lower <= reached + 1e-9
        assert pick.upper >= best - 1e-9


def test_simulated_cascades_have_the_exact_spread():
    for seed in range(4):
        graph, p, rng = weighted(seed)
        rows = rng.permutation(graph.n_nodes)[:2]
        exact = threshold_spread(graph, p, rows)
        sizes = simulate_cascades(graph, p, rows, 20_000, rng=seed, model="lt")
        # Four standard errors.
        assert sizes.mean() == pytest.approx(exact, abs=4 * sizes.std() / np.sqrt(sizes.size) + 1e-9)
        assert LiveEdgePool(graph, p, 500, rng=seed, model="lt").reach(rows).tolist() == sizes[:500].tolist()
        gains = simulate_gains(graph, p, rows, 500, rng=seed, model="lt")
        assert (gains.sum(axis=1) + 2).tolist() == sizes[:500].tolist()
        assert simulate_cascade(graph, p, rows, rng=seed, model="lt").nodes.size == sizes[0]


def test_thresholds_are_what_the_name_says():
    """Weights of active in-neighbours against a uniform threshold, step by step."""
    graph, p, rng = weighted(3)
    rows = [0, 1]
    sizes = []
    for _ in range(4000):
        thresholds = 1.0 - rng.random(graph.n_nodes)
        active = np.zeros(graph.n_nodes, dtype=bool)
        active[rows] = True
        for _ in range(graph.n_nodes):
            active |= np.bincount(graph.targets, weights=p * active[graph.sources], minlength=active.size) >= thresholds
        sizes.append(active.sum())
    assert np.mean(sizes) == pytest.approx(threshold_spread(graph, p, rows), abs=4 * np.std(sizes) / 4000**0.5)


def test_the_same_answer_on_any_number_of_threads_and_from_an_oracle():
    rng = np.random.default_rng(5)
    graph = Graph.from_edges(*(600 * rng.random((2, 4000)) ** 1.5).astype(np.int64), self_loops="drop")
    p = 1.0 / graph.in_degree[graph.targets]
    picks = [select_seeds(graph, p, 5, model="lt", threads=threads, rng=7) for threads in (1, 2, 4)]
    assert len({tuple(pick.rows) for pick in picks}) == 1
    assert len({pick.upper for pick in picks}) == 1
    assert SeedOracle(graph, model="lt", rng=7)(p, 5).tolist() == picks[0].rows.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "add up to at most 1; those into 2 add up to 1.4"),
        ({"redundancy": 0.5}, "redundancy is for model='ic'"),
        ({"objective": "direct"}, "objective='cascade'"),
        ({"model": "sir"}, "model must be 'ic' or 'lt'"),
    ],
)
def test_what_linear_thresholds_do_not_take_is_named(options, message):
    graph = Graph.from_edges([0, 1], [2, 2])
    with pytest.raises(InputError, match=message):
        select_seeds(graph, [0.7, 0.7], 1, **{"model": "lt", **options})
    if not options:
        with pytest.raises(InputError, match=message):
            simulate_cascades(graph, [0.7, 0.7], [0], model="lt")
    else:
        with pytest.raises(InputError, match=message):
            SeedOracle(graph, **{"model": "lt", **options})
