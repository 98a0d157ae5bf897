from __future__ import annotations

import numpy as np
import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError
from tensorucb.experiments import Environment, WorldSettings, WorldWithNewcomers, run_experiment, run_policy
from tensorucb.policies import CUCB, DILinUCB, HighDegree, Random, TensorUCB


class Recorder(Random):
    """Remembers every round's seeds and products."""

    name = "Recorder"

    def __init__(self):
        self.rounds = []

    def settings(self):
        return {}

    def choose(self, product, k, oracle):
        rows = super().choose(product, k, oracle)
        self.rounds.append((tuple(product), rows))
        return rows


@pytest.fixture(scope="module")
def world():
    box = make_sandbox(400, 6000, 30, n_topics=5, rng=2)
    return Environment.from_sandbox(box, settings=WorldSettings(k=5))


def test_nobody_and_nothing_new_is_seen_before_the_arrival(world):
    policy = Recorder()
    run_policy(WorldWithNewcomers(world, share=0.5, arrival=40), policy, rounds=80)
    before, after = policy.rounds[:40], policy.rounds[40:]
    assert not {p for p, _ in before} & {p for p, _ in after}
    seeded_before = np.unique(np.concatenate([rows for _, rows in before]))
    seeded_after = np.unique(np.concatenate([rows for _, rows in after]))
    assert np.setdiff1d(seeded_after, seeded_before).size > 0.3 * seeded_after.size


@pytest.mark.slow
def test_features_carry_over_to_newcomers_and_node_wise_learning_does_not(world):
    others = {
        "per source": DILinUCB(exploration=0.1),
        "per edge": CUCB(),
        "degree": HighDegree(),
    }
    late = WorldWithNewcomers(world, arrival=40)
    played = run_experiment(late, {"tensor": TensorUCB(), **others}, rounds=50, runs=12)
    regret = {label: played.final(label, last=10).mean for label in played.policies}
    # Seed 0, 12 runs of 10 rounds after the arrival: the tensor at most 0.6 of what any of the others loses.
    assert all(regret["tensor"] < 0.6 * regret[label] for label in others)


def test_share_is_checked(world):
    with pytest.raises(InputError, match="share must be a number in"):
        WorldWithNewcomers(world, share=1.0)
