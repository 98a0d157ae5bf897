"""Why the paper's form loses: a ladder from its algorithm to the logistic tensor that changes one thing per row.

    python -m studies.paper_form [--data DIR] [--log digg_core] [--runs 3] [--rounds 100] [--out out/paper_form]

Every row plays the same rounds, with the paper's features (a Laplacian eigenmap of ten dimensions with unit rows, ten
topics, nothing else) and with ours (degrees and the users' past by topic as well; these have a constant of their own).
Rank 5 and c = 0.1 throughout, unless a row says otherwise. Finished runs are kept in ``--out`` as lines of JSON, so
that the command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from studies import DATA
from tensorucb.data import read_dataset
from tensorucb.experiments import Environment, environment_from_dataset, run_policy
from tensorucb.features import UserProfile
from tensorucb.policies import FixedPointWarning, GammaCounts, HighDegree, Policy, TensorUCB

_RANK = 5
_CLIP: dict[str, Any] = {"projection": "clip"}
_CONSTANTS = {**_CLIP, "constants": True}
_SCALED = {**_CONSTANTS, "scaled": True}
_SMALL = {**_SCALED, "start": "random"}
_TIGHT = {**_SMALL, "prior_variance": 0.1}
_LOGISTIC: dict[str, Any] = {"likelihood": "logistic", "intercept_variance": 0.0}

LADDER: dict[str, dict[str, Any]] = {
    "the paper: Gaussian, sigmoid, start of ones": {},
    "+ clip to [0, 1] instead of the sigmoid": _CLIP,
    "+ a constant in each mode": _CONSTANTS,
    "+ scaled users": _SCALED,
    "+ small random start at the base rate": _SMALL,
    "+ prior variance 0.1 instead of 1": _TIGHT,
    "+ logistic likelihood instead of Gaussian and clip": _LOGISTIC,
    '+ effects of single users: `TensorUCB.paper(likelihood="logistic")`': {"likelihood": "logistic"},
    "+ c = 1": {"likelihood": "logistic", "exploration": 1.0},
}
"""Rows of the ladder, and the arguments of `TensorUCB.paper`; each differs from the row above in one of them."""
BESIDE: dict[str, dict[str, Any]] = {
    "the paper, sweeps in the other order": {"order": "modes"},
    "the paper, outcomes coded −1 and 1": {"coding": "plus_minus"},
    "the paper, small random start": {"start": "random"},
    "the row with the small random start, with the sigmoid again": {**_SMALL, "projection": "sigmoid"},
    "the logistic row, prior variance 1 again": {**_LOGISTIC, "prior_variance": 1.0},
}
"""Single changes beside the ladder."""


def forms() -> dict[str, Callable[[], Policy]]:
    """Every row of the table, and what makes its policy."""

    def tensor(arguments: Mapping[str, Any]) -> Callable[[], Policy]:
        return lambda: TensorUCB.paper(**{"rank": _RANK, **arguments})

    rows: dict[str, Callable[[], Policy]] = {"HighDegree": HighDegree}
    rows |= {label: tensor(arguments) for label, arguments in {**LADDER, **BESIDE}.items()}
    return rows | {"one count per source (GammaCounts)": GammaCounts, "TensorUCB": TensorUCB}


def with_both_features(name: str, data: Path, cache: Path) -> dict[str, Environment]:
    """A log's world with the paper's features, and with ours."""
    ours = environment_from_dataset(read_dataset(data / name), cache=cache)
    assert isinstance(ours.users, UserProfile)
    strict = Environment(
        ours.graph,
        ours.users.coordinates,
        ours.products,
        ours.probabilities,
        settings=ours.settings,
        product_rows=ours.product_rows,
        name=ours.name,
    )
    return {"paper": strict, "ours": ours}


class Runs:
    """Mean regrets of runs, kept as lines of JSON."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        entries = [json.loads(line) for line in lines]
        self._kept = {_key(entry): entry["regret"] for entry in entries}

    def regret(self, world: Environment, make: Callable[[], Policy], *, rounds: int, **about: Any) -> float:
        """Mean regret of one run, ``about`` says which one; read or played."""
        entry = {**about, "rounds": rounds}
        if _key(entry) not in self._kept:
            regret = float(run_policy(world, make(), rounds=rounds, run=about["run"])["regret"].mean())
            self._kept[_key(entry)] = regret
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**entry, "regret": regret}, ensure_ascii=False) + "\n")
        return self._kept[_key(entry)]


def _key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(value for name, value in sorted(entry.items()) if name != "regret")


def summary(regrets: list[float]) -> str:
    """The mean over runs and its standard error."""
    if len(regrets) < 2:
        return f"{regrets[0]:.1f}"
    return f"{np.mean(regrets):.1f} ± {np.std(regrets, ddof=1) / np.sqrt(len(regrets)):.1f}"


def main() -> None:
    """Play what is missing, and print one table per log."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--log", action="append", help="digg_core and christianity by default")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/paper_form"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", FixedPointWarning)
    runs = Runs(given.out / "ladder.jsonl")
    for name in given.log or ("digg_core", "christianity"):
        worlds = with_both_features(name, given.data, given.out / "prepared")
        regrets: dict[tuple[str, str], list[float]] = {}
        for run in range(given.runs):
            for label, make in forms().items():
                for features, world in worlds.items():
                    about = {"log": name, "features": features, "form": label, "run": run}
                    value = runs.regret(world, make, rounds=given.rounds, **about)
                    regrets.setdefault((label, features), []).append(value)
        print(f"\n**{name}**, {given.runs} runs of {given.rounds} rounds\n")
        print("| form | the paper's features | ours |\n| --- | ---: | ---: |")
        for label in forms():
            print(f"| {label} | {summary(regrets[label, 'paper'])} | {summary(regrets[label, 'ours'])} |")


if __name__ == "__main__":
    main()
