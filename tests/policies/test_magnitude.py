"""Features too large to compute with are refused at the door; those just below it harm no policy."""

from __future__ import annotations

import numpy as np
import pytest

from tensorucb import policies
from tensorucb.checks import LARGEST
from tensorucb.errors import InputError
from tensorucb.policies import LinUCB, PolicyState, TensorUCB, UCBPolicy
from tensorucb.policies.check import make_playground

OWN = [
    kind
    for name in policies.__all__
    if isinstance(kind := getattr(policies, name), type) and issubclass(kind, UCBPolicy) and kind is not UCBPolicy
]
WORLD = make_playground(modes=1, k=3, seed=0)


def bound_to(policy, users=WORLD.users):
    policy.bind(WORLD.graph, users, np.random.default_rng(0))
    return policy


@pytest.mark.parametrize("size", [1e200, np.finfo(np.float64).max, -1e100, 1.01 * LARGEST])
@pytest.mark.parametrize("kind", OWN)
def test_larger_features_are_refused(kind, size):
    policy = bound_to(kind())
    product = np.array([size, 0.0, 1.0])
    for call in (policy.score, lambda p: policy.update(p, [0], [1.0])):
        with pytest.raises(InputError, match=r"must be numbers in .* Scale them"):
            call(product)
    users = WORLD.users.copy()
    users[3, 1] = size
    with pytest.raises(InputError, match=r"users must be numbers in .* Scale them"):
        bound_to(kind(), users)


@pytest.mark.filterwarnings("ignore:the features of a product:UserWarning")
@pytest.mark.parametrize("modes", [1, 3])
@pytest.mark.parametrize("kind", OWN)
def test_features_at_the_bound_leave_every_policy_with_numbers(kind, modes):
    policy = bound_to(kind(), WORLD.users * (LARGEST / np.abs(WORLD.users).max()))
    rng = np.random.default_rng(1)
    for t in range(9):
        vector = WORLD.products[t % 4] * (LARGEST if t % 3 == 1 else 1.0) * (-1) ** t
        product = vector if modes == 1 else [vector] * modes
        edges, outcomes = WORLD.feedback(t, rng.choice(40, 3, replace=False))
        policy.update(product, edges, outcomes)
        assert np.isfinite(policy.score(product)).all()
        assert np.isfinite(policy.score(WORLD.products[0] if modes == 1 else [WORLD.products[0]] * modes)).all()
    arrays = policy.state().arrays
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")


@pytest.mark.parametrize("kind", [LinUCB, TensorUCB.paper, TensorUCB])
def test_a_state_with_nan_is_not_restored(kind):
    policy = bound_to(kind())
    policy.update(WORLD.products[0], *WORLD.feedback(0, np.array([1, 2])))
    state = policy.state()
    name = next(name for name, array in state.arrays.items() if array.dtype.kind == "f" and array.size)
    bad = state.arrays[name].copy()
    bad.flat[0] = np.nan
    with pytest.raises(InputError, match="NaN or infinity"):
        policy.restore(PolicyState(state.settings, {**state.arrays, name: bad}))
    np.testing.assert_array_equal(policy.state().arrays[name], state.arrays[name])
