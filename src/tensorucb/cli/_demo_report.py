"""The demo's report: figures as files and one self-contained page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorucb import __version__, plots
from tensorucb.cli._results import reason_cells, result_cells
from tensorucb.experiments import Environment, Experiment, SeedReason
from tensorucb.plots import Code, Figure, Numbers, Report, Section, Table, Text

_HOW = """\
Each round one product arrives and every policy names its seeds. Who then responds is decided by one coin per edge, \
and the coin of an edge in a round is the same for all policies, so that differences between them are not luck.

Regret is what a round lost against the seeds an oracle would pick if it knew every probability, divided by \
η = 1 − 1/e − 0.1 as in the paper. It is an average over the rounds so far: a policy that has stopped making mistakes \
still carries its early ones."""
_WHY = """\
Expected: the responses these users would bring by what has been seen so far, the sum of the believed probabilities of \
their followers. New: those that the seeds above would not have brought anyway. Added to explore: the bonus for what \
is not yet known; a seed with a large one is chosen to learn from it."""

_SEEDS = ("User", "Followers", "Expected", "New", "Added to explore", "Strongest predicted followers")


def write_report(
    directory: Path,
    environment: Environment,
    experiment: Experiment,
    *,
    product: str,
    reasons: Sequence[SeedReason],
    command: str,
    seed: int,
) -> list[Path]:
    """Write ``report.html`` and the figures; returns their paths, the report first."""
    charts = {
        "regret": plots.regret_curves(experiment, title="Average scaled regret on the demo network"),
        "final": plots.final_regret(experiment),
        "seeds": plots.seed_reasons(
            [{"seed": r.id, "believed": r.expected, "explored": r.explored} for r in reasons],
            title=f"What TensorUCB expects of its seeds for {product}",
        ),
    }
    figures = [plots.save_figure(chart, directory, name)[0] for name, chart in charts.items()]
    rows = experiment.table()
    runs, rounds = rows[0]["runs"], rows[0]["rounds"]
    best = min(range(len(rows)), key=lambda i: float(rows[i]["regret"]["mean"]))
    late = f"Regret, last {rows[0]['late_rounds']}"
    columns = ("Policy", "Users reached", "Regret per round", "90 % interval", late, "ms per round")
    report = Report(
        "Who should hear of it first?",
        lede="Four ways of choosing ten users per round on a generated social network, "
        "with the same products and the same coins for all.",
        facts=[
            ("users", f"{environment.graph.n_nodes:,}"),
            ("edges", f"{environment.graph.n_edges:,}"),
            ("products", f"{environment.product_rows.size}"),
            ("seeds per round", f"{environment.settings.k}"),
            ("rounds", f"{rounds}"),
            ("runs", f"{runs}"),
            ("seed", f"{seed}"),
        ],
        numbers=_numbers(rows),
        sections=[
            Section(
                "Results",
                [
                    Table(columns, result_cells(rows), best=best),
                    Figure(charts["regret"]),
                    Figure(charts["final"]),
                    Text(_HOW),
                ],
            ),
            Section(
                f"The seeds for {product}, and why",
                [Text(_WHY), Figure(charts["seeds"]), Table(_SEEDS, reason_cells(reasons))],
            ),
            Section(
                "Run it again", [Text("The same command gives the same choices and the same regret."), Code(command)]
            ),
        ],
        footer=f"tensorucb {__version__}",
    )
    return [report.save(directory / "report.html"), *figures]


def _numbers(rows: Sequence[dict[str, Any]]) -> Numbers:
    by_name = {row["policy"]: row for row in rows}
    ours, degree = by_name["TensorUCB"], by_name["HighDegree"]
    milliseconds = sum(ours["milliseconds"].values())
    change = ours["late_regret"]["mean"] / degree["late_regret"]["mean"] - 1.0
    sign = "−" if change < 0 else "+"
    return Numbers(
        [
            (f"{ours['spread']['mean']:.0f} users", "reached per round by TensorUCB, seeds included"),
            (f"{degree['spread']['mean']:.0f} users", "reached by the best-connected users (HighDegree)"),
            (f"{sign}{abs(change):.0%}", f"regret of TensorUCB against HighDegree, last {ours['late_rounds']} rounds"),
            (f"{milliseconds:.0f} ms", "per round: score, select, learn"),
        ]
    )
