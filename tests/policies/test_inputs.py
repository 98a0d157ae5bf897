"""Bad arguments: one clear error each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb import policies
from tensorucb.checks import check_count, check_number
from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.graph import Graph
from tensorucb.policies import Prediction, UCBPolicy

GRAPH = Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])


class Noting(UCBPolicy):
    """Keeps what it is told."""

    name = "Noting"
    told = None

    def predict(self, state, modes):
        return Prediction(self.graph, np.full(self.graph.n_edges, 0.1))

    def learn(self, state, modes, edges, outcomes):
        self.told = modes, edges, outcomes
        return state


def told(product, edges, outcomes):
    """What a policy learns from, after all checks."""
    policy = Noting()
    policy.bind(GRAPH, None)
    policy.update(product, edges, outcomes)
    return policy.told


def as_modes(product):
    return told(product, [0], [1.0])[0]


@pytest.mark.parametrize("product", [[1.0, 2.0], (1, 2), np.array([1.0, 2.0])])
def test_one_vector_is_one_mode(product):
    (mode,) = as_modes(product)
    assert mode.tolist() == [1.0, 2.0]


def test_a_sequence_of_vectors_is_several_modes():
    assert [mode.size for mode in as_modes([[1.0, 2.0], np.ones(3), (1.0,)])] == [2, 3, 1]


@pytest.mark.parametrize("product", [3.0, None, "abc", [], np.ones((2, 2)), [[[1.0]]], [[1.0], [[1.0, 2.0]]]])
def test_other_shapes_are_refused(product):
    with pytest.raises(InputError):
        as_modes(product)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-3, 6), st.floats(-0.5, 1.5)), max_size=5))
def test_observations_pass_exactly_when_all_are_in_range(pairs):
    edges, outcomes = [e for e, _ in pairs], [y for _, y in pairs]
    if all(0 <= e < 4 and 0.0 <= y <= 1.0 for e, y in pairs):
        learned = told([1.0], edges, outcomes)
        if not pairs:
            assert learned is None
            return
        _, rows, values = learned
        assert rows.tolist() == edges
        assert values.tolist() == outcomes
        assert rows.dtype == np.int64
    else:
        with pytest.raises(InputError):
            told([1.0], edges, outcomes)


@pytest.mark.parametrize("value", [True, 0, 2.0, "3", 11])
def test_counts(value):
    with pytest.raises(InputError, match="must be a whole number"):
        check_count("k", value, 1, 10)


@pytest.mark.parametrize("value", [True, -1.0, np.nan, np.inf, "3", None])
def test_numbers(value):
    with pytest.raises(InputError, match="must be a finite number"):
        check_number("exploration", value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: policies.IMFB(decay=1.5),
        lambda: policies.IMFB(ridge=0.0),
        lambda: policies.COIN(variant="COIN"),
        lambda: policies.COIN(exploration=-1.0),
        lambda: policies.DILinUCB(noise_variance=0.0),
        lambda: policies.DILinUCBOriginal(candidates=0),
        lambda: policies.Thompson(exploration=0.0),
        lambda: policies.Thompson(base_rate=1.0),
        lambda: policies.Thompson(prior_trials=0.0),
        lambda: policies.IMFB(base_rate=0.0),
        lambda: policies.GammaCounts(exploration_kind="greedy"),
        lambda: policies.LogisticUCB(prior_variance=0.0),
        lambda: policies.LinUCB(matched=1),
        lambda: policies.CUCB(exploration=np.nan),
    ],
)
def test_constructors_refuse_what_cannot_work(make):
    with pytest.raises(InputError):
        make()


def test_calls_before_bind_say_what_to_do():
    with pytest.raises(StateError, match=r"Call bind\(graph, users, rng\) first"):
        policies.CUCB().choose([1.0], 1, None)


def test_users_are_demanded_only_where_needed():
    policies.CUCB().bind(GRAPH, None, 0)
    with pytest.raises(InputError, match="needs user features"):
        policies.DILinUCB().bind(GRAPH, None, 0)


def test_a_state_of_other_settings_or_another_graph_is_refused():
    policy = policies.CUCB()
    policy.bind(GRAPH, None, 0)
    other = policies.CUCB(exploration=0.5)
    other.bind(GRAPH, None, 0)
    with pytest.raises(InputError, match="arguments"):
        other.restore(policy.state())
    smaller = policies.CUCB()
    smaller.bind(Graph.from_edges([0], [1]), None, 0)
    with pytest.raises(InputError, match="n_nodes"):
        smaller.restore(policy.state())


POLICIES = [name for name in policies.__all__ if hasattr(getattr(policies, name), "uses_product")]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("graph", ["g", None, np.ones((3, 3))])
def test_the_graph_must_be_one(name, graph):
    with pytest.raises(InputError, match="graph must be"):
        getattr(policies, name)().bind(graph, np.ones((3, 2)), 0)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize(
    "state", [{}, None, 5, policies.PolicyState({}, {}), policies.PolicyState(None, {}), policies.PolicyState({}, None)]
)
def test_what_is_no_state_is_refused(name, state):
    policy = getattr(policies, name)()
    policy.bind(GRAPH, np.eye(3), 0)
    with pytest.raises(InputError, match="state"):
        policy.restore(state)


def test_products_keep_their_dimensions():
    policy = policies.COIN()
    policy.bind(GRAPH, None, 0)
    policy.update([0.5, 0.5], [0], [1.0])
    with pytest.raises(ShapeError, match=r"\(2,\); got \(3,\)"):
        policy.score([0.2, 0.3, 0.5])


def test_every_public_name_is_there():
    # Product is a type alias.
    for name in set(policies.__all__) - {"Product"}:
        assert getattr(policies, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = policies.Nonsense
