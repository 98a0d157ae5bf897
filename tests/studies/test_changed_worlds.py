from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from studies.changed_worlds import CHANGES, Drift, Fatigue, NoisyRounds, Unlogged, sources_reversed
from tensorucb.data import make_sandbox
from tensorucb.experiments import Environment, WorldSettings, run_policy
from tensorucb.policies import HighDegree, LinUCB

ROUNDS = 3000
NUMBERS = {"seed": 0, "run": 0}


@pytest.fixture(scope="module")
def world():
    box = make_sandbox(25, 150, 4, n_topics=3, base_rate=0.2, rng=0)
    return Environment.from_sandbox(box, settings=WorldSettings(k=3))


@pytest.mark.parametrize("name", CHANGES)
def test_every_world_is_played_as_any_other_and_repeats_itself(world, name):
    place = CHANGES[name](world, 8)
    first, again = (run_policy(place, LinUCB(), rounds=8, run=1) for _ in range(2))
    assert first["spread"].equals(again["spread"])
    assert (first["spread"] >= 3.0 - 1e-9).all()
    assert (first["optimum"] >= first["spread"] - 0.2).all()  # greedy need not be the best
    assert len({CHANGES[other](world, 8).name for other in CHANGES}) == len(CHANGES)  # kept runs go by the name


@pytest.mark.parametrize("name", ["told per user", "two contacts needed", "linear threshold"])
def test_reach_is_the_mean_number_of_those_told_to_respond(world, name):
    """3,000 rounds: the standard error of the mean is below 0.05."""
    place, rows = CHANGES[name](world, 8), np.argsort(-world.graph.out_degree)[:4]
    reached = np.zeros(ROUNDS)
    for t in range(ROUNDS):
        edges, outcomes = place.observe(1, rows, **NUMBERS, round_number=t)
        targets = world.graph.targets[edges]
        responders = np.unique(targets[outcomes > 0.0])
        reached[t] = np.setdiff1d(responders, rows).size
        # Told per user: all contacted in-edges of a follower have the same outcome.
        assert np.array_equal(outcomes > 0.0, np.isin(targets, responders))
    assert reached.mean() + rows.size == pytest.approx(place.evaluate(1, rows), abs=0.15)


@pytest.mark.parametrize("name", ["two contacts needed", "linear threshold"])
def test_the_best_choice_is_near_the_best_of_all(world, name):
    place = CHANGES[name](world, 8)
    for product in range(3):
        best = max(place.evaluate(product, np.array(rows)) for rows in combinations(range(25), 3))
        assert place.optimum(product).spread >= 0.97 * best


def test_a_single_contact_brings_nobody_where_two_are_needed(world):
    assert CHANGES["two contacts needed"](world, 8).evaluate(0, [4]) == pytest.approx(1.0)


def test_noise_shifts_all_logits_of_a_round_alike(world):
    noisy = NoisyRounds(world, deviation=0.7)

    def logits(place):
        p = np.clip(place.probabilities(0), 1e-9, 1.0 - 1e-9)
        return np.log(p / (1.0 - p))

    shifts = [logits(noisy.in_round(t, **NUMBERS)) - logits(world) for t in range(300)]
    assert max(float(np.ptp(shift)) for shift in shifts) < 1e-6
    assert np.std([shift.mean() for shift in shifts]) == pytest.approx(0.7, abs=0.09)


def test_each_contact_halves_the_next_response_and_rest_restores_it(world):
    tired, rows = Fatigue(world, memory=2), [0]
    followers = world.graph.out_edges(np.array(rows))
    for t, factor in enumerate((1.0, 0.5, 0.25, 0.25)):
        place = tired.in_round(t, **NUMBERS)
        np.testing.assert_allclose(place.probabilities(0)[followers], factor * world.probabilities(0)[followers])
        assert place.optimum(0).spread == world.optimum(0).spread
        place.observe(0, rows, **NUMBERS, round_number=t)
    np.testing.assert_allclose(tired.in_round(0, **NUMBERS).probabilities(0), world.probabilities(0))  # another run


def test_a_share_of_those_who_respond_is_not_told(world):
    rows, place = np.arange(25), Unlogged(world, 0.2)
    told, there = 0.0, 0.0
    for t in range(100):
        told += place.observe(0, rows, **NUMBERS, round_number=t)[1].sum()
        there += world.observe(0, rows, **NUMBERS, round_number=t)[1].sum()
    assert told / there == pytest.approx(0.8, abs=0.02)
    assert place.evaluate(0, [1, 2, 3]) == world.evaluate(0, [1, 2, 3])


def test_reversed_sources_turn_the_ranks_and_only_after_the_change(world):
    after = sources_reversed(world)
    drift = Drift(world, after, 5)
    assert drift.in_round(4, **NUMBERS) is world
    assert drift.in_round(5, **NUMBERS) is after

    def strength(place):
        logits = [np.log(p / (1.0 - p)) for p in (place.probabilities(i) for i in range(4))]
        sums = np.bincount(world.graph.sources, np.mean(logits, axis=0), 25)
        return (sums / np.maximum(world.graph.out_degree, 1))[world.graph.out_degree > 0]

    before, now = strength(world), strength(after)
    np.testing.assert_allclose(np.sort(now), np.sort(before))
    assert np.array_equal(np.argsort(now), np.argsort(before)[::-1])
    found = run_policy(drift, HighDegree(), rounds=10)
    assert found.height == 10
