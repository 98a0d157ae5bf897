"""Figures and reports: one look for files, notebooks and pages."""

from __future__ import annotations

from tensorucb.plots._campaign_report import campaign_report
from tensorucb.plots._figures import (
    bound_chart,
    degree_distribution,
    final_regret,
    rank_curves,
    regret_curves,
    runtime_over_size,
    seed_reasons,
)
from tensorucb.plots._report import Block, Code, Figure, Report, Section, Table, Text, save_figure, specification
from tensorucb.plots._theme import theme

__all__ = [
    "Block",
    "Code",
    "Figure",
    "Report",
    "Section",
    "Table",
    "Text",
    "bound_chart",
    "campaign_report",
    "degree_distribution",
    "final_regret",
    "rank_curves",
    "regret_curves",
    "runtime_over_size",
    "save_figure",
    "seed_reasons",
    "specification",
    "theme",
]
