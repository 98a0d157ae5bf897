"""Each policy against a slow transcription of its equations, over several rounds, to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest

from reference.features import matched_columns
from reference.policies import (
    CountReference,
    DILinUCBReference,
    IMFBReference,
    LinearReference,
    LogisticReference,
    ReachabilityReference,
    SourceReference,
)
from reference.top_k import TopK
from tensorucb import policies
from tensorucb.features import UserProfile
from tensorucb.graph import Graph

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


@pytest.fixture(scope="module")
def profile(users):
    """The users with a past on the four topics of the products; coordinates that the matched form leaves out."""
    rng = np.random.default_rng(8)
    past = rng.poisson(2, (NODES, 4)), rng.random((NODES, 4)), rng.random((NODES, 4)) * 6
    return UserProfile(users, *past, rng.random((NODES, 2)))


def started(policy, graph, seed):
    """The arrays that a policy of this seed starts from; it is bound and has been told nothing."""
    policy.bind(graph, None, seed)
    policy.update([1.0], [], [])
    arrays = policy.state().arrays
    policy.bind(graph, None, seed)
    return arrays


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


def test_linucb(graph, users, rounds):
    policy = policies.LinUCB(exploration=0.3, noise_variance=0.2, prior_variance=0.7)
    policy.bind(graph, users, 0)
    reference = LinearReference(graph, lambda i, j, z: np.concatenate([users[i], users[j], z, [1.0]]), 0.3, 0.2, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE


def test_linucb_takes_further_modes(graph, users, rounds):
    policy = policies.LinUCB(exploration=0.3)
    policy.bind(graph, users, 0)
    campaign = np.array([0.2, 0.8])
    reference = LinearReference(graph, lambda i, j, z: np.concatenate([users[i], users[j], *z, [1.0]]), 0.3, 0.1, 1.0)
    wider = [([product, campaign * t], edges, outcomes) for t, (product, edges, outcomes) in enumerate(rounds)]
    assert follow(policy, reference, wider) < TOLERANCE


def test_a_profile_gives_linucb_the_past_for_each_product(graph, profile, rounds):
    policy = policies.LinUCB(exploration=0.3)
    policy.bind(graph, profile, 0)

    def feature(i, j, z):
        m = matched_columns(profile, z)
        return np.concatenate([profile.totals()[i], m[i], profile.totals()[j], m[j], z, [1.0]])

    assert follow(policy, LinearReference(graph, feature, 0.3, 0.1, 1.0), rounds) < TOLERANCE


def test_a_profile_gives_imlinucb_the_past_for_each_product(graph, profile, rounds):
    policy = policies.IMLinUCB(exploration=0.3)
    policy.bind(graph, profile, 0)

    def feature(i, j, z):
        m = matched_columns(profile, z)
        return np.concatenate([profile.totals()[i] * profile.totals()[j], m[i], m[j]])

    assert follow(policy, LinearReference(graph, feature, 0.3, 0.1, 1.0), rounds) < TOLERANCE


def test_a_profile_gives_dilinucb_the_targets_past_for_each_product(graph, profile, rounds):
    policy = policies.DILinUCB(exploration=0.3)
    policy.bind(graph, profile, 0)
    columns = lambda z: np.hstack([profile.totals(), matched_columns(profile, z)])  # noqa: E731
    reference = DILinUCBReference(graph, columns, 0.3, 0.1, 1.0)
    assert follow(policy, reference, rounds) < TOLERANCE


@pytest.mark.parametrize("name", ["LinUCB", "IMLinUCB", "DILinUCB", "LogisticUCB"])
def test_without_matched_features_a_profile_is_its_flat_matrix(graph, profile, rounds, name):
    scores = []
    for users in (profile, profile.matrix()):
        policy = getattr(policies, name)(matched=False)
        policy.bind(graph, users, 0)
        for product, edges, outcomes in rounds:
            policy.update(product, edges, outcomes)
        scores.append(policy.score(rounds[0][0]))
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("described", ["array", "profile"])
def test_logistic_ucb_is_the_posterior_mode_of_all_rounds(graph, users, profile, rounds, described):
    """Where the log was just fitted again, to 1e-9; the fifth round (5 rows after 75) is learned on top: to 0.02."""
    policy = policies.LogisticUCB(exploration=0.5, prior_variance=0.3, base_logit=-2.0)
    policy.bind(graph, users if described == "array" else profile, 0)

    def feature(i, j, z):
        nodes = users if described == "array" else np.hstack([profile.totals(), matched_columns(profile, z)])
        return np.concatenate([nodes[i], nodes[j], z, [1.0]])

    reference = LogisticReference(graph, feature, 0.5, 0.3, -2.0)
    product, apart = rounds[0][0], []
    for told in rounds:
        apart.append(float(np.abs(policy.score(product) - reference.score(product)).max()))
        policy.update(*told)
        reference.update(*told)
    apart.append(float(np.abs(policy.score(product) - reference.score(product)).max()))
    assert max(apart[:5] + apart[6:]) < TOLERANCE
    assert TOLERANCE < apart[5] < 0.02
    assert policy.score(product).std() > 0.01


def test_logistic_ucb_keeps_a_bounded_log_and_hardly_forgets(graph, users, rounds):
    """40 rounds of 25 rows, 300 kept: scores are within 0.02 of those with everything kept."""
    rng = np.random.default_rng(1)
    bounded, full = policies.LogisticUCB(max_rows=300), policies.LogisticUCB()
    for policy in (bounded, full):
        policy.bind(graph, users, 0)
    truth = 0.1 + 0.5 * rng.random(graph.n_edges)
    for t in range(40):
        edges = rng.integers(0, graph.n_edges, 25)
        told = (
            rng.dirichlet(np.ones(4)) if t % 2 else rounds[0][0],
            edges,
            (rng.random(25) < truth[edges]).astype(float),
        )
        bounded.update(*told)
        full.update(*told)
    kept = bounded.state().arrays
    assert kept["edges"].size <= 1.15 * 300
    assert len(kept["products"]) < len(full.state().arrays["products"])
    apart = np.abs(bounded.score(rounds[0][0]) - full.score(rounds[0][0])).max()
    assert 0.0 < apart < 0.02


def test_logistic_ucb_lives_with_features_that_separate_perfectly(graph):
    """Features of size 100 that tell all outcomes: Newton's full steps would overshoot, the fit stays finite."""
    users = 100.0 * np.where(np.arange(NODES) % 2, 1.0, -1.0)[:, None]
    policy = policies.LogisticUCB(exploration=0.0, prior_variance=1.0)
    policy.bind(graph, users, 0)
    edges = np.arange(graph.n_edges)
    outcomes = (graph.sources % 2 == 1).astype(float)
    for _ in range(3):
        policy.update([1.0], edges, outcomes)
    assert ((policy.score([1.0]) > 0.5) == (outcomes > 0.5)).all()


