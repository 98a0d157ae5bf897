"""Policies side by side: settings tuned on validation rounds, then runs with the same products and coins for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runner import Experiment, OnProgress, RunResult, run_experiment
from tensorucb.experiments._tuning import Tuning, split_products, tune
from tensorucb.policies import Grid, Policy, TensorUCB


@dataclass(frozen=True)
class Comparison:
    """A comparison of policies on one environment, in two steps: `tune`, then `run`.

    Tuning and runs share no product, no order of products and no coin (:func:`~tensorucb.experiments.split_products`).

    Parameters
    ----------
    environment
        The world to play in.
    policies
        Label -> policy, before tuning.
    directory
        Finished runs are kept in ``runs/`` below it, so that a killed comparison goes on. Nothing else is written.
    networks
        Functions that make further worlds. Runs then take turns on these, and settings are tuned on ``environment``,
        which no run plays. Each is made when it is needed.
    report
        ``report(done, total, what)``: how far the work is.
    """

    environment: Environment
    policies: Mapping[str, Policy]
    directory: Path
    rounds: int = 200
    runs: int = 10
    validation_rounds: int = 50
    seed: int = 0
    networks: Sequence[Callable[[], Environment]] = ()
    report: OnProgress | None = None

    def __post_init__(self) -> None:
        """Refuse networks that no run would play on."""
        if len(self.networks) > self.runs:
            raise InputError(f"{len(self.networks)} networks need as many runs; got {self.runs}.")

    @property
    def world(self) -> Environment:
        """The world that runs play in if there are no further networks."""
        return split_products(self.environment)[1]

    def tune(self, grids: Mapping[str, Grid] | None = None) -> Tuning:
        """Choose the settings of every policy on the same validation rounds; ``grids`` as in `experiments.tune`."""
        return tune(
            self.environment if self.networks else split_products(self.environment)[0],
            self.policies,
            rounds=self.validation_rounds,
            seed=self.seed,
            grids=grids,
            directory=self.directory / "runs",
            report=self.staged("validation"),
        )

    def run(self, policies: Callable[[Environment], Mapping[str, Policy]], stage: str) -> Experiment:
        """Play every run of the policies that ``policies(world)`` names; ``stage`` is what `report` calls this."""
        results: list[RunResult] = []
        worlds = self.networks or [lambda: self.world]
        for number, make in enumerate(worlds):
            world = make()
            part = run_experiment(
                world,
                policies(world),
                rounds=self.rounds,
                runs=range(number, self.runs, len(worlds)),
                seed=self.seed,
                directory=self.directory / "runs",
                report=self.staged(stage if len(worlds) == 1 else f"{stage}, network {number + 1}"),
            )
            results += part.results
        order = {label: place for place, label in enumerate(part.policies)}
        return Experiment(tuple(sorted(results, key=lambda r: (order[r.policy], r.run))))

    def staged(self, stage: str) -> OnProgress | None:
        """`report` with the name of the stage in front."""
        report = self.report
        return None if report is None else lambda done, total, what: report(done, total, f"{stage}: {what}")


def ours_untouched(policies: Mapping[str, Policy]) -> dict[str, Grid]:
    """Grids for :meth:`Comparison.tune` that keep our default policy as it is, alone or inside a `StrategyPolicy`."""
    return {label: {} for label, policy in policies.items() if isinstance(getattr(policy, "policy", policy), TensorUCB)}
