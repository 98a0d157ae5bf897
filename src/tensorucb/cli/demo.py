"""``tensorucb demo``: a campaign on a generated network, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._options import MANY, Json, Seed
from tensorucb.cli._output import check_output_directory, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._results import reason_cells, result_cells

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import Environment, Experiment, SeedReason

__all__ = ["demo"]


def demo(
    rounds: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Rounds per run.", show_default="80, quick: 15")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Runs of each policy.", show_default="5, quick: 2")
    ] = None,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Directory for report.html and figures.")] = Path("tensorucb-demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A smaller network and fewer rounds: seconds.")] = False,
    json: Json = False,
) -> None:
    """Run a campaign on a generated network in about a minute.

    TensorUCB (our defaults), TensorUCB to the paper's letter, HighDegree and Random choose 10 users per round to
    promote products to. Prints a table and why each seed was chosen; writes report.html and figures.
    """
    check_output_directory(out)
    rounds, runs = rounds or (15 if quick else 80), runs or (2 if quick else 5)
    command = f"tensorucb demo --seed {seed} --rounds {rounds} --runs {runs}" + (" --quick" if quick else "")
    with Progress("demo") as report:
        from tensorucb.cli._demo import demo_environment, demo_policies, explained_round
        from tensorucb.cli._demo_report import write_report
        from tensorucb.experiments import run_experiment

        environment = demo_environment(seed, quick=quick)
        policies = demo_policies()
        experiment = run_experiment(environment, policies, rounds=rounds, runs=runs, seed=seed, report=report)
        product, reasons = explained_round(environment, policies["TensorUCB"])
        files = write_report(out, environment, experiment, product=product, reasons=reasons, command=command, seed=seed)
    if json:
        emit_json(_document(environment, experiment, product, reasons, files, seed))
        return
    _print_results(environment, experiment)
    say()
    _print_seeds(product, reasons)
    say(f"\nReport: {shown(files[0])}")
    say(f"Figures: {', '.join(shown(path) for path in files[1:])}")


def _print_results(environment: Environment, experiment: Experiment) -> None:
    graph, rows = environment.graph, experiment.table()
    late = f"Last {rows[0]['late_rounds']}"
    print_table(
        ("Policy", "Reached", "Regret", "90 % interval", late, "ms per round"),
        result_cells(rows, "to"),
        words=("Policy",),
        title=f"{graph.n_nodes:,} users, {graph.n_edges:,} edges, {environment.settings.k} seeds per round, "
        f"{rows[0]['rounds']} rounds, {rows[0]['runs']} runs\n",
        caption="Reached: users per round. Regret: what a round loses against knowing the truth; then its interval "
        f"over runs, and the last {rows[0]['late_rounds']} rounds alone.",
        best=min(range(len(rows)), key=lambda i: float(rows[i]["regret"]["mean"])),
    )


def _print_seeds(product: str, reasons: Sequence[SeedReason]) -> None:
    print_table(
        ("User", "Followers", "Expected", "New", "Explore", "Most likely to respond"),
        reason_cells(reasons, shown),
        words=("User", "Most likely to respond"),
        title=f"TensorUCB's seeds for {product}, and why\n",
        caption="Expected: direct responses by what has been seen. New: beyond those of the seeds above. "
        "Explore: added for what is not yet known.",
    )


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