@pytest.mark.parametrize("exploration", [0.0, 0.7])
def test_gamma_counts(graph, rounds, exploration):
    policy = policies.GammaCounts(exploration=exploration, base_rate=0.05, prior_trials=4.0)
    policy.bind(graph, None, 0)
    reference = SourceReference(graph, 0.05, 4.0)
    assert follow(policy, reference, rounds, score=lambda z: reference.score(exploration)) < TOLERANCE
    np.testing.assert_allclose(policy.prediction(rounds[0][0]).expected(), reference.score(0.0), atol=TOLERANCE)


@pytest.mark.parametrize("exploration", [1.0, 0.2])
def test_gamma_counts_draws_from_the_gamma_posterior(graph, rounds, exploration):
    """Mean of 1500 draws within 6 standard errors, variance within a quarter, for sources with little clipping."""
    draws = 1500
    policy = policies.GammaCounts(exploration=exploration, exploration_kind="thompson", prior_trials=40.0)
    policy.bind(graph, None, 0)
    for product, edges, outcomes in rounds:
        policy.update(product, edges, outcomes)
    nothing, samples = np.empty(0, dtype=np.int64), []
    for _ in range(draws):
        samples.append(policy.score(rounds[0][0]))
        policy.update(rounds[0][0], nothing, [])
    arrays = policy.state().arrays
    mean = (arrays["shape"] / arrays["trials"])[graph.sources]
    variance = exploration * (arrays["shape"] / arrays["trials"] ** 2)[graph.sources]
    assert (np.abs(np.mean(samples, axis=0) - mean) < 6 * np.sqrt(variance / draws)).all()
    np.testing.assert_allclose(np.var(samples, axis=0), variance, rtol=0.25)


