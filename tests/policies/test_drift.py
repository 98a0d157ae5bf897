"""The drift alarm keeps its false-alarm rate, notices a change, and the policy that forgets recovers from it.

The tables of docs/howto/drift.md are made by ``python -m studies.drift``.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from studies.drift import play, sandbox_worlds
from tensorucb.data import read_dataset
from tensorucb.errors import InputError, StateError
from tensorucb.experiments import environment_from_dataset
from tensorucb.files import pack_state, unpack_state
from tensorucb.policies import COIN, CUCB, LinUCB, LogisticUCB, PolicyState, TensorUCB, Thompson, check_policy
from tensorucb.policies.drift import DriftAlarm, DriftState, ForgetOnDrift

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
CHANGE, ROUNDS = 120, 240


def rounds_to_alarm(alarm: DriftAlarm, misfits: np.ndarray) -> int:
    """The round, from 1, in which the alarm rings; one more than there are for never."""
    alarm.reset()
    return next((t + 1 for t, misfit in enumerate(misfits) if alarm.update(misfit).alarm), misfits.size + 1)


# -- the alarm --


@pytest.mark.parametrize("kind", ["heavy", "ties", "by product", "learning"])
def test_false_alarms_within_h_rounds_are_rarer_than_h_over_run_length(kind):
    """150 null streams of 80 rounds, of any distribution: at most 80 / 400 of them may ring."""
    rng = np.random.default_rng(1)
    streams = {
        "heavy": rng.standard_cauchy((150, 80)) ** 2,
        "ties": rng.integers(0, 3, (150, 80)).astype(float),
        # Products differ in popularity: most rounds are calm, some surprise a lot.
        "by product": rng.choice(np.geomspace(0.1, 1000.0, 20), (150, 80)) * rng.exponential(size=(150, 80)),
        # Misfits of a policy that still learns get smaller.
        "learning": rng.exponential(size=(150, 80)) * (1.0 + 20.0 * np.exp(-np.arange(80) / 20.0)),
    }[kind]
    rung = sum(rounds_to_alarm(DriftAlarm(run_length=400.0), stream) <= 80 for stream in streams)
    assert rung / 150 <= 80 / 400


def test_the_false_alarm_rate_is_not_vacuous():
    """The bound is of the right order: most long null streams do ring, fewer than allowed in a short time."""
    rng, alarm = np.random.default_rng(2), DriftAlarm(run_length=20.0)
    times = np.array([rounds_to_alarm(alarm, rng.exponential(size=150)) for _ in range(100)])
    assert (times <= 150).mean() > 0.3
    # Times are cut off at 151, which can only lower their mean.
    assert times.mean() >= 20.0
    for horizon in (2, 5, 10):
        assert (times <= horizon).mean() <= horizon / 20.0


def test_one_surprising_round_rings_no_alarm():
    rng, alarm = np.random.default_rng(3), DriftAlarm()
    stream = rng.exponential(size=300)
    stream[[100, 180, 250]] = 1e12
    assert rounds_to_alarm(alarm, stream) == 301


@pytest.mark.parametrize(("ordinary", "within"), [(20, 12), (60, 8), (200, 6)])
def test_a_change_is_noticed_with_its_time(ordinary, within):
    """Misfits become ten times as large; the more ordinary rounds came before, the sooner it is noticed."""
    delays, errors = [], []
    for seed in range(20):
        rng, alarm = np.random.default_rng([3, seed]), DriftAlarm(run_length=20_000.0)
        scale = np.where(np.arange(ordinary + 60) < ordinary, 1.0, 10.0)
        rung = rounds_to_alarm(alarm, scale * rng.chisquare(2, size=ordinary + 60))
        assert rung > ordinary
        delays.append(rung - ordinary)
        errors.append(abs(alarm.state.change - ordinary))
    assert np.median(delays) <= within
    assert np.median(errors) <= 3


def test_the_state_is_frozen_json_and_stays_until_reset():
    alarm = DriftAlarm(run_length=10.0)
    for t in range(40):
        alarm.update(float(t))
    state = alarm.update(0.0)
    assert state.alarm
    again = json.loads(json.dumps(asdict(state), allow_nan=False))
    assert DriftState(**{k: tuple(v) if isinstance(v, list) else v for k, v in again.items()}) == state
    with pytest.raises(AttributeError):
        state.alarm = False
    alarm.reset()
    assert alarm.state == DriftState()
    json.dumps(asdict(alarm.state), allow_nan=False)


def places(labels: tuple[bool, ...], bet: float) -> float:
    """How probable these places of new ones are in ascending order, if new ones have ``bet`` times the hazard."""
    probability, old, new = 1.0, labels.count(False), labels.count(True)
    for is_new in labels:
        share = bet * new / (old + bet * new)
        probability *= share if is_new else 1.0 - share
        old, new = old - (not is_new), new - is_new
    return probability


BETS = (0.5, 0.2, 0.05)  # how much rarer high ranks are among old rounds, each with the same weight


def test_evidence_is_the_shiryaev_roberts_sum_of_likelihood_ratios_of_ranks():
    """Against the model written out: ratios over all places have mean 1, and their sum is the evidence."""
    misfits = np.random.default_rng(5).permutation(9).astype(float)
    alarm = DriftAlarm(run_length=1e9)
    for misfit in misfits:
        state = alarm.update(misfit)
    total = 0.0
    for start in range(1, 9):
        labels = tuple((np.argsort(misfits) >= start).tolist())
        everywhere = set(itertools.permutations(labels))
        for bet in BETS:
            assert sum(places(other, bet) for other in everywhere) == pytest.approx(1.0)
            total += places(labels, bet) * len(everywhere) / len(BETS)
    assert np.expm1(state.evidence) == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("run_length", [0.5, float("nan")])
def test_a_bad_alarm_is_refused(run_length):
    with pytest.raises(InputError):
        DriftAlarm(run_length=run_length)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_bad_round_is_refused_and_changes_nothing(bad):
    alarm = DriftAlarm()
    with pytest.raises(InputError):
        alarm.update(bad)
    assert alarm.state == DriftState()


# -- the policy that forgets --


@pytest.mark.parametrize(
    "factory",
    [
        lambda: ForgetOnDrift(LinUCB(), warm_up=1),
        lambda: ForgetOnDrift(TensorUCB(rank=2), warm_up=1),
        lambda: ForgetOnDrift(CUCB(), warm_up=1),
        lambda: ForgetOnDrift(Thompson(), warm_up=1, memory=2),
        # Rings in nearly every round, so that the checks go through restarts.
        lambda: ForgetOnDrift(CUCB(), run_length=1.0, warm_up=1),
        lambda: ForgetOnDrift(COIN(), run_length=1.0, warm_up=1),
    ],
)
def test_it_passes_check_policy(factory):
    check_policy(factory)


def test_it_passes_check_policy_with_two_modes():
    check_policy(lambda: ForgetOnDrift(CUCB(), run_length=1.0, warm_up=1), modes=2)


worlds = lru_cache(maxsize=4)(sandbox_worlds)


def regret(policy, seed: int, *, change: int = CHANGE, rounds: int = ROUNDS) -> np.ndarray:
    """Regret of each round, f(S*) − f(S), on a stream whose truth changes after ``change`` rounds."""
    played = play(policy, worlds(seed), rounds=rounds, change=change, run=seed)
    return np.array([world.optimum(item).spread - world.evaluate(item, rows) for world, item, rows in played])


def compare(seed: int) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Regret alone, regret with the alarm, and when it rang."""
    alone = regret(LogisticUCB(), seed)
    wrapped = ForgetOnDrift(LogisticUCB())
    return alone, regret(wrapped, seed), wrapped.alarms


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.slow
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
    regret(wrapped, 1, change=ROUNDS)
    assert wrapped.alarms == ()


