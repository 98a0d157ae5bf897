"""Policies as scikit-learn and its relatives handle estimators: parameters, changes, clones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, StateError
from tensorucb.policies import LinUCB
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
