"""Policies × runs × rounds: the same products, the same coins, the same oracle for every policy."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from tensorucb.arrays import I64
from tensorucb.checks import check_count, check_instance, check_mapping, check_path, check_report, check_text, shown
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._fingerprint import code_digest, fingerprint, package_version
from tensorucb.experiments._jobs import check_jobs, play_ahead
from tensorucb.experiments._results import Experiment, RunResult
from tensorucb.experiments._strategies import StrategyPolicy, of_edges
from tensorucb.files import read_state, write_state
from tensorucb.policies import Policy
from tensorucb.policies._base import check_policy_object
from tensorucb.threads import OnProgress, single_threaded_blas
from tensorucb.work import Engine, check_engine

# Purposes of derived random streams: (seed, purpose, run).
_POLICY, _ORACLE = 2, 3
_KIND = "experiment run"


def check_environment(environment: Any) -> Environment:
    """An `Environment`."""
    hint = "Environment.from_sandbox makes one."
    return check_instance("environment", environment, Environment, "an Environment", hint)


def check_policies(policies: Any) -> Mapping[str, Policy]:
    """Policies by label, at least one."""
    found = check_mapping("policies", policies, "a mapping of labels to policies")
    for label, policy in found.items():
        check_policy_object(f"policies[{shown(label)}]", policy)
        check_text("the label of a policy", label)
    if not found:
        raise InputError("policies must hold at least one policy; got none.")
    return found


def check_rounds(name: str, value: Any) -> int:
    """A number of rounds or runs."""
    return check_count(name, value, 1, 10_000_000)


def check_seed(name: str, value: Any) -> int:
    """A seed, or the number of a run."""
    return check_count(name, value, 0, 2**63 - 1)


class _Stopwatch:
    """Adds up the time spent in an oracle, so that scoring and selecting can be told apart."""

    seconds = 0.0

    def timed(self, oracle: Callable[..., Any]) -> Any:
        """The same oracle, with its time counted."""

        def call(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            found = oracle(*arguments, **options)
            self.seconds += time.perf_counter() - start
            return found

        return call


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Say whose answer was wrong: several policies play, and some are the caller's own."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"policy {shown(label)}: ", *error.parts()) from error


def product_sequence(environment: Environment, rounds: int, *, run: int, seed: int) -> I64:
    """The products of a run, the same for every policy; a longer run begins with a shorter one's.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> product_sequence(world, 3, run=0, seed=0).shape
    (3,)
    """
    check_environment(environment)
    rounds, run, seed = check_rounds("rounds", rounds), check_seed("run", run), check_seed("seed", seed)
    return environment.draw_products(rounds, seed=seed, run=run)


def policy_arguments(policy: Policy) -> dict[str, Any]:
    """The arguments that a policy was made with, as far as it tells them."""
    settings = getattr(policy, "settings", None)
    return settings() if callable(settings) else {}


# The last bit of a large product may depend on the number of threads, and runs are played in several ways.
@single_threaded_blas()
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

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> run_policy(world, tu.policies.HighDegree(), rounds=5).regret.shape
    (5,)
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
    watch, k = _Stopwatch(), environment.settings.k
    seed_oracle = environment.oracle(np.random.default_rng([seed, _ORACLE, run]))
    oracle, pair_oracle = watch.timed(seed_oracle), watch.timed(environment.pair_oracle)
    spread, optimum, seconds = np.empty(rounds), np.empty(rounds), np.empty((rounds, 3))
    for t, product in enumerate(products.tolist()):
        world, vector = environment.in_round(t, seed=seed, run=run), environment.products[product]
        seed_oracle.candidates = oracle.candidates = world.candidates
        optimum[t] = world.optimum(product).spread
        watch.seconds, start = 0.0, time.perf_counter()
        # The seeds; and their strategies, in a world that has any.
        with _named(label or policy.name):
            if isinstance(policy, StrategyPolicy):
                choice = [*policy.choose_pairs(environment.contexts(product), k, oracle, pair_oracle)]
            else:
                choice = [policy.choose(vector, k, oracle)]
        seconds[t, :2] = time.perf_counter() - start - watch.seconds, watch.seconds
        edges, outcomes = world.observe(product, *choice, seed=seed, run=run, round_number=t)
        start = time.perf_counter()
        if isinstance(policy, StrategyPolicy):
            strategies = of_edges(environment.graph, choice[0], choice[1], edges)
            policy.update_pairs(environment.contexts(product), strategies, edges, outcomes)
        else:
            policy.update(vector, edges, outcomes)
        seconds[t, 2] = time.perf_counter() - start
        spread[t] = world.evaluate(product, *choice)
        if each_round is not None:
            each_round()
    return RunResult(label or policy.name, run, products, spread, optimum, seconds)


_handed: ContextVar[list[tuple[Any, ...]] | None] = ContextVar("handed", default=None)


@contextmanager
def handed_over() -> Iterator[list[tuple[Any, ...]]]:
    """Inside, finished runs are not written: they are collected, for `take_over` on the machine that keeps them."""
    files: list[tuple[Any, ...]] = []
    token = _handed.set(files)
    try:
        yield files
    finally:
        _handed.reset(token)


def take_over(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Keep a run that another machine played."""
    write_state(path, _KIND, about, arrays)


