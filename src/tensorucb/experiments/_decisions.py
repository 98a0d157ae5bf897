"""How good the decisions are: our defaults, untouched, beside every baseline, tuned, over a longer campaign."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.errors import InputError
from tensorucb.experiments._ablations import ablations
from tensorucb.experiments._cold_start import cold_start
from tensorucb.experiments._contestants import OURS, contestants
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._files import write_csv, write_regret
from tensorucb.experiments._references import references
from tensorucb.experiments._runner import Experiment, Report, RunResult, run_experiment
from tensorucb.experiments._summary import Interval, mean_interval
from tensorucb.experiments._tuning import Tuning, split_products, tune
from tensorucb.policies import Policy, TensorUCB

__all__ = ["Decisions", "decision_table"]

LAST = 20
_CHECKPOINTS = (10, 30, 100, 200)


@dataclass
class Decisions:
    """The comparison on one environment: tuned baselines, our untouched defaults, and who knows part of the truth.

    The baselines are tuned on ``validation_rounds`` with products, an order of products and coins that no run has
    (:func:`~tensorucb.experiments.split_products`); our own defaults are not tuned.

    Parameters
    ----------
    networks
        Makes further worlds. Runs then take turns on these, and settings are tuned on ``environment``, which no run
        plays. Each is made when it is needed, and again for each stage.
    directory
        For CSV files and finished runs, so that a killed command goes on.
    """

    environment: Environment
    directory: Path
    rounds: int = 200
    runs: int = 10
    validation_rounds: int = 50
    seed: int = 0
    policies: Mapping[str, Policy] = field(default_factory=contestants)
    networks: Sequence[Callable[[], Environment]] = ()
    report: Report | None = None

    def __post_init__(self) -> None:
        """Refuse networks that no run would play on."""
        if len(self.networks) > self.runs:
            raise InputError(f"{len(self.networks)} networks need as many runs; got {self.runs}.")

    @cached_property
    def _split(self) -> tuple[Environment, Environment]:
        """The world to tune in, and the one to compare in if there are no further networks."""
        return (self.environment, self.environment) if self.networks else split_products(self.environment)

    @cached_property
    def tuning(self) -> Tuning:
        """The baselines' settings."""
        found = tune(
            self._split[0],
            self.policies,
            rounds=self.validation_rounds,
            seed=self.seed,
            grids={p: {} for p, policy in self.policies.items() if _is_ours(policy)},
            directory=self.directory / "runs",
            report=self._staged("validation"),
        )
        columns = ("policy", "setting", "average_regret", "chosen")
        write_csv(self.directory / "validation.csv", columns, found.rows())
        return found

    @cached_property
    def comparison(self) -> Experiment:
        """All contestants, and those who know part of the truth (:func:`references`)."""
        found = self._run(lambda world: {**self.tuning.policies, **references(world)}, "decisions")
        write_regret(self.directory / "decisions-regret.csv", found)
        self._write("decisions.csv", found)
        return found

    @cached_property
    def ablation(self) -> Experiment:
        """Ours, and ours with one idea off at a time."""
        found = self._run(lambda world: ablations(), "ablation")
        self._write("ablation.csv", found)
        return found

    def table(self, experiment: Experiment) -> list[dict[str, Any]]:
        """:func:`decision_table` of `comparison` or `ablation`."""
        return decision_table(experiment, networks=max(1, len(self.networks)))

    @cached_property
    def arrival(self) -> list[dict[str, Any]]:
        """Half of the users and products come after a quarter of the rounds: regret in the next 20, best first."""
        found = cold_start(
            self._split[1],
            self.tuning.policies,
            rounds_before=max(1, self.rounds // 4),
            rounds_after=LAST,
            runs=self.runs,
            seed=self.seed,
        )
        rows: list[dict[str, Any]] = []
        for policy, arrived in found.items():
            regret = mean_interval(arrived.regret.mean(axis=1))
            rows.append(
                {
                    "policy": policy,
                    "first_round": float(arrived.regret[:, 0].mean()),
                    "rounds_1_to_20": float(regret.mean),
                    "low": float(regret.low),
                    "high": float(regret.high),
                    "newcomers_seeded": float(arrived.newcomers_seeded.mean()),
                }
            )
        rows.sort(key=lambda row: float(row["rounds_1_to_20"]))
        write_csv(self.directory / "cold-start.csv", list(rows[0]), ([*row.values()] for row in rows))
        return rows

    def _run(self, policies: Callable[[Environment], Mapping[str, Policy]], stage: str) -> Experiment:
        results: list[RunResult] = []
        worlds = self.networks or [lambda: self._split[1]]
        for number, make in enumerate(worlds):
            world = make()
            part = run_experiment(
                world,
                policies(world),
                rounds=self.rounds,
                runs=range(number, self.runs, len(worlds)),
                seed=self.seed,
                directory=self.directory / "runs",
                report=self._staged(stage if len(worlds) == 1 else f"{stage}, network {number + 1}"),
            )
            results += part.results
        order = {label: place for place, label in enumerate(part.policies)}
        return Experiment(tuple(sorted(results, key=lambda r: (order[r.policy], r.run))))

    def _write(self, name: str, experiment: Experiment) -> None:
        rows = self.table(experiment)
        columns = list(rows[0])
        write_csv(self.directory / name, columns, ([row[c] for c in columns] for row in rows))

    def _staged(self, stage: str) -> Report | None:
        report = self.report
        if report is None:
            return None
        return lambda done, total, what: report(done, total, f"{stage}: {what}")


def decision_table(experiment: Experiment, *, networks: int = 1, level: float = 0.9) -> list[dict[str, Any]]:
    """One row per policy, best first: average regret up to each checkpoint and over the last 20 rounds.

    All are means over runs, with intervals for the longest checkpoint of at most 100 rounds and for the last 20;
    ``minus_ours`` is the policy's regret at that checkpoint minus ours, run by run (products and coins of a run are the
    same for all), with its interval; ``worst_of_first_ten`` is the largest mean regret among the first ten rounds.

    Parameters
    ----------
    networks
        Number of networks on which the runs took turns: runs on one network are averaged first, since intervals are
        about new networks then.
    """
    rounds = experiment.results[0].regret.size
    checkpoints = [t for t in _CHECKPOINTS if t <= rounds] or [rounds]
    main = max(t for t in checkpoints if t <= 100) if checkpoints[0] <= 100 else checkpoints[0]

    def interval(values: Sequence[float]) -> Interval:
        return mean_interval(
            values if networks == 1 else [np.mean(values[n::networks]) for n in range(networks)], level=level
        )

    at_main = {p: [float(r.average_regret[main - 1]) for r in experiment.of(p)] for p in experiment.policies}
    rows = []
    for policy in experiment.policies:
        runs = experiment.of(policy)
        average = np.mean([r.average_regret for r in runs], axis=0)
        regret = np.mean([r.regret for r in runs], axis=0)
        late = interval([float(r.regret[-LAST:].mean()) for r in runs])
        row = {
            "policy": policy,
            **{f"T={t}": float(average[t - 1]) for t in checkpoints},
            **_ends(f"T={main}", interval(at_main[policy])),
            "last20": float(late.mean),
            **_ends("last20", late),
        }
        if OURS in at_main:
            apart = interval([a - b for a, b in zip(at_main[policy], at_main[OURS], strict=True)])
            row |= {f"T={main}_minus_ours": float(apart.mean), **_ends(f"T={main}_minus_ours", apart)}
        rows.append({**row, "worst_of_first_ten": float(regret[:10].max())})
    return sorted(rows, key=lambda row: float(row[f"T={main}"]))


def _is_ours(policy: Policy) -> bool:
    """Whether this is our default, which is not tuned."""
    return isinstance(getattr(policy, "policy", policy), TensorUCB)


def _ends(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_low": float(interval.low), f"{name}_high": float(interval.high)}
