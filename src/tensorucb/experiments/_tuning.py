"""Hyper-parameters and user features, chosen on the same validation rounds for every policy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import check_mapping, check_report, check_sequence, shown
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._jobs import check_jobs, play_ahead
from tensorucb.experiments._runner import (
    check_environment,
    check_policies,
    check_rounds,
    check_seed,
    kept_runs,
    policy_arguments,
)
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.files import atomic_write
from tensorucb.policies import BasePolicy, Grid, Policy
from tensorucb.threads import OnProgress
from tensorucb.work import Engine, check_engine

VALIDATION_RUN = 1_000_000
"""Number of the run whose products and coins settings are tried on; no experiment has that many."""

# Every fifth product is for tuning, if there are enough of them to be split.
_TUNE_EVERY, _FEWEST_PRODUCTS = 5, 10
# Whole numbers are sizes (rank, dimension): time and memory grow with them, so their grids are extended once only.
_SWEEPS, _EXTENSIONS, _SIZE_EXTENSIONS = 3, 3, 1
_Ahead = Callable[[Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True)
class Trial:
    """One setting and the average scaled regret it had on the validation rounds.

    Examples
    --------
    >>> from tensorucb.experiments import Trial
    >>> Trial({"exploration": 0.1}, regret=5.8).arguments
    {'exploration': 0.1}
    """

    arguments: Mapping[str, Any]
    regret: float


@dataclass(frozen=True)
class Tuning:
    """The chosen policies and everything that was tried, by label.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, tune
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import CUCB
    >>> tuning = tune(world, {"CUCB": CUCB()}, rounds=3)
    >>> [trial.arguments for trial in tuning.trials["CUCB"]][:2]
    [{'exploration': 0.001}, {'exploration': 0.01}]
    """

    policies: Mapping[str, Policy]
    trials: Mapping[str, Sequence[Trial]]

    def rows(self) -> list[tuple[str, str, float, bool]]:
        """(policy, setting, regret, chosen) of everything tried, for a table."""
        return [
            (label, _setting(trial.arguments), trial.regret, trial is best(trials))
            for label, trials in self.trials.items()
            for trial in trials
        ]


def best(trials: Sequence[Trial]) -> Trial:
    """The trial with the least regret, the first of equals."""
    return min(trials, key=lambda trial: trial.regret)


def _setting(arguments: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in arguments.items()
    )


def split_products(environment: Environment) -> tuple[Environment, Environment]:
    """The world with the products on which settings are tuned, and with those on which policies are compared.

    Every fifth of the products that rounds draw from is for tuning. With fewer than ten of them both worlds have them
    all; coins and the order of products differ in any case, since validation has a run number of its own.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, split_products
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> tuned_on, judged_on = split_products(world)
    >>> len(tuned_on.product_rows), len(judged_on.product_rows)
    (5, 5)
    """
    rows = environment.product_rows
    if rows.size < _FEWEST_PRODUCTS:
        return environment, environment
    ours = np.arange(rows.size) % _TUNE_EVERY == 0
    return environment.with_product_rows(rows[ours]), environment.with_product_rows(rows[~ours])


def tune(
    environment: Environment,
    policies: Mapping[str, Policy],
    *,
    rounds: int = 50,
    seed: int = 0,
    grids: Mapping[str, Grid] | None = None,
    jobs: int = 1,
    directory: str | Path | None = None,
    report: OnProgress | None = None,
    engine: Engine | None = None,
) -> Tuning:
    """Choose the settings of every policy on the same rounds.

    The arguments are searched one after the other, each with the others at their best so far, until a sweep over all
    of them changes nothing (three at most). If the best candidate of a policy's own grid is the smallest or the largest
    number, the grid is extended by the factor between its last two, three times at most (whole numbers once).

    Parameters
    ----------
    rounds
        Validation rounds, 50 in the paper. Their coins and the order of products are the same for all settings of all
        policies, and are not those of the experiment's runs. :func:`split_products` keeps the products apart as well.
    grids
        Label -> argument -> candidates, which are taken as they are; the policy's ``tunable`` where a label is missing.
        An empty grid keeps the policy as it is.
    jobs
        Number of processes, each of which searches for one policy after the other; the result is the same for any.
    directory
        Where finished trials are kept, so that a killed search goes on.
    engine
        Where the trials are played: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, tune
    >>> from tensorucb.policies import CUCB
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 8, rng=0), settings=WorldSettings(k=3))
    >>> found = tune(world, {"CUCB": CUCB()}, rounds=5, grids={"CUCB": {"exploration": [0.1, 1.0]}})
    >>> [trial.arguments["exploration"] for trial in found.trials["CUCB"]]
    [0.1, 1.0]
    """
    check_environment(environment)
    check_policies(policies)
    rounds, seed = check_rounds("rounds", rounds), check_seed("seed", seed)
    check_report("report", report)
    given = {} if grids is None else check_mapping("grids", grids, "a mapping of labels to grids")
    for label, grid in given.items():
        for name, values in check_mapping(f"grids[{shown(label)}]", grid, "a mapping of arguments to values").items():
            check_sequence(f"grids[{shown(label)}][{shown(name)}]", values, "a list of values to try")
    check_labels(given, policies)
    chosen: dict[str, Grid] = {p: given.get(p, own_grid(policy)) for p, policy in policies.items()}
    searched = {label: grid for label, grid in chosen.items() if any(len(values) > 1 for values in grid.values())}
    left = {label: rounds * sum(map(len, grid.values())) for label, grid in searched.items()}
    trials: dict[str, Sequence[Trial]] = {}
    done = 0

    def step(label: str) -> None:
        nonlocal done
        done += 1
        left[label] = max(0, left[label] - 1)
        if report is not None:
            report(done, done + sum(left.values()), label)

    with kept_runs(directory, environment, rounds=rounds, seed=seed, jobs=check_jobs(jobs), engine=engine) as kept:

        def play(label: str, arguments: Mapping[str, Any], each_round: Callable[[], None] | None = None) -> float:
            policy = with_arguments(policies[label], arguments)
            return float(kept.play(label, policy, VALIDATION_RUN, each_round).average_regret[-1])

        def search(label: str, each_round: Callable[[], None], ahead: _Ahead = lambda settings: None) -> list[Trial]:
            start = _start(policies[label], searched[label])
            rules: Any = {"extend": label not in given, "ahead": ahead}
            return _search(partial(play, label, each_round=each_round), searched[label], start, **rules)

        # The longest searches first, so that no process is left with one of them when the others are done. One search
        # alone tries the values of an argument at the same time.
        longest = sorted(searched, key=lambda label: -left[label])
        where, alone = check_engine(engine), len(searched) == 1
        if not alone:
            searches = [partial(search, label) for label in longest]
            play_ahead(where, searches, jobs, lambda number: step(longest[number]))

        def together(label: str, settings: Sequence[Mapping[str, Any]]) -> None:
            if alone:
                play_ahead(where, [partial(play, label, each) for each in settings], jobs, lambda number: step(label))

        for label in searched:
            trials[label] = search(label, partial(step, label), partial(together, label))
            left[label] = 0
    best_arguments = {label: best(found).arguments for label, found in trials.items()}
    only = {label: {n: v[0] for n, v in grid.items()} for label, grid in chosen.items() if label not in searched}
    arguments: dict[str, Mapping[str, Any]] = {**only, **best_arguments}
    return Tuning({label: with_arguments(policy, arguments[label]) for label, policy in policies.items()}, trials)


def own_grid(policy: Policy) -> Grid:
    """What a policy says may be tuned; nothing if it only inherits `BasePolicy`'s word and has no such argument."""
    grid: Grid = getattr(policy, "tunable", {})
    known = policy_arguments(policy)
    return {} if grid is BasePolicy.tunable and not set(grid) <= set(known) else grid


