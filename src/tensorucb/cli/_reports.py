"""What comes out of ``demo``, ``compare`` and ``reproduce``: tables that are printed, files, figures and a page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl

from tensorucb import __version__, plots
from tensorucb.cli import _output as printed
from tensorucb.cli._output import shown
from tensorucb.experiments import Environment, Experiment, SeedReason, Tuning, decision_table
from tensorucb.experiments._files import write_csv, write_latex
from tensorucb.experiments._paper import BOUND_COLUMNS, VARIED, Effort, PaperResults, network_statistics
from tensorucb.experiments._results import OURS, printed_table
from tensorucb.plots import Block, Code, Figure, Report, Section, Table, Text
from tensorucb.plots._theme import chart_of, knows_the_truth, leaders, titled

Rows = Sequence[Mapping[str, Any]]
Printed = tuple[Sequence[str], Sequence[Sequence[str]]]  # columns and cells

_COLUMNS = (
    "Average regret per round up to round T: what the best seeds, chosen by someone who knows every probability, would "
    "have reached beyond the policy's, in users; {sign} half of the 90 % interval over {over}. "
    "{ours}% of best: users reached, as a share of what the best seeds reach."
)
_REPLAYED_COLUMNS = (
    "Average up to round T of the distinct responders per round: followers of the seeds who acted on the item in the "
    "log; {sign} half of the 90 % interval over {over}. {ours}% of best: as a share of greedy "
    "coverage by someone who knows who acted. People who would have acted anyway count, so this is no effect of "
    "contact."
)
_REGRET = """\
Regret is how many more users the best possible choice would have reached in a round. The best possible choice is \
what an oracle picks that knows every probability; its regret is 0. Averages are over the rounds so far: a policy \
that no longer makes mistakes still carries its early ones."""
_SAME_COINS = """\
Each round one product arrives and every policy names its seeds. Who then responds is decided by one coin per edge, \
and the coin of an edge in a round is the same for all policies, so that differences between them are not luck."""
_WHY_THE_PAPER_LOSES = """\
Why TensorUCB in the paper's form loses: it fits responses that are 0 or 1, and rarely 1, as if they were Gaussian, \
and sends the score through a sigmoid. Many edges are then believed to respond half of the time, and most of its seeds \
are simply the users with the most followers. TensorUCB (paper, logistic) is the same \
tensor with what this one lacks: a likelihood for 0 and 1, a base rate and a tight prior (see the results in the \
documentation)."""
_REPLAY = (
    "The log itself answers: in a round on an item a follower of a contacted user responds if, and only if, it acted "
    "on the item in the log. Every distinct responder counts once. The best possible choice is greedy coverage of "
    "those who acted. People who would have acted without any contact count too, so this is no effect of contact."
)
_BLIND_REPLAY = (
    "The product-blind oracle is no policy: it covers those who act most often on the items of the rounds. A policy "
    "that ends above it has learned what the items change."
)
_STRATEGIES = (
    "Dashed lines are marks of what can be reached: they know the truth, or which fixed strategy is the best one, from "
    "the start."
)
_PRODUCT_BLIND = (
    "The product-blind oracle is no policy: it knows the true probabilities, averaged over products. A policy that "
    "ends below it has learned what the products change."
)
_NETWORK = (
    "The paper's text has 2,843 users for Digg, its table 2,483. Its percentiles cannot hold beside its own numbers of "
    "edges: they leave most edges to a handful of users."
)
_WHY = """\
Expected: the responses these users would bring by what has been seen so far, the sum of the believed probabilities of \
their followers. New: those that the seeds above would not have brought anyway. Added to explore: the bonus for what \
is not yet known; a seed with a large one is chosen to learn from it."""

_SEEDS = ("User", "Followers", "Expected", "New", "Added to explore", "Strongest predicted followers")


# -- printed --


def write_tables(rows: Rows, csv: Path | None, latex: Path | None, table: Printed | None = None) -> None:
    """Write the files of ``--csv`` (all columns and digits) and ``--latex`` (what is printed), if asked for."""
    if csv is not None:
        write_csv(csv, rows)
    if latex is not None:
        write_latex(latex, *(table or printed_table(rows)))


def plus_minus() -> str:
    """``±``, where stdout can show it."""
    try:
        "±".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return "+-"
    return "±"


def explained(rows: Rows, *, replay: bool, networks: int, sign: str = "±") -> str:
    """What the columns of the table of results mean."""
    over = "networks" if networks > 1 else "runs"
    compared = any(name.endswith("_minus_ours") for name in rows[0])
    ours = f"Minus ours: the same, less TensorUCB's in the same {over}. " if compared else ""
    return (_REPLAYED_COLUMNS if replay else _COLUMNS).format(sign=sign, over=over, ours=ours)


