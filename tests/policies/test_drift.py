"""The drift alarm keeps its false-alarm rate, notices a change, and the policy that forgets recovers from it.

``python tests/policies/test_drift.py`` prints the numbers of docs/drift.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

import numpy as np
import pytest

from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, StateError
from tensorucb.experiments import Environment, WorldSettings
from tensorucb.files import pack_state, unpack_state
from tensorucb.policies import COIN, CUCB, LinUCB, PolicyState, TensorUCB, Thompson, check_policy
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.policies.drift import DriftAlarm, DriftState, ForgetOnDrift

CHANGE, ROUNDS = 120, 240


def rounds_to_alarm(alarm: DriftAlarm, rng: np.random.Generator, p: np.ndarray, truth: np.ndarray, rounds: int) -> int:
    """The round, from 1, in which the alarm rings on coins of ``truth`` predicted as ``p``; rounds + 1 for never."""
    alarm.reset()
    expected, variance = p.sum(), (p * (1 - p)).sum()
    for t, observed in enumerate((rng.random((rounds, p.size)) < truth).sum(axis=1)):
        if alarm.update(expected, variance, observed).alarm:
            return t + 1
    return rounds + 1


# -- the alarm --


@pytest.mark.parametrize("shift", [0.9, 1.1])
def test_false_alarms_within_h_rounds_are_rarer_than_h_over_run_length(shift):
    """200 null streams of 100 rounds at the edges of the tolerance: at most 100 / 500 of them may ring."""
    rng, p = np.random.default_rng(1), np.random.default_rng(0).uniform(0.02, 0.3, size=40)
    alarm = DriftAlarm(run_length=500.0, tolerance=0.1)
    rung = sum(rounds_to_alarm(alarm, rng, p, shift * p, 100) <= 100 for _ in range(200))
    assert rung / 200 <= 100 / 500


def test_the_false_alarm_rate_is_not_vacuous():
    """Without tolerance the bound is of the right order: some null streams do ring, fewer than allowed."""
    rng, p = np.random.default_rng(2), np.full(50, 0.2)
    alarm = DriftAlarm(run_length=20.0, tolerance=0.0)
    times = np.array([rounds_to_alarm(alarm, rng, p, p, 400) for _ in range(200)])
    assert (times <= 400).mean() > 0.3
    # Times are cut off at 401, which can only lower their mean.
    assert times.mean() >= 20.0
    for horizon in (2, 5, 10):
        assert (times <= horizon).mean() <= horizon / 20.0


@pytest.mark.parametrize(
    ("factor", "direction", "within"), [(0.5, "fewer", 15), (1.7, "more", 15), (0.75, "fewer", 60)]
)
def test_a_change_is_noticed_with_its_time_and_direction(factor, direction, within):
    p = np.random.default_rng(0).uniform(0.02, 0.3, size=100)
    delays, errors = [], []
    for seed in range(20):
        rng, alarm = np.random.default_rng([3, seed]), DriftAlarm(run_length=2000.0)
        for t in range(400):
            truth = p if t < 60 else factor * p
            state = alarm.update(p.sum(), (p * (1 - p)).sum(), (rng.random(p.size) < truth).sum())
            if state.alarm:
                break
        assert state.rounds > 60
        assert state.direction == direction
        delays.append(state.rounds - 60)
        errors.append(abs(state.change - 60))
    assert max(delays) <= within
    assert np.median(errors) <= 3


def test_the_state_is_frozen_json_and_stays_until_reset():
    alarm = DriftAlarm(run_length=10.0)
    for _ in range(20):
        alarm.update(10.0, 9.0, 0.0)
    state = alarm.update(10.0, 9.0, 10.0)
    assert state.alarm
    again = json.loads(json.dumps(asdict(state), allow_nan=False))
    assert DriftState(**{k: tuple(v) if isinstance(v, list) else v for k, v in again.items()}) == state
    with pytest.raises(AttributeError):
        state.alarm = False
    alarm.reset()
    assert alarm.state == DriftState()
    json.dumps(asdict(alarm.state), allow_nan=False)


def test_evidence_is_the_shiryaev_roberts_sum():
    """Against the sum over all change points, written out."""
    from tensorucb.policies.drift import _BETS

    rng, tau = np.random.default_rng(5), 0.1
    e, v, o = rng.uniform(1, 5, 12), rng.uniform(0.5, 4, 12), rng.integers(0, 8, 12)
    alarm = DriftAlarm(run_length=1e9, tolerance=tau)
    for t in range(12):
        state = alarm.update(e[t], v[t], o[t])
    sums = []
    for bet in _BETS:
        size = abs(bet)
        factors = np.exp(bet * (o - e) - size * tau * e - (1 + tau) * v * (np.exp(size) - 1 - size))
        sums.append(sum(np.prod(factors[s:]) for s in range(12)))
    assert np.expm1(state.evidence) == pytest.approx(np.mean(sums), rel=1e-10)


@pytest.mark.parametrize("arguments", [{"run_length": 0.5}, {"tolerance": -0.1}, {"run_length": float("nan")}])
def test_a_bad_alarm_is_refused(arguments):
    with pytest.raises(InputError):
        DriftAlarm(**arguments)


@pytest.mark.parametrize("bad", [(-1.0, 1.0, 1.0), (1.0, float("nan"), 1.0), (1.0, 1.0, float("inf"))])
def test_a_bad_round_is_refused_and_changes_nothing(bad):
    alarm = DriftAlarm()
    with pytest.raises(InputError):
        alarm.update(*bad)
    assert alarm.state == DriftState()


# -- the policy that forgets --


@pytest.mark.parametrize(
    "factory",
    [
        lambda: ForgetOnDrift(LinUCB(), warm_up=1),
        lambda: ForgetOnDrift(TensorUCB(rank=2), warm_up=1),
        lambda: ForgetOnDrift(CUCB(), warm_up=1, familiar=1),
        lambda: ForgetOnDrift(Thompson(), warm_up=1, memory=2),
        # Rings in nearly every round, so that the checks go through restarts.
        lambda: ForgetOnDrift(CUCB(), run_length=1.0, tolerance=0.0, warm_up=1),
        lambda: ForgetOnDrift(COIN(), run_length=1.0, tolerance=0.0, warm_up=1),
    ],
)
def test_it_passes_check_policy(factory):
    check_policy(factory)


def test_it_passes_check_policy_with_two_modes():
    check_policy(lambda: ForgetOnDrift(CUCB(), run_length=1.0, tolerance=0.0, warm_up=1), modes=2)


@lru_cache(maxsize=4)
def worlds(seed: int) -> tuple[Environment, Environment]:
    """A sandbox, and the same one with its edge probabilities permuted: the strongest edges become the weakest."""
    box = make_sandbox(100, 1000, 6, n_topics=4, base_rate=0.05, rng=seed)
    mean = np.mean([box.probabilities(i) for i in range(6)], axis=0)
    ascending = np.argsort(mean, kind="stable")
    order = np.empty_like(ascending)
    order[ascending] = ascending[::-1]
    settings = WorldSettings(k=5)
    after = Environment(
        box.graph, box.users, box.products, lambda i: box.probabilities(i)[order], settings=settings, name="permuted"
    )
    return Environment.from_sandbox(box, settings=settings), after


def play(policy, seed: int, *, change: int = CHANGE, rounds: int = ROUNDS) -> np.ndarray:
    """Regret of each round, f(S*) − f(S), on a stream whose truth changes after ``change`` rounds."""
    before, after = worlds(seed)
    policy.bind(before.graph, before.users, np.random.default_rng([seed, 1]))
    oracle = before.oracle(np.random.default_rng([seed, 2]))
    products = np.random.default_rng([seed, 3]).integers(0, 6, size=rounds)
    regret = np.empty(rounds)
    for t, number in enumerate(products.tolist()):
        world = before if t < change else after
        rows = policy.choose(world.products[number], world.settings.k, oracle)
        policy.update(world.products[number], *world.observe(number, rows, seed=seed, run=0, round_number=t))
        regret[t] = world.optimum(number).spread - world.evaluate(number, rows)
    return regret


def compare(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Regret alone, regret with the alarm, and when it rang."""
    alone = play(TensorUCB(rank=2), seed)
    wrapped = ForgetOnDrift(TensorUCB(rank=2))
    return alone, play(wrapped, seed), wrapped.alarms


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_the_alarm_rings_after_the_change_and_forgetting_pays(seed):
    """Rings once, within 20 rounds of the change, and at most half of the regret is left."""
    alone, forgetting, alarms = compare(seed)
    assert len(alarms) == 1
    assert CHANGE < alarms[0] <= CHANGE + 20
    # Until it rings, the wrapped policy is the policy itself.
    assert np.array_equal(alone[: alarms[0]], forgetting[: alarms[0]])
    assert forgetting[CHANGE:].mean() < 0.5 * alone[CHANGE:].mean()


