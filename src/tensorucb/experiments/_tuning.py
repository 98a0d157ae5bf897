"""Hyper-parameters, chosen for every policy on the same validation rounds."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb.checks import check_mapping, check_sequence, shown
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._arguments import (
    check_environment,
    check_policies,
    check_report,
    check_rounds,
    check_seed,
)
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runner import OnProgress, policy_settings, run_policy
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.policies import Grid, Policy

VALIDATION_RUN = 1_000_000
"""Number of the run whose products and coins settings are tried on; no experiment has that many."""

# Every fifth product is for tuning, if there are enough of them to be split.
_TUNE_EVERY, _FEWEST_PRODUCTS = 5, 10
_SWEEPS, _EXTENSIONS = 3, 3
# Of whole numbers, which are sizes (rank, dimension): time and memory grow with them.
_SIZE_EXTENSIONS = 1


@dataclass(frozen=True)
class Trial:
    """One setting and the average scaled regret it had on the validation rounds."""

    arguments: Mapping[str, Any]
    regret: float


@dataclass(frozen=True)
class Tuning:
    """The chosen policies and everything that was tried, by label."""

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
    all; coins and the order of products differ in any case (:data:`VALIDATION_RUN`).
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
    directory: str | Path | None = None,
    report: OnProgress | None = None,
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
    directory
        Where finished trials are kept, so that a killed search goes on.
    """
    from tensorucb.experiments._files import RunFiles

    check_environment(environment)
    check_policies(policies)
    rounds, seed = check_rounds("rounds", rounds), check_seed("seed", seed)
    check_report("report", report)
    given = {} if grids is None else check_mapping("grids", grids, "a mapping of labels to grids")
    for label, grid in given.items():
        for name, values in check_mapping(f"grids[{shown(label)}]", grid, "a mapping of arguments to values").items():
            check_sequence(f"grids[{shown(label)}][{shown(name)}]", values, "a list of values to try")
    check_labels(given, policies)
    chosen: dict[str, Grid] = {p: given.get(p, getattr(policy, "tunable", {})) for p, policy in policies.items()}
    files = None if directory is None else RunFiles(directory, environment, rounds=rounds, seed=seed)
    left = {label: rounds * sum(map(len, grid.values())) for label, grid in chosen.items()}
    done = 0
    kept: dict[str, Policy] = {}
    trials: dict[str, Sequence[Trial]] = {}
    for label, policy in policies.items():
        left.pop(label)

        def regret(arguments: Mapping[str, Any], label: str = label, policy: Policy = policy) -> float:
            nonlocal done
            candidate = with_arguments(policy, arguments)
            result = files.read(label, candidate, VALIDATION_RUN) if files else None
            if result is None:
                result = run_policy(environment, candidate, rounds=rounds, run=VALIDATION_RUN, seed=seed, label=label)
                if files:
                    files.write(result, candidate)
            done += rounds
            if report is not None:
                report(done, done + sum(left.values()), f"{label} {_setting(arguments)}")
            return float(result.average_regret[-1])

        grid = chosen[label]
        if all(len(values) == 1 for values in grid.values()):
            kept[label] = with_arguments(policy, {name: values[0] for name, values in grid.items()})
            continue
        trials[label] = _search(regret, grid, _start(policy, grid), extend=label not in given)
        kept[label] = with_arguments(policy, best(trials[label]).arguments)
    return Tuning(kept, trials)


def _start(policy: Policy, grid: Grid) -> dict[str, Any]:
    """The policy's own arguments where they are candidates, else the middle one."""
    own = policy_settings(policy)["arguments"]
    return {n: own[n] if own.get(n) in values else values[len(values) // 2] for n, values in grid.items()}


def _search(
    regret: Callable[[Mapping[str, Any]], float], grid: Grid, start: Mapping[str, Any], *, extend: bool
) -> list[Trial]:
    """Everything tried, no setting twice; see :func:`tune`."""
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
            whole = isinstance(values[edge], int)
            more = max(1, round(more)) if whole else float(f"{more:.3g}")
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
    settings = getattr(policy, "settings", None)
    if not callable(settings):
        raise InputError(f"{policy.name} cannot be tuned: it has no settings(). Leave it out of the grid.")
    unknown = [name for name in arguments if name not in settings()]
    if unknown:
        raise InputError(f"{policy.name} has no argument {shown(unknown[0])}; it has {sorted(settings())}.")
    if isinstance(policy, StrategyPolicy):
        return policy.around(with_arguments(policy.policy, arguments))
    result: Policy = type(policy)(**{**settings(), **arguments})
    return result


def write_settings(path: str | Path, tuning: Tuning) -> None:
    """The chosen settings as a TOML file that :func:`read_settings` reads: a table per policy, a value per argument."""
    from tensorucb.files import atomic_write

    lines = []
    for label, trials in tuning.trials.items():
        lines += [f"[{json.dumps(label)}]", *(f"{name} = {value!r}" for name, value in best(trials).arguments.items())]
        lines.append("")
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())


def read_settings(path: str | Path) -> dict[str, dict[str, Sequence[Any]]]:
    """Grids from a TOML file: a table per policy, a list or a single value per argument.

    .. code-block:: toml

        [TensorUCB]
        exploration = [0.1, 0.3, 1.0]
        rank = 5
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
