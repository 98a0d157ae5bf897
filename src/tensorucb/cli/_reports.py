"""The pages and figures of ``tensorucb demo`` and ``tensorucb reproduce``, and words that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from tensorucb import __version__, plots
from tensorucb.experiments import ETA, Environment, Experiment, SeedReason, Tuning
from tensorucb.experiments._paper import VARIED, Bound, Effort, PaperResults, network_statistics
from tensorucb.plots import Block, Code, Figure, Report, Section, Table, Text

Charts = Mapping[str, Any]

REGRET = f"""\
Regret is how many more users the best possible choice would have reached in a round, divided by \
η = 1 − 1/e − 0.1 ≈ {ETA:.2f} as in the paper. The best possible choice is what an oracle picks that knows every \
probability; its regret is 0. Averages are over the rounds so far: a policy that no longer makes mistakes still \
carries its early ones."""
SAME_COINS = """\
Each round one product arrives and every policy names its seeds. Who then responds is decided by one coin per edge, \
and the coin of an edge in a round is the same for all policies, so that differences between them are not luck."""
_WHY_THE_PAPER_LOSES = """\
Why TensorUCB in the paper's form loses: it fits responses that are 0 or 1, and rarely 1, as if they were Gaussian, \
and sends the score through a sigmoid. Many edges are then believed to respond half of the time, and most of its seeds \
are simply the users with the most followers. With a logistic likelihood and the settings that go with it, as \
TensorUCB (paper, logistic), the same tensor loses less than half as much (see the results in the documentation)."""
_WHY = """\
Expected: the responses these users would bring by what has been seen so far, the sum of the believed probabilities of \
their followers. New: those that the seeds above would not have brought anyway. Added to explore: the bonus for what \
is not yet known; a seed with a large one is chosen to learn from it."""

_SEEDS = ("User", "Followers", "Expected", "New", "Added to explore", "Strongest predicted followers")


def result_cells(rows: Sequence[Mapping[str, Any]], to: str = "–") -> list[tuple[str, ...]]:
    """Cells of `Experiment.table`: policy, reach, per cent of the best, regret, its interval, late regret and ms."""
    return [
        (
            row["policy"],
            f"{row['spread']['mean']:.1f}",
            f"{100.0 * row['of_best']:.1f}",
            f"{row['regret']['mean']:.2f}",
            f"{row['regret']['low']:.2f} {to} {row['regret']['high']:.2f}",
            f"{row['late_regret']['mean']:.2f}",
            f"{sum(row['milliseconds'].values()):.1f}",
        )
        for row in rows
    ]


def reason_cells(reasons: Sequence[SeedReason], shown: Callable[[object], str] = str) -> list[tuple[str, ...]]:
    """User, followers, expected and new responses, what exploration adds, and the likeliest followers."""
    return [
        (
            shown(reason.id),
            f"{reason.followers}",
            f"{reason.expected:.2f}",
            f"{reason.gain:.2f}",
            f"{reason.explored:.2f}",
            ", ".join(f"{shown(follower.id)} ({follower.probability:.0%})" for follower in reason.strongest),
        )
        for reason in reasons
    ]


def best_row(rows: Sequence[Mapping[str, Any]]) -> int:
    """Which row of `Experiment.table` has the least regret."""
    return min(range(len(rows)), key=lambda i: float(rows[i]["regret"]["mean"]))


