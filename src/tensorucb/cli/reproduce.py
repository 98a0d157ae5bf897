"""``tensorucb reproduce``: the paper's tables and figures."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tensorucb.cli._options import MANY, Json, Seed, finite
from tensorucb.cli._output import check_output_directory, emit_json, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._world import MinActions, Preparation, Scale, Synthetic, load_world

__all__ = ["Feedback", "Objective", "reproduce"]


class Target(StrEnum):
    """What to reproduce."""

    table_network = "table-network"
    fig_degrees = "fig-degrees"
    fig_regret = "fig-regret"
    fig_rank = "fig-rank"
    fig_runtime = "fig-runtime"
    bound = "bound"
    all = "all"


class Objective(StrEnum):
    """What a round is worth."""

    direct = "direct"
    cascade = "cascade"


class Feedback(StrEnum):
    """What a round shows."""

    one_hop = "one_hop"
    cascade = "cascade"


def reproduce(
    target: Annotated[Target, typer.Argument(help="Table or figure, or all of them.")],
    data: Annotated[Path | None, typer.Option(help="Directory with a network and an action log.")] = None,
    synthetic: Annotated[Synthetic | None, typer.Option(help="A generated network instead of --data.")] = None,
    scale: Scale = 1.0,
    min_actions: MinActions = 0,
    products: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Sample that many products of the data set.", show_default="all")
    ] = None,
    window: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            callback=finite,
            metavar="DAYS",
            help="Days in which a neighbour's action counts as a response; 0: no limit.",
            show_default="the data set's own",
        ),
    ] = None,
    objective: Annotated[
        Objective, typer.Option(help="Users activated by the seeds, or the whole cascade.")
    ] = Objective.direct,
    feedback: Annotated[
        Feedback, typer.Option(help="Out-edges of the seeds, or of every active user.")
    ] = Feedback.one_hop,
    runs: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Runs of each policy.", show_default="5, quick: 2")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Rounds per run.", show_default="100, quick: 15")
    ] = None,
    seed: Seed = 0,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with hyper-parameters or grids, a table a policy.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for CSV files, figures and report.html.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="A rehearsal in minutes; nothing to quote.")] = False,
    json: Json = False,
) -> None:
    """Reproduce the paper's tables and figures on a data set or a generated network.

    Writes CSV, PNG and SVG files and one report.html to --out. A killed command goes on where it stopped and ends with
    the same bytes, but for timings. table-network and fig-degrees need no action log.
    """
    check_output_directory(out)
    preparation = Preparation(min_actions, products, window)
    with Progress("reproduce") as progress:
        from tensorucb.cli._reproduce_report import write_network_files, write_target_files
        from tensorucb.experiments import Effort, Reproduction, WorldSettings, write_manifest
        from tensorucb.experiments._network import NetworkTables

        grids = _grids(settings)
        world = load_world(data, synthetic, scale, seed, preparation)
        wanted = [t.value for t in Target if t is not Target.all] if target is Target.all else [target.value]
        effort = Effort.quick() if quick else Effort()
        effort = replace(effort, rounds=rounds or effort.rounds, runs=runs or effort.runs)

        def manifest(described: dict[str, Any]) -> Path:
            return write_manifest(
                out / "manifest.json",
                command=["tensorucb", *sys.argv[1:]],
                seed=seed,
                environment=described,
                settings={"target": target.value, "effort": vars(effort), "grids": grids},
                data=world.about,
            )

        if target in (Target.table_network, Target.fig_degrees):
            manifest({"name": world.name, "n_nodes": world.graph.n_nodes, "n_edges": world.graph.n_edges})
            files = write_network_files(NetworkTables(world.name, world.graph, out), wanted)
        else:
            rules = WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
            environment = world.environment(rules, out / "cache", progress.note)
            manifest(environment.describe())
            work = Reproduction(environment, out, effort=effort, seed=seed, grids=grids, report=progress)
            files = write_target_files(work, wanted, quick=quick)
    if json:
        emit_json({"targets": wanted, "files": [str(path) for path in files]})
        return
    for path in files:
        say(shown(path))


def _grids(settings: Path | None) -> dict[str, dict[str, Any]]:
    from tensorucb.experiments import paper_policies, read_settings
    from tensorucb.experiments._tuning import check_labels

    grids: dict[str, dict[str, Any]] = {} if settings is None else dict(read_settings(settings))
    check_labels(grids, paper_policies())
    return grids
