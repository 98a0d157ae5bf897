"""Policies as scikit-learn and its relatives handle estimators: parameters, changes, clones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, StateError
from tensorucb.experiments import Environment, WorldSettings, tune
from tensorucb.policies import LinUCB, PaperTensorUCB
from tensorucb.policies.registry import REGISTRY, make_policy


@pytest.mark.parametrize("label", list(REGISTRY))
def test_a_clone_has_the_settings_and_nothing_else(label):
    policy = make_policy(label)
    copy = clone(policy)
    assert copy is not policy
    assert type(copy) is type(policy)
    assert copy.get_params() == policy.get_params() == policy.settings()


def test_changed_parameters_drop_what_was_learned():
    world = make_sandbox(40, 200, 4, rng=0)
    policy, other = LinUCB(), LinUCB(exploration=0.7)
    policy.bind(world.graph, world.users, rng=0)
    policy.update(world.products[0], [0, 1, 2], [1.0, 0.0, 1.0])
    assert policy.set_params(exploration=0.7) is policy
    with pytest.raises(StateError, match="not bound"):
        policy.score(world.products[0])
    for each in (policy, other):
        each.bind(world.graph, world.users, rng=0)
    assert np.array_equal(policy.score(world.products[1]), other.score(world.products[1]))


def test_a_parameter_that_there_is_not():
    policy = LinUCB()
    with pytest.raises(InputError, match="LinUCB has no argument 'explore'"):
        policy.set_params(explore=1.0)
    with pytest.raises(InputError, match="exploration"):
        policy.set_params(exploration=-1.0)
    assert policy.get_params() == LinUCB().get_params()


def test_defaults_that_depend_on_another_argument_follow_it():
    """A change of the likelihood gives what this likelihood is made with; what was chosen stays."""
    logistic = PaperTensorUCB(likelihood="logistic")
    assert PaperTensorUCB().set_params(likelihood="logistic").get_params() == logistic.get_params()
    assert clone(PaperTensorUCB()).set_params(likelihood="logistic").get_params() == logistic.get_params()
    back = PaperTensorUCB().set_params(likelihood="logistic").set_params(likelihood="gaussian", rank=3)
    assert back.get_params() == PaperTensorUCB(rank=3).get_params()
    # The Gaussian's own default, but chosen.
    changed = PaperTensorUCB(prior_variance=1.0, constants=False).set_params(likelihood="logistic")
    assert changed.get_params() == {**logistic.get_params(), "prior_variance": 1.0, "constants": False}


def test_tuning_an_argument_tunes_the_defaults_that_depend_on_it():
    world = Environment.from_sandbox(make_sandbox(40, 200, 4, rng=0), settings=WorldSettings(k=2))
    grid = {"likelihood": ["logistic"]}
    found = tune(world, {"paper": PaperTensorUCB(rank=1)}, rounds=1, grids={"paper": grid})
    assert found.policies["paper"].get_params() == PaperTensorUCB(rank=1, likelihood="logistic").get_params()
