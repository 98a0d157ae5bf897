"""The page of ``tensorucb compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorucb import plots
from tensorucb.cli._reports import REGRET, SAME_COINS, facts, paper_note, save_page, settings_table
from tensorucb.experiments import Environment, Experiment, Tuning
from tensorucb.plots import Block, Code, Figure, Section, Table, Text
from tensorucb.plots._theme import knows_the_truth, leaders

_OURS = "TensorUCB"
_NAMES = {"last20": "Last 20 rounds", "of_best": "% of best", "worst_of_first_ten": "Worst of the first ten"}
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


def save_comparison(
    directory: Path,
    experiment: Experiment,
    rows: Sequence[Mapping[str, Any]],
    tuning: Tuning,
    environment: Environment,
    *,
    command: str,
    networks: int = 1,
) -> Path:
    """Write ``report.html`` and the figures ``decisions`` and ``decisions-final``; returns the page's path.

    ``rows`` are those of `decision_table`; with several ``networks``, ``environment`` is the one that was tuned on.
    """
    charts = {"decisions": plots.regret_curves(experiment), "decisions-final": plots.final_regret(experiment)}
    for name, chart in charts.items():
        plots.save_figure(chart, directory, name)
    replayed = experiment.measure == "responders"
    about = Text(_REPLAY if replayed else REGRET)
    results: list[Block] = [about, Figure(charts["decisions"]), _table(rows), Figure(charts["decisions-final"])]
    if not replayed:
        results.append(Text(SAME_COINS))
    if any(knows_the_truth(label) for label in experiment.policies):
        blind = _BLIND_REPLAY if replayed else _PRODUCT_BLIND
        results.append(Text(_STRATEGIES if environment.strategies else blind))
    sections = [Section("Results", [*results, *([] if replayed else paper_note(experiment))])]
    if settings := settings_table(tuning):
        note = "Chosen for each policy on validation rounds, which have products and coins of their own."
        sections.append(Section("Settings", [Text(note), settings]))
    again = Text("Finished runs are kept, and the same command gives the same numbers.")
    sections.append(Section("Run it again", [again, Code(command)]))
    runs = experiment.of(experiment.policies[0])
    more = {"networks": networks} if networks > 1 else {}
    return save_page(
        directory / "report.html",
        f"Policies compared on {environment.name}",
        lede=f"Our defaults, untouched, beside other policies{', which were tuned first' if settings else ''}. "
        f"All meet the same {'items, and the log answers' if replayed else 'products and the same coins'}.",
        facts=facts(environment, runs[0].regret.size, len(runs), **more),
        numbers=_numbers(experiment, rows),
        sections=sections,
    )


def _main(rows: Sequence[Mapping[str, Any]]) -> str:
    """The checkpoint that has an interval."""
    return next(name.removesuffix("_low") for name in rows[0] if name.startswith("T=") and name.endswith("_low"))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Regret at each checkpoint, with the interval where there is one, and the difference to ours."""
    main = _main(rows)
    names = [name for name in rows[0] if name != "policy" and not name.endswith(("_low", "_high"))]
    heads = {f"{main}_minus_ours": f"Minus ours, first {main[2:]}"}
    heads |= {name: f"First {name[2:]} rounds" for name in names if name not in heads and name.startswith("T=")}
    columns = ["Policy", *(heads.get(name) or _NAMES.get(name, name) for name in names)]
    cells = [[row["policy"], *(_cell(row, name) for name in names)] for row in rows]
    ours = [number for number, row in enumerate(rows) if row["policy"] == _OURS]
    return Table(columns, cells, best=ours[0] if ours else None)


def _cell(row: Mapping[str, Any], name: str) -> str:
    ends = row.get(f"{name}_low"), row.get(f"{name}_high")
    if row["policy"] == _OURS and name.endswith("minus_ours"):
        return ""
    if name == "of_best":
        return f"{100.0 * row[name]:.1f}"
    shown = f"{row[name]:.1f}"
    return shown if None in ends else f"{shown} ({ends[0]:.1f} – {ends[1]:.1f})"


def _numbers(experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    main = _main(rows)
    by_name = {row["policy"]: row for row in rows}
    if _OURS not in by_name:
        return []
    table = {row["policy"]: row for row in experiment.table()}
    replayed = experiment.measure == "responders"
    best = sum(float(run.optimum.mean()) for run in experiment.of(_OURS)) / len(experiment.of(_OURS))
    found = [
        (
            f"{table[_OURS]['spread']['mean']:.1f} users",
            f"reached per round by TensorUCB, seeds {'not counted' if replayed else 'included'}",
        ),
        (f"{best:.1f} users", "reached by the best possible choice"),
        (f"{by_name[_OURS][main]:.1f}", f"{experiment.measure} of TensorUCB, average of the first {main[2:]} rounds"),
    ]
    sign = -1.0 if replayed else 1.0
    others = [label for label in leaders({name: sign * row[main] for name, row in by_name.items()}) if label != _OURS]
    if others:
        found.append((f"{by_name[others[0]][main]:.1f}", f"{experiment.measure} of the best other policy, {others[0]}"))
    return found
