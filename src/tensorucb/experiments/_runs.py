"""Runs of policies: one alone, and many, each played once and kept in a file whose name says all it depends on.

That is the release, the sources of the policy, its arguments, the world and the run. Of this package all sources count;
of a policy of one's own the file of its class and the others beside it, or all of its package. Installed packages count
by name alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from tensorucb.arrays import Arrays
from tensorucb.checks import check_count, check_instance, check_mapping, check_path, check_report, check_text, shown
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._pool import in_processes
from tensorucb.experiments._results import SECONDS, Experiment, Measure, run_frame
from tensorucb.experiments._strategies import StrategyPolicy, of_edges
from tensorucb.files import read_state, write_state
from tensorucb.policies import Policy
from tensorucb.policies._base import arguments_of, check_policy_object
from tensorucb.threads import MOST_THREADS, OnProgress, single_threaded_blas
from tensorucb.work import Engine, check_engine

# Purposes of derived random streams: (seed, purpose, run).
_POLICY, _ORACLE = 2, 3
_KIND = "experiment run"
_OWN = __name__.partition(".")[0]
_ROOMS = ("diffusion", "experiments", "features", "graph", "learner", "oracle", "policies", "truth")
_LIBRARIES = tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in ("purelib", "platlib", "stdlib"))


def check_environment(environment: Any) -> Environment:
    """An `Environment`."""
    hint = "Environment.from_sandbox makes one."
    return check_instance("environment", environment, Environment, "an Environment", hint)


def check_policies(policies: Any) -> Mapping[str, Policy]:
    """Policies by label, at least one."""
    by_label = check_mapping("policies", policies, "a mapping of labels to policies")
    for label, policy in by_label.items():
        check_policy_object(f"policies[{shown(label)}]", policy)
        check_text("the label of a policy", label)
    if not by_label:
        raise InputError("must hold at least one policy; got none.", argument="policies")
    return by_label


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
            choice = oracle(*arguments, **options)
            self.seconds += time.perf_counter() - start
            return choice

        return call


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Say whose answer was wrong: several policies play, and some are the caller's own."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"policy {shown(label)}: ", *error.parts()) from error


def run_policy(
    environment: Environment,
    policy: Policy,
    *,
    rounds: int,
    run: int = 0,
    seed: int = 0,
    label: str | None = None,
    each_round: Callable[[], None] | None = None,
) -> pl.DataFrame:
    """Let ``policy`` play ``rounds`` rounds from scratch; a row per round.

    Everything random follows from ``(seed, run)``: the products, the coins, the policy's own draws and the
    oracle's. ``each_round`` is called after every round. In a world with strategies the policy is a `StrategyPolicy`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> run_policy(world, tu.policies.HighDegree(), rounds=5)["regret"].len()
    5
    """
    check_environment(environment)
    check_policy_object("policy", policy)
    if label is not None:
        check_text("label", label)
    check_report("each_round", each_round)
    run = check_seed("run", run)
    played = _play(
        environment,
        policy,
        label or policy.name,
        run,
        check_rounds("rounds", rounds),
        check_seed("seed", seed),
        (lambda: None) if each_round is None else each_round,
    )
    return run_frame(label or policy.name, run, **played)


# The last bit of a large product may depend on the number of threads, and runs are played in several ways.
@single_threaded_blas()
def _play(
    environment: Environment,
    policy: Policy,
    label: str,
    run: int,
    rounds: int,
    seed: int,
    each_round: Callable[[], None],
) -> Arrays:
    """The columns of a run that do not follow from others. No frame yet: polars must not be used after a fork."""
    if isinstance(policy, StrategyPolicy) != bool(environment.strategies):
        raise InputError(
            "a world with strategies needs a StrategyPolicy, such as StrategyPolicy(TensorUCB()), and other worlds "
            f"a policy as it is; got {shown(policy.name)} for {environment.n_strategies} strategies."
        )
    products = environment.draw_products(rounds, seed=seed, run=run)
    policy.bind(environment.graph, environment.users, np.random.default_rng([seed, _POLICY, run]))
    watch, k = _Stopwatch(), environment.settings.k
    seed_oracle = environment.oracle(np.random.default_rng([seed, _ORACLE, run]))
    oracle, pair_oracle = watch.timed(seed_oracle), watch.timed(environment.pair_oracle)
    spread = np.empty(rounds)
    optimum = np.empty(rounds)
    seconds = np.empty((rounds, 3))
    for t, product in enumerate(products.tolist()):
        world, vector = environment.in_round(t, seed=seed, run=run), environment.products[product]
        seed_oracle.candidates = oracle.candidates = world.candidates
        optimum[t] = world.optimum(product).spread
        watch.seconds, start = 0.0, time.perf_counter()
        # The seeds; and their strategies, in a world that has any.
        with _named(label):
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
        each_round()
    return {"product": products, "spread": spread, "optimum": optimum, **dict(zip(SECONDS, seconds.T, strict=True))}


class Play(NamedTuple):
    """One run to be played: the world, the policy and its label, and the run's number."""

    world: Environment
    policy: Policy
    label: str
    run: int


