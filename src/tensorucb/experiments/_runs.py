"""Policies × runs, each played once: a finished run is kept in a file, whose name says all that it depends on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tensorucb.checks import check_count, check_path, check_report
from tensorucb.errors import FileFormatError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._key import policy_key, run_key
from tensorucb.experiments._pool import in_processes
from tensorucb.experiments._results import Experiment, RunResult
from tensorucb.experiments._runner import (
    check_environment,
    check_policies,
    check_rounds,
    check_seed,
    policy_arguments,
    run_policy,
)
from tensorucb.files import read_state, write_state
from tensorucb.policies import Policy
from tensorucb.threads import MOST_THREADS, OnProgress
from tensorucb.work import Engine, check_engine

_KIND = "experiment run"


class Play(NamedTuple):
    """One run to be played: the world, the policy and its label, the run's number, and what progress calls it."""

    world: Environment
    label: str
    policy: Policy
    run: int
    said: str


def play_all(
    plays: Sequence[Play],
    *,
    rounds: int,
    seed: int,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> list[RunResult]:
    """The results of all plays; those that are not kept in ``directory`` are played by the engine, or in processes."""
    check_count("jobs", jobs, 1, MOST_THREADS)
    check_engine(engine)
    paths = [None] * len(plays) if directory is None else file_paths(plays, directory, rounds=rounds, seed=seed)
    results = [None if path is None else _read(path, play) for path, play in zip(paths, plays, strict=True)]
    missing = [number for number, result in enumerate(results) if result is None]
    total, done = len(plays) * rounds, (len(plays) - len(missing)) * rounds

    def step(task: int) -> None:
        nonlocal done
        done = min(done + 1, total)
        if report is not None:
            report(done, total, plays[missing[task]].said)

    def finished(task: int, result: RunResult) -> None:
        number = missing[task]
        results[number] = result
        if (path := paths[number]) is not None:
            policy = plays[number].policy
            kind = f"{type(policy).__module__}.{type(policy).__qualname__}"
            arrays = {name: getattr(result, name) for name in ("product", "spread", "optimum", "seconds")}
            write_state(path, _KIND, {"type": kind, "arguments": policy_arguments(policy)}, arrays)

    tasks = [partial(_played, plays[number], rounds, seed) for number in missing]
    if engine is None:
        in_processes(tasks, jobs, step, finished)
    else:
        engine.fill(tasks, jobs, step, finished)
    for task, number in enumerate(missing):
        if results[number] is None:
            finished(task, tasks[task](partial(step, task)))
    return [result for result in results if result is not None]


def _played(play: Play, rounds: int, seed: int, each_round: Callable[[], None]) -> RunResult:
    return run_policy(
        play.world, play.policy, rounds=rounds, run=play.run, seed=seed, label=play.label, each_round=each_round
    )


def _read(path: Path, play: Play) -> RunResult | None:
    """A kept run; a damaged file counts as not there."""
    try:
        return RunResult(play.label, play.run, **read_state(path, _KIND)[1]) if path.exists() else None
    except FileFormatError:
        return None


def file_paths(plays: Sequence[Play], directory: str | Path, *, rounds: int, seed: int) -> list[Path | None]:
    """Where each run is kept; None for a policy whose code or arguments nobody can tell from others: it is not kept."""
    folder = check_path("directory", directory)
    worlds = {id(play.world): play.world.describe() for play in plays}
    policies = {id(play.policy): policy_key(play.policy) for play in plays}
    paths: list[Path | None] = []
    for play in plays:
        key = policies[id(play.policy)]
        if key is None:
            paths.append(None)
            continue
        digest = run_key(key, environment=worlds[id(play.world)], rounds=rounds, seed=seed, run=play.run)
        slug = re.sub(r"[^a-z0-9]+", "-", play.label.lower()).strip("-")
        paths.append(folder / f"{slug}-{play.run}-{digest}.npz")
    return paths


def run_experiment(
    environment: Environment,
    policies: Mapping[str, Policy],
    *,
    rounds: int,
    runs: int | range = 5,
    seed: int = 0,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> Experiment:
    """Let every policy play ``runs`` runs of ``rounds`` rounds, with the same products and coins for all.

    Parameters
    ----------
    policies
        Label -> policy. A policy is bound again for each run.
    runs
        Number of runs, or a range of run numbers: a run's products and coins follow from its number.
    jobs
        Number of processes that play the runs; the numbers are the same for any.
    directory
        Where finished runs are kept, one file each: the same call goes on where a killed one stopped. A kept run is
        used only if everything that it depends on is the same: this package, the world, the policy's arguments, the
        file of its class and the files that this one imports. Installed libraries count by name alone: use another
        directory after updating one. A policy without ``settings()`` is known by its attributes, so pass a new one.
        Runs of a policy that holds functions, or was typed at a prompt or in a notebook, are not kept.
    report
        Called after each round with (done, total, label).
    engine
        Where runs are played: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> policies = {"degree": tu.policies.HighDegree(), "random": tu.policies.Random()}
    >>> found = run_experiment(world, policies, rounds=10, runs=2)
    >>> bool(found.final("degree").mean < found.final("random").mean)
    True
    """
    check_environment(environment)
    check_policies(policies)
    numbers = runs if isinstance(runs, range) and len(runs) else range(check_rounds("runs", runs))
    rounds, seed = check_rounds("rounds", rounds), check_seed("seed", seed)
    check_report("report", report)
    # Run by run rather than policy by policy: an interrupted experiment compares all policies already.
    plays = [Play(environment, label, policy, run, label) for run in numbers for label, policy in policies.items()]
    options: Any = {"jobs": jobs, "directory": directory, "report": report, "engine": engine}
    results = play_all(plays, rounds=rounds, seed=seed, **options)
    order = list(policies)
    ordered = sorted(results, key=lambda r: (order.index(r.policy), r.run))
    return Experiment(tuple(ordered), environment.measure)
