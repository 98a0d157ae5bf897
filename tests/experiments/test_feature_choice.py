"""Choosing features: the sets, the best one, worlds that differ in nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings
from tensorucb.experiments._tuning import choose_features, feature_sets
from tensorucb.features import UserProfile
from tensorucb.policies import LinUCB, TensorUCB


@pytest.fixture(scope="module")
def world():
    box = make_sandbox(150, 1500, 20, n_topics=3, rng=0)
    rng = np.random.default_rng(1)
    rate = np.bincount(box.graph.sources, np.mean([box.probabilities(i) for i in range(5)], axis=0), 150)
    credit = np.outer(rate, np.ones(3)) + 0.1
    profile = UserProfile(
        rng.normal(size=(150, 1)),
        rng.poisson(1.0, (150, 3)),
        credit,
        np.outer(box.graph.out_degree, np.ones(3)) + 1.0,
        rng.normal(size=(150, 4)),
    )
    return Environment(box.graph, profile, box.products, box.probabilities, settings=WorldSettings(k=4))


def test_sets_leave_out_the_past_or_the_coordinates(world):
    sets = feature_sets(world)
    assert list(sets) == ["past", "coordinates", "everything"]
    assert set(sets["past"].users.parts()) == {"features", "taste", "credit", "exposure"}
    assert set(sets["coordinates"].users.parts()) == {"features", "coordinates"}
    assert sets["everything"] is world
    for other in sets.values():
        assert other.graph is world.graph
        assert other.optimum(3).spread == world.optimum(3).spread
        np.testing.assert_array_equal(other.probabilities(2), world.probabilities(2))
        np.testing.assert_array_equal(*(w.observe(1, [0, 5], seed=0, run=0, round_number=2)[1] for w in (other, world)))


def test_the_best_set_is_chosen_and_equals_go_to_the_smaller(world):
    seen = []
    found = choose_features(world, LinUCB(), rounds=6, report=lambda *what: seen.append(what))
    assert found.chosen == min(found.regret, key=found.regret.get)
    assert [what[:2] for what in seen] == [(done, 18) for done in range(1, 19)]
    # TensorUCB leaves coordinates out, so both sets with the past are one to it.
    ours = choose_features(world, TensorUCB(), rounds=6)
    assert ours.regret["past"] == ours.regret["everything"]
    assert ours.chosen != "everything"
    assert ours.environment is not world


def test_plain_features_leave_nothing_to_choose(world):
    plain = world.with_users(np.ones((150, 2)))
    assert feature_sets(plain) == {"everything": plain}
    assert choose_features(plain, LinUCB(), rounds=2).chosen == "everything"
    with pytest.raises(InputError, match="rounds"):
        choose_features(plain, LinUCB(), rounds=0)
