"""Figures and the report of ``tensorucb reproduce``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tensorucb import __version__, plots
from tensorucb.experiments import Experiment, Reproduction
from tensorucb.experiments._network import NetworkTables
from tensorucb.plots import Block, Code, Figure, Report, Section, Table, Text

__all__ = ["write_network_files", "write_target_files"]

Part = tuple[Section, dict[str, Any]]


def write_target_files(work: Reproduction, targets: Sequence[str], *, quick: bool = False) -> list[Path]:
    """Compute the targets and write CSV, PNG, SVG and ``report.html``; the paths, the report first."""
    environment, effort = work.environment, work.effort
    world = environment.settings
    parts = [_NETWORK[t](work.tables) if t in _NETWORK else _PARTS[t](work) for t in targets]
    lede = (
        "A rehearsal with few rounds: it shows that everything runs, and is nothing to quote."
        if quick
        else "The paper's tables and figures, computed anew. Every policy had the same products, coins, features and "
        "oracle, and its settings were chosen on the same validation rounds."
    )
    facts = [
        ("products", f"{environment.campaign.size:,}"),
        ("K", f"{world.k}"),
        ("objective", world.objective),
        ("feedback", world.feedback),
        ("rounds", f"{effort.rounds}"),
        ("runs", f"{effort.runs}"),
        ("seed", f"{work.seed}"),
    ]
    return _write(work.tables, parts, lede, facts)


def write_network_files(tables: NetworkTables, targets: Sequence[str]) -> list[Path]:
    """The same for targets which need the network alone."""
    lede = "The paper's statistics of networks, computed anew."
    return _write(tables, [_NETWORK[target](tables) for target in targets], lede, [])


def _write(tables: NetworkTables, parts: Sequence[Part], lede: str, facts: Sequence[tuple[str, str]]) -> list[Path]:
    figures = [
        path
        for _, charts in parts
        for name, chart in charts.items()
        for path in plots.save_figure(chart, tables.directory, name)
    ]
    report = Report(
        f"TensorUCB on {tables.name}",
        lede=lede,
        facts=[("users", f"{tables.graph.n_nodes:,}"), ("edges", f"{tables.graph.n_edges:,}"), *facts],
        sections=[section for section, _ in parts],
        footer=f"tensorucb {__version__}",
    )
    page = report.save(tables.directory / "report.html")
    return [page, *sorted(tables.written), tables.directory / "manifest.json", *figures]


def _network(tables: NetworkTables) -> Part:
    rows = [
        (name, f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}", f"{digg:,}", f"{flix:,}")
        for name, here, digg, flix in tables.network
    ]
    columns = ("Quantity", tables.name, "Paper, Digg", "Paper, Flixster")
    note = (
        "The paper's text has 2,843 users for Digg, its table 2,483. Its percentiles cannot hold beside its own "
        "numbers of edges: they leave most edges to a handful of users."
    )
    section = Section("Network statistics", [Table(columns, rows), Text(note)])
    return section, {"network": _drawn_table(columns, rows, "Network statistics")}


def _drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Any:
    """A table as a figure, the first column as its row labels."""
    import altair as alt

    cells = [
        {"row": row[0], "column": column, "text": text}
        for row in rows
        for column, text in zip(columns[1:], row[1:], strict=True)
    ]
    quiet: dict[str, Any] = {"domain": False, "ticks": False, "grid": False, "labelFontSize": 13, "labelLimit": 220}
    return (
        alt.Chart(alt.Data(values=cells))
        .mark_text(fontSize=13)
        .encode(
            x=alt.X("column:N", sort=list(columns[1:]), title=None, axis=alt.Axis(orient="top", labelAngle=0, **quiet)),
            y=alt.Y("row:N", sort=[row[0] for row in rows], title=None, axis=alt.Axis(**quiet)),
            text="text:N",
        )
        .properties(width=160 * (len(columns) - 1), height=30 * len(rows), title=alt.TitleParams(title))
    )


def _degrees(tables: NetworkTables) -> Part:
    chart = plots.degree_distribution({tables.name: tables.degrees})
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


_NETWORK: dict[str, Callable[[NetworkTables], Part]] = {"table-network": _network, "fig-degrees": _degrees}
_PARTS: dict[str, Callable[[Reproduction], Part]] = {
    "fig-regret": _regret,
    "fig-rank": _rank,
    "fig-runtime": _runtime,
    "bound": _bound,
}
