"""Everything that `docs/uncertainty.md` reports, as tables: what is run, and how rows become summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.uncertainty.bonus import bonus_study, collapse_study
from studies.uncertainty.compare import PAPER, PAPER_ONES, PAPER_START, compare
from studies.uncertainty.policy_study import data_tables, policy_tables
from tensorucb.experiments import mean_interval

Row = dict[str, Any]
Tables = dict[str, list[Row]]
PARTS = ("posteriors", "bonus", "policies")


@dataclass(frozen=True)
class Size:
    """How much is run."""

    shapes: tuple[tuple[tuple[int, ...], int], ...]
    samples: tuple[int, ...]
    problems: Mapping[str, int]
    warmup: int
    draws: Mapping[str, int]
    growth: tuple[int, ...]
    growth_problems: int
    collapse_runs: int
    users: int
    rounds: int
    runs: int


FULL = Size(
    shapes=(((3, 3), 1), ((3, 3), 3), ((3, 3, 3), 2)),
    samples=(20, 60, 200),
    problems={"gaussian": 20, "logistic": 12},
    warmup=500,
    draws={"gaussian": 1500, "logistic": 1000},
    growth=(10, 30, 100, 300, 1000, 3000),
    growth_problems=100,
    collapse_runs=200,
    users=400,
    rounds=100,
    runs=3,
)
QUICK = Size(
    shapes=(((3, 3, 3), 2),),
    samples=(20, 60),
    problems={"gaussian": 5, "logistic": 4},
    warmup=200,
    draws={"gaussian": 400, "logistic": 200},
    growth=(10, 100, 300),
    growth_problems=20,
    collapse_runs=20,
    users=100,
    rounds=10,
    runs=1,
)


def run_study(
    size: Size,
    *,
    parts: Sequence[str] = PARTS,
    data: Sequence[Path] = (),
    seed: int = 0,
    report: Callable[[str], None] = lambda _: None,
) -> Tables:
    """The tables of the parts asked for, by name; everything follows from ``size``, ``data`` and ``seed``.

    ``data`` are directories of data sets on which the policies' part is run too.
    """
    steps = {"posteriors": _posterior_tables, "bonus": _bonus_tables, "policies": _policy_tables}
    tables: Tables = {}
    for part in parts:
        tables |= steps[part](size, seed, report)
    for directory in data if "policies" in parts else ():
        more = data_tables(directory, rounds=size.rounds, runs=size.runs, seed=seed, report=report)
        tables |= {name: tables[name] + rows for name, rows in more.items()}
    return tables


def _posterior_tables(size: Size, seed: int, report: Callable[[str], None]) -> Tables:
    rows: list[Row] = []
    for likelihood in ("gaussian", "logistic"):
        for dims, rank in size.shapes:
            report(f"exact posteriors: {likelihood}, D = {len(dims)}, R = {rank}")
            rows += compare(
                dims, rank, size.samples, likelihood=likelihood, problems=size.problems[likelihood],
                warmup=size.warmup, draws=size.draws[likelihood], seed=seed,
            )  # fmt: skip
    return {"posteriors": rows, "posteriors_summary": summarise(rows)}


def _bonus_tables(size: Size, seed: int, report: Callable[[str], None]) -> Tables:
    tables: Tables = {"smallest_c": [], "curve": []}
    # A linear model first: there the posterior is exact, so the figures must be the textbook's.
    plans = (
        ("gaussian", (4,), 1, (PAPER,)),
        ("gaussian", (4, 4, 4), 2, (PAPER_START, PAPER_ONES, PAPER)),
        ("logistic", (4, 4, 4), 2, (PAPER,)),
    )
    for likelihood, dims, rank, variants in plans:
        report(f"confidence bonus: {likelihood}, D = {len(dims)}, R = {rank}")
        rows, curve = bonus_study(
            dims, rank, size.growth, likelihood=likelihood, problems=size.growth_problems, variants=variants, seed=seed
        )
        tables["smallest_c"] += rows
        tables["curve"] += curve
    report("collapse of the paper's start")
    return tables | {"collapse": collapse_study(runs=size.collapse_runs, seed=seed)}


def _policy_tables(size: Size, seed: int, report: Callable[[str], None]) -> Tables:
    return policy_tables(size.users, rounds=size.rounds, runs=size.runs, seed=seed, report=report)


def summarise(rows: Sequence[Row]) -> list[Row]:
    """Posteriors over problems: median mean error and ratio, mean coverage with its 90 % interval over problems."""
    keys = ("likelihood", "modes", "rank", "samples", "variant")
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    found = []
    for key, members in groups.items():
        coverage = mean_interval([row["coverage"] for row in members]).row()
        found.append(
            {
                **dict(zip(keys, key, strict=True)),
                "problems": len(members),
                "mean_error": float(np.median([row["mean_error"] for row in members])),
                "ratio": float(np.median([row["ratio"] for row in members])),
                "coverage": coverage["mean"],
                "coverage_low": max(0.0, coverage["low"]),
                "coverage_high": min(1.0, coverage["high"]),
                "worst_rhat": max(row["rhat"] for row in members),
                "least_effective": min(row["effective"] for row in members),
            }
        )
    return found
