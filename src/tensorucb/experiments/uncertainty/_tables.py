"""Tables as files: CSV for programs, Markdown for readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorucb.experiments._files import write_csv
from tensorucb.experiments.uncertainty._bonus import BONUSES
from tensorucb.experiments.uncertainty._compare import PAPER, PAPER_START
from tensorucb.experiments.uncertainty._study import Row, Tables, summarise
from tensorucb.files import atomic_write

__all__ = ["markdown", "write_tables"]

_HUGE = 1e6


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
    """One CSV file a table, and ``tables.md`` with those that the documentation shows."""
    summary = summarise(tables["posteriors"])
    paths = [
        write_csv(directory / f"{name}.csv", list(rows[0]), [list(row.values()) for row in rows])
        for name, rows in {**tables, "posteriors_summary": summary}.items()
    ]
    shown = {
        "Variational and exact posteriors": (
            summary,
            ("likelihood", "modes", "rank", "samples", "variant", "mean_error", "ratio", "coverage", "coverage_low",
             "coverage_high"),
        ),
        "The chains": (
            [row for row in summary if row["variant"].startswith("exact")],
            ("likelihood", "modes", "rank", "samples", "problems", "coverage", "worst_rhat", "least_effective"),
        ),
        "The smallest c": (
            [row for row in tables["smallest_c"] if row["samples"] in _ends(tables["smallest_c"])],
            ("likelihood", "modes", "variant", "samples", "bonus", "nominal", "c90", "c95"),
        ),
        "Theorem 1's condition": (
            [r for r in tables["smallest_c"] if r["bonus"] == BONUSES[0] and r["variant"] in (PAPER, PAPER_START)],
            ("likelihood", "modes", "variant", "samples", "condition", "c95", "theorem", "uniform"),
        ),
        "Collapse": (tables["collapse"], ("modes", "rate", "start", "first_zero", "collapsed")),
        "Policies": (
            tables["policies"],
            ("policy", "edges", "pairs", "true", "predicted", "calibration_error", "brier", "log_loss",
             "log_loss_of_base_rate", "coverage_50", "coverage_90", "width_90", "certain"),
        ),
    }  # fmt: skip
    text = "\n\n".join(f"## {title}\n\n{markdown(rows, columns)}" for title, (rows, columns) in shown.items())
    with atomic_write(directory / "tables.md") as file:
        file.write((text + "\n").encode())
    return [*paths, directory / "tables.md"]


def _ends(rows: Sequence[Row]) -> set[int]:
    counts = sorted({row["samples"] for row in rows})
    return {counts[0], counts[len(counts) // 2], counts[-1]}
