"""Drift: an alarm with a stated false-alarm rate, and a policy that forgets when it rings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.checks import check_count, check_number
from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.graph import Graph
from tensorucb.policies._base import (
    Grid,
    Oracle,
    Policy,
    PolicyState,
    Product,
    arguments_of,
    as_modes,
    as_observations,
    check_policy_object,
    parts_of_state,
)
from tensorucb.policies.prediction import ROUNDS, Prediction
from tensorucb.rng import RngLike, as_generator, stream_key

# Hazard ratios of new to old misfits that the alarm bets on: misfits that grow by about a factor of 2, 5 or 20.
_BETS: tuple[float, ...] = (0.5, 0.2, 0.05)
# Changes longer ago than this many rounds are no longer looked for, so that time per round stays bounded.
_RECENT = 50


@dataclass(frozen=True)
class DriftState:
    """Where an alarm stands after some rounds; plain numbers, so `asdict` is JSON.

    Attributes
    ----------
    misfits
        How badly each round since the start or the last reset was predicted, in their order.
    evidence
        log(1 + R), R the evidence for a change; the alarm rings once R reaches ``run_length``.
    alarm
        Whether it has rung. It stays so until `DriftAlarm.reset`.
    change
        Rounds after the start at which the change most probably happened: the rounds from there on are new.
    """

    misfits: tuple[float, ...] = ()
    evidence: float = 0.0
    alarm: bool = False
    change: int = 0


class DriftAlarm:
    """Rings when rounds are predicted worse than before, with a guaranteed rate of false alarms.

    A round's misfit is any number that grows with the error of its prediction; only the order of the misfits counts.
    For each possible time of change, the evidence is a ratio: how probable is it that the rounds since then take these
    places among all if they tend to be larger (if their hazard is a fraction of the old ones', as in Cox's model),
    against all places being equally probable? The alarm sums these ratios, averaged over a few fractions, over all
    times of change (Shiryaev–Roberts).

    If nothing changes, in the sense that misfits are *exchangeable* (every order of them is equally probable), each
    ratio is a martingale of mean 1. So the sum R after t rounds, less t, is a supermartingale, and for any distribution

    * the mean number of rounds to a false alarm is at least ``run_length``;
    * the probability of a false alarm within h rounds is at most ``h / run_length``, for every h.

    The price is that a change shows by comparison only: with 10 ordinary rounds before it, at least 4 bad ones are
    needed for the default run length, with 100 at least 2. ``docs/howto/drift.md`` has what was measured.

    Parameters
    ----------
    run_length
        Rounds to a false alarm, at least, on average.

    Examples
    --------
    >>> alarm = DriftAlarm(run_length=1000)
    >>> for t in range(40):
    ...     state = alarm.update(misfit=t % 10)
    >>> state.alarm
    False
    >>> while not alarm.update(misfit=20).alarm:
    ...     pass
    >>> len(alarm.state.misfits), alarm.state.change
    (43, 40)
    """

    def __init__(self, *, run_length: float = 2000.0) -> None:
        self.run_length = check_number("run_length", run_length, low=1.0)
        self.state = DriftState()

    def update(self, misfit: float) -> DriftState:
        """Take in one round and return where the alarm now stands."""
        self.state = self._after((*self.state.misfits, check_number("misfit", misfit)))
        return self.state

    def _after(self, misfits: tuple[float, ...]) -> DriftState:
        starts, ratios = _log_ratios(np.array(misfits))
        evidence = float(np.logaddexp.reduce(ratios, initial=0.0))
        alarm = self.state.alarm or evidence >= math.log1p(self.run_length)
        some = bool(ratios.size and ratios.max() > 0.0)
        change = int(starts[np.argmax(ratios)]) if some else len(misfits)
        return DriftState(misfits, evidence, alarm, change)

    def reset(self) -> None:
        """Forget everything seen."""
        self.state = DriftState()


def _log_ratios(misfits: F64) -> tuple[I64, F64]:
    """Possible times of change, and the log of the evidence for each.

    In ascending order, with a old and b new misfits still to come, the next one is new with probability
    λb / (a + λb) under a hazard ratio of λ, and b / (a + b) without a change.
    """
    n = misfits.size
    starts = np.arange(max(1, n - _RECENT), n)
    # Of equal misfits the newest come first, where they are the least evidence.
    order = np.lexsort((-np.arange(n), misfits))
    new = order >= starts[:, None]
    left = np.arange(n, 0, -1)
    new_left = np.cumsum(new[:, ::-1], axis=1)[:, ::-1]
    logs = [(n - starts) * math.log(bet) - np.log((left - (1.0 - bet) * new_left) / left).sum(axis=1) for bet in _BETS]
    return starts, np.logaddexp.reduce(logs, axis=0) - math.log(len(_BETS))


class _ToldRound(NamedTuple):
    modes: Vectors
    edges: I64
    outcomes: F64


class ForgetOnDrift:
    """Any policy, with an alarm on its own predictions: when it rings, the policy starts again after the change.

    A round's misfit is ``(observed − expected)² / (variance + 1)`` of its responses, plus the mean of the same over the
    contacted users, by the beliefs before the update: it also grows if others matter than before. A `DriftAlarm`
    watches it. When the alarm rings, the policy is bound again and told the rounds since the estimated change once
    more, at most the last ``memory`` of them. Only edges that are observed can be seen to change. `TensorUCB` follows a
    change by itself.
    It costs one more `score` per round. ``docs/howto/drift.md`` has the details.

    Parameters
    ----------
    policy
        The policy to wrap; it belongs to the wrapper from here on.
    run_length
        Of the alarm: rounds to a false alarm, at least, on average.
    warm_up
        Rounds after each start in which the policy only learns.
    memory
        Rounds kept for starting again.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.policies import CUCB, ForgetOnDrift
    >>> policy = ForgetOnDrift(CUCB(), run_length=100)
    >>> policy.bind(Graph.from_edges([0, 0], [1, 2]), None, rng=0)
    >>> for response in [1.0] * 60 + [0.0] * 10:
    ...     policy.update([1.0], [0, 1], [response, response])
    >>> len(policy.alarms), policy.alarms[0] > 60
    (1, True)
    """

    tunable: ClassVar[Grid] = {}

    def __init__(self, policy: Policy, *, run_length: float = 2000.0, warm_up: int = 20, memory: int = 200) -> None:
        self.policy = check_policy_object("policy", policy)
        self._alarm = DriftAlarm(run_length=run_length)
        self.warm_up = check_count("warm_up", warm_up, 1)
        self.memory = check_count("memory", memory, 1)
        self.name = f"{policy.name} + drift alarm"
        self.needs_users = bool(getattr(policy, "needs_users", False))
        self.pure = bool(getattr(policy, "pure", True))
        self.uses_product = getattr(policy, "uses_product", None)
        self._bound: tuple[Graph, Any] | None = None
        self._clear(0)

    def _clear(self, key: int) -> None:
        self._key = key
        self._rounds = 0
        self._age = 0
        # The responses expected and observed so far.
        self._totals = np.zeros(2)
        self._log: list[_ToldRound] = []
        self._alarms: list[int] = []
        self._alarm.reset()

    @property
    def drift(self) -> DriftState:
        """Where the alarm stands."""
        return self._alarm.state

    @property
    def alarms(self) -> tuple[int, ...]:
        """The rounds, from 1, after which the policy started again."""
        return tuple(self._alarms)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON; the policy as its name and its arguments."""
        return {
            "policy": {"name": self.policy.name, "arguments": arguments_of(self.policy)},
            "run_length": self._alarm.run_length,
            "warm_up": self.warm_up,
            "memory": self.memory,
        }

    # -- the protocol --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start again on this graph, with (n, d) user features (or None) and a seed."""
        generator = as_generator(rng)
        # The policy draws first: until the first alarm it does what it would have done alone.
        self.policy.bind(graph, users, generator)
        self._bound = graph, users
        self._clear(int(stream_key(generator)))

    def prediction(self, product: Product) -> Prediction:
        """The wrapped policy's."""
        return self.policy.prediction(product)

    def score(self, product: Product) -> F64:
        """The wrapped policy's."""
        return self.policy.score(product)

    def choose(self, product: Product, k: int, oracle: Oracle) -> I64:
        """The wrapped policy's."""
        return self.policy.choose(product, k, oracle)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Learn one round, and start again if it gave the last evidence of a change."""
        rows, values = as_observations(self._world()[0].n_edges, edges, outcomes)
        # Copies, since the caller may reuse its arrays.
        told = _ToldRound(tuple(mode.copy() for mode in as_modes(product)), rows.copy(), values.copy())
        p = ROUNDS @ self.policy.prediction(product).rounds(rows)
        self._learn(told)
        misfit = self._misfit(self._world()[0].sources[rows], p, values)
        if self._age > self.warm_up:
            self._alarm.update(misfit)
        self._rounds += 1
        if self.drift.alarm:
            self._restart()

    def _learn(self, told: _ToldRound) -> None:
        self.policy.update(told.modes[0] if len(told.modes) == 1 else list(told.modes), told.edges, told.outcomes)
        self._age += 1
        self._log = [*self._log, told][-self.memory :]

    def _misfit(self, sources: NDArray[np.int32], p: F64, outcomes: F64) -> float:
        """How badly the probabilities predicted the responses to the round, and to each contacted user on average.

        Responses that merely move from one user to another show in the second part.
        """
        # A steady error of the policy is no drift. One response on each side keeps the ratio near 1 at first.
        expected, observed = self._totals.tolist()
        q = np.minimum((observed + 1.0) / (expected + 1.0) * p, 1.0)
        self._totals += p.sum(), outcomes.sum()
        _, place = np.unique(sources, return_inverse=True)
        if not place.size:
            return 0.0
        apart, variance = np.bincount(place, outcomes - q), np.bincount(place, q * (1.0 - q))
        return float(apart.sum() ** 2 / (variance.sum() + 1.0) + np.mean(apart**2 / (variance + 1.0)))

    def _restart(self) -> None:
        graph, users = self._world()
        new = min(len(self.drift.misfits) - self.drift.change, len(self._log))
        kept = self._log[len(self._log) - new :]
        self._alarms.append(self._rounds)
        self.policy.bind(graph, users, np.random.default_rng([self._key, len(self._alarms)]))
        self._alarm.reset()
        self._log, self._totals[:] = [], 0.0
        for told in kept:
            self._learn(told)
        # What is left to learn is learned from the new choices: the warm-up begins with them.
        self._age = 0

    def _world(self) -> tuple[Graph, Any]:
        if self._bound is None:
            raise StateError(f"{self.name} is not bound to a graph yet. Call bind(graph, users, rng) first.")
        return self._bound

    def state(self) -> PolicyState:
        """A copy of everything learned, the wrapped policy's state included."""
        self._world()
        inner, log = self.policy.state(), self._log
        settings = {
            "policy": self.name,
            "arguments": self.settings(),
            "key": f"{self._key:016x}",
            "rounds": self._rounds,
            "age": self._age,
            "alarms": list(self._alarms),
            "modes": [mode.size for mode in log[0].modes] if log else [],
            "inner": dict(inner.settings),
        }
        arrays: Arrays = {
            "misfits": np.array(self.drift.misfits),
            "totals": self._totals.copy(),
            "log_offsets": np.cumsum([0, *(told.edges.size for told in log)], dtype=np.int64),
            "log_edges": np.concatenate([np.empty(0, dtype=np.int64), *(told.edges for told in log)]),
            "log_outcomes": np.concatenate([np.empty(0), *(told.outcomes for told in log)]),
            "log_products": np.array([np.concatenate(told.modes) for told in log]) if log else np.empty((0, 0)),
        }
        return PolicyState(settings, arrays | {f"inner.{name}": array for name, array in inner.arrays.items()})

    def restore(self, state: PolicyState) -> None:
        """Go on from ``state``; wrapper and policy must be bound and set as they were."""
        self._world()
        saved, arrays = parts_of_state(state, {"policy": self.name, "arguments": self.settings()})
        try:
            log = _log_of(saved, arrays)
            totals = np.array(arrays["totals"], dtype=np.float64)
            if totals.shape != (2,):
                raise ShapeError(f"the state's totals must be two numbers; got {totals.shape}.")
            misfits = tuple(np.array(arrays["misfits"], dtype=np.float64).tolist())
            # The alarm's evidence follows from the misfits; none has rung since the last start.
            drift = self._alarm._after(misfits) if misfits else DriftState()
            key = int(saved["key"], 16)
            rounds = int(saved["rounds"])
            age = int(saved["age"])
            alarms = [int(number) for number in saved["alarms"]]
            learned = {name[6:]: array for name, array in arrays.items() if name.startswith("inner.")}
            inner = PolicyState(dict(saved["inner"]), learned)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"the state of {self.name} is incomplete or malformed ({error!r}).") from error
        self.policy.restore(inner)
        self._clear(key)
        self._rounds = rounds
        self._age = age
        self._alarms = alarms
        self._log = log
        self._totals = totals
        self._alarm.state = drift


def _log_of(saved: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[_ToldRound]:
    """The rounds kept in a state."""
    offsets, products = arrays["log_offsets"], arrays["log_products"]
    edges, outcomes = arrays["log_edges"], arrays["log_outcomes"]
    if products.shape[0] != offsets.size - 1 or offsets[-1] != edges.size or edges.shape != outcomes.shape:
        raise ShapeError(f"the log of a {saved['policy']} state does not fit together.")
    # Copies, so that the caller may go on with its arrays.
    parts = np.split(products.copy(), np.cumsum([int(size) for size in saved["modes"]])[:-1], axis=1)
    rows = np.split(edges.copy(), offsets[1:-1]), np.split(outcomes.copy(), offsets[1:-1])
    return [_ToldRound(*told) for told in zip(zip(*parts, strict=True), *rows, strict=True)] if len(products) else []
