"""The paper's tensor: scores against the literal loop, both likelihoods, and what the text leaves open."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from reference.scoring import score_edges
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.learner import TensorRegression
from tensorucb.policies import FixedPointWarning
from tensorucb.policies.check import check_policy
from tensorucb.policies.paper_tensor_ucb import PaperTensorUCB
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
    policy = PaperTensorUCB(**{"rank": 3, "exploration": 0.3, "likelihood": "logistic", **options})
    policy.bind(graph, users, 1)
    for _ in range(rounds):
        product = [rng.random(3 + extra) for extra in range(modes)]
        edges = rng.permutation(graph.n_edges)[:25]
        policy.update(product, edges, rng.integers(0, 2, 25))
    return policy, graph, users, [rng.random(3 + extra) for extra in range(modes)]


def knowledge(policy, dims, rank=3, **options):
    """What the policy has learned, read from its saved arrays."""
    learner = TensorRegression(dims, rank, **options)
    learner.take_arrays(policy.state().arrays)
    return learner.state


@pytest.mark.parametrize("kind", ["ucb", "greedy"])
@pytest.mark.parametrize("modes", [1, 2])
def test_scores_equal_the_literal_formula(kind, modes):
    policy, graph, users, product = taught(modes, exploration_kind=kind)
    scaled = users / np.sqrt(np.mean(np.linalg.norm(users, axis=1) ** 2))
    X = np.hstack([scaled, np.ones((len(users), 1))])
    vectors = [np.append(z, 1.0) for z in product]
    dims = (5, 5, *(z.size for z in vectors))
    state = knowledge(policy, dims, likelihood="logistic", intercepts=(graph.n_nodes, graph.n_nodes))
    c = 0.3 if kind == "ucb" else 0.0
    want = score_edges(state, X, graph.sources, graph.targets, vectors, c=c, link="sigmoid")
    np.testing.assert_allclose(policy.score(product), want, rtol=0, atol=1e-12)


def paper_beside_learner(projection, order="ranks", coding="zero_one"):
    """The paper's policy, and a learner of the paper's that was fed with the same samples."""
    graph, users, rng = network()
    policy = PaperTensorUCB(
        rank=2, exploration=0.05, noise_variance=0.2, projection=projection, order=order, coding=coding
    )
    users *= 0.2
    policy.bind(graph, users, 0)
    learner = TensorRegression((4, 4, 3), 2, init="ones", noise_variance=0.2, order=order)
    z = rng.random(3)
    for _ in range(3):
        edges = rng.permutation(graph.n_edges)[:20]
        y = rng.integers(0, 2, 20)
        policy.update(z, edges, y)
        learner.update(
            [users[graph.sources[edges]], users[graph.targets[edges]], np.tile(z, (20, 1))],
            y if coding == "zero_one" else 2 * y - 1,
        )
    return policy, learner, graph, users, z


@pytest.mark.parametrize("projection", ["sigmoid", "clip"])
def test_paper_scores_equal_the_paper(projection):
    """Against Eq. CB_ij in a loop."""
    policy, learner, graph, users, z = paper_beside_learner(projection)
    want = score_edges(learner.state, users, graph.sources, graph.targets, [z], c=0.05, link=projection)
    np.testing.assert_allclose(policy.score(z), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("coding", ["zero_one", "plus_minus"])
@pytest.mark.parametrize("order", ["ranks", "modes"])
def test_the_order_of_sweeps_and_the_coding_reach_the_learner(order, coding):
    policy, learner, graph, users, z = paper_beside_learner("clip", order, coding)
    features = [users[graph.sources], users[graph.targets], np.tile(z, (graph.n_edges, 1))]
    u, _ = learner.predict(features)
    want = u if coding == "zero_one" else 0.5 * (1.0 + u)
    np.testing.assert_allclose(policy.prediction(z).expected(), np.clip(want, 0.0, 1.0), atol=1e-12)


def test_predictions_have_the_learners_mean_and_the_papers_sum_of_roots():
    policy, learner, graph, users, z = paper_beside_learner("sigmoid")
    features = [users[graph.sources], users[graph.targets], np.tile(z, (graph.n_edges, 1))]
    prediction = policy.prediction(z)
    np.testing.assert_allclose(prediction.mean, learner.predict(features)[0], atol=1e-12)
    want = score_edges(learner.state, users, graph.sources, graph.targets, [z], c=1.0, link="sigmoid")
    np.testing.assert_allclose(prediction.probabilities(1.0), want, atol=1e-12)


def test_expectations_leave_exploration_out():
    policy, _, _, product = taught()
    prediction = policy.prediction(product)
    np.testing.assert_allclose(prediction.expected(), 1.0 / (1.0 + np.exp(-prediction.mean)), atol=1e-12)
    assert (policy.score(product) > prediction.expected()).all()


def test_the_paper_shows_under_its_own_name():
    policy = TensorUCB.paper(rank=7, exploration=0.01, noise_variance=0.2)
    assert policy.name == "TensorUCB (paper)"
    assert policy.settings() == {
        "rank": 7,
        "exploration": 0.01,
        "likelihood": "gaussian",
        "exploration_kind": "ucb",
        "noise_variance": 0.2,
        "prior_variance": 1.0,
        "constants": False,
        "scaled": False,
        "start": "ones",
        "base_logit": -3.0,
        "intercept_variance": 0.0,
        "projection": "sigmoid",
        "coding": "zero_one",
        "order": "ranks",
    }


def test_the_logistic_likelihood_brings_its_settings_and_each_may_be_given():
    policy = TensorUCB.paper(likelihood="logistic")
    assert policy.name == "TensorUCB (paper, logistic)"
    ours = {"prior_variance": 0.1, "constants": True, "scaled": True, "start": "random", "intercept_variance": 0.3}
    assert {name: policy.settings()[name] for name in ours} == ours
    published = {"prior_variance": 1.0, "constants": False, "scaled": False, "start": "ones", "intercept_variance": 0.0}
    bare = TensorUCB.paper(likelihood="logistic", **published)
    assert {name: bare.settings()[name] for name in published} == published


@pytest.mark.parametrize("options", [{}, {"exploration_kind": "thompson"}, {"exploration_kind": "greedy"}])
@pytest.mark.parametrize("modes", [1, 2])
def test_follows_the_protocol(options, modes):
    check_policy(lambda: PaperTensorUCB(**{"rank": 2, "likelihood": "logistic", **options}), modes=modes)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"projection": "clip", "exploration": 0.0},
        {"constants": True, "scaled": True, "start": "random", "projection": "clip"},
        {"coding": "plus_minus", "order": "modes", "intercept_variance": 0.2, "exploration_kind": "thompson"},
    ],
)
def test_the_paper_follows_the_protocol(options):
    check_policy(lambda: PaperTensorUCB(**{"rank": 2, **options}))


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


def test_a_small_random_start_of_the_gaussian_begins_near_the_base_rate():
    options = {"start": "random", "constants": True, "scaled": True, "exploration": 0.0}
    for coding, projection, want in [("zero_one", "clip", 0.047), ("plus_minus", "clip", 0.047)]:
        policy, _, _, product = taught(rounds=0, likelihood="gaussian", coding=coding, projection=projection, **options)
        assert abs(policy.score(product) - want).max() < 0.25, coding
        assert abs(np.median(policy.score(product)) - want) < 0.05, coding


def test_thompson_draws_differ_between_rounds_and_repeat_within_one():
    policy, _graph, _, product = taught(exploration_kind="thompson")
    first = policy.score(product)
    assert (first == policy.score(product)).all()
    policy.update(product, [], [])
    assert (first != policy.score(product)).any()


def test_threads_do_not_matter(monkeypatch):
    monkeypatch.setattr("tensorucb.policies.paper_tensor_ucb._CHUNK", 7)
    scores = []
    for threads in ("1", "2", "4"):
        monkeypatch.setenv("TENSORUCB_THREADS", threads)
        policy, _, _, product = taught()
        scores.append(policy.score(product).tobytes())
    assert len(set(scores)) == 1


def test_it_learns():
    """Edges that always and never fire are told apart after a few rounds."""
    graph, users, rng = network()
    truth = users[graph.sources, 0] * users[graph.targets, 1] > 0.3
    policy = TensorUCB.paper(rank=3, likelihood="logistic")
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
        ({"prior_variance": 0.0}, "prior_variance"),
        ({"base_logit": np.nan}, "base_logit"),
        ({"intercept_variance": -1.0}, "intercept_variance"),
        ({"constants": 1}, "constants"),
        ({"scaled": "yes"}, "scaled"),
        ({"start": "zeros"}, "start"),
        ({"projection": "x"}, "projection"),
        ({"coding": "x"}, "coding"),
        ({"order": "x"}, "order"),
        ({"likelihood": "probit"}, "likelihood"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"likelihood": "logistic", "projection": "clip"}, "choices of the Gaussian"),
        ({"likelihood": "logistic", "coding": "plus_minus"}, "choices of the Gaussian"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        PaperTensorUCB(**options)


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
