"""Planted problems: what a policy is for, it does. Fixed seeds, stated margins."""

from __future__ import annotations

import numpy as np
import pytest

from reference.top_k import TopK
from tensorucb import policies
from tensorucb.graph import Graph


def observe(graph, truth, seeds, rng):
    """Out-edges of the seeds and their coins."""
    offsets = graph.out_offsets
    edges = np.concatenate([np.arange(offsets[s], offsets[s + 1]) for s in seeds])
    return edges, (rng.random(edges.size) < truth[edges]).astype(float)


@pytest.fixture(scope="module")
def hub_graph():
    """400 users: out-degrees 80, 40, 27, … (a power law), targets uniform."""
    rng = np.random.default_rng(0)
    degrees = np.maximum(80 // np.arange(1, 401), 1)
    sources = np.repeat(np.arange(400), degrees)
    return Graph.from_edges(sources, rng.integers(0, 400, sources.size), nodes=np.arange(400), self_loops="drop")


def reach_of(policy, graph, truth, rounds, seed):
    """Average expected number of direct successes per round."""
    policy.bind(graph, None, seed)
    rng, product, total = np.random.default_rng(seed), np.array([1.0, 0.0]), 0.0
    for _ in range(rounds):
        seeds = policy.choose(product, 5, TopK(graph))
        edges, outcomes = observe(graph, truth, seeds, rng)
        total += truth[edges].sum()
        policy.update(product, edges, outcomes)
    return total / rounds


def test_coin_hd_starts_above_plain_coin(hub_graph):
    """While all explore, hubs first: expected reach 2.2 times COIN's over 20 rounds; above 1.5 in each of 5 runs."""
    truth = np.full(hub_graph.n_edges, 0.2)
    for seed in range(5):
        plain = reach_of(policies.COIN(), hub_graph, truth, 20, seed)
        by_degree = reach_of(policies.COIN(variant="hd"), hub_graph, truth, 20, seed)
        assert by_degree > 1.5 * plain


def test_coin_stops_exploring_and_exploits(hub_graph):
    """Once every user was tried (80 rounds of 5), COIN lives on its estimates: twice its exploring reach."""
    truth = np.random.default_rng(1).beta(1, 4, hub_graph.n_edges)
    policy = policies.COIN()
    exploring = reach_of(policy, hub_graph, truth, 80, seed=2)
    seeds = policy.choose([1.0, 0.0], 5, TopK(hub_graph))
    exploiting = truth[observe(hub_graph, truth, seeds, np.random.default_rng(0))[0]].sum()
    assert exploiting > 2.0 * exploring


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_imfb_learns_a_planted_factor_model(seed):
    """Correlation of score and truth over all edges: above 0.7, from below 0.2."""
    rng = np.random.default_rng(seed)
    sources, targets = np.nonzero(rng.random((60, 60)) < 0.4)
    graph = Graph.from_edges(sources, targets, nodes=np.arange(60), self_loops="drop")
    influence, susceptibility = rng.beta(1, 1, (60, 2)), rng.beta(1, 1, (60, 2))
    truth = (influence[graph.sources] * susceptibility[graph.targets]).sum(axis=1) / 2
    policy = policies.IMFB(dim=3, exploration=0.0, warmup=0.0)
    policy.bind(graph, None, seed)
    assert np.corrcoef(policy.score([1.0]), truth)[0, 1] < 0.2
    coins = np.random.default_rng(seed + 10)
    for t in range(60):
        seeds = (np.arange(5) + 5 * t) % 60
        policy.update([1.0], *observe(graph, truth, seeds, coins))
    assert np.corrcoef(policy.score([1.0]), truth)[0, 1] > 0.7


@pytest.mark.parametrize("name", ["DILinUCB", "LinUCB", "IMLinUCB"])
def test_linear_policies_recover_a_truth_of_their_own_kind(name):
    """All edges seen 30 times: scores without a bonus are within 0.05 of the truth on average."""
    rng = np.random.default_rng(4)
    sources, targets = np.nonzero(rng.random((30, 30)) < 0.4)
    graph = Graph.from_edges(sources, targets, nodes=np.arange(30), self_loops="drop")
    users, z = rng.random((30, 2)), np.array([0.3, 0.7])
    x, y = users[graph.sources], users[graph.targets]
    truth = {
        "DILinUCB": (rng.random((30, 2))[graph.sources] * y).sum(axis=1) / 2,
        "LinUCB": 0.1 + 0.3 * x[:, 0] + 0.2 * y[:, 1] + 0.1 * z[0],
        "IMLinUCB": (x * y) @ np.array([0.6, 0.3]),
    }[name]
    policy = getattr(policies, name)(exploration=0.0)
    policy.bind(graph, users, 0)
    every = np.arange(graph.n_edges)
    for _ in range(30):
        policy.update(z, every, (rng.random(every.size) < truth).astype(float))
    assert np.abs(policy.score(z) - truth).mean() < 0.05


@pytest.mark.parametrize("name", ["CUCB", "Thompson", "GammaCounts"])
def test_count_policies_find_the_good_hubs(name, hub_graph):
    """Half the hubs are worthless; after 150 rounds the last seeds reach 80 % of the best."""
    truth = np.where(hub_graph.sources % 2 == 0, 0.02, 0.5)
    policy = getattr(policies, name)(exploration=0.1)
    reach_of(policy, hub_graph, truth, 150, seed=0)
    seeds = policy.choose([1.0, 0.0], 5, TopK(hub_graph))
    value = np.bincount(hub_graph.sources, weights=truth, minlength=400)
    assert value[seeds].sum() > 0.8 * np.sort(value)[-5:].sum()


@pytest.mark.parametrize("updates", [100_000])
def test_inverses_stay_symmetric_and_positive_definite(updates):
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    users = np.random.default_rng(0).normal(size=(3, 6))
    policy = policies.DILinUCB()
    policy.bind(graph, users, 0)
    rng = np.random.default_rng(1)
    policy.update([1.0], rng.integers(0, 3, updates), rng.integers(0, 2, updates).astype(float))
    inverse = policy.state().arrays["inverse"]
    assert np.array_equal(inverse, inverse.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(inverse).min() > 0.0


def test_thompson_with_little_exploration_is_nearly_its_mean():
    graph = Graph.from_edges([0, 0, 1], [1, 2, 2])
    policy = policies.Thompson(exploration=1e-6, base_rate=0.5, prior_trials=2.0)
    policy.bind(graph, None, 0)
    policy.update([1.0], [0, 0, 0], [1.0, 1.0, 0.0])
    np.testing.assert_allclose(policy.score([1.0]), [3 / 5, 0.5, 0.5], atol=5e-3)
