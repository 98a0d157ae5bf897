"""``tensorucb demo``: a campaign on a generated network, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._output import check_output_directory, emit_json, print_to, progress_bar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import Environment, Experiment, SeedReason

__all__ = ["demo"]


def demo(
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds a run.", show_default="80, quick: 15")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each policy.", show_default="5, quick: 2")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Sets the network and everything random.")] = 0,
    out: Annotated[Path, typer.Option(help="Directory for report.html and figures.")] = Path("tensorucb-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller network and fewer rounds: seconds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Run a campaign on a generated network in about a minute.

    TensorUCB (our defaults), TensorUCB to the paper's letter, HighDegree and Random choose 10 users a round to
    promote products to. Prints a table and why each seed was chosen; writes report.html and figures.
    """
    from tensorucb.cli._demo import demo_environment, demo_policies, explained_round
    from tensorucb.cli._demo_report import write_report
    from tensorucb.experiments import run_experiment

    check_output_directory(out)
    environment = demo_environment(seed, quick=quick)
    policies = demo_policies()
    rounds, runs = rounds or (15 if quick else 80), runs or (2 if quick else 5)
    with progress_bar("demo") as report:
        experiment = run_experiment(environment, policies, rounds=rounds, runs=runs, seed=seed, report=report)
    product, reasons = explained_round(environment, policies["TensorUCB"])
    command = f"tensorucb demo --seed {seed} --rounds {rounds} --runs {runs}" + (" --quick" if quick else "")
    files = write_report(out, environment, experiment, product=product, reasons=reasons, command=command, seed=seed)
    if json:
        emit_json(_document(environment, experiment, product, reasons, files, seed))
        return
    console = print_to()
    console.print(_results(environment, experiment))
    console.print()
    console.print(_seeds(product, reasons))
    console.print()
    console.print(f"Report: [bold]{files[0]}[/bold]", soft_wrap=True)
    console.print(f"Figures: {', '.join(str(path) for path in files[1:])}", soft_wrap=True)


def _table(title: str, caption: str) -> Any:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        pad_edge=False,
    )


def _results(environment: Environment, experiment: Experiment) -> Any:
    graph, rows = environment.graph, experiment.table()
    table = _table(
        f"{graph.n_nodes:,} users, {graph.n_edges:,} edges, {environment.settings.k} seeds a round, "
        f"{rows[0]['rounds']} rounds, {rows[0]['runs']} runs",
        f"Reached: users a round. Regret: what a round loses against knowing the truth; then its interval over runs, "
        f"and the last {rows[0]['late_rounds']} rounds alone.",
    )
    table.add_column("Policy", no_wrap=True)
    for column in ("Reached", "Regret", "90 % interval", f"Last {rows[0]['late_rounds']}", "ms a round"):
        table.add_column(column, justify="right", no_wrap=True)
    lowest = min(row["regret"]["mean"] for row in rows)
    for row in rows:
        regret = row["regret"]
        table.add_row(
            row["policy"],
            f"{row['spread']['mean']:.1f}",
            f"{regret['mean']:.2f}",
            f"{regret['low']:.2f} – {regret['high']:.2f}",
            f"{row['late_regret']['mean']:.2f}",
            f"{sum(row['milliseconds'].values()):.1f}",
            style="bold cyan" if regret["mean"] == lowest else None,
        )
    return table


def _seeds(product: str, reasons: Sequence[SeedReason]) -> Any:
    table = _table(
        f"TensorUCB's seeds for {product}, and why",
        "Expected: direct responses by what has been seen. New: beyond those of the seeds above. "
        "Explore: added for what is not yet known.",
    )
    for column in ("User", "Followers", "Expected", "New", "Explore"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Most likely to respond", no_wrap=True)
    for reason in reasons:
        names = ", ".join(f"{follower.id} ({follower.probability:.0%})" for follower in reason.strongest)
        table.add_row(
            str(reason.id),
            str(reason.followers),
            f"{reason.expected:.2f}",
            f"{reason.gain:.2f}",
            f"{reason.explored:.2f}",
            names,
        )
    return table


def _document(
    environment: Environment,
    experiment: Experiment,
    product: str,
    reasons: Sequence[SeedReason],
    files: Sequence[Path],
    seed: int,
) -> Mapping[str, Any]:
    return {
        "seed": seed,
        "environment": environment.describe(),
        "results": experiment.table(),
        "product": product,
        "seeds": [reason.row() for reason in reasons],
        "report": str(files[0]),
        "figures": [str(path) for path in files[1:]],
    }