def test_no_alarm_while_nothing_changes():
    wrapped = ForgetOnDrift(TensorUCB(rank=2))
    play(wrapped, 1, change=ROUNDS)
    assert wrapped.alarms == ()


def test_a_saved_stream_goes_on_bit_for_bit_across_an_alarm():
    def told(policy, rounds):
        for t in rounds:
            rng = np.random.default_rng([9, t])
            edges = rng.choice(world.graph.n_edges, size=60, replace=False)
            policy.update(world.products[t % 6], edges, (rng.random(60) < (0.3 if t < 20 else 0.02)).astype(float))

    world, _ = worlds(0)
    one, two = (ForgetOnDrift(LinUCB(), warm_up=5, run_length=100.0) for _ in range(2))
    one.bind(world.graph, world.users, 0)
    two.bind(world.graph, world.users, 7)
    told(one, range(22))
    saved = one.state()
    two.restore(PolicyState(*unpack_state(pack_state("policy", saved.settings, saved.arrays), "policy")))
    told(one, range(22, 60))
    told(two, range(22, 60))
    assert one.alarms == two.alarms
    assert len(one.alarms) >= 1
    assert np.array_equal(one.score(world.products[0]), two.score(world.products[0]))


def test_it_starts_anew_with_the_rounds_since_the_change():
    """Outcomes fall to nothing after round 40: afterwards nothing is left of what was learned before."""
    world, _ = worlds(0)
    policy = ForgetOnDrift(LinUCB(exploration=0.0), warm_up=20, run_length=100.0)
    policy.bind(world.graph, world.users, 0)
    fresh = LinUCB(exploration=0.0)
    fresh.bind(world.graph, world.users, 0)
    for t in range(60):
        rng = np.random.default_rng([9, t])
        edges = rng.choice(world.graph.n_edges, size=100, replace=False)
        outcomes = (rng.random(100) < (0.3 if t < 40 else 0.0)).astype(float)
        policy.update(world.products[t % 6], edges, outcomes)
        if t >= 40:
            fresh.update(world.products[t % 6], edges, outcomes)
    assert len(policy.alarms) == 1
    assert 40 < policy.alarms[0] <= 45
    assert np.abs(policy.score(world.products[0]) - fresh.score(world.products[0])).max() < 0.03


