"""How good the decisions are: our defaults, untouched, beside every baseline, tuned, over a longer campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.experiments._ablations import ablations
from tensorucb.experiments._cold_start import cold_start
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._files import write_csv, write_regret
from tensorucb.experiments._references import ProductBlind
from tensorucb.experiments._runner import Experiment, Report, run_experiment
from tensorucb.experiments._summary import Interval, mean_interval
from tensorucb.experiments._tuning import EXPLORATION_GRID, Tuning, default_grid, tune
from tensorucb.policies import Policy

__all__ = ["Decisions", "contestants", "decision_table"]

OURS = "TensorUCB"
LAST = 20
_CHECKPOINTS = (10, 30, 100, 200)


def contestants() -> dict[str, Policy]:
    """Every baseline; the first is ours."""
    from tensorucb import policies as p

    return {
        OURS: p.TensorUCB(),
        "TensorUCB (paper)": p.TensorUCB.paper(),
        "DILinUCB": p.DILinUCB(),
        "LinUCB": p.LinUCB(),
        "IMLinUCB": p.IMLinUCB(),
        "IMFB": p.IMFB(),
        "COIN": p.COIN(),
        "COIN-HD": p.COIN(variant="hd"),
        "CUCB": p.CUCB(),
        "Thompson": p.Thompson(),
        "HighDegree": p.HighDegree(),
        "Random": p.Random(),
    }


@dataclass
class Decisions:
    """The comparison on one environment: tuned baselines, our untouched defaults, the product-blind oracle.

    Parameters
    ----------
    explorations, ranks
        Candidates for the baselines, tried on the same ``validation_rounds``; our own defaults are not tuned.
    directory
        For CSV files and finished runs, so that a killed command goes on.
    """

    environment: Environment
    directory: Path
    rounds: int = 200
    runs: int = 10
    validation_rounds: int = 50
    explorations: Sequence[float] = EXPLORATION_GRID
    ranks: Sequence[int] = (1, 5, 20)
    seed: int = 0
    policies: Mapping[str, Policy] = field(default_factory=contestants)
    report: Report | None = None

    @cached_property
    def tuning(self) -> Tuning:
        """The baselines' settings."""
        limits: dict[str, Sequence[Any]] = {"exploration": self.explorations, "rank": self.ranks}
        grids = {
            label: {} if label == OURS else {name: limits[name] for name in default_grid(policy)}
            for label, policy in self.policies.items()
        }
        return tune(
            self.environment,
            self.policies,
            rounds=self.validation_rounds,
            seed=self.seed,
            grids=grids,
            directory=self.directory / "runs",
            report=self._staged("validation"),
        )

    @cached_property
    def comparison(self) -> Experiment:
        """All contestants and the product-blind oracle."""
        blind = ProductBlind(self.environment)
        found = self._run({**self.tuning.policies, blind.name: blind}, "decisions")
        write_regret(self.directory / "decisions-regret.csv", found)
        self._write("decisions.csv", found)
        return found

    @cached_property
    def ablation(self) -> Experiment:
        """Ours, and ours with one idea off at a time."""
        found = self._run(ablations(), "ablation")
        self._write("ablation.csv", found)
        return found

    @cached_property
    def arrival(self) -> list[dict[str, Any]]:
        """Half of the users and products come after a quarter of the rounds: regret in the next 20, best first."""
        found = cold_start(
            self.environment,
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

    def _run(self, policies: Mapping[str, Policy], stage: str) -> Experiment:
        return run_experiment(
            self.environment,
            policies,
            rounds=self.rounds,
            runs=self.runs,
            seed=self.seed,
            directory=self.directory / "runs",
            report=self._staged(stage),
        )

    def _write(self, name: str, experiment: Experiment) -> None:
        rows = decision_table(experiment)
        columns = list(rows[0])
        write_csv(self.directory / name, columns, ([row[c] for c in columns] for row in rows))

    def _staged(self, stage: str) -> Report | None:
        report = self.report
        if report is None:
            return None
        return lambda done, total, what: report(done, total, f"{stage}: {what}")


def decision_table(experiment: Experiment, *, level: float = 0.9) -> list[dict[str, Any]]:
    """One row a policy, best first: average regret up to each checkpoint and over the last 20 rounds.

    All are means over runs, with intervals for the longest checkpoint of at most 100 rounds and for the last 20;
    ``worst_of_first_ten`` is the largest mean regret among the first ten rounds.
    """
    rounds = experiment.results[0].regret.size
    checkpoints = [t for t in _CHECKPOINTS if t <= rounds] or [rounds]
    main = max(t for t in checkpoints if t <= 100) if checkpoints[0] <= 100 else checkpoints[0]
    rows = []
    for policy in experiment.policies:
        runs = experiment.of(policy)
        average = np.mean([r.average_regret for r in runs], axis=0)
        regret = np.mean([r.regret for r in runs], axis=0)
        at_main: Interval = mean_interval([r.average_regret[main - 1] for r in runs], level=level)
        late = experiment.final(policy, last=min(LAST, rounds), level=level)
        rows.append(
            {
                "policy": policy,
                **{f"T={t}": float(average[t - 1]) for t in checkpoints},
                f"T={main}_low": float(at_main.low),
                f"T={main}_high": float(at_main.high),
                "last20": float(late.mean),
                "last20_low": float(late.low),
                "last20_high": float(late.high),
                "worst_of_first_ten": float(regret[:10].max()),
            }
        )
    return sorted(rows, key=lambda row: float(row[f"T={main}"]))
