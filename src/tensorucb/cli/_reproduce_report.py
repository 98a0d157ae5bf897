"""Figures and the report of ``tensorucb reproduce``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorucb import __version__, plots
from tensorucb.cli._results import result_cells
from tensorucb.experiments import Bound, Effort, Environment, Experiment, PaperResults, Tuning, network_statistics
from tensorucb.plots import Block, Code, Figure, Report, Section, Table, Text

Charts = Mapping[str, Any]


def draw(results: PaperResults) -> dict[str, Any]:
    """The figures of the targets, by the names of their files."""
    charts: dict[str, Any] = {}
    if "table-network" in results.targets:
        charts["network"] = _drawn_table(*_network_table(results), "Network statistics")
    if "fig-degrees" in results.targets:
        charts["degrees"] = plots.degree_distribution({results.name: results.graph.out_degree})
    if results.regret is not None and "fig-regret" in results.targets:
        last = _late(results.regret)
        charts["regret"] = plots.regret_curves(results.regret)
        charts["regret-final"] = plots.final_regret(results.regret)
        charts["regret-late"] = plots.final_regret(results.regret, last=last, title=f"The last {last} rounds alone")
    for label, experiment in (results.rank or {}).items():
        curves = {int(name.removeprefix("R = ")): experiment.curve(name) for name in experiment.policies}
        charts["rank-paper" if "paper" in label else "rank"] = plots.rank_curves(
            curves, title=f"{label} by rank", subtitle="One product, every round; bands are 90 % intervals over runs"
        )
    if results.runtime is not None:
        times: dict[str, list[float]] = {}
        for row in results.runtime:
            times.setdefault(row["policy"], []).append(row["milliseconds"])
        charts["runtime"] = plots.runtime_over_size(times, list(dict.fromkeys(row["users"] for row in results.runtime)))
    if results.bound is not None:
        found = results.bound
        bounds = {f"bound at c = {found.exploration:g}": found.at_used, "bound at the c it asks for": found.at_needed}
        charts["bound"] = plots.bound_chart(found.rounds.astype(float).tolist(), bounds, found.measured)
    return charts


def save_report(
    path: Path,
    results: PaperResults,
    charts: Charts,
    environment: Environment | None,
    effort: Effort,
    *,
    seed: int,
    quick: bool,
) -> Path:
    """Write ``report.html``, one section per target; ``environment`` is None if the network alone was asked about."""
    facts = [("users", f"{results.graph.n_nodes:,}"), ("edges", f"{results.graph.n_edges:,}")]
    lede = "The paper's statistics of networks, computed again."
    if environment is not None:
        lede = (
            "A rehearsal with few rounds: it shows that everything runs, and is nothing to quote."
            if quick
            else "The paper's tables and figures, computed again. Every policy had the same products, coins, features "
            "and oracle, and its settings were chosen on the same validation rounds."
        )
        world = environment.settings
        facts += [
            ("products", f"{environment.product_rows.size:,}"),
            ("K", f"{world.k}"),
            ("objective", world.objective),
            ("feedback", world.feedback),
            ("rounds", f"{effort.rounds}"),
            ("runs", f"{effort.runs}"),
            ("seed", f"{seed}"),
        ]
    sections = _sections(results, charts, effort)
    report = Report(
        f"TensorUCB on {results.name}", lede=lede, facts=facts, sections=sections, footer=f"tensorucb {__version__}"
    )
    return report.save(path)


def _sections(results: PaperResults, charts: Charts, effort: Effort) -> list[Section]:
    found: list[Section] = []
    if "network" in charts:
        note = (
            "The paper's text has 2,843 users for Digg, its table 2,483. Its percentiles cannot hold beside its own "
            "numbers of edges: they leave most edges to a handful of users."
        )
        found.append(Section("Network statistics", [Table(*_network_table(results)), Text(note)]))
    if "degrees" in charts:
        found.append(Section("Out-degrees", [Figure(charts["degrees"])]))
    if "regret" in charts and results.regret is not None and results.tuning is not None:
        found.append(_regret(results.regret, results.tuning, charts, effort.validation_rounds))
    if results.rank is not None:
        ranks = [Figure(chart) for name, chart in charts.items() if name.startswith("rank")]
        found.append(Section("Tensor rank", ranks))
    if "runtime" in charts:
        note = "Measured on the machine that ran this, other work on it included; ratios mean more than milliseconds."
        found.append(Section("Time per round", [Figure(charts["runtime"], note)]))
    if results.bound is not None:
        blocks: list[Block] = [Figure(charts["bound"]), Text(_condition(results.bound)), Code("bound.csv")]
        found.append(Section("The bound (Theorem 1)", blocks))
    return found


def _late(experiment: Experiment) -> int:
    return max(1, experiment.results[0].regret.size // 5)


def _network_table(results: PaperResults) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    rows = [
        (name, f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}", f"{digg:,}", f"{flixster:,}")
        for name, here, digg, flixster in network_statistics(results.graph)
    ]
    return ("Quantity", results.name, "Paper, Digg", "Paper, Flixster"), rows


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


def _regret(experiment: Experiment, tuning: Tuning, charts: Charts, validation_rounds: int) -> Section:
    rows = sorted(experiment.table(), key=lambda row: float(row["regret"]["mean"]))
    late = f"Regret, last {rows[0]['late_rounds']}"
    columns = ("Policy", "Spread", "Regret", "90 % interval", late, "ms per round")
    chosen = [(label, setting, f"{regret:.2f}") for label, setting, regret, best in tuning.rows() if best]
    blocks: list[Block] = [
        Table(columns, result_cells(rows), best=0),
        Figure(charts["regret"]),
        Figure(charts["regret-final"]),
        Figure(charts["regret-late"], "What a policy loses once it has learned."),
        Text(f"Settings, chosen for every policy on the same {validation_rounds} validation rounds:"),
        Table(("Policy", "Chosen", "Validation regret"), chosen),
    ]
    return Section("Regret", blocks)


def _condition(found: Bound) -> str:
    needed = float(found.needed[-1])
    met = found.exploration >= needed
    return (
        f"Theorem 1 promises its bound for c of at least {needed:,.4g} at the last round; the experiment chose "
        f"c = {found.exploration:g}, so the condition is {'met' if met else 'not met'} and the bound at that c "
        f"{'holds' if met else 'is no promise'}. B = 1 (assumption A1), d is the largest number of features."
    )