def _start(policy: Policy, grid: Grid) -> dict[str, Any]:
    """Where a search starts: the policy's own arguments where they are candidates, else the middle ones."""
    own = policy_arguments(policy)
    return {n: own[n] if own.get(n) in values else values[len(values) // 2] for n, values in grid.items()}


def _search(
    regret: Callable[[Mapping[str, Any]], float],
    grid: Grid,
    start: Mapping[str, Any],
    *,
    extend: bool,
    ahead: _Ahead = lambda settings: None,
) -> list[Trial]:
    """Everything tried, no setting twice; see :func:`tune`. ``ahead(settings)`` is told what will be asked for next."""
    tried: dict[str, Trial] = {}
    current, candidates = dict(start), {name: list(values) for name, values in grid.items()}
    extensions = {
        name: (_SIZE_EXTENSIONS if isinstance(values[0], int) else _EXTENSIONS) if extend else 0
        for name, values in grid.items()
    }

    def at(name: str, value: Any) -> float:
        arguments = {**current, name: value}
        key = repr(arguments)
        if key not in tried:
            tried[key] = Trial(arguments, regret(arguments))
        return tried[key].regret

    for _ in range(_SWEEPS):
        before = dict(current)
        for name, values in candidates.items():
            ahead([{**current, name: value} for value in values if repr({**current, name: value}) not in tried])
            found = [at(name, value) for value in values]
            while extensions[name] and (more := _beyond(values, found)) is not None:
                extensions[name] -= 1
                try:
                    found.append(at(name, more))
                except InputError:  # The policy does not take it.
                    extensions[name] = 0
                    break
                values.append(more)
            current[name] = values[int(np.argmin(found))]
        if current == before:
            break
    return list(tried.values())


def _beyond(values: Sequence[Any], regrets: Sequence[float]) -> Any:
    """The candidate to try next if the best so far is at an edge of the grid; None if there is none."""
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if not numbers or len(values) < 2:
        return None
    order = np.argsort(values)
    for edge, inner in ((order[0], order[1]), (order[-1], order[-2])):
        # Strictly better: where equals meet the edge, nothing is to be gained beyond it.
        if regrets[edge] == min(regrets) < regrets[inner] and values[edge] > 0 and values[inner] > 0:
            more = values[edge] * values[edge] / values[inner]
            more = max(1, round(more)) if isinstance(values[edge], int) else float(f"{more:.3g}")
            return None if more in values else more
    return None


def check_labels(grids: Mapping[str, Any], policies: Iterable[str]) -> None:
    """Refuse grids of policies that nobody knows."""
    known = list(policies)
    unknown = [label for label in grids if label not in known]
    if unknown:
        raise InputError(f"there is no policy {shown(unknown[0])} to set. Known: {shown(known)}.")


def with_arguments(policy: Policy, arguments: Mapping[str, Any]) -> Policy:
    """A new policy of the same kind with some arguments replaced."""
    if not arguments:
        return policy
    if not callable(getattr(policy, "settings", None)):
        raise InputError(f"{policy.name} cannot be tuned: it has no settings(). Leave it out of the grid.")
    settings = policy_arguments(policy)
    unknown = [name for name in arguments if name not in settings]
    if unknown:
        raise InputError(f"{policy.name} has no argument {shown(unknown[0])}; it has {sorted(settings)}.")
    if isinstance(policy, StrategyPolicy):
        return policy.around(with_arguments(policy.policy, arguments))
    result: Policy = type(policy)(**{**settings, **arguments})
    return result


def write_settings(path: str | Path, tuning: Tuning) -> None:
    """The chosen settings as a TOML file that :func:`read_settings` reads: a table per policy, a value per argument.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, read_settings, tune, write_settings
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import HighDegree
    >>> write_settings("settings.toml", tune(world, {"HighDegree": HighDegree()}, rounds=2))
    >>> read_settings("settings.toml")
    {}
    """
    lines = []
    for label, trials in tuning.trials.items():
        lines += [f"[{json.dumps(label)}]", *(f"{name} = {value!r}" for name, value in best(trials).arguments.items())]
        lines.append("")
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())


def read_settings(path: str | Path) -> dict[str, dict[str, Sequence[Any]]]:
    r"""Grids from a TOML file: a table per policy, a list or a single value per argument.

    .. code-block:: toml

        [TensorUCB]
        exploration = [0.1, 0.3, 1.0]
        rank = 5

    Examples
    --------
    >>> from pathlib import Path
    >>> from tensorucb.experiments import read_settings
    >>> size = Path("grids.toml").write_text("[LinUCB]\nexploration = [0.1, 1.0]\n")
    >>> read_settings("grids.toml")
    {'LinUCB': {'exploration': [0.1, 1.0]}}
    """
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{str(path)!r} is not valid TOML: {error}.") from error
    grids: dict[str, dict[str, Sequence[Any]]] = {}
    for label, table in content.items():
        if not isinstance(table, dict):
            raise FileFormatError(f"{str(path)!r}: {label!r} must be a table of arguments, such as [TensorUCB].")
        grids[label] = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
        if not all(grids[label].values()):
            raise FileFormatError(f"{str(path)!r}: an empty list under [{label}] leaves nothing to try.")
    return grids
