"""The study of tired followers on a tiny setting."""

from __future__ import annotations

import numpy as np

from studies import fatigue
from studies.changed_worlds import Fatigue
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment
from tensorucb.policies import HighDegree


def test_rests_change_who_is_asked_only_once_one_is_suggested():
    world = Fatigue(Environment.from_sandbox(make_sandbox(300, 3000, 3, rng=0)))
    played = {way: fatigue.play(world, HighDegree(), way, rounds=8, run=1) for way in fatigue.WAYS}
    never, first = played["never rests"]
    assert first == 9
    assert never[0] > never[-1]
    for reach, began in played.values():
        assert np.array_equal(reach[: began - 1], never[: began - 1])
