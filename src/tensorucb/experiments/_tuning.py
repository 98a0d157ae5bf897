"""Hyper-parameters and user features, chosen on the same validation rounds for every policy."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import check_mapping, check_sequence, shown
from tensorucb.errors import InputError
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runs import Play, Runner, check_environment, check_policies, check_rounds, check_seed
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.policies import Grid, Policy, UCBPolicy
from tensorucb.policies._base import arguments_of
from tensorucb.policies._base import with_arguments as changed
from tensorucb.threads import OnProgress
from tensorucb.work import Engine

VALIDATION_RUN = 1_000_000
"""Number of the run whose products and coins settings are tried on; no experiment has that many."""

# Every fifth product is for tuning, if there are enough of them to be split.
_TUNE_EVERY, _FEWEST_PRODUCTS = 5, 10
# Whole numbers are sizes (rank, dimension): time and memory grow with them, so their grids are extended once only.
_SWEEPS = 3
_EXTENSIONS = 3
_SIZE_EXTENSIONS = 1
_Search = Generator[list[dict[str, Any]], list[float], list["Trial"]]


@dataclass(frozen=True)
class Trial:
    """One setting and the average regret it had on the validation rounds."""

    arguments: Mapping[str, Any]
    regret: float


@dataclass(frozen=True)
class Tuning:
    """The chosen policies and everything that was tried, by label."""

    policies: Mapping[str, Policy]
    trials: Mapping[str, Sequence[Trial]]

    def rows(self) -> list[tuple[str, str, float, bool]]:
        """(policy, setting, regret, chosen) of everything tried, for a table."""

        def said(arguments: Mapping[str, Any]) -> str:
            texts = {name: f"{v:g}" if isinstance(v, float) else v for name, v in arguments.items()}
            return ", ".join(f"{name}={text}" for name, text in texts.items())

        return [
            (label, said(trial.arguments), trial.regret, trial is best(trials))
            for label, trials in self.trials.items()
            for trial in trials
        ]


def best(trials: Sequence[Trial]) -> Trial:
    """The trial with the least regret, the first of equals."""
    return min(trials, key=lambda trial: trial.regret)


def split_products(environment: Environment) -> tuple[Environment, Environment]:
    """The world with the products on which settings are tuned, and with those on which policies are compared.

    Every fifth of the products that rounds draw from is for tuning. With fewer than ten of them both worlds have them
    all; coins and the order of products differ in any case, since validation has a run number of its own.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 20, rng=0))
    >>> [len(part.product_rows) for part in split_products(world)]
    [4, 16]
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
    jobs, directory, report, engine
        See `run_experiment`.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> tuned = tune(world, {"CUCB": tu.policies.CUCB()}, rounds=5, grids={"CUCB": {"exploration": [0.1, 1.0]}})
    >>> [trial.arguments["exploration"] for trial in tuned.trials["CUCB"]]
    [0.1, 1.0]
    """
    check_environment(environment)
    check_policies(policies)
    player = Runner(check_rounds("rounds", rounds), check_seed("seed", seed), jobs, directory, report, engine)
    own_grids = {} if grids is None else check_mapping("grids", grids, "a mapping of labels to grids")
    for label, grid in own_grids.items():
        for name, values in check_mapping(f"grids[{shown(label)}]", grid, "a mapping of arguments to values").items():
            check_sequence(f"grids[{shown(label)}][{shown(name)}]", values, "a list of values to try")
    check_labels(own_grids, policies)
    chosen: dict[str, Grid] = {p: own_grids.get(p, own_grid(policy)) for p, policy in policies.items()}
    searched = {label: grid for label, grid in chosen.items() if any(len(values) > 1 for values in grid.values())}
    searches = {
        label: _search(
            grid, _start(policies[label], grid), partial(_takes, policies[label]) if label not in own_grids else None
        )
        for label, grid in searched.items()
    }
    expected = rounds * sum(len(values) for grid in searched.values() for values in grid.values())
    tried: dict[str, list[Trial]] = {}
    asked = {label: next(search) for label, search in searches.items()}
    played = 0
    # All searches take their steps together, so that there is work for several processes.
    while asked:
        plays = [
            Play(environment, with_arguments(policies[label], arguments), label, VALIDATION_RUN)
            for label, settings in asked.items()
            for arguments in settings
        ]
        told = None if report is None else _further(report, played, expected)
        regrets = [float(result["average_regret"][-1]) for result in replace(player, report=told).play(plays)]
        played += rounds * len(plays)
        following: dict[str, list[dict[str, Any]]] = {}
        for label, settings in asked.items():
            answers, regrets = regrets[: len(settings)], regrets[len(settings) :]
            try:
                following[label] = searches[label].send(answers)
            except StopIteration as end:
                tried[label] = end.value
        asked = following
    trials = {label: tried[label] for label in searched}
    best_arguments = {label: best(tried_settings).arguments for label, tried_settings in trials.items()}
    only = {label: {n: v[0] for n, v in grid.items()} for label, grid in chosen.items() if label not in searched}
    arguments: dict[str, Mapping[str, Any]] = {**only, **best_arguments}
    return Tuning({label: with_arguments(policy, arguments[label]) for label, policy in policies.items()}, trials)


def own_grid(policy: Policy) -> Grid:
    """What a policy says may be tuned; nothing if it only inherits `UCBPolicy`'s word and has no such argument."""
    grid: Grid = getattr(policy, "tunable", {})
    arguments = arguments_of(policy)
    return {} if grid is UCBPolicy.tunable and not set(grid) <= set(arguments) else grid