def results_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The table of `Experiment.table` on a page, the best policy marked."""
    late = f"Regret, last {rows[0]['late_rounds']}"
    columns = ("Policy", "Users reached", "% of best", "Regret per round", "90 % interval", late, "ms per round")
    return Table(columns, result_cells(rows), best=best_row(rows))


def settings_table(tuning: Tuning) -> Table | None:
    """The settings that were chosen on validation rounds; None if nothing was tuned."""
    chosen = [(label, setting, f"{regret:.2f}") for label, setting, regret, best in tuning.rows() if best]
    return Table(("Policy", "Chosen", "Validation regret"), chosen) if chosen else None


def facts(environment: Environment, rounds: int, runs: int, **more: int) -> list[tuple[str, str]]:
    """The sizes that stand at the top of a page."""
    world = environment.settings
    sizes = {"users": environment.graph.n_nodes, "edges": environment.graph.n_edges}
    sizes |= {"products": environment.product_rows.size, "seeds per round": world.k}
    sizes |= {"rounds": rounds, "runs": runs, "seed": world.seed, **more}
    words = [("objective", world.objective), ("feedback", world.feedback.replace("_", " "))]
    return [*((name, f"{size:,}") for name, size in sizes.items()), *words]


def save_page(path: Path, title: str, **parts: Any) -> Path:
    """Write a page of this release."""
    return Report(title, footer=f"tensorucb {__version__}", **parts).save(path)


def paper_note(experiment: Experiment) -> list[Text]:
    """Why the paper's form loses, if both forms took part and it does."""
    both = [experiment.final(name).mean for name in ("TensorUCB", "TensorUCB (paper)") if name in experiment.policies]
    return [Text(_WHY_THE_PAPER_LOSES)] if len(both) == 2 and both[0] < both[1] else []


# -- demo --


def save_demo(
    directory: Path,
    environment: Environment,
    experiment: Experiment,
    *,
    product: str,
    reasons: Sequence[SeedReason],
    command: str,
) -> list[Path]:
    """Write ``report.html`` and the figures; returns their paths, the report first."""
    charts = {
        "regret": plots.regret_curves(experiment, title="Average regret so far on the demo network"),
        "final": plots.final_regret(experiment),
        "seeds": plots.seed_reasons(
            [{"seed": r.id, "believed": r.expected, "explored": r.explored} for r in reasons],
            title=f"What TensorUCB expects of its seeds for {product}",
        ),
    }
    figures = [plots.save_figure(chart, directory, name)[0] for name, chart in charts.items()]
    rows = experiment.table()
    results: list[Block] = [
        Text(REGRET),
        results_table(rows),
        Figure(charts["regret"]),
        Figure(charts["final"]),
        Text(SAME_COINS),
    ]
    why: list[Block] = [Text(_WHY), Figure(charts["seeds"]), Table(_SEEDS, reason_cells(reasons))]
    again = Text("The same command gives the same choices and the same regret.")
    page = save_page(
        directory / "report.html",
        "Who should hear of it first?",
        lede="Four ways of choosing ten users per round on a generated social network, "
        "with the same products and the same coins for all.",
        facts=facts(environment, rows[0]["rounds"], rows[0]["runs"]),
        numbers=_demo_numbers(rows),
        sections=[
            Section("Results", [*results, *paper_note(experiment)]),
            Section(f"The seeds for {product}, and why", why),
            Section("Run it again", [again, Code(command)]),
        ],
    )
    return [page, *figures]


