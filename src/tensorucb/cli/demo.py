"""``tensorucb demo``: a campaign on a generated network, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._output import emit_json, print_to, progress_bar

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
    console.print(_seeds(product, reasons))
    console.print(f"Report: [bold]{files[0]}[/bold]", soft_wrap=True)
    console.print(f"Figures: {', '.join(str(path) for path in files[1:])}", soft_wrap=True)


def _results(environment: Environment, experiment: Experiment) -> Any:
    from rich.table import Table

    title = (
        f"{environment.graph.n_nodes:,} users, {environment.graph.n_edges:,} edges, "
        f"{environment.settings.k} seeds a round"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("Policy")
    rows = experiment.table()
    late = f"Regret, last {rows[0]['late_rounds']} rounds"
    for column in ("Users reached", "Regret a round", "90 % interval", late, "ms a round"):
        table.add_column(column, justify="right")
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
            style="bold" if regret["mean"] == lowest else None,
        )
    return table


def _seeds(product: str, reasons: Sequence[SeedReason]) -> Any:
    from rich.table import Table

    table = Table(title=f"Seeds for {product}, and why (direct responses expected)", title_justify="left")
    for column in ("User", "Followers", "Expected", "New beyond earlier seeds", "Added to explore"):
        table.add_column(column, justify="right")
    table.add_column("Strongest predicted followers")
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
