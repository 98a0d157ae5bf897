"""Hyper-parameters, chosen for every policy on the same validation rounds."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tensorucb.checks import check_count, check_mapping, check_sequence, shown
from tensorucb.errors import FileFormatError, InputError
from tensorucb.experiments._arguments import (
    check_environment,
    check_policies,
    check_report,
    check_rounds,
    check_seed,
)
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._runner import Report, run_policy
from tensorucb.policies import Policy
from tensorucb.policies._base import check_policy_object

__all__ = [
    "EXPLORATION_GRID",
    "RANK_GRID",
    "VALIDATION_RUN",
    "Trial",
    "Tuning",
    "check_labels",
    "default_grid",
    "read_settings",
    "tune",
    "write_settings",
]

EXPLORATION_GRID = (1e-3, 1e-2, 1e-1, 1.0)
"""The paper's candidates for c."""
RANK_GRID = (1, 2, 5, 10, 20, 50)
"""Candidates for R in the paper's range 1..50."""
VALIDATION_RUN = 1_000_000
"""Number of the run whose products and coins settings are tried on; no experiment has that many."""

Grid = Mapping[str, Sequence[Any]]


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


def default_grid(policy: Policy, *, ranks: Sequence[int] = RANK_GRID) -> dict[str, Sequence[Any]]:
    """The paper's grid for what a policy lets be tuned: c, and R where there is one."""
    check_policy_object("policy", policy)
    ranks = check_sequence("ranks", ranks, "a list of ranks")
    for rank in ranks:
        check_count("ranks", rank, 1, 1000)
    tunable: Sequence[str] = getattr(policy, "tunable", ())
    known: dict[str, Sequence[Any]] = {"exploration": EXPLORATION_GRID, "rank": tuple(ranks)}
    return {name: known[name] for name in tunable if name in known}


def tune(
    environment: Environment,
    policies: Mapping[str, Policy],
    *,
    rounds: int = 50,
    seed: int = 0,
    grids: Mapping[str, Grid] | None = None,
    ranks: Sequence[int] = RANK_GRID,
    directory: str | Path | None = None,
    report: Report | None = None,
) -> Tuning:
    """Try every setting of every policy's grid on the same rounds, and keep the best of each.

    Parameters
    ----------
    rounds
        Validation rounds, 50 in the paper. Their products and coins are the same for all settings of all
        policies, and are not those of the experiment's runs.
    grids
        Label -> argument -> candidates; :func:`default_grid` where a label is missing. An empty grid keeps the
        policy as it is.
    ranks
        Candidates for R in the default grids.
    directory
        Where finished trials are kept, so that a killed search goes on.
    """
    from tensorucb.experiments._files import RunFiles

    check_environment(environment)
    check_policies(policies)
    rounds, seed = check_rounds("rounds", rounds), check_seed("seed", seed)
    check_report("report", report)
    grids = {} if grids is None else check_mapping("grids", grids, "a mapping of labels to grids")
    for label, grid in grids.items():
        for name, values in check_mapping(f"grids[{shown(label)}]", grid, "a mapping of arguments to values").items():
            check_sequence(f"grids[{shown(label)}][{shown(name)}]", values, "a list of values to try")
    check_labels(grids, policies)
    chosen = {label: grids.get(label, default_grid(policy, ranks=ranks)) for label, policy in policies.items()}
    combinations = {label: list(product(*grid.values())) for label, grid in chosen.items()}
    total = rounds * sum(len(c) for c in combinations.values() if len(c) > 1)
    files = None if directory is None else RunFiles(directory, environment, rounds=rounds, seed=seed)
    done = 0
    kept: dict[str, Policy] = {}
    trials: dict[str, Sequence[Trial]] = {}
    for label, policy in policies.items():
        if len(combinations[label]) == 1:
            kept[label] = with_arguments(policy, dict(zip(chosen[label], combinations[label][0], strict=True)))
            continue
        tried = []
        for values in combinations[label]:
            arguments = dict(zip(chosen[label], values, strict=True))
            candidate = with_arguments(policy, arguments)
            result = files.read(label, candidate, VALIDATION_RUN) if files else None
            if result is None:
                result = run_policy(environment, candidate, rounds=rounds, run=VALIDATION_RUN, seed=seed, label=label)
                if files:
                    files.write(result, candidate)
            tried.append(Trial(arguments, float(result.average_regret[-1])))
            done += rounds
            if report is not None:
                report(done, total, f"{label} {_setting(arguments)}")
        trials[label] = tried
        kept[label] = with_arguments(policy, best(tried).arguments)
    return Tuning(kept, trials)


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
    result: Policy = type(policy)(**{**settings(), **arguments})
    return result


def write_settings(path: str | Path, tuning: Tuning) -> None:
    """The chosen settings as a TOML file that :func:`read_settings` reads: a table a policy, a value an argument."""
    from tensorucb.files import atomic_write

    lines = []
    for label, trials in tuning.trials.items():
        lines += [f"[{json.dumps(label)}]", *(f"{name} = {value!r}" for name, value in best(trials).arguments.items())]
        lines.append("")
    with atomic_write(path) as file:
        file.write("\n".join(lines).encode())


def read_settings(path: str | Path) -> dict[str, dict[str, Sequence[Any]]]:
    """Grids from a TOML file: a table a policy, a list or a single value an argument.

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
