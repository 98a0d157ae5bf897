"""Each policy against a slow transcription of its equations, over several rounds, to 1e-9."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from reference.policies import (
    CountReference,
    DILinUCBReference,
    IMFBReference,
    LinearReference,
    ReachabilityReference,
)
from tensorucb import policies
from tensorucb.graph import Graph
from tensorucb.policies._check_world import TopK

TOLERANCE = 1e-9
NODES, DIM, ROUNDS = 14, 3, 6


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(5)
    sources, targets = np.nonzero(rng.random((NODES, NODES)) < 0.3)
    return Graph.from_edges(sources, targets, nodes=np.arange(NODES), self_loops="drop")


@pytest.fixture(scope="module")
def users():
    return np.random.default_rng(6).normal(size=(NODES, DIM)) * 0.4


@pytest.fixture(scope="module")
def rounds(graph):
    """Products, edges (some repeated) and outcomes of several rounds; one round is empty."""
    rng = np.random.default_rng(7)
    sizes = [25, 10, 0, 40, 5, 12]
    assert len(sizes) == ROUNDS
    return [
        (
            rng.dirichlet(np.ones(4)),
            rng.integers(0, graph.n_edges, size),
            (rng.random(size) < 0.4).astype(float),
        )
        for size in sizes
    ]


def follow(policy, reference, rounds, score=None):
    """Both learn round by round; the largest difference of their scores."""
    score = score or reference.score
    worst = 0.0
    for product, edges, outcomes in rounds:
        worst = max(worst, float(np.abs(policy.score(product) - score(product)).max()))
        policy.update(product, edges, outcomes)
        reference.update(product, edges, outcomes)
    final = rounds[0][0]
    last = policy.score(final)
    assert last.std() > 0.0, "the scores say nothing, so the comparison would not either"
    return max(worst, float(np.abs(last - score(final)).max()))


@pytest.mark.parametrize("exploration", [0.0, 0.1, 1.0])
def test_imlinucb(graph, users, rounds, exploration):
    policy = policies.IMLinUCB(exploration=exploration, noise_variance=0.2, prior_variance=0.7)
    policy.bind(graph, users, 0)
    reference = LinearReference(graph, lambda i, j, z: users[i] * users[j], exploration, 0.2, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE


@pytest.mark.parametrize("constant", [True, False])
def test_linucb(graph, users, rounds, constant):
    policy = policies.LinUCB(exploration=0.3, noise_variance=0.2, prior_variance=0.7, constant=constant)
    policy.bind(graph, users, 0)
    one = [1.0] * constant
    reference = LinearReference(graph, lambda i, j, z: np.concatenate([users[i], users[j], z, one]), 0.3, 0.2, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE


def test_linucb_takes_further_modes(graph, users, rounds):
    policy = policies.LinUCB(exploration=0.3)
    policy.bind(graph, users, 0)
    campaign = np.array([0.2, 0.8])
    reference = LinearReference(graph, lambda i, j, z: np.concatenate([users[i], users[j], *z, [1.0]]), 0.3, 0.1, 1.0)
    wider = [([product, campaign * t], edges, outcomes) for t, (product, edges, outcomes) in enumerate(rounds)]
    assert follow(policy, reference, wider) < TOLERANCE


@pytest.mark.parametrize("exploration", [0.0, 0.5])
def test_dilinucb(graph, users, rounds, exploration):
    policy = policies.DILinUCB(exploration=exploration, noise_variance=0.2, prior_variance=0.7)
    policy.bind(graph, users, 0)
    reference = DILinUCBReference(graph, users, exploration, 0.2, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE


@pytest.mark.parametrize(("warmup", "decay"), [(4.0, 0.25), (0.0, 0.25)])
def test_imfb(graph, rounds, warmup, decay):
    policy = policies.IMFB(dim=4, exploration=0.05, ridge=0.4, warmup=warmup, decay=decay)
    policy.bind(graph, None, 3)
    start = policy.state().arrays
    reference = IMFBReference(graph, start["theta"], start["beta"], 0.05, 0.4, warmup, decay)
    assert follow(policy, reference, rounds) < TOLERANCE


def test_cucb(graph, rounds):
    policy = policies.CUCB(exploration=0.6)
    policy.bind(graph, None, 0)
    reference = CountReference(graph, cell=lambda z: 0)
    assert follow(policy, reference, rounds, score=lambda z: reference.cucb(z, 0.6)) < TOLERANCE


@pytest.mark.parametrize("variant", ["coin", "hd", "plus"])
def test_coin(graph, rounds, variant):
    """Scores, who is under-explored, and whom each variant seeds, from all users to hardly any."""
    factor = 0.9
    policy = policies.COIN(variant=variant, exploration=factor)
    policy.bind(graph, None, 0)
    reference = CountReference(graph, cell=lambda z: int(np.argmax(z)))
    # Sources 0, 1 and 2 stay untried in the first product's cell, so that it ends with three such users.
    most = np.flatnonzero(graph.sources > 2)
    told = [*rounds[1:], *[(rounds[0][0], most, np.ones(most.size))] * 6]
    oracle, seen, k = TopK(graph), set(), 4
    for product, edges, outcomes in told:
        under = reference.under_explored(product, factor)
        seeds = policy.choose(product, k, oracle).tolist()
        rates = reference.coin(product)
        np.testing.assert_allclose(policy.score(product), rates, atol=TOLERANCE)
        others = np.setdiff1d(np.arange(graph.n_nodes), under)
        if len(under) < k:
            assert seeds == under + oracle(rates, k - len(under), candidates=others).tolist()
        elif variant == "hd":
            assert seeds == sorted(under, key=lambda v: (-graph.out_degree[v], v))[:k]
        elif variant == "plus":
            assert seeds == oracle(rates, k, candidates=np.array(under)).tolist()
        else:
            assert set(seeds) <= set(under)
        seen.add(len(under) >= k)
        policy.update(product, edges, outcomes)
        reference.update(product, edges, outcomes)
    assert seen == {True, False}, "both branches must have been taken"


def test_coin_explores_uniformly(graph):
    """500 seeds: the share of each under-explored user is k/n within 5 standard errors."""
    policy, k, runs = policies.COIN(), 3, 500
    counts = np.zeros(graph.n_nodes)
    for seed in range(runs):
        policy.bind(graph, None, seed)
        counts[policy.choose([1.0, 0.0], k, TopK(graph))] += 1
    under = graph.out_degree > 0
    share = k / under.sum()
    assert counts[~under].sum() == 0
    assert np.abs(counts[under] / runs - share).max() < 5 * np.sqrt(share * (1 - share) / runs)


def test_thompson_draws_from_the_beta_posterior(graph, rounds):
    """Counts exactly; mean and variance of 4000 draws within 6 standard errors, for exploration 1 and 0.2."""
    a, b, draws = 1.5, 3.0, 4000
    for exploration in (1.0, 0.2):
        policy = policies.Thompson(exploration=exploration, prior_successes=a, prior_failures=b, by_cell=True)
        reference = CountReference(graph, cell=lambda z: int(np.argmax(z)))
        policy.bind(graph, None, 0)
        for product, edges, outcomes in rounds:
            policy.update(product, edges, outcomes)
            reference.update(product, edges, outcomes)
        product, samples = rounds[0][0], []
        nothing = np.empty(0, dtype=np.int64)
        for _ in range(draws):
            samples.append(policy.score(product))
            policy.update(product, nothing, [])
        key = [(int(np.argmax(product)), e) for e in range(graph.n_edges)]
        successes = np.array([reference.n.get(x, 0.0) for x in key])
        trials = np.array([reference.N.get(x, 0) for x in key])
        alpha, beta = (a + successes) / exploration, (b + trials - successes) / exploration
        mean = alpha / (alpha + beta)
        variance = mean * (1 - mean) / (alpha + beta + 1)
        error = np.sqrt(variance / draws)
        assert (np.abs(np.mean(samples, axis=0) - mean) < 6 * error).all()
        np.testing.assert_allclose(np.var(samples, axis=0), variance, rtol=0.25)


def test_original_dilinucb(graph, users, rounds):
    policy = policies.DILinUCBOriginal(exploration=0.2, noise_variance=0.5, prior_variance=0.7)
    policy.bind(graph, users, 0)
    reference = ReachabilityReference(graph, users, 0.2, 0.5, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE
    table = reference.table()
    np.testing.assert_allclose(policy._reachability(np.arange(NODES)), table, atol=TOLERANCE)
    seeds = policy.choose(rounds[0][0], 4, TopK(graph))
    best = np.zeros(NODES)
    active = np.flatnonzero(graph.out_degree)
    for seed in seeds:
        gains = np.maximum(table - best, 0.0).sum(axis=1)
        assert gains[seed] > gains[active].max() - TOLERANCE
        best = np.maximum(best, table[seed])


def test_original_dilinucb_follows_live_paths():
    """0→1→2 succeed, 2→3 fails: 0 reaches {0, 1, 2}, 1 reaches {1, 2}, 2 itself alone."""
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    users = np.eye(4)
    policy = policies.DILinUCBOriginal()
    policy.bind(graph, users, 0)
    policy.update([1.0], [0, 1, 2], [1.0, 1.0, 0.0])
    state = policy.state().arrays
    assert state["counts"].tolist() == [1, 1, 1, 0]
    assert state["reached"].tolist() == [[1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_shortlist_keeps_the_users_of_largest_reach(graph, users, rounds):
    """A bounded candidate set only drops users from the end of the order."""
    full, short = policies.DILinUCBOriginal(candidates=NODES), policies.DILinUCBOriginal(candidates=5)
    for policy in (full, short):
        policy.bind(graph, users, 0)
        for product, edges, outcomes in rounds:
            policy.update(product, edges, outcomes)
    every = np.arange(NODES)
    order = full._shortlist(every, NODES)
    assert short._shortlist(every, 5).tolist() == order[:5].tolist()
    assert set(short.choose(rounds[0][0], 5, TopK(graph))) == set(order[:5].tolist())
    theta, variances = full._posterior(every)
    reach = (theta @ full._rotated.T + 0.1 * np.sqrt(variances @ (full._rotated**2).T)).sum(axis=1)
    active = [v for v in order if graph.out_degree[v] > 0]
    assert all(reach[u] > reach[v] - TOLERANCE for u, v in pairwise(active))


def test_random_is_uniform_and_moves_on(graph):
    """800 draws: each user's share is k/n within 5 standard errors; a draw repeats until the next update."""
    policy, k, runs = policies.Random(), 3, 800
    policy.bind(graph, None, 11)
    counts = np.zeros(graph.n_nodes)
    for _ in range(runs):
        seeds = policy.choose([1.0], k, TopK(graph))
        assert seeds.tolist() == policy.choose([1.0], k, TopK(graph)).tolist()
        counts[seeds] += 1
        policy.update([1.0], [], [])
    share = k / graph.n_nodes
    assert np.abs(counts / runs - share).max() < 5 * np.sqrt(share * (1 - share) / runs)


def test_high_degree_takes_the_hubs(graph):
    policy = policies.HighDegree()
    policy.bind(graph, None, 0)
    expected = sorted(range(NODES), key=lambda v: (-graph.out_degree[v], v))[:5]
    assert policy.choose([1.0], 5, TopK(graph)).tolist() == expected
    assert policy.score([1.0])[0] == pytest.approx(1 / 20)
    policy.update([1.0], [0, 1, 2, 3], [1.0, 0.0, 1.0, 1.0])
    assert policy.score([1.0])[0] == pytest.approx(4 / 24)