@pytest.mark.slow
@pytest.mark.parametrize("log", ["digg_core", "christianity"])
def test_no_more_alarms_than_promised_on_logs_that_stand_still(log):
    """5 runs of 150 rounds around LinUCB: at most 6.5 % of runs ring, so that 3 of 5 have a probability of 0.003."""
    if not (DATA / log).exists():
        pytest.skip("the shared data sets are not on this machine")
    world = environment_from_dataset(read_dataset(DATA / log))
    rung = 0
    for run in range(5):
        wrapped = ForgetOnDrift(LinUCB())
        for _ in play(wrapped, (world, world), rounds=150, change=150, run=run):
            pass
        rung += bool(wrapped.alarms)
    assert rung <= 2


def test_a_saved_stream_goes_on_bit_for_bit_across_an_alarm():
    def told(policy, rounds):
        for t in rounds:
            rng = np.random.default_rng([9, t])
            edges = rng.choice(world.graph.n_edges, size=60, replace=False)
            policy.update(world.products[t % 6], edges, (rng.random(60) < (0.3 if t < 40 else 0.02)).astype(float))

    world, _ = worlds(0)
    one, two = (ForgetOnDrift(LinUCB(), warm_up=5, run_length=100.0) for _ in range(2))
    one.bind(world.graph, world.users, 0)
    two.bind(world.graph, world.users, 7)
    told(one, range(42))
    saved = one.state()
    two.restore(PolicyState(*unpack_state(pack_state("policy", saved.settings, saved.arrays), "policy")))
    told(one, range(42, 70))
    told(two, range(42, 70))
    assert one.alarms == two.alarms
    assert len(one.alarms) >= 1
    assert np.array_equal(one.score(world.products[0]), two.score(world.products[0]))


def test_it_starts_again_with_the_rounds_since_the_change():
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
        assert np.allclose(policy.prediction(world.products[0]).expected(), mean, atol=1e-4)
        assert policy.exploration == 1.0


def test_misuse_is_refused():
    world, _ = worlds(0)
    with pytest.raises(InputError, match="policy object"):
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
    for name, value in (("totals", np.zeros(3)), ("log_offsets", np.array([0, 5]))):
        with pytest.raises(InputError, match=r"totals|fit together"):
            policy.restore(PolicyState(state.settings, {**state.arrays, name: value}))