def decisions(rows: Rows, *, title: str, networks: int = 1, replay: bool = False) -> printed.Table:
    """The table of a comparison, which fits into 80 columns."""
    columns, cells = printed_table(rows, sign=plus_minus())
    return printed.Table(
        columns,
        [[shown(policy), *numbers] for policy, *numbers in cells],
        words=("Policy",),
        title=title,
        caption="\n" + explained(rows, replay=replay, networks=networks, sign=plus_minus()),
    )


def network_table(results: PaperResults) -> Printed:
    """The statistics of the network beside those of the paper's."""
    cells = [
        (
            name.replace("out-degree", "out-degree, percentile"),
            f"{here:,.4g}" if here < 1e3 else f"{here:,.0f}",
            f"{digg:,}",
            f"{flixster:,}",
        )
        for name, here, digg, flixster in network_statistics(results.graph)
    ]
    return ("Quantity", results.name, "Paper, Digg", "Paper, Flixster"), cells


def reproduction(results: PaperResults, rows: Rows, size: str) -> Iterator[printed.Block]:
    """The results of the paper's targets, one table each; ``rows`` are those of the regret, ``size`` its length."""
    name = shown(results.name)
    if "table-network" in results.targets:
        columns, cells = network_table(results)
        yield printed.Table([shown(column) for column in columns], cells, words=(columns[0],))
    if "fig-degrees" in results.targets:
        degree = results.graph.out_degree
        yield f"\nOut-degrees: mean {degree.mean():.1f}, largest {int(degree.max()):,}."
    if rows:
        yield decisions(rows, title=f"\nRegret on {name}, {size}\n")
    for label, experiment in (results.rank or {}).items():
        finals = [(rank, f"{float(experiment.final(rank).mean):.2f}") for rank in experiment.policies]
        yield printed.Table(("Rank", "regret"), finals, words=("Rank",), title=f"\n{shown(label)} by rank\n")
    if results.runtime is not None:
        largest = max(row["users"] for row in results.runtime)
        times = [
            (shown(row["policy"]), f"{row['milliseconds']:.1f}") for row in results.runtime if row["users"] == largest
        ]
        yield printed.Table(
            ("Policy", "ms per round"), times, words=("Policy",), title=f"\nTime with {largest:,} users\n"
        )
    if results.bound is not None:
        last = results.bound.row(-1, named=True)
        yield (
            f"\nTheorem 1 after {last['round']} rounds: its bound is {last['bound_at_c_used']:,.0f} at the c in use, "
            f"{last['c_used']:g}, and {last['bound_at_c_needed']:,.0f} at the least c for which it holds, "
            f"{last['c_needed']:,.1f}; the cumulative regret measured is {last['TensorUCB (paper)']:,.0f}."
        )


# -- parts of a page --


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


def _results(
    experiment: Experiment, rows: Rows, charts: Sequence[Any], *, networks: int = 1, in_strategies: bool = False
) -> list[Block]:
    """What came out: the words, the table of `decision_table`, ours marked, and the figures."""
    replayed = experiment.measure == "responders"
    ours = [number for number, row in enumerate(rows) if row["policy"] == OURS]
    blocks: list[Block] = [
        Text(_REPLAY if replayed else _REGRET),
        *map(Figure, charts),
        Table(*printed_table(rows), best=ours[0] if ours else None),
        Text(explained(rows, replay=replayed, networks=networks)),
    ]
    if not replayed:
        blocks.append(Text(_SAME_COINS))
    if any(map(knows_the_truth, experiment.policies)):
        blind = _BLIND_REPLAY if replayed else _PRODUCT_BLIND
        blocks.append(Text(_STRATEGIES if in_strategies else blind))
    both = [experiment.final(name).mean for name in (OURS, f"{OURS} (paper)") if name in experiment.policies]
    if not replayed and len(both) == 2 and both[0] < both[1]:
        blocks.append(Text(_WHY_THE_PAPER_LOSES))
    return blocks


def _numbers(experiment: Experiment, rows: Rows) -> list[tuple[str, str]]:
    """Ours beside the best possible choice, and beside the best of the others."""
    by_name = {row["policy"]: row for row in rows}
    if OURS not in by_name:
        return []
    main = next(name.removesuffix("_low") for name in rows[0] if name.endswith("_low"))
    replayed = experiment.measure == "responders"
    reached, best = (float(experiment.by_run(OURS, name).mean()) for name in ("spread", "optimum"))
    numbers = [
        (f"{reached:.1f} users", f"reached per round by TensorUCB, seeds {'not counted' if replayed else 'included'}"),
        (f"{best:.1f} users", "reached by the best possible choice"),
        (f"{by_name[OURS][main]:.1f}", f"{experiment.measure} of TensorUCB, average of the first {main[2:]} rounds"),
    ]
    sign = -1.0 if replayed else 1.0
    others = [label for label in leaders({name: sign * row[main] for name, row in by_name.items()}) if label != OURS]
    if others:
        what = f"{experiment.measure} of the best other policy, {others[0]}"
        numbers.append((f"{by_name[others[0]][main]:.1f}", what))
    return numbers