@pytest.mark.parametrize("exploration", [0.0, 0.5])
def test_dilinucb(graph, users, rounds, exploration):
    policy = policies.DILinUCB(exploration=exploration, noise_variance=0.2, prior_variance=0.7)
    policy.bind(graph, users, 0)
    reference = DILinUCBReference(graph, lambda z: users, exploration, 0.2, 0.7)
    assert follow(policy, reference, rounds) < TOLERANCE


@pytest.mark.parametrize(("warmup", "decay"), [(4.0, 0.25), (0.0, 0.25)])
def test_imfb(graph, rounds, warmup, decay):
    policy = policies.IMFB(dim=4, exploration=0.05, ridge=0.4, warmup=warmup, decay=decay)
    start = started(policy, graph, 3)
    reference = IMFBReference(graph, start["theta"], start["beta"], 0.05, 0.4, warmup, decay)
    assert follow(policy, reference, rounds) < TOLERANCE


@pytest.mark.parametrize(("dim", "base_rate"), [(2, 0.25), (10, 0.03), (30, 0.1)])
def test_imfb_starts_at_the_base_rate(dim, base_rate):
    """The mean of 6,000 edges' start is within 5 % of the base rate; ¼ is uniform on [0, 1/√dim]."""
    rng = np.random.default_rng(0)
    big = Graph.from_edges(rng.integers(0, 900, 6000), rng.integers(0, 900, 6000), self_loops="drop")
    policy = policies.IMFB(dim=dim, base_rate=base_rate, exploration=0.0, warmup=0.0)
    start = started(policy, big, 1)
    assert policy.score([1.0]).mean() == pytest.approx(base_rate, rel=0.05)
    if base_rate == 0.25:
        assert 0.95 < start["theta"].max() * dim**0.5 <= 1.0


def test_the_candidates_of_coin_are_different_policies():
    """Within 200 rounds, the number of trials that D(t) asks for differs between any two candidates."""
    asked = [tuple(int(np.ceil(c * t**0.4)) for t in range(1, 201)) for c in policies.COIN.tunable["exploration"]]
    assert len(set(asked)) == len(asked)


@pytest.mark.parametrize("exploration", [0.6, 0.0])
def test_cucb(graph, rounds, exploration):
    policy = policies.CUCB(exploration=exploration)
    policy.bind(graph, None, 0)
    reference = CountReference(graph, cell=lambda z: 0)
    assert follow(policy, reference, rounds, score=lambda z: reference.cucb(z, exploration)) < TOLERANCE


@pytest.mark.parametrize("variant", ["coin", "hd", "plus"])
def test_coin(graph, rounds, variant):
    """Scores, who is under-explored, and who each variant seeds, from all users to hardly any."""
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
    """Counts exactly; mean and variance of 1500 draws within 6 standard errors, for exploration 1 and 0.2."""
    a, b, draws = 1.5, 3.0, 1500  # base rate 1/3 and 4.5 trials
    for exploration in (1.0, 0.2):
        policy = policies.Thompson(exploration=exploration, base_rate=1 / 3, prior_trials=4.5)
        reference = CountReference(graph, cell=lambda z: 0)
        policy.bind(graph, None, 0)
        for product, edges, outcomes in rounds:
            policy.update(product, edges, outcomes)
            reference.update(product, edges, outcomes)
        product, samples = rounds[0][0], []
        nothing = np.empty(0, dtype=np.int64)
        for _ in range(draws):
            samples.append(policy.score(product))
            policy.update(product, nothing, [])
        key = [(0, e) for e in range(graph.n_edges)]
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


@pytest.mark.parametrize("size", [3, 5, 9])
def test_shortlist_keeps_the_users_of_largest_reach(graph, users, rounds, size):
    """With as many seeds as candidates the choice is the shortlist: most optimistic reach, before any clip."""
    policy = policies.DILinUCBOriginal(candidates=size)
    policy.bind(graph, users, 0)
    reference = ReachabilityReference(graph, users, 0.1, 0.1, 1.0)
    follow(policy, reference, rounds)
    reach = [sum(reference.optimistic(u, v) for v in range(NODES)) for u in range(NODES)]
    order = sorted(range(NODES), key=lambda u: (graph.out_degree[u] == 0, -reach[u]))
    assert set(policy.choose(rounds[0][0], size, TopK(graph)).tolist()) == set(order[:size])


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
