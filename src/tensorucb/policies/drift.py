"""Drift: an alarm with a stated false-alarm rate, and a policy that forgets when it rings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError, StateError
from tensorucb.graph import Graph
from tensorucb.policies._base import Grid, Oracle, Policy, PolicyState, Product
from tensorucb.policies._inputs import as_modes, as_observations, check_count, check_number
from tensorucb.policies.beliefs import expected_probabilities
from tensorucb.rng import RngLike, as_generator, stream_key

__all__ = ["DriftAlarm", "DriftState", "ForgetOnDrift"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Bets λ on responses going up or down: ln(1 + change) is the best one, so these serve changes of 10 % to a factor 2.
_BETS: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8, -0.1, -0.2, -0.4, -0.8)


@dataclass(frozen=True)
class DriftState:
    """Where an alarm stands after some rounds; plain numbers, so `asdict` is JSON.

    Attributes
    ----------
    rounds
        Rounds since the start or the last reset.
    evidence
        log(1 + R), R the evidence for a change; the alarm rings once R reaches ``run_length``.
    alarm
        Whether it has rung. It stays so until `DriftAlarm.reset`.
    change
        Rounds after the start at which the change most probably happened: the rounds from there on are new.
    direction
        ``"fewer"`` or ``"more"`` responses than expected, or ``""`` while nothing speaks for a change.
    log_sums, log_peaks, starts
        For each bet: log(1 + R), the log of the largest term of R, and the round where that term starts.
    """

    rounds: int = 0
    evidence: float = 0.0
    alarm: bool = False
    change: int = 0
    direction: str = ""
    log_sums: tuple[float, ...] = (0.0,) * len(_BETS)
    log_peaks: tuple[float, ...] = (0.0,) * len(_BETS)
    starts: tuple[int, ...] = (0,) * len(_BETS)


class DriftAlarm:
    """Watches responses against expectations, round by round, with a guaranteed rate of false alarms.

    A round with expected responses e, variance v and observed responses o multiplies a bet's evidence by
    ``L = exp(λ(o − e) − |λ|·τe − (1 + τ)v·(e^|λ| − 1 − |λ|))``. By Bennett's inequality the mean of L is at most 1 as
    long as responses are sums of independent (or predictable) outcomes in [0, 1], their mean is within ``1 ± τ`` of e
    and their variance at most ``(1 + τ)v``. Evidence is the Shiryaev–Roberts sum over all possible times of change,
    ``R ← (1 + R)·L``, averaged over bets λ: an e-detector (Shin, Ramdas, Rinaldo 2022). While nothing changes,
    ``R − t`` is a supermartingale, hence

    * the mean number of rounds to a false alarm is at least ``run_length``;
    * the probability of a false alarm within h rounds is at most ``h / run_length``, for every h.

    Both hold exactly, without a normal approximation.

    Parameters
    ----------
    run_length
        Rounds to a false alarm, at least, on average.
    tolerance
        τ, the relative error of expectations that is no drift.

    Examples
    --------
    >>> alarm = DriftAlarm(run_length=1000)
    >>> for _ in range(30):
    ...     state = alarm.update(expected=10.0, variance=9.0, observed=10)
    >>> state.alarm
    False
    >>> while not alarm.update(expected=10.0, variance=9.0, observed=4).alarm:
    ...     pass
    >>> alarm.state.rounds, alarm.state.change, alarm.state.direction
    (38, 30, 'fewer')
    """

    def __init__(self, *, run_length: float = 2000.0, tolerance: float = 0.1) -> None:
        self.run_length = check_number("run_length", run_length, low=1.0)
        self.tolerance = check_number("tolerance", tolerance)
        self.state = DriftState()

    def update(self, expected: float, variance: float, observed: float) -> DriftState:
        """Take in one round and return where the alarm now stands."""
        e = check_number("expected", expected)
        v = check_number("variance", variance)
        o = check_number("observed", observed)
        old, t = self.state, self.state.rounds
        size = np.abs(_BETS)
        slack = size * self.tolerance * e + (1.0 + self.tolerance) * v * (np.expm1(size) - size)
        steps = np.array(_BETS) * (o - e) - slack
        sums = np.logaddexp(0.0, old.log_sums + steps)
        # The largest term of the sum starts anew once its evidence has fallen to nothing.
        starts = np.where(np.array(old.log_peaks) <= 0.0, t, old.starts)
        peaks = np.maximum(old.log_peaks, 0.0) + steps
        evidence = float(np.logaddexp.reduce(sums)) - math.log(len(_BETS))
        best = int(np.argmax(peaks))
        some = bool(peaks[best] > 0.0)
        self.state = DriftState(
            rounds=t + 1,
            evidence=evidence,
            alarm=old.alarm or evidence >= math.log1p(self.run_length),
            change=int(starts[best]) if some else t + 1,
            direction=("more" if _BETS[best] > 0.0 else "fewer") if some else "",
            log_sums=tuple(sums.tolist()),
            log_peaks=tuple(peaks.tolist()),
            starts=tuple(starts.tolist()),
        )
        return self.state

    def reset(self) -> None:
        """Forget everything seen."""
        self.state = DriftState()


@dataclass(frozen=True)
class _Told:
    """A round that the policy was told."""

    modes: tuple[Floats, ...]
    edges: Ints
    outcomes: Floats

    @property
    def product(self) -> Any:
        return self.modes[0] if len(self.modes) == 1 else list(self.modes)


class ForgetOnDrift:
    """Any policy, with alarms on its own predictions: when one rings, the policy starts anew after the change.

    Before each update the policy's beliefs (without exploration) about the observed edges give the expected responses
    and their variance. One `DriftAlarm` watches the strong edges, which hold half of the expected responses, and one
    the weak rest: responses that merely move between edges are noticed as well. Expectations are first multiplied by
    each part's ratio of observed to expected responses so far, so that a policy which is off by a steady factor, or
    whose favourites are as overrated as favourites are, raises no alarm. When an alarm rings, the policy is bound anew
    and told the rounds since the estimated change once more, at most the last ``memory`` of them.

    The alarm's guarantee is about predictions that are right up to ``tolerance``; a policy that is still learning is
    not, therefore ``warm_up``. Only edges that are observed can be seen to change. It costs one more `score` a round.

    Parameters
    ----------
    policy
        The policy to wrap; it belongs to the wrapper from here on.
    run_length, tolerance
        Of both alarms together; each is set to twice the run length.
    warm_up
        Rounds after each start in which the policy only learns.
    memory
        Rounds kept for starting anew.
    familiar
        An edge counts once it was observed this often since the start. 0 suits models that generalise from features;
        `CUCB` and `Thompson`, whose scores of untried edges are a prior and no prediction, want 5 or more.
    """

    tunable: ClassVar[Grid] = {}

    def __init__(
        self,
        policy: Policy,
        *,
        run_length: float = 2000.0,
        tolerance: float = 0.1,
        warm_up: int = 20,
        memory: int = 200,
        familiar: int = 0,
    ) -> None:
        if not isinstance(policy, Policy):
            raise InputError(f"policy must follow tensorucb.policies.Policy; got {type(policy).__name__}.")
        self.run_length = check_number("run_length", run_length, low=1.0)
        # The mean of two e-detectors is one: if either reaches 2A, their mean has reached A.
        self._watch = tuple(DriftAlarm(run_length=2.0 * self.run_length, tolerance=tolerance) for _ in range(2))
        self.warm_up = check_count("warm_up", warm_up, 1)
        self.memory = check_count("memory", memory, 1)
        self.familiar = check_count("familiar", familiar, 0)
        self.policy, self.name = policy, f"{policy.name} + drift alarm"
        self.needs_users, self.pure = bool(getattr(policy, "needs_users", False)), bool(getattr(policy, "pure", True))
        self.uses_product = getattr(policy, "uses_product", None)
        self._bound: tuple[Graph, Any] | None = None
        self._clear(0)

    def _clear(self, key: int) -> None:
        self._key, self._rounds, self._age = key, 0, 0
        self._totals = np.zeros((2, 2))
        self._log: list[_Told] = []
        self._seen = np.zeros(self._bound[0].n_edges if self._bound else 0, dtype=np.int64)
        self._alarms: list[int] = []
        for alarm in self._watch:
            alarm.reset()

    @property
    def drift(self) -> tuple[DriftState, DriftState]:
        """Where the alarms on the strong and on the weak edges stand."""
        return self._watch[0].state, self._watch[1].state

    @property
    def alarms(self) -> tuple[int, ...]:
        """The rounds, from 1, after which the policy started anew."""
        return tuple(self._alarms)

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as JSON; the policy as its name and its arguments."""
        inner = getattr(self.policy, "settings", None)
        return {
            "policy": {"name": self.policy.name, "arguments": inner() if callable(inner) else {}},
            "run_length": self.run_length,
            "tolerance": self._watch[0].tolerance,
            "warm_up": self.warm_up,
            "memory": self.memory,
            "familiar": self.familiar,
        }

    # -- the protocol --

    def bind(self, graph: Graph, users: ArrayLike | None, rng: RngLike = None) -> None:
        """Start anew on this graph, with (n, d) user features (or None) and a seed."""
        generator = as_generator(rng)
        # The policy draws first: until the first alarm it does what it would have done alone.
        self.policy.bind(graph, users, generator)
        self._bound = graph, users
        self._clear(int(stream_key(generator)))

    def score(self, product: Product) -> Floats:
        """The wrapped policy's."""
        return self.policy.score(product)

    def choose(self, product: Product, k: int, oracle: Oracle) -> Ints:
        """The wrapped policy's."""
        return self.policy.choose(product, k, oracle)

    def update(self, product: Product, edges: ArrayLike, outcomes: ArrayLike) -> None:
        """Learn one round, and start anew if it gave the last evidence of a change."""
        graph, _ = self._world()
        rows, values = as_observations(graph.n_edges, edges, outcomes)
        # Copies, since the caller may reuse its arrays.
        self._take(_Told(tuple(mode.copy() for mode in as_modes(product)), rows.copy(), values.copy()))
        self._rounds += 1
        if any(state.alarm for state in self.drift):
            self._restart()

    def _take(self, told: _Told) -> None:
        """Predict, learn, compare."""
        p = expected_probabilities(self.policy, told.product)[told.edges]
        self.policy.update(told.product, told.edges, told.outcomes)
        known = self._seen[told.edges] >= self.familiar
        p, outcomes = p[known], told.outcomes[known]
        strong = _strong(p)
        for alarm, totals, part in zip(self._watch, self._totals, (strong, ~strong), strict=True):
            if self._age >= self.warm_up:
                # One response on each side keeps the ratio near 1 until there are some.
                ratio = (totals[1] + 1.0) / (totals[0] + 1.0)
                q = np.minimum(ratio * p[part], 1.0)
                alarm.update(float(q.sum()), float((q * (1.0 - q)).sum()), float(outcomes[part].sum()))
            totals += p[part].sum(), outcomes[part].sum()
        self._remember(told)

    def _remember(self, told: _Told) -> None:
        np.add.at(self._seen, told.edges, 1)
        self._age += 1
        self._log = [*self._log, told][-self.memory :]

    def _restart(self) -> None:
        graph, users = self._world()
        rung = max(self.drift, key=lambda state: state.evidence)
        new = rung.rounds - rung.change
        kept = self._log[len(self._log) - min(new, len(self._log)) :]
        self._alarms.append(self._rounds)
        self.policy.bind(graph, users, np.random.default_rng([self._key, len(self._alarms)]))
        for alarm in self._watch:
            alarm.reset()
        self._log, self._seen[:], self._totals[:] = [], 0, 0.0
        for told in kept:
            self.policy.update(told.product, told.edges, told.outcomes)
            self._remember(told)
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
            "drift": [asdict(state) for state in self.drift],
            "modes": [mode.size for mode in log[0].modes] if log else [],
            "inner": dict(inner.settings),
        }
        arrays: dict[str, NDArray[Any]] = {
            "seen": self._seen.copy(),
            "totals": self._totals.copy(),
            "log_offsets": np.cumsum([0, *(told.edges.size for told in log)], dtype=np.int64),
            "log_edges": np.concatenate([np.empty(0, dtype=np.int64), *(told.edges for told in log)]),
            "log_outcomes": np.concatenate([np.empty(0), *(told.outcomes for told in log)]),
            "log_products": np.array([np.concatenate(told.modes) for told in log]) if log else np.empty((0, 0)),
        }
        arrays.update({f"inner.{name}": array for name, array in inner.arrays.items()})
        return PolicyState(settings, arrays)

    def restore(self, state: PolicyState) -> None:
        """Go on from ``state``; wrapper and policy must be bound and set as they were."""
        graph, _ = self._world()
        if not isinstance(state, PolicyState):
            raise InputError(f"restore takes a PolicyState; got {type(state).__name__}. Pass what state() returned.")
        saved, arrays = state.settings, state.arrays
        for field, value in (("policy", self.name), ("arguments", self.settings())):
            if saved.get(field) != value:
                raise InputError(f"the state is of {field} {saved.get(field)!r}; this is {value!r}. Use the same one.")
        try:
            kept, seen = _unpacked(saved, arrays), np.array(arrays["seen"], dtype=np.int64)
            totals = np.array(arrays["totals"], dtype=np.float64)
            if seen.shape != (graph.n_edges,) or totals.shape != (2, 2):
                raise ShapeError(f"the state counts {seen.size} edges; the graph has {graph.n_edges}.")
            first, second = (_drift_state(part) for part in saved["drift"])
            numbers = int(saved["key"], 16), int(saved["rounds"]), int(saved["age"]), [int(x) for x in saved["alarms"]]
            inner = PolicyState(
                dict(saved["inner"]),
                {name.removeprefix("inner."): array for name, array in arrays.items() if name.startswith("inner.")},
            )
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"the state of {self.name} is incomplete or malformed ({error!r}).") from error
        self.policy.restore(inner)
        self._key, self._rounds, self._age, self._alarms = numbers
        self._log, self._seen, self._totals = kept, seen, totals
        self._watch[0].state, self._watch[1].state = first, second