def test_expectations_leave_out_the_bonus():
    world, _ = worlds(0)
    linear, drawing = LinUCB(exploration=1.0), Thompson(base_rate=0.1, prior_trials=10.0)
    for policy, mean in ((linear, 0.0), (drawing, 0.1)):
        policy.bind(world.graph, world.users, 0)
        assert np.abs(policy.score(world.products[0]) - mean).max() > 0.1
        assert np.allclose(expected_probabilities(policy, world.products[0]), mean, atol=1e-4)
        assert policy.exploration == 1.0


def test_misuse_is_refused():
    world, _ = worlds(0)
    with pytest.raises(InputError, match="Policy"):
        ForgetOnDrift("LinUCB")
    policy = ForgetOnDrift(LinUCB())
    with pytest.raises(StateError, match="bind"):
        policy.update([1.0], [], [])
    policy.bind(world.graph, world.users, 0)
    other = ForgetOnDrift(LinUCB(), memory=3)
    other.bind(world.graph, world.users, 0)
    with pytest.raises(InputError, match="arguments"):
        policy.restore(other.state())
    state = policy.state()
    for name, value in (("seen", np.zeros(3, dtype=np.int64)), ("log_offsets", np.array([0, 5]))):
        with pytest.raises(InputError, match=r"edges|fit together"):
            policy.restore(PolicyState(state.settings, {**state.arrays, name: value}))


if __name__ == "__main__":
    print("seed  alarm after  regret before  alone after  forgetting after")
    for number in range(6):
        plain, better, rang = compare(number)
        when = ", ".join(str(t - CHANGE) for t in rang) or "never"
        numbers = plain[:CHANGE].mean(), plain[CHANGE:].mean(), better[CHANGE:].mean()
        print(f"{number:4d}  {when:>11}  {numbers[0]:13.2f}  {numbers[1]:11.2f}  {numbers[2]:16.2f}")
    still = 0
    for number in range(8):
        watched = ForgetOnDrift(TensorUCB(rank=2))
        play(watched, number, change=300, rounds=300)
        still += len(watched.alarms)
    print(f"alarms in 8 streams of 300 rounds without a change: {still}")
