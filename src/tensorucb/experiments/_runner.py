"""Policies × runs × rounds: the same products, the same coins, the same oracle for every policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_count, check_text, shown
from tensorucb.errors import InputError
from tensorucb.experiments._arguments import (
    check_environment,
    check_policies,
    check_report,
    check_rounds,
    check_seed,
)
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._regret import ETA, average_regret, scaled_regret
from tensorucb.experiments._strategies import StrategyPolicy, of_edges
from tensorucb.experiments._summary import Interval, mean_interval
from tensorucb.policies import Oracle, Policy
from tensorucb.policies._base import check_policy_object

OnProgress = Callable[[int, int, str], None]
"""``report(done, total, what)``: how far the work is."""

_PRODUCTS, _POLICY, _ORACLE = 1, 2, 3


@dataclass(frozen=True)
class RunResult:
    """One policy's run: what each round reached, and how long it took.

    ``seconds`` is (rounds, 3): scoring, selecting, updating. It is the only part that a repetition changes.
    """

    policy: str
    run: int
    product: I64
    spread: F64
    optimum: F64
    seconds: F64
    eta: float = ETA

    @cached_property
    def regret(self) -> F64:
        """Scaled regret of each round."""
        return scaled_regret(self.optimum, self.spread, eta=self.eta)

    @cached_property
    def average_regret(self) -> F64:
        """Average scaled regret up to each round."""
        return average_regret(self.regret)


@dataclass(frozen=True)
class Experiment:
    """All runs of all policies, in the order they were given."""

    results: tuple[RunResult, ...]

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' labels, in order."""
        return tuple(dict.fromkeys(result.policy for result in self.results))

    def of(self, policy: str) -> tuple[RunResult, ...]:
        """One policy's runs."""
        check_text("policy", policy)
        found = tuple(result for result in self.results if result.policy == policy)
        if not found:
            raise InputError(f"policy must be one of {shown(self.policies)}; got {shown(policy)}.")
        return found

    def curve(self, policy: str, what: str = "average_regret", *, level: float = 0.9) -> Interval:
        """Mean and interval over runs of a per-round quantity."""
        check_choice("what", what, ("average_regret", "regret", "spread", "optimum"))
        return mean_interval([getattr(result, what) for result in self.of(policy)], level=level)

    def final(self, policy: str, *, last: int | None = None, level: float = 0.9) -> Interval:
        """Mean and interval of the regret over the whole run, or over its ``last`` rounds."""
        if last is not None:
            last = check_count("last", last)
        return mean_interval([r.regret[-last if last else None :].mean() for r in self.of(policy)], level=level)

    def table(self, *, level: float = 0.9) -> list[dict[str, Any]]:
        """One row per policy: spread, regret with interval, regret over the last fifth, milliseconds per round."""
        rounds = self.results[0].regret.size
        tail = max(1, rounds // 5)
        rows = []
        for policy in self.policies:
            runs = self.of(policy)
            regret, late = self.final(policy, level=level), self.final(policy, last=tail, level=level)
            spread = mean_interval([r.spread.mean() for r in runs], level=level)
            seconds = np.concatenate([r.seconds for r in runs])
            # The median leaves out the rounds in which kernels compile.
            score, select, update = (1e3 * np.median(seconds, axis=0)).tolist()
            rows.append(
                {
                    "policy": policy,
                    "runs": len(runs),
                    "rounds": rounds,
                    "spread": spread.row(),
                    "regret": regret.row(),
                    "late_regret": late.row(),
                    "late_rounds": tail,
                    "milliseconds": {"score": score, "select": select, "update": update},
                }
            )
        return rows


class _TimedOracle:
    """An oracle that counts the time spent in it, so that scoring and selecting can be told apart."""

    def __init__(self, environment: Environment, rng: np.random.Generator) -> None:
        self._environment = environment
        self._oracle = environment.oracle(rng)
        self.candidates = getattr(self._oracle, "candidates", None)
        self.seconds = 0.0

    def __call__(
        self, probabilities: F64, k: int, *, candidates: I64 | None = None, must_include: I64 | None = None
    ) -> I64:
        start = time.perf_counter()
        rows: I64 = self._oracle(probabilities, k, candidates=candidates, must_include=must_include)
        self.seconds += time.perf_counter() - start
        return rows

    def pairs(self, probabilities: F64, k: int) -> tuple[I64, I64]:
        """Users with strategies."""
        start = time.perf_counter()
        found = self._environment.pair_oracle(probabilities, k)
        self.seconds += time.perf_counter() - start
        return found


def product_sequence(environment: Environment, rounds: int, *, run: int, seed: int) -> I64:
    """The products of a run, the same for every policy; a longer run begins with a shorter one's."""
    check_environment(environment)
    rounds, run, seed = check_rounds("rounds", rounds), check_seed("run", run), check_seed("seed", seed)
    draws = np.random.default_rng([seed, _PRODUCTS, run]).integers(0, environment.product_rows.size, size=rounds)
    return environment.product_rows[draws]


def policy_settings(policy: Policy) -> dict[str, Any]:
    """What a policy is, as JSON: its type and its arguments."""
    settings = getattr(policy, "settings", None)
    return {
        "type": f"{type(policy).__module__}.{type(policy).__qualname__}",
        "arguments": settings() if callable(settings) else {},
    }


def run_policy(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int,
    run: int = 0,
    seed: int = 0,
    label: str | None = None,
    each_round: Callable[[], None] | None = None,
) -> RunResult:
    """Let ``policy`` play ``rounds`` rounds from scratch.

    Everything random follows from ``(seed, run)``: the products, the coins, the policy's own draws and the
    oracle's. ``each_round`` is called after every round. In a world with strategies the policy is a `StrategyPolicy`.
    """
    check_environment(environment)
    check_policy_object("policy", policy)
    if isinstance(policy, StrategyPolicy) != bool(environment.strategies):
        raise InputError(
            "a world with strategies needs a StrategyPolicy, such as StrategyPolicy(TensorUCB()), and other worlds "
            f"a policy as it is; got {shown(policy.name)} for {environment.n_strategies} strategies."
        )
    if label is not None:
        check_text("label", label)
    check_report("each_round", each_round)
    rounds, run, seed = check_rounds("rounds", rounds), check_seed("run", run), check_seed("seed", seed)
    products = product_sequence(environment, rounds, run=run, seed=seed)
    policy.bind(environment.graph, environment.users, np.random.default_rng([seed, _POLICY, run]))
    oracle = _TimedOracle(environment, np.random.default_rng([seed, _ORACLE, run]))
    spread, optimum, seconds = np.empty(rounds), np.empty(rounds), np.empty((rounds, 3))
    for t, product in enumerate(products.tolist()):
        oracle.seconds, start = 0.0, time.perf_counter()
        choice = _choose(policy, environment, product, oracle)
        seconds[t, :2] = time.perf_counter() - start - oracle.seconds, oracle.seconds
        edges, outcomes = environment.observe(product, *choice, seed=seed, run=run, round_number=t)
        start = time.perf_counter()
        _learn(policy, environment, product, choice, edges, outcomes)
        seconds[t, 2] = time.perf_counter() - start
        spread[t] = environment.evaluate(product, *choice)
        optimum[t] = environment.optimum(product).spread
        if each_round is not None:
            each_round()
    return RunResult(label or policy.name, run, products, spread, optimum, seconds)


def _choose(
    policy: Policy, environment: Environment, product: int, oracle: _TimedOracle
) -> tuple[I64] | tuple[I64, I64]:
    """The seeds; and their strategies, in a world that has any."""
    k = environment.settings.k
    typed: Oracle = oracle
    if isinstance(policy, StrategyPolicy):
        return policy.choose_pairs(environment.contexts(product), k, typed, oracle.pairs)
    return (policy.choose(environment.products[product], k, typed),)


def _learn(
    policy: Policy,
    environment: Environment,
    product: int,
    choice: tuple[I64] | tuple[I64, I64],
    edges: I64,
    outcomes: F64,
) -> None:
    if isinstance(policy, StrategyPolicy) and len(choice) == 2:
        strategies = of_edges(environment.graph, *choice, edges)
        policy.update_pairs(environment.contexts(product), strategies, edges, outcomes)
    else:
        policy.update(environment.products[product], edges, outcomes)


def run_experiment(
    environment: Environment,
    policies: Mapping[str, Policy],
    *,
    rounds: int,
    runs: int | range = 5,
    seed: int = 0,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
) -> Experiment:
    """Every policy, ``runs`` times, for ``rounds`` rounds.

    Parameters
    ----------
    policies
        Label -> policy. A policy is bound again for each run.
    runs
        Number of runs, or a range of run numbers: a run's products and coins follow from its number.
    directory
        Where finished runs are kept, one file each. The same call with the same directory takes up where a
        killed one stopped, and ends with the same bytes. A kept run is used only if everything that it depends on
        is the same: environment, rounds, seed, the policy's arguments, this package's sources, and the code of the
        policy with all functions and classes that it refers to, wherever they are defined (a module, the running
        script, a notebook; policies inside a wrapper as well). Installed libraries count by name alone: use another
        directory after updating one. A policy without ``settings()`` is known by its attributes, so pass a new one.
    report
        Called after each round with (done, total, label).
    """
    from tensorucb.experiments._files import RunFiles

    check_environment(environment)
    check_policies(policies)
    numbers = runs if isinstance(runs, range) and len(runs) else range(check_rounds("runs", runs))
    rounds, seed = check_rounds("rounds", rounds), check_seed("seed", seed)
    check_report("report", report)
    files = None if directory is None else RunFiles(directory, environment, rounds=rounds, seed=seed)
    total, done = len(policies) * len(numbers) * rounds, 0
    results: list[RunResult] = []

    def step(label: str) -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, total, label)

    # Run by run rather than policy by policy: an interrupted experiment compares all policies already.
    for run in numbers:
        for label, policy in policies.items():
            found = files.read(label, policy, run) if files else None
            if found is None:
                found = run_policy(
                    environment,
                    policy,
                    rounds=rounds,
                    run=run,
                    seed=seed,
                    label=label,
                    each_round=lambda label=label: step(label),  # type: ignore[misc]
                )
                if files:
                    files.write(found, policy)
            else:
                done += rounds
            results.append(found)
    order = {label: number for number, label in enumerate(policies)}
    return Experiment(tuple(sorted(results, key=lambda r: (order[r.policy], r.run))))