def _strong(p: Floats) -> NDArray[np.bool_]:
    """The most probable edges, down to half of the expected responses."""
    order = np.argsort(-p, kind="stable")
    strong = np.zeros(p.size, dtype=np.bool_)
    strong[order] = np.cumsum(p[order]) <= 0.5 * p.sum()
    return strong


def _unpacked(saved: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[_Told]:
    offsets, products = arrays["log_offsets"], arrays["log_products"]
    edges, outcomes = arrays["log_edges"], arrays["log_outcomes"]
    if products.shape[0] != offsets.size - 1 or offsets[-1] != edges.size or edges.shape != outcomes.shape:
        raise ShapeError(f"the log of a {saved['policy']} state does not fit together.")
    cuts = np.cumsum([int(size) for size in saved["modes"]])[:-1]
    return [
        _Told(
            tuple(part.copy() for part in np.split(products[t], cuts)),
            edges[offsets[t] : offsets[t + 1]].copy(),
            outcomes[offsets[t] : offsets[t + 1]].copy(),
        )
        for t in range(offsets.size - 1)
    ]


def _drift_state(saved: Mapping[str, Any]) -> DriftState:
    """The alarm's state from JSON, where tuples came back as lists."""
    values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in saved.items()}
    state = DriftState(**values)
    if not len(state.log_sums) == len(state.log_peaks) == len(state.starts) == len(_BETS):
        raise ShapeError(f"an alarm's state must hold {len(_BETS)} bets; got {len(state.log_sums)}.")
    return state
