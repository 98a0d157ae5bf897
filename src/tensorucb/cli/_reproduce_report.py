"""Figures and the report of ``tensorucb reproduce``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb import __version__, plots
from tensorucb.experiments import Experiment, Reproduction
from tensorucb.plots import Block, Code, Figure, Report, Section, Table, Text

__all__ = ["write_target_files"]

Part = tuple[Section, dict[str, Any]]


def write_target_files(work: Reproduction, targets: Sequence[str], *, quick: bool = False) -> list[Path]:
    """Compute the targets and write CSV, PNG, SVG and ``report.html``; the paths, the report first."""
    sections, files = [], []
    for target in targets:
        section, charts = _PARTS[target](work)
        sections.append(section)
        for name, chart in charts.items():
            files += plots.save_figure(chart, work.directory, name)
    environment, effort = work.environment, work.effort
    world = environment.settings
    report = Report(
        f"TensorUCB on {environment.name}",
        lede="A rehearsal with few rounds: it shows that everything runs, and is nothing to quote."
        if quick
        else "The paper's tables and figures, computed anew. Every policy had the same products, coins, features and "
        "oracle, and its settings were chosen on the same validation rounds.",
        facts=[
            ("users", f"{environment.graph.n_nodes:,}"),
            ("edges", f"{environment.graph.n_edges:,}"),
            ("products", f"{environment.campaign.size:,}"),
            ("K", f"{world.k}"),
            ("objective", world.objective),
            ("feedback", world.feedback),
            ("rounds", f"{effort.rounds}"),
            ("runs", f"{effort.runs}"),
            ("seed", f"{work.seed}"),
        ],
        sections=sections,
        footer=f"tensorucb {__version__}",
    )
    tables = sorted(path for path in work.directory.glob("*.csv"))
    return [report.save(work.directory / "report.html"), *tables, work.directory / "manifest.json", *files]


def _network(work: Reproduction) -> Part:
    rows = [
        (name, f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}", f"{digg:,}", f"{flix:,}")
        for name, here, digg, flix in work.network
    ]
    table = Table(("Quantity", work.environment.name, "Paper, Digg", "Paper, Flixster"), rows)
    note = (
        "The paper's text has 2,843 users for Digg, its table 2,483. Its percentiles cannot hold beside its own "
        "numbers of edges: they leave most edges to a handful of users."
    )
    return Section("Network statistics", [table, Text(note)]), {}


def _degrees(work: Reproduction) -> Part:
    chart = plots.degree_distribution({work.environment.name: work.degrees})
    return Section("Out-degrees", [Figure(chart)]), {"degrees": chart}


def _regret(work: Reproduction) -> Part:
    experiment = work.regret
    tail = max(1, work.effort.rounds // 5)
    curves = plots.regret_curves(experiment)
    bars = plots.final_regret(experiment)
    late = plots.final_regret(experiment, last=tail, title=f"The last {tail} rounds alone")
    chosen = [(label, setting, f"{regret:.2f}") for label, setting, regret, best in work.tuning.rows() if best]
    blocks: list[Block] = [
        _results(experiment),
        Figure(curves),
        Figure(bars),
        Figure(late, "What a policy loses once it has learned."),
        Text(f"Settings, chosen for every policy on the same {work.effort.validation_rounds} validation rounds:"),
        Table(("Policy", "Chosen", "Validation regret"), chosen),
    ]
    return Section("Regret", blocks), {"regret": curves, "regret-final": bars, "regret-late": late}


def _results(experiment: Experiment) -> Table:
    rows = sorted(experiment.table(), key=lambda row: float(row["regret"]["mean"]))
    cells = [
        (
            row["policy"],
            f"{row['spread']['mean']:.1f}",
            f"{row['regret']['mean']:.2f}",
            f"{row['regret']['low']:.2f} – {row['regret']['high']:.2f}",
            f"{row['late_regret']['mean']:.2f}",
            f"{sum(row['milliseconds'].values()):.1f}",
        )
        for row in rows
    ]
    late = f"Regret, last {rows[0]['late_rounds']}"
    return Table(("Policy", "Spread", "Regret", "90 % interval", late, "ms a round"), cells, best=0)


def _rank(work: Reproduction) -> Part:
    charts = {}
    for label, experiment in work.rank.items():
        curves = {int(name.removeprefix("R = ")): experiment.curve(name) for name in experiment.policies}
        slug = "rank-paper" if "paper" in label else "rank"
        charts[slug] = plots.rank_curves(
            curves, title=f"{label} by rank", subtitle="One product, every round; bands are 90 % intervals over runs"
        )
    return Section("Tensor rank", [Figure(chart) for chart in charts.values()]), charts


def _runtime(work: Reproduction) -> Part:
    sizes, times = work.runtime
    chart = plots.runtime_over_size(times, sizes)
    note = "Measured on the machine that ran this, other work on it included; ratios mean more than milliseconds."
    return Section("Time a round", [Figure(chart, note)]), {"runtime": chart}


def _bound(work: Reproduction) -> Part:
    found = work.bound
    chart = plots.bound_chart(
        [float(t) for t in found["rounds"]],
        {
            f"bound at c = {found['exploration']:g}": found["bounds"]["used"],
            "bound at the c it asks for": found["bounds"]["needed"],
        },
        found["measured"],
    )
    needed = float(np.asarray(found["needed"])[-1])
    met = found["exploration"] >= needed
    note = (
        f"Theorem 1 promises its bound for c of at least {needed:,.4g} at the last round; the experiment chose "
        f"c = {found['exploration']:g}, so the condition is {'met' if met else 'not met'} and the bound at that c "
        f"{'holds' if met else 'is no promise'}. B = 1 (assumption A1), d is the largest number of features."
    )
    return Section("The bound (Theorem 1)", [Figure(chart), Text(note), Code("bound.csv")]), {"bound": chart}


_PARTS: dict[str, Callable[[Reproduction], Part]] = {
    "table-network": _network,
    "fig-degrees": _degrees,
    "fig-regret": _regret,
    "fig-rank": _rank,
    "fig-runtime": _runtime,
    "bound": _bound,
}