@dataclass(frozen=True)
class Runner:
    """How runs are played: for so many rounds, from a seed, and the rest as in `run_experiment`, which it names too."""

    rounds: int
    seed: int
    jobs: int = 1
    directory: str | Path | None = None
    report: OnProgress | None = None
    engine: Engine | None = None

    def __post_init__(self) -> None:
        check_count("jobs", self.jobs, 1, MOST_THREADS)
        check_report("report", self.report)
        check_engine(self.engine)

    def play(self, plays: Sequence[Play]) -> list[pl.DataFrame]:
        """The results of all plays; those that are not kept are played by the engine, or in processes."""
        paths = self._paths(plays)
        results = [None if path is None else _read(path) for path in paths]
        missing = [number for number, result in enumerate(results) if result is None]
        total, done = len(plays) * self.rounds, (len(plays) - len(missing)) * self.rounds

        def step(task: int) -> None:
            nonlocal done
            done = min(done + 1, total)
            if self.report is not None:
                self.report(done, total, plays[missing[task]].label)

        def finished(task: int, result: Arrays) -> None:
            number = missing[task]
            results[number] = result
            if (path := paths[number]) is not None:
                policy = plays[number].policy
                kind = f"{type(policy).__module__}.{type(policy).__qualname__}"
                write_state(path, _KIND, {"type": kind, "arguments": arguments_of(policy)}, result)

        tasks = [partial(_play, *plays[number], self.rounds, self.seed) for number in missing]
        if self.engine is None:
            in_processes(tasks, self.jobs, step, finished)
        else:
            self.engine.fill(tasks, self.jobs, step, finished)
        for task, number in enumerate(missing):
            if results[number] is None:
                finished(task, tasks[task](partial(step, task)))
        return [run_frame(play.label, play.run, **(arrays or {})) for play, arrays in zip(plays, results, strict=True)]

    def _paths(self, plays: Sequence[Play]) -> list[Path | None]:
        """Where each run is kept; None for one of a policy whose code or arguments nobody can tell from others."""
        if self.directory is None:
            return [None] * len(plays)
        folder = check_path("directory", self.directory)
        worlds = {id(play.world): play.world.describe() for play in plays}
        policies = {id(play.policy): policy_key(play.policy) for play in plays}
        paths: list[Path | None] = []
        for play in plays:
            key = policies[id(play.policy)]
            about = {"environment": worlds[id(play.world)], "rounds": self.rounds, "seed": self.seed, "run": play.run}
            slug = re.sub(r"[^a-z0-9]+", "-", play.label.lower()).strip("-")
            paths.append(None if key is None else folder / f"{slug}-{play.run}-{run_key(key, **about)}.npz")
        return paths


