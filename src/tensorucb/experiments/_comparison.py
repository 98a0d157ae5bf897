"""Policies side by side: settings tuned on validation rounds, then runs with the same products and coins for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorucb.checks import check_count, check_path, check_report, check_sequence, shown
from tensorucb.errors import InputError
from tensorucb.experiments._contestants import always, contestants, ours_untouched, references, strategy_contestants
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._results import Experiment, RunResult
from tensorucb.experiments._runs import check_environment, check_policies, check_rounds, run_experiment
from tensorucb.experiments._tuning import Tuning, split_products, tune
from tensorucb.policies import Grid, Policy
from tensorucb.policies._base import check_policy_object
from tensorucb.threads import OnProgress
from tensorucb.work import Engine


@dataclass(frozen=True)
class Comparison:
    """A comparison of policies on one environment, in two steps: `tune`, then `run`.

    Tuning and runs share no product, no order of products and no coin (:func:`~tensorucb.experiments.split_products`).

    Parameters
    ----------
    environment, policies
        The world to play in, and label -> policy, before tuning.
    directory
        Finished runs are kept in ``runs/`` below it, and nothing else is written. None keeps nothing.
    networks
        Functions that make further worlds. Runs then take turns on these, and settings are tuned on ``environment``,
        which no run plays. Each is made when it is needed.
    jobs, report, engine
        See `run_experiment`.
    """

    environment: Environment
    policies: Mapping[str, Policy]
    directory: Path | None
    rounds: int = 200
    runs: int = 10
    validation_rounds: int = 50
    seed: int = 0
    networks: Sequence[Callable[[], Environment]] = ()
    jobs: int = 1
    report: OnProgress | None = None
    engine: Engine | None = None

    def __post_init__(self) -> None:
        # A run would find these too late, after the tuning.
        check_rounds("rounds", self.rounds)
        check_rounds("runs", self.runs)
        check_report("report", self.report)
        if len(self.networks) > self.runs:
            raise InputError(f"{len(self.networks)} networks need as many runs; got {self.runs}.")

    @property
    def world(self) -> Environment:
        """The world that runs play in if there are no further networks."""
        return split_products(self.environment)[1]

    @property
    def _kept(self) -> Path | None:
        return None if self.directory is None else Path(self.directory) / "runs"

    def tune(self, grids: Mapping[str, Grid] | None = None) -> Tuning:
        """Choose the settings of every policy on the same validation rounds; ``grids`` as in `experiments.tune`.

        Without validation rounds every policy stays as it is.
        """
        if check_count("validation_rounds", self.validation_rounds, 0) == 0:
            return Tuning(self.policies, {})
        return tune(
            self.environment if self.networks else split_products(self.environment)[0],
            self.policies,
            rounds=self.validation_rounds,
            seed=self.seed,
            grids=grids,
            jobs=self.jobs,
            directory=self._kept,
            report=self.staged("validation"),
            engine=self.engine,
        )

    def run(self, policies: Callable[[Environment], Mapping[str, Policy]], stage: str) -> Experiment:
        """Play every run of the policies that ``policies(world)`` names; ``stage`` is what `report` calls this."""
        results: list[RunResult] = []
        worlds = self.networks or [lambda: self.world]
        for number, make in enumerate(worlds):
            world = make()
            name = stage if len(worlds) == 1 else f"{stage}, network {number + 1}"
            told = self.staged(name)
            if told is not None:
                told(0, 1, "who takes part")  # a reference may look at the truth of thousands of products
            part = self.play(world, policies(world), name, range(number, self.runs, len(worlds)))
            results += part.results
        order = part.policies
        ordered = sorted(results, key=lambda r: (order.index(r.policy), r.run))
        return Experiment(tuple(ordered), part.measure)

    def play(
        self, world: Environment, policies: Mapping[str, Policy], stage: str, runs: int | range | None = None
    ) -> Experiment:
        """Play runs (all by default) in one world, and keep them."""
        return run_experiment(
            world,
            policies,
            rounds=self.rounds,
            runs=self.runs if runs is None else runs,
            seed=self.seed,
            jobs=self.jobs,
            directory=self._kept,
            report=self.staged(stage),
            engine=self.engine,
        )

    def staged(self, stage: str) -> OnProgress | None:
        """`report` with the name of the stage in front."""
        report = self.report
        return None if report is None else lambda done, total, what: report(done, total, f"{stage}: {what}")


def compare(
    environment: Environment,
    policies: Sequence[str | Policy] | Mapping[str, Policy] | None = None,
    *,
    rounds: int = 100,
    runs: int = 5,
    validation_rounds: int = 50,
    seed: int = 0,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> Experiment:
    """Compare policies as ``tensorucb compare`` does; ``print`` shows the result as a table.

    Our defaults play untouched. The settings of every other policy are first tuned on validation rounds, with products
    that the runs do not promote. The product-blind oracle, which knows all but the product, takes part as a reference.

    Parameters
    ----------
    policies
        Labels of policies of this package, such as ``"LinUCB"``, and policies of one's own, which go by their
        ``name``; or a mapping of labels to policies. `TensorUCB` and `HighDegree` take part in any case. All by
        default.
    validation_rounds
        Rounds on which each setting is tried; 0 leaves every policy as it is.
    jobs, directory, report, engine
        See `run_experiment`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> compare(world, ["Random"], rounds=10, runs=2)
    Experiment(4 policies, 2 runs of 10 rounds)
    """
    by_label = strategy_contestants() if check_environment(environment).strategies else contestants()
    chosen = {**always(by_label), **_labelled(by_label, policies)}
    folder = None if directory is None else check_path("directory", directory)
    work = Comparison(
        environment, chosen, folder, rounds, runs, validation_rounds, seed, jobs=jobs, report=report, engine=engine
    )
    tuned = work.tune(ours_untouched(chosen)).policies
    return work.run(lambda world: {**tuned, **references(world)}, "runs")


def _labelled(by_label: Mapping[str, Policy], policies: Any) -> Mapping[str, Policy]:
    """Policies by label; those named come from ``by_label``."""
    if policies is None or isinstance(policies, Mapping):
        return by_label if policies is None else check_policies(policies)
    labelled: dict[str, Policy] = {}
    for number, each in enumerate(check_sequence("policies", policies, "a list of labels and policies")):
        if isinstance(each, str):
            if each not in by_label:
                raise InputError(f"there is no policy {shown(each)}. Known: {', '.join(by_label)}.")
            labelled[each] = by_label[each]
        else:
            policy = check_policy_object(f"policies[{number}]", each)
            if policy.name in {**by_label, **labelled}:
                raise InputError(
                    f"policies[{number}] is called {shown(policy.name)}, as another one is. Name it otherwise, or pass "
                    "a mapping of labels to policies."
                )
            labelled[policy.name] = policy
    return labelled
