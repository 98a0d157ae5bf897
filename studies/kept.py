"""Runs that were played once, kept as lines of JSON, so that a study goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

_ENDS = 20


class Run(NamedTuple):
    """Means over the rounds of one run, in users: reached, best possible and regret; ``first`` and ``last`` 20."""

    reach: float
    first: float
    last: float
    best: float
    regret: float


def means(result: pl.DataFrame, *, start: int = 0) -> Run:
    """Means over the rounds of a run, from ``start`` on."""
    result = result.slice(start)
    reached = result["spread"].to_numpy()
    return Run(
        reach=float(reached.mean()),
        first=float(reached[:_ENDS].mean()),
        last=float(reached[-_ENDS:].mean()),
        best=float(result["optimum"].to_numpy().mean()),
        regret=float(result["regret"].to_numpy().mean()),
    )


def share_of_best(runs: Iterable[Run]) -> float:
    """What runs reached, in per cent of the best possible."""
    runs = tuple(runs)
    return 100.0 * sum(run.reach for run in runs) / sum(run.best for run in runs)


def regret_and_share(runs: Iterable[Run]) -> str:
    """Mean regret, its standard error if there are several runs, and in brackets what was reached in % of the best."""
    runs = tuple(runs)
    regrets = [run.regret for run in runs]
    error = f" ± {np.std(regrets, ddof=1) / np.sqrt(len(regrets)):.1f}" if len(regrets) > 1 else ""
    return f"{np.mean(regrets):.1f}{error} ({share_of_best(runs):.0f})"


class Kept:
    """The runs of a file; a run is known by what is said about it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.runs: dict[tuple[tuple[str, Any], ...], Run] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            entry = json.loads(line)
            run = Run(**{name: entry.pop(name) for name in Run._fields})
            self.runs[_key(entry)] = run

    def run(self, play: Callable[[], Run], **about: Any) -> Run:
        """The run that ``about`` names, read or played."""
        key = _key(about)
        if key not in self.runs:
            self.runs[key] = play()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**about, **self.runs[key]._asdict()}, ensure_ascii=False) + "\n")
        return self.runs[key]


def _key(about: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(about.items()))
