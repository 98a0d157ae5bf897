"""``tensorucb compare``: how good the decisions are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorucb.cli._options import MANY, Json, Seed
from tensorucb.cli._output import check_output_directory, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._world import PRODUCT_EFFECT, MinActions, Preparation, ProductEffect, Scale, Synthetic, load_world
from tensorucb.cli.reproduce import Feedback, Objective

__all__ = ["compare"]


def compare(
    data: Annotated[Path | None, typer.Option(help="Directory with a network and an action log.")] = None,
    synthetic: Annotated[Synthetic | None, typer.Option(help="A generated network instead of --data.")] = None,
    scale: Scale = 1.0,
    product_effect: ProductEffect = PRODUCT_EFFECT,
    min_actions: MinActions = 0,
    ablation: Annotated[
        bool, typer.Option("--ablation", help="Compare our defaults with one idea off at a time instead.")
    ] = False,
    cold_start: Annotated[
        bool, typer.Option("--cold-start", help="Let half of the users and products arrive in mid-campaign instead.")
    ] = False,
    objective: Annotated[
        Objective, typer.Option(help="Users activated by the seeds, or the whole cascade.")
    ] = Objective.direct,
    feedback: Annotated[
        Feedback, typer.Option(help="Out-edges of the seeds, or of every active user.")
    ] = Feedback.one_hop,
    runs: Annotated[int, typer.Option(min=1, max=MANY, help="Runs of each policy.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, max=MANY, help="Rounds per run.")] = 200,
    validation_rounds: Annotated[
        int, typer.Option(min=1, max=MANY, help="Rounds on which the baselines are tuned.")
    ] = 50,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(help="Directory for CSV files and figures.")] = Path("comparison"),
    json: Json = False,
) -> None:
    """Play a long campaign with our defaults, untouched, and with every baseline, tuned on validation rounds.

    A killed command goes on where it stopped.
    """
    check_output_directory(out)
    with Progress("compare") as progress:
        from tensorucb import plots
        from tensorucb.experiments import Decisions, WorldSettings, decision_table, write_manifest

        world = load_world(data, synthetic, scale, seed, Preparation(min_actions), product_effect)
        rules = WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
        environment = world.environment(rules, out / "cache", progress.note)
        described = environment.describe()
        write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds, "ablation": ablation},
            data=world.about,
        )
        size: Any = {"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds, "seed": seed}
        work = Decisions(environment, out, **size, report=progress)
        if cold_start:
            rows = work.arrival
        else:
            experiment = work.ablation if ablation else work.comparison
            plots.save_figure(plots.regret_curves(experiment), out, "ablation" if ablation else "decisions")
            rows = decision_table(experiment)
    _show(rows, described, json=json, out=out)


def _show(rows: list[dict[str, Any]], described: dict[str, Any], *, json: bool, out: Path) -> None:
    if json:
        emit_json({"environment": described, "rows": rows})
        return
    # Ends of intervals follow their mean in the table's cells.
    names = [name for name in rows[0] if name != "policy" and not name.endswith(("low", "high"))]
    print_table(
        ("Scaled regret", *(name.replace("_", " ") for name in names)),
        [(shown(row["policy"]), *(_cell(row, name) for name in names)) for row in rows],
        words=("Scaled regret",),
        title=f"{shown(described['name'])}: {described['n_nodes']:,} users, {described['n_edges']:,} edges",
    )
    say(f"Tables and figures: {shown(out)}")


def _cell(row: dict[str, Any], name: str) -> str:
    ends = row.get(f"{name}_low"), row.get(f"{name}_high")
    return f"{row[name]:.1f}" + (f" ({ends[0]:.1f} to {ends[1]:.1f})" if None not in ends else "")