def _settings(tuning: Tuning) -> list[Block]:
    """The table of the settings that were chosen on validation rounds, if anything was tuned."""
    chosen = [(label, setting, f"{regret:.2f}") for label, setting, regret, best in tuning.rows() if best]
    return [Table(("Policy", "Chosen", "Validation regret"), chosen)] if chosen else []


def _facts(environment: Environment, rounds: int, runs: int, **more: int) -> list[tuple[str, str]]:
    """The sizes that stand at the top of a page."""
    world = environment.settings
    sizes = {"users": environment.graph.n_nodes, "edges": environment.graph.n_edges}
    sizes |= {"products": environment.product_rows.size, "seeds per round": world.k}
    sizes |= {"rounds": rounds, "runs": runs, "seed": world.seed, **more}
    words = [("objective", world.objective), ("feedback", world.feedback.replace("_", " "))]
    return [*((name, f"{size:,}") for name, size in sizes.items()), *words]


def _length(experiment: Experiment) -> tuple[int, int]:
    """Rounds of a run, and runs of a policy."""
    runs, rounds = experiment.by_run(experiment.policies[0]).shape
    return rounds, runs


def _save_page(path: Path, title: str, **parts: Any) -> Path:
    return Report(title, footer=f"tensorucb {__version__}", **parts).save(path)


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
    rows = decision_table(experiment)
    why: list[Block] = [Text(_WHY), Figure(charts["seeds"]), Table(_SEEDS, reason_cells(reasons))]
    again = Text("The same command gives the same choices and the same regret.")
    page = _save_page(
        directory / "report.html",
        "Who should hear of it first?",
        lede="Five ways of choosing ten users per round on a generated social network, "
        "with the same products and the same coins for all.",
        facts=_facts(environment, *_length(experiment)),
        numbers=_numbers(experiment, rows),
        sections=[
            Section("Results", _results(experiment, rows, [charts["regret"], charts["final"]])),
            Section(f"The seeds for {product}, and why", why),
            Section("Run it again", [again, Code(command)]),
        ],
    )
    return [page, *figures]


# -- compare --


def save_comparison(
    directory: Path,
    experiment: Experiment,
    rows: Rows,
    tuning: Tuning,
    environment: Environment,
    *,
    command: str,
    networks: int = 1,
) -> None:
    """Write ``report.html`` and the figures ``decisions`` and ``decisions-final``.

    ``rows`` are those of `decision_table`; with several ``networks``, ``environment`` is the one that was tuned on.
    """
    charts = {"decisions": plots.regret_curves(experiment), "decisions-final": plots.final_regret(experiment)}
    for name, chart in charts.items():
        plots.save_figure(chart, directory, name)
    replayed = experiment.measure == "responders"
    more: Any = {"networks": networks, "in_strategies": bool(environment.strategies)}
    sections = [Section("Results", _results(experiment, rows, list(charts.values()), **more))]
    if settings := _settings(tuning):
        note = "Chosen for each policy on validation rounds, which have products and coins of their own."
        sections.append(Section("Settings", [Text(note), *settings]))
    again = Text("Finished runs are kept, and the same command gives the same numbers.")
    sections.append(Section("Run it again", [again, Code(command)]))
    _save_page(
        directory / "report.html",
        f"Policies compared on {environment.name}",
        lede=f"Our defaults, untouched, beside other policies{', which were tuned first' if settings else ''}. "
        f"All meet the same {'items, and the log answers' if replayed else 'products and the same coins'}.",
        facts=_facts(environment, *_length(experiment), **({"networks": networks} if networks > 1 else {})),
        numbers=_numbers(experiment, rows),
        sections=sections,
    )


# -- reproduce --