def _start(policy: Policy, grid: Grid) -> dict[str, Any]:
    """Where a search starts: the policy's own arguments where they are candidates, else the middle ones."""
    own = arguments_of(policy)
    return {n: own[n] if own.get(n) in values else values[len(values) // 2] for n, values in grid.items()}


def _further(report: OnProgress, before: int, expected: int) -> OnProgress:
    """The report of a step: after ``before`` rounds, of at least ``expected``."""
    return lambda done, total, what: report(before + done, max(expected, before + total), what)


def _takes(policy: Policy, arguments: Mapping[str, Any]) -> bool:
    """Whether the policy takes these arguments."""
    try:
        with_arguments(policy, arguments)
    except InputError:
        return False
    return True


def _search(grid: Grid, start: Mapping[str, Any], takes: Callable[[Mapping[str, Any]], bool] | None) -> _Search:
    """Asks for the regret of settings, some at a time, none twice, and returns everything tried; see :func:`tune`.

    The grid is extended by settings that the policy ``takes``; not at all if that is None.
    """
    tried: dict[str, Trial] = {}
    current, candidates = dict(start), {name: list(values) for name, values in grid.items()}
    left = {name: _SIZE_EXTENSIONS if isinstance(v[0], int) else _EXTENSIONS for name, v in candidates.items()}

    def ask(settings: list[dict[str, Any]]) -> Generator[list[dict[str, Any]], list[float], list[float]]:
        if new := [arguments for arguments in settings if repr(arguments) not in tried]:
            regrets = yield new
            tried.update({repr(each): Trial(each, regret) for each, regret in zip(new, regrets, strict=True)})
        return [tried[repr(arguments)].regret for arguments in settings]

    for _ in range(_SWEEPS):
        before = dict(current)
        for name, values in candidates.items():
            answers = yield from ask([{**current, name: value} for value in values])
            while takes is not None and left[name] and (more := _beyond(values, answers)) is not None:
                left[name] -= 1
                if not takes({**current, name: more}):
                    left[name] = 0
                    break
                answers += yield from ask([{**current, name: more}])
                values.append(more)
            current[name] = values[int(np.argmin(answers))]
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
    labels = list(policies)
    unknown = [label for label in grids if label not in labels]
    if unknown:
        raise InputError(f"there is no policy {shown(unknown[0])} to set. Known: {shown(labels)}.")


def with_arguments(policy: Policy, arguments: Mapping[str, Any]) -> Policy:
    """A new policy of the same kind with some arguments replaced, also of the policy that a `StrategyPolicy` holds."""
    if not arguments:
        return policy
    if isinstance(policy, StrategyPolicy):
        return policy.around(with_arguments(policy.policy, arguments))
    return changed(policy, arguments)
