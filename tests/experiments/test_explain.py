from __future__ import annotations

import numpy as np
import pytest

from tensorucb.experiments import explain_seeds, run_policy
from tensorucb.policies import LinUCB, Random, TensorUCB


def test_reasons_add_up(world):
    policy = LinUCB(exploration=0.5)
    run_policy(world, policy, rounds=5)
    product, rows = world.products[0], [4, 9, 30]
    reasons = explain_seeds(world.graph, policy, product, rows)
    bold = policy.score(product)
    for row, reason in zip(rows, reasons, strict=True):
        edges = np.flatnonzero(world.graph.sources == row)
        assert reason.id == world.graph.ids[row]
        assert reason.followers == edges.size
        assert reason.expected + reason.explored == pytest.approx(bold[edges].sum())
        assert 0 <= reason.gain <= reason.expected + 1e-12
        probabilities = [follower.probability for follower in reason.strongest]
        assert probabilities == sorted(probabilities, reverse=True)
    assert policy.exploration == 0.5


def test_gains_are_the_believed_direct_spread(world):
    from tensorucb.diffusion import direct_spread

    policy = LinUCB(exploration=0.5)
    run_policy(world, policy, rounds=5)
    believed = policy.prediction(world.products[0]).expected()
    reasons = explain_seeds(world.graph, policy, world.products[0], [4, 9, 30])
    assert 3 + sum(r.gain for r in reasons) == pytest.approx(direct_spread(world.graph, believed, [4, 9, 30]))


def test_the_bonus_of_a_round_level_is_no_exploration(world):
    policy = TensorUCB(exploration=0.01)
    run_policy(world, policy, rounds=5)
    prediction = policy.prediction(world.products[0])
    assert prediction.expected().sum() > policy.score(world.products[0]).sum()  # what would make them negative
    reasons = explain_seeds(world.graph, policy, world.products[0], range(world.graph.n_nodes))
    assert all(reason.explored >= 0.0 for reason in reasons)
    assert sum(reason.explored for reason in reasons) > 0.0


def test_policies_without_exploration_have_none(world):
    policy = Random()
    run_policy(world, policy, rounds=2)
    assert all(reason.explored == 0.0 for reason in explain_seeds(world.graph, policy, world.products[0], [1, 2]))
