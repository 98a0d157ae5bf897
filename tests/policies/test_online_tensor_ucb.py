"""OnlineTensorUCB: node-factored scores against the literal loop, the protocol, state, and the paper's settings."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from reference.scoring import score_edges
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.learner import TensorRegression, state_from_arrays
from tensorucb.policies.check import check_policy
from tensorucb.policies.online_tensor_ucb import FixedPointWarning, OnlineTensorUCB
from tensorucb.policies.tensor_ucb import TensorUCB


def network(n=30, m=150, seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, n, (m, 2)), axis=0)
    pairs = np.vstack([pairs, [[v, (v + 1) % n] for v in range(n)]])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph = Graph.from_edges(pairs[:, 0], pairs[:, 1])
    return graph, rng.normal(size=(graph.n_nodes, 4)), rng


def taught(modes=1, rounds=4, **options):
    graph, users, rng = network()
    policy = OnlineTensorUCB(**{"rank": 3, "exploration": 0.3, **options})
    policy.bind(graph, users, 1)
    for _ in range(rounds):
        product = [rng.random(3 + extra) for extra in range(modes)]
        edges = rng.permutation(graph.n_edges)[:25]
        policy.update(product, edges, rng.integers(0, 2, 25))
    return policy, graph, users, [rng.random(3 + extra) for extra in range(modes)]


KINDS = list(itertools.product(["factorised", "joint"], ["mean_field", "full"], ["ucb", "variance", "greedy"], [1, 2]))


@pytest.mark.parametrize(("posterior", "moments", "kind", "modes"), KINDS)
def test_scores_equal_the_literal_formula(posterior, moments, kind, modes):
    policy, graph, users, product = taught(
        modes, posterior=posterior, second_moments=moments, exploration_kind=kind, user_scaling="rows", start="random"
    )
    X = np.hstack([users / np.linalg.norm(users, axis=1)[:, None], np.ones((len(users), 1))])
    vectors = [np.append(z, 1.0) for z in product]
    state = state_from_arrays(policy._model(tuple(z.size for z in product)), policy.state().arrays)
    want = score_edges(
        state, X, graph.sources, graph.targets, vectors, c=0.3, kind=kind, link="sigmoid",
        joint=posterior == "joint", full=moments == "full",
    )  # fmt: skip
    np.testing.assert_allclose(policy.score(product), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("projection", ["sigmoid", "clip"])
def test_paper_scores_equal_the_paper(projection):
    """The policy against a learner of the paper's, fed with the same samples, and Eq. CB_ij in a loop."""
    graph, users, rng = network()
    policy = TensorUCB.paper(rank=2, exploration=0.05, noise_variance=0.2)
    if projection == "clip":
        policy = OnlineTensorUCB(**{**policy.settings(), "projection": "clip"})
    users *= 0.2
    policy.bind(graph, users, 0)
    learner = TensorRegression((4, 4, 3), 2, init="ones", noise_variance=0.2)
    z = rng.random(3)
    for _ in range(3):
        edges = rng.permutation(graph.n_edges)[:20]
        y = rng.integers(0, 2, 20)
        policy.update(z, edges, y)
        learner.update([users[graph.sources[edges]], users[graph.targets[edges]], np.tile(z, (20, 1))], y)
    want = score_edges(
        learner.state,
        users,
        graph.sources,
        graph.targets,
        [z],
        c=0.05,
        kind="ucb",
        link=projection,
        joint=False,
        full=False,
    )
    np.testing.assert_allclose(policy.score(z), want, rtol=0, atol=1e-12)


def test_paper_settings():
    policy = TensorUCB.paper(rank=7, exploration=0.01, noise_variance=0.1)
    got = (policy.likelihood, policy.posterior, policy.second_moments, policy.start, policy.projection)
    assert got == ("gaussian", "factorised", "mean_field", "ones", "sigmoid")
    assert (policy.exploration_kind, policy.prior_variance, policy.constants) == ("ucb", 1.0, False)
    assert (policy.node_intercepts, policy.user_scaling) == (False, "none")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"posterior": "joint", "exploration_kind": "variance"},
        {"exploration_kind": "thompson", "posterior": "joint"},
        {"exploration_kind": "greedy", "node_intercepts": False},
        {"likelihood": "gaussian", "projection": "clip", "start": "random", "constants": False, "exploration": 0.0},
    ],
)
@pytest.mark.parametrize("modes", [1, 2])
def test_follows_the_protocol(options, modes):
    check_policy(lambda: OnlineTensorUCB(**{"rank": 2, **options}), modes=modes)


@pytest.mark.parametrize("start", ["ones", "random"])
def test_the_paper_follows_the_protocol(start):
    check_policy(lambda: TensorUCB.paper(rank=2, start=start))


def test_the_letter_of_the_paper_collapses_on_a_first_failure():
    graph, users, rng = network()
    policy = TensorUCB.paper(rank=2, start="paper")
    policy.bind(graph, users, 0)
    assert np.ptp(policy.score(np.ones(3))) > 0.1
    policy.update(np.ones(3), np.arange(40), np.append([0.0], rng.integers(0, 2, 39)))
    np.testing.assert_allclose(policy.score(np.ones(3)), 0.5, atol=1e-6)


def test_flat_start_begins_near_the_base_rate():
    policy, _, _, product = taught(rounds=0, exploration=0.0)
    assert abs(policy.score(product) - 1 / (1 + np.exp(3))).max() < 0.03


def test_thompson_draws_differ_between_rounds_and_repeat_within_one():
    policy, _graph, _, product = taught(exploration_kind="thompson")
    first = policy.score(product)
    assert (first == policy.score(product)).all()
    policy.update(product, [], [])
    assert (first != policy.score(product)).any()


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr("tensorucb.policies.online_tensor_ucb._CHUNK", 7)
    scores = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("TENSORUCB_THREADS", threads)
        policy, _, _, product = taught(posterior="joint")
        scores.append(policy.score(product).tobytes())
    assert len(set(scores)) == 1


def test_it_learns():
    """Edges that always and never fire are told apart after a few rounds."""
    graph, users, rng = network()
    truth = users[graph.sources, 0] * users[graph.targets, 1] > 0.3
    policy = OnlineTensorUCB(rank=3)
    policy.bind(graph, users, 0)
    for _ in range(8):
        policy.update(rng.random(3), np.arange(graph.n_edges), truth)
    scores = policy.score(rng.random(3))
    assert scores[truth].mean() > scores[~truth].mean() + 0.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank"),
        ({"exploration": -1.0}, "exploration"),
        ({"exploration_kind": "x"}, "exploration_kind"),
        ({"projection": "x"}, "projection"),
        ({"user_scaling": "x"}, "user_scaling"),
        ({"start": "flat", "constants": False}, "constants"),
        ({"constants": 1}, "constants"),
        ({"forgetting": 1.5}, "forgetting"),
        ({"likelihood": "probit"}, "likelihood"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        OnlineTensorUCB(**options)


def test_an_update_that_does_not_converge_says_so():
    graph, users, rng = network()
    policy = TensorUCB.paper(rank=10)
    policy.bind(graph, 30.0 * users, 1)
    with pytest.warns(FixedPointWarning, match="did not reach its fixed point"):
        policy.update(rng.random(3), np.arange(120), rng.integers(0, 2, 120))


def test_an_update_that_converges_is_silent():
    graph, users, rng = network()
    policy = TensorUCB.paper(rank=1)
    policy.bind(graph, 0.1 * users, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            policy.update(rng.random(3), np.arange(60), rng.integers(0, 2, 60))
