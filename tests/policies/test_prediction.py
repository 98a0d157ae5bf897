"""`Prediction`: links, draws, rounds, and nodes in place of edges; and the redundancy that residuals tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.rounds import TOPICS, crowd, rounds_of
from tensorucb import policies
from tensorucb.graph import Graph
from tensorucb.policies import Prediction, UCBPolicy
from tensorucb.policies.prediction import ROUNDS


def network(n=30, m=200, seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, n, (m, 2)), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    return Graph.from_edges(pairs[:, 0], pairs[:, 1], nodes=np.arange(n)), rng


def sigmoid(u):
    return 1.0 / (1.0 + np.exp(-u))


def by_edge(link="logit", level=0.0):
    graph, rng = network()
    mean, deviation = rng.normal(size=(2, graph.n_edges))
    return Prediction(graph, mean, abs(deviation), link=link, level=level)


def test_links():
    for link, function in (("logit", sigmoid), ("identity", lambda u: np.clip(u, 0.0, 1.0))):
        prediction = by_edge(link)
        np.testing.assert_allclose(prediction.probabilities(), function(prediction.mean), atol=1e-12)
        bold = function(prediction.mean + 0.7 * prediction.deviation)
        np.testing.assert_allclose(prediction.probabilities(0.7), bold, atol=1e-12)
        np.testing.assert_array_equal(prediction.expected(), prediction.probabilities())


def test_draws_multiply_deviations():
    prediction = by_edge()
    draw = np.random.default_rng(1).normal(size=prediction.mean.size)
    want = sigmoid(prediction.mean + 0.5 * draw * prediction.deviation)
    np.testing.assert_allclose(prediction.probabilities(0.5, draw), want, atol=1e-12)


def test_without_deviations_nothing_is_added():
    prediction = replace(by_edge(), deviation=None)
    np.testing.assert_array_equal(prediction.probabilities(3.0), prediction.probabilities())


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_the_expected_probability_is_the_mean_over_rounds(link):
    """Against 200,000 drawn rounds for a few edges, to 0.003; and the weighted mean of `rounds` exactly."""
    prediction, edges = by_edge(link, level=0.8), np.array([5, 0, 17])
    assert ROUNDS.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(ROUNDS @ prediction.rounds(edges), prediction.expected()[edges], rtol=1e-12)
    shifts = 0.8 * np.random.default_rng(0).normal(size=(200_000, 1))
    drawn = prediction._linked(prediction.mean[edges] + shifts).mean(axis=0)
    np.testing.assert_allclose(drawn, prediction.expected()[edges], atol=0.003 if link == "logit" else 0.05)
    own = replace(prediction, level=0.0).rounds(edges)
    np.testing.assert_array_equal(own[0], prediction.probabilities()[edges])


@pytest.mark.parametrize("level", [0.0, 0.6])
def test_numbers_of_nodes_are_those_of_their_edges(level):
    graph, rng = network()
    source, deviation, target = rng.normal(size=(3, graph.n_nodes)) * [[3.0], [1.0], [2.0]]
    nodes = Prediction(graph, source, abs(deviation), target, "logit", level)
    mean = source[graph.sources] + target[graph.targets]
    edges = Prediction(graph, mean, abs(deviation)[graph.sources], link="logit", level=level)
    np.testing.assert_allclose(nodes.expected(), edges.expected(), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(nodes.probabilities(1.5), edges.probabilities(1.5), rtol=1e-6, atol=1e-7)
    some = rng.permutation(graph.n_edges)[:20]
    for one, other in zip(nodes.rounds(some), edges.rounds(some), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-7)


def test_logits_of_any_size_are_probabilities():
    graph, _ = network(5, 20)
    sizes = np.array([-1e5, -90.0, 0.0, 90.0, 1e5])
    for source, target in ((sizes, sizes), (sizes, sizes[::-1])):
        for level in (0.0, 2.0):
            prediction = Prediction(graph, source, np.full(5, 1e9), target, "logit", level)
            for p in (prediction.expected(), prediction.probabilities(5.0), *prediction.rounds(np.arange(3))):
                assert ((p >= 0.0) & (p <= 1.0)).all()


def test_threads_do_not_matter(monkeypatch):
    graph, rng = network()
    monkeypatch.setattr("tensorucb.policies.prediction._EDGES", 7)
    prediction = Prediction(graph, *rng.normal(size=(3, graph.n_nodes)), "logit")
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TENSORUCB_THREADS", threads)
        found.append(prediction.probabilities().tobytes())
    assert len(set(found)) == 1


# -- the redundancy of policies that do not learn it themselves --

LEARNERS = [policies.TensorUCB, policies.LinUCB, policies.LogisticUCB, policies.GammaCounts, policies.CUCB]


def redundancy(kind, answers, seed, **options):
    graph, users = crowd(seed)
    policy = kind()
    policy.bind(graph, users, 0)
    for told in rounds_of(graph, users, answers, seed=seed, **options)[0]:
        policy.update(*told)
    return policy.prediction(np.ones(TOPICS) / TOPICS).redundancy


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_policy_learns_how_far_a_second_contact_is_wasted(kind, seed):
    """40 rounds of 8 users: coins of their own, one answer told to all contacts, contacts that add up."""
    assert redundancy(kind, "coins", seed) < (0.2 if kind is policies.CUCB else 0.05)
    assert redundancy(kind, "one answer", seed) > 0.6
    assert redundancy(kind, "adding up", seed) < 0.1


@pytest.mark.parametrize("kind", LEARNERS)
def test_rounds_that_differ_in_popularity_are_not_redundant(kind):
    assert redundancy(kind, "coins", 0, noise=1.0) < (0.2 if kind is policies.CUCB else 0.1)


def test_an_edge_told_twice_is_one_contact():
    graph, users = crowd(0)
    once, twice = policies.LinUCB(), policies.LinUCB()
    for policy in (once, twice):
        policy.bind(graph, users, 0)
    for product, edges, outcomes in rounds_of(graph, users, "coins", rounds=3)[0]:
        once.update(product, edges, outcomes)
        twice.update(product, np.repeat(edges, 2), np.repeat(outcomes, 2))
    # The doses of the first round, before LinUCB has learned twice as much.
    doses = [policy.state().arrays["dose_doses"].sum(axis=2) for policy in (once, twice)]
    assert np.array_equal(doses[0][0] > 0, doses[1][0] > 0)


class Sure(UCBPolicy):
    """Expects nothing, or everything, of every edge."""

    name = "sure"

    def __init__(self, *, value: float = 0.0) -> None:
        self.value = value

    def learn(self, state, modes, edges, outcomes):
        return state

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, self.value))


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_policy_that_is_always_wrong_is_no_reason_for_redundancy(value):
    graph, users = crowd(0)
    policy = Sure(value=value)
    policy.bind(graph, users, 0)
    for told in rounds_of(graph, users, "coins", rounds=20)[0]:
        policy.update(*told)
    assert policy.prediction([1.0, 0.0, 0.0]).redundancy < 0.1


def test_the_oracle_is_told():
    graph, users = crowd(0)
    policy, heard = policies.LinUCB(), []
    policy.bind(graph, users, 0)
    for told in rounds_of(graph, users, "one answer", rounds=10)[0]:
        policy.update(*told)

    def oracle(probabilities, k, *, candidates=None, must_include=None, redundancy=None):
        heard.append(redundancy)
        return np.arange(k)

    policy.choose(np.ones(TOPICS), 3, oracle)
    assert heard == [policy.prediction(np.ones(TOPICS)).redundancy]
    assert heard[0] > 0.5
