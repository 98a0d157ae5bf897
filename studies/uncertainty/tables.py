"""Tables as files: CSV for programs, Markdown for readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from studies.uncertainty.bonus import BONUSES
from studies.uncertainty.compare import EXACT, PAPER, PAPER_ONES, PAPER_START
from studies.uncertainty.study import Row, Tables
from tensorucb.experiments import write_csv
from tensorucb.files import atomic_write

_HUGE = 1e6
Shown = dict[str, tuple[Sequence[Row], Sequence[str]]]


def markdown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """A Markdown table of some columns; three digits suffice for a reader."""
    lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
    lines += ["| " + " | ".join(_cell(row[name]) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if value > _HUGE:
        return "∞" if math.isinf(value) else f"> {_HUGE:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def write_tables(directory: Path, tables: Tables) -> list[Path]:
    """One CSV file a table, and one Markdown file for each part with what the documentation shows."""
    paths = [write_csv(directory / f"{name}.csv", rows) for name, rows in tables.items()]
    for part, shown in (("posteriors", _posteriors), ("smallest_c", _bonus), ("policies", _policies)):
        if part in tables:
            blocks = [f"## {title}\n\n{markdown(*what)}" for title, what in shown(tables).items()]
            with atomic_write(directory / f"{part}.md") as file:
                file.write(("\n\n".join(blocks) + "\n").encode())
            paths.append(directory / f"{part}.md")
    return paths


def _posteriors(tables: Tables) -> Shown:
    summary = tables["posteriors_summary"]
    shape = ("likelihood", "modes", "rank", "samples")
    return {
        "Variational and exact posteriors": (
            summary,
            (*shape, "variant", "mean_error", "ratio", "coverage", "coverage_low", "coverage_high"),
        ),
        "The chains": (
            [row for row in summary if row["variant"] == EXACT],
            (*shape, "problems", "coverage", "worst_rhat", "least_effective"),
        ),
    }


def _bonus(tables: Tables) -> Shown:
    rows = tables["smallest_c"]
    ends = _ends(rows)
    return {
        "The smallest c": (
            [row for row in rows if row["samples"] in ends],
            ("likelihood", "modes", "variant", "samples", "bonus", "nominal", "c90", "c95"),
        ),
        "Theorem 1's condition": (
            [row for row in rows if row["bonus"] == BONUSES[0] and row["variant"] in (PAPER, PAPER_ONES, PAPER_START)],
            ("likelihood", "modes", "variant", "samples", "condition", "c90", "c95", "theorem", "uniform"),
        ),
        "Collapse": (tables["collapse"], ("modes", "rate", "start", "first_zero", "collapsed")),
    }


def _policies(tables: Tables) -> Shown:
    columns = (
        "policy", "edges", "pairs", "true", "predicted", "calibration_error", "brier", "brier_resolution", "log_loss",
        "log_loss_of_base_rate", "coverage_50", "coverage_90", "width_90", "certain",
    )  # fmt: skip
    by_source = (
        "world", "policy", "products", "sources", "questions", "true", "predicted", "error", "deviation", "rate_50",
        "rate_90", "predictive_50", "predictive_90", "coins_90",
    )  # fmt: skip
    return {"Policies": (tables["policies"], columns), "Sources": (tables["sources"], by_source)}


def _ends(rows: Sequence[Row]) -> set[int]:
    counts = sorted({row["samples"] for row in rows})
    return {counts[0], counts[len(counts) // 2], counts[-1]}