def _demo_numbers(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    by_name = {row["policy"]: row for row in rows}
    ours, degree = by_name["TensorUCB"], by_name["HighDegree"]
    change = ours["late_regret"]["mean"] / degree["late_regret"]["mean"] - 1.0
    sign = "−" if change < 0 else "+"
    return [
        (f"{ours['spread']['mean']:.0f} users", "reached per round by TensorUCB, seeds included"),
        (f"{degree['spread']['mean']:.0f} users", "reached by the best-connected users (HighDegree)"),
        (f"{sign}{abs(change):.0%}", f"regret of TensorUCB against HighDegree, last {ours['late_rounds']} rounds"),
        (f"{sum(ours['milliseconds'].values()):.0f} ms", "per round: score, select, learn"),
    ]


# -- reproduce --


def draw(results: PaperResults) -> dict[str, Any]:
    """The figures of the targets, by the names of their files."""
    charts: dict[str, Any] = {}
    if "table-network" in results.targets:
        charts["network"] = _drawn_table(*_network_table(results), "Network statistics")
    if "fig-degrees" in results.targets:
        charts["degrees"] = plots.degree_distribution({results.name: results.graph.out_degree})
    if results.regret is not None and "fig-regret" in results.targets:
        last = max(1, results.regret.results[0].regret.size // 5)
        charts["regret"] = plots.regret_curves(results.regret)
        charts["regret-final"] = plots.final_regret(results.regret)
        charts["regret-late"] = plots.final_regret(results.regret, last=last, title=f"The last {last} rounds alone")
    for label, experiment in (results.rank or {}).items():
        curves = {int(name.removeprefix("R = ")): experiment.curve(name) for name in experiment.policies}
        varied = label.endswith(VARIED)
        name = "rank-logistic" if "logistic" in label else "rank-paper"
        charts[f"{name}-varied" if varied else name] = plots.rank_curves(
            curves,
            title=f"{label.removesuffix(VARIED)} by rank",
            subtitle=f"{'A random' if varied else 'The same'} product each round; bars at the right are 90 % intervals",
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


def save_reproduction(
    path: Path, results: PaperResults, charts: Charts, environment: Environment | None, effort: Effort, *, quick: bool
) -> Path:
    """Write ``report.html``, one section per target; ``environment`` is None if the network alone was asked about."""
    sizes = [("users", f"{results.graph.n_nodes:,}"), ("edges", f"{results.graph.n_edges:,}")]
    lede = "The paper's statistics of networks, computed again."
    if environment is not None:
        sizes = facts(environment, effort.rounds, effort.runs)
        lede = (
            "A rehearsal with few rounds: it shows that everything runs, and is nothing to quote."
            if quick
            else "The paper's tables and figures, computed again. Every policy had the same products, coins, features "
            "and oracle, and its settings were chosen on the same validation rounds."
        )
    sections = _sections(results, charts, effort)
    return save_page(path, f"TensorUCB on {results.name}", lede=lede, facts=sizes, sections=sections)


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
        found.append(Section("Regret", _regret(results.regret, results.tuning, charts, effort.validation_rounds)))
    if results.rank is not None:
        ranks = [Figure(chart) for name, chart in charts.items() if name.startswith("rank")]
        found.append(Section("Tensor rank", ranks))
    if "runtime" in charts:
        note = "Measured on the machine that ran this, other work on it included; ratios mean more than milliseconds."
        found.append(Section("Time per round", [Figure(charts["runtime"], note)]))
    if results.bound is not None:
        theorem: list[Block] = [Figure(charts["bound"]), Text(_condition(results.bound))]
        found.append(Section("The bound (Theorem 1)", theorem))
    return found


def _network_table(results: PaperResults) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    rows = [
        (
            name.replace("out-degree", "out-degree, percentile"),
            f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}",
            f"{digg:,}",
            f"{flixster:,}",
        )
        for name, here, digg, flixster in network_statistics(results.graph)
    ]
    return ("Quantity", results.name, "Paper, Digg", "Paper, Flixster"), rows


def _drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Any:
    """A table as a figure, the first column as its row labels."""
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


def _regret(experiment: Experiment, tuning: Tuning, charts: Charts, validation_rounds: int) -> list[Block]:
    rows = sorted(experiment.table(), key=lambda row: float(row["regret"]["mean"]))
    settings = settings_table(tuning)
    return [
        Text(REGRET),
        results_table(rows),
        Figure(charts["regret"]),
        Figure(charts["regret-final"]),
        Figure(charts["regret-late"], "What a policy loses once it has learned."),
        *paper_note(experiment),
        Text(f"Settings, chosen for every policy on the same {validation_rounds} validation rounds:"),
        *([] if settings is None else [settings]),
    ]


def _condition(found: Bound) -> str:
    needed = float(found.needed[-1])
    met = found.exploration >= needed
    return (
        f"Theorem 1 promises its bound for c of at least {needed:,.4g} at the last round; the experiment chose "
        f"c = {found.exploration:g}, so the condition is {'met' if met else 'not met'} and the bound at that c "
        f"{'holds' if met else 'is no promise'}. B = 1 (assumption A1), d is the largest number of features. "
        "The numbers of every round are in bound.csv."
    )