def draw(results: PaperResults, effort: Effort) -> tuple[dict[str, Any], list[Section]]:
    """The figures of the targets, by the names of their files, and the sections of the page, one per target."""
    charts: dict[str, Any] = {}
    sections: list[Section] = []
    if "table-network" in results.targets:
        table = network_table(results)
        charts["network"] = _drawn_table(*table, "Network statistics")
        sections.append(Section("Network statistics", [Table(*table), Text(_NETWORK)]))
    if "fig-degrees" in results.targets:
        charts["degrees"] = plots.degree_distribution({results.name: results.graph.out_degree})
        sections.append(Section("Out-degrees", [Figure(charts["degrees"])]))
    if results.regret is not None and results.tuning is not None and "fig-regret" in results.targets:
        last = max(1, _length(results.regret)[0] // 5)
        curves = [plots.regret_curves(results.regret), plots.final_regret(results.regret)]
        late = plots.final_regret(results.regret, last=last, title=f"The last {last} rounds alone")
        charts |= {"regret": curves[0], "regret-final": curves[1], "regret-late": late}
        regret = [
            *_results(results.regret, decision_table(results.regret), curves),
            Figure(late, "What a policy loses once it has learned."),
            Text(f"Settings, chosen for every policy on the same {effort.validation_rounds} validation rounds:"),
            *_settings(results.tuning),
        ]
        sections.append(Section("Regret", regret))
    if results.rank is not None:
        by_rank = dict(_drawn_rank(label, experiment) for label, experiment in results.rank.items())
        charts |= by_rank
        sections.append(Section("Tensor rank", [Figure(chart) for chart in by_rank.values()]))
    if results.runtime is not None:
        times: dict[str, list[float]] = {}
        for row in results.runtime:
            times.setdefault(row["policy"], []).append(row["milliseconds"])
        charts["runtime"] = plots.runtime_over_size(times, list(dict.fromkeys(row["users"] for row in results.runtime)))
        note = "Measured on the machine that ran this, other work on it included; ratios mean more than milliseconds."
        sections.append(Section("Time per round", [Figure(charts["runtime"], note)]))
    if results.bound is not None:
        columns: dict[str, Any] = results.bound.to_dict(as_series=False)
        measured = {label: values for label, values in columns.items() if label not in BOUND_COLUMNS}
        bounds = {
            f"bound at c = {columns['c_used'][0]:g}": columns["bound_at_c_used"],
            "bound at the c it asks for": columns["bound_at_c_needed"],
        }
        charts["bound"] = plots.bound_chart([float(number) for number in columns["round"]], bounds, measured)
        theorem: list[Block] = [Figure(charts["bound"]), Text(_condition(results.bound))]
        sections.append(Section("The bound (Theorem 1)", theorem))
    return charts, sections


def _drawn_rank(label: str, experiment: Experiment) -> tuple[str, Any]:
    """The name of a file, and the figure of one policy's regret by rank."""
    varied = label.endswith(VARIED)
    name = "rank-logistic" if "logistic" in label else "rank-paper"
    chart = plots.rank_curves(
        {int(name.removeprefix("R = ")): experiment.curve(name) for name in experiment.policies},
        title=f"{label.removesuffix(VARIED)} by rank",
        subtitle=f"{'A random' if varied else 'The same'} product each round; bars at the right are 90 % intervals",
    )
    return f"{name}-varied" if varied else name, chart


def save_reproduction(
    path: Path,
    results: PaperResults,
    sections: list[Section],
    environment: Environment | None,
    effort: Effort,
    *,
    quick: bool,
) -> Path:
    """Write ``report.html``; ``environment`` is None if the network alone was asked about."""
    sizes = [("users", f"{results.graph.n_nodes:,}"), ("edges", f"{results.graph.n_edges:,}")]
    lede = "The paper's statistics of networks, computed again."
    if environment is not None:
        sizes = _facts(environment, effort.rounds, effort.runs)
        lede = (
            "A rehearsal with few rounds: it shows that everything runs, and is nothing to quote."
            if quick
            else "The paper's tables and figures, computed again. Every policy had the same products, coins, features "
            "and oracle, and its settings were chosen on the same validation rounds."
        )
    return _save_page(path, f"TensorUCB on {results.name}", lede=lede, facts=sizes, sections=sections)


def _drawn_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> Any:
    """A table as a figure, the first column as its row labels."""
    cells = [
        {"row": row[0], "column": column, "text": text}
        for row in rows
        for column, text in zip(columns[1:], row[1:], strict=True)
    ]
    quiet: dict[str, Any] = {"domain": False, "ticks": False, "grid": False, "labelFontSize": 13, "labelLimit": 220}
    chart = (
        chart_of(cells)
        .mark_text(fontSize=13)
        .encode(
            x=alt.X("column:N", sort=list(columns[1:]), title=None, axis=alt.Axis(orient="top", labelAngle=0, **quiet)),
            y=alt.Y("row:N", sort=[row[0] for row in rows], title=None, axis=alt.Axis(**quiet)),
            text="text:N",
        )
    )
    return titled(chart, title, width=160 * (len(columns) - 1), height=30 * len(rows))


def _condition(bound: pl.DataFrame) -> str:
    used = float(bound["c_used"][-1])
    needed = float(bound["c_needed"][-1])
    met = used >= needed
    return (
        f"Theorem 1 promises its bound for c of at least {needed:,.4g} at the last round; the experiment chose "
        f"c = {used:g}, so the condition is {'met' if met else 'not met'} and the bound at that c "
        f"{'holds' if met else 'is no promise'}. B = 1 (assumption A1), d is the largest number of features. "
        "The numbers of every round are in bound.csv."
    )