def _read(path: Path) -> Arrays | None:
    """The arrays of a kept run; a damaged file counts as not there."""
    try:
        return read_state(path, _KIND)[1] if path.exists() else None
    except FileFormatError:
        return None


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
        used only if everything that it depends on is the same: this package, the world, the policy's arguments, and
        the file of its class with those beside it (of a package, all of it). Installed libraries count by name alone:
        use another directory after updating one. A policy without ``settings()`` is known by its attributes, so pass a
        new one. Runs of a policy that holds functions, or was typed at a prompt or in a notebook, are not kept.
    report
        Called after each round with (done, total, label).
    engine
        Where runs are played: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> policies = {"degree": tu.policies.HighDegree(), "random": tu.policies.Random()}
    >>> experiment = run_experiment(world, policies, rounds=10, runs=2)
    >>> bool(experiment.final("degree").mean < experiment.final("random").mean)
    True
    """
    check_environment(environment)
    check_policies(policies)
    numbers = runs if isinstance(runs, range) and len(runs) else range(check_rounds("runs", runs))
    player = Runner(check_rounds("rounds", rounds), check_seed("seed", seed), jobs, directory, report, engine)
    # Run by run rather than policy by policy: an interrupted experiment compares all policies already.
    plays = [Play(environment, policy, label, run) for run in numbers for label, policy in policies.items()]
    return by_policy(player.play(plays), list(policies), environment.measure)


def by_policy(results: Sequence[pl.DataFrame], labels: Sequence[str], measure: Measure) -> Experiment:
    """The experiment that these runs are, in the order of the labels, then of the runs."""
    order = pl.col("policy").cast(pl.Enum(labels))
    return Experiment(pl.concat(results).sort(order, "run", maintain_order=True), measure)


# -- what a run depends on --


def run_key(policy: str, **about: Any) -> str:
    """A short digest of a policy's key and everything else that a run depends on."""
    content = {**about, "policy": policy, "version": package_version(_OWN), "code": code_digest()}
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=repr).encode()).hexdigest()[:12]


def package_version(package: str) -> str:
    """The version of an installed package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def code_digest() -> str:
    """SHA-256 of the package's source files on which a run's numbers depend."""
    root = Path(__file__).parents[1]
    files = [root / name for name in ("_kernels.py", "rng.py")]
    files += [path for room in _ROOMS for path in (root / room).rglob("*.py")]
    return _digest({path.relative_to(root).as_posix(): path.read_bytes() for path in files})


@cache
def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return str(Path(file).resolve()).startswith(_LIBRARIES)


def policy_key(policy: Any) -> str | None:
    """The class of a policy, its source, its arguments and the policies inside; None if one of these cannot be told."""
    try:
        return json.dumps(_known(policy))
    except TypeError:
        return None


def _known(policy: Any) -> list[Any]:
    kind, settings = type(policy), getattr(policy, "settings", None)
    arguments_by_name = settings() if callable(settings) else vars(policy)
    inside = {name: _known(value) for name, value in vars(policy).items() if _is_policy(value)}
    arguments = {name: _plain(value) for name, value in arguments_by_name.items() if not _is_policy(value)}
    return [kind.__module__, kind.__qualname__, _source(kind), arguments, inside]


def _is_policy(value: Any) -> bool:
    return isinstance(value, Policy) and not isinstance(value, type)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return [value.dtype.str, value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Mapping):
        return [[repr(name), _plain(item)] for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    raise TypeError(f"a key cannot tell one {type(value).__name__} from another")


def _source(kind: type) -> str:
    """SHA-256 of the files of a class and its bases, and of those beside them, as far as they are the caller's own."""
    files: dict[str, bytes] = {}
    home = kind.__module__.partition(".")[0]
    for module in {base.__module__ for base in kind.__mro__}:
        top, *inside = module.split(".")
        name = getattr(sys.modules.get(module), "__file__", None)
        if name is None and top == "__main__":
            raise TypeError("a class that was typed at a prompt or in a notebook")
        if name is None or top == _OWN or (top != home and is_installed(name)):
            continue
        file = Path(name).resolve()
        folder = file.parents[len(inside) - (file.stem != "__init__")] if inside else file.parent
        sources = folder.rglob("*.py") if inside or file.stem == "__init__" else folder.glob("*.py")
        files |= {f"{module}: {path.relative_to(folder)}": path.read_bytes() for path in [file, *sources]}
    return _digest(files)


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