class KeptRuns:
    """Runs that are played once: a finished one is kept in ``directory``, complete, or not there at all.

    A file's name carries a digest of everything that the run depends on. Without a directory nothing is kept.
    """

    def __init__(self, directory: str | Path | None, environment: Environment, *, rounds: int, seed: int) -> None:
        self.directory = None if directory is None else check_path("directory", directory)
        self._environment, self._length = environment, {"rounds": rounds, "seed": seed}
        self._about: dict[str, Any] = {}
        if self.directory is not None:
            sources = {"version": package_version("tensorucb"), "code": code_digest()}
            self._about = {"environment": environment.describe(), **self._length, **sources}
        # Taken once per policy: learning must not change it.
        self._policies: dict[int, tuple[Policy, str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_policies": list(self._policies.values())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # On another machine policies have other ids; what is known of them is still true.
        vars(self).update(state, _policies={id(known[0]): known for known in state["_policies"]})

    def path(self, label: str, policy: Policy, run: int) -> Path | None:
        """Where this policy's run is kept, if runs are kept."""
        if self.directory is None:
            return None
        if id(policy) not in self._policies:
            self._policies[id(policy)] = policy, fingerprint(policy)
        about = {**self._about, "policy": self._policies[id(policy)][1], "run": run}
        digest = hashlib.sha256(json.dumps(about, sort_keys=True, default=repr).encode()).hexdigest()[:12]
        slug = re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
        return self.directory / f"{slug}-{run}-{digest}.npz"

    def play(self, label: str, policy: Policy, run: int, each_round: Callable[[], None] | None = None) -> RunResult:
        """The result, played unless it is there already. A damaged file counts as not there: the run is repeated."""
        path = self.path(label, policy, run)
        if path is not None and path.exists():
            try:
                return RunResult(label, run, **read_state(path, _KIND)[1])
            except FileFormatError:
                pass
        result = run_policy(self._environment, policy, **self._length, run=run, label=label, each_round=each_round)
        if path is not None:
            arrays = {name: getattr(result, name) for name in ("product", "spread", "optimum", "seconds")}
            kind = f"{type(policy).__module__}.{type(policy).__qualname__}"
            about, handed = {"type": kind, "arguments": policy_arguments(policy)}, _handed.get()
            if handed is None:
                write_state(path, _KIND, about, arrays)
            else:
                handed.append((path, about, arrays))
        return result

    def has(self, label: str, policy: Policy, run: int) -> bool:
        """Whether this policy's run is there already."""
        path = self.path(label, policy, run)
        return path is not None and path.exists()


@contextmanager
def meeting_place(directory: str | Path | None, jobs: int, engine: Engine | None) -> Iterator[str | Path | None]:
    """The directory of kept runs; without one, several processes meet in one that is removed afterwards."""
    several = check_jobs(jobs) > 1 or check_engine(engine) is not None
    if directory is None and several:
        with TemporaryDirectory(prefix="tensorucb-") as folder:
            yield folder
    else:
        yield directory


class Play(NamedTuple):
    """One run to be played: where it is kept, its (label, policy, number), and what progress calls it."""

    kept: KeptRuns
    run: tuple[str, Policy, int]
    said: str


def play_all(
    plays: Sequence[Play], *, rounds: int, jobs: int, engine: Engine | None, report: OnProgress | None
) -> list[RunResult]:
    """The results of all plays; those that are not kept yet are played by the engine, or in ``jobs`` processes."""
    missing = [play for play in plays if not play.kept.has(*play.run)]
    total, done = len(plays) * rounds, (len(plays) - len(missing)) * rounds

    def step(said: str) -> None:
        nonlocal done
        done = min(done + 1, total)
        if report is not None:
            report(done, total, said)

    tasks = [partial(play.kept.play, *play.run) for play in missing]
    play_ahead(engine, tasks, jobs, lambda number: step(missing[number].said))
    return [play.kept.play(*play.run, partial(step, play.said)) for play in plays]


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
        used only if everything that it depends on is the same, the code of the policy and of this package included.
        Installed libraries count by name alone: use another directory after updating one. A policy without
        ``settings()`` is known by its attributes, so pass a new one.
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
    with meeting_place(directory, jobs, engine) as folder:
        kept = KeptRuns(folder, environment, rounds=rounds, seed=seed)
        # Run by run rather than policy by policy: an interrupted experiment compares all policies already.
        plays = [Play(kept, (label, policy, run), label) for run in numbers for label, policy in policies.items()]
        results = play_all(plays, rounds=rounds, jobs=jobs, engine=engine, report=report)
    order = list(policies)
    ordered = sorted(results, key=lambda r: (order.index(r.policy), r.run))
    return Experiment(tuple(ordered), environment.measure)
