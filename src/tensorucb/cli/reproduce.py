"""``tensorucb reproduce``: the paper's tables and figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.cli._output import check_output_directory, emit_json, print_to, progress_bar

if TYPE_CHECKING:
    from tensorucb.experiments import Environment, WorldSettings

__all__ = ["Feedback", "Objective", "Synthetic", "environment_for", "reproduce"]


class Target(StrEnum):
    """What to reproduce."""

    table_network = "table-network"
    fig_degrees = "fig-degrees"
    fig_regret = "fig-regret"
    fig_rank = "fig-rank"
    fig_runtime = "fig-runtime"
    bound = "bound"
    all = "all"


class Synthetic(StrEnum):
    """A generated network of the size of one of the paper's."""

    digg = "digg"
    flixster = "flixster"


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
    scale: Annotated[float, typer.Option(min=0.001, help="Factor on the size of the generated network.")] = 1.0,
    objective: Annotated[
        Objective, typer.Option(help="Users activated by the seeds, or the whole cascade.")
    ] = Objective.direct,
    feedback: Annotated[
        Feedback, typer.Option(help="Out-edges of the seeds, or of every active user.")
    ] = Feedback.one_hop,
    runs: Annotated[int | None, typer.Option(min=1, help="Runs of each policy.", show_default="5, quick: 2")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds a run.", show_default="100, quick: 15")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Sets everything random.")] = 0,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with hyper-parameters or grids, a table a policy.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for CSV files, figures and report.html.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="A rehearsal in minutes; nothing to quote.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Reproduce the paper's tables and figures on a data set or a generated network.

    Writes CSV, PNG and SVG files and one report.html to --out. A killed command goes on where it stopped and ends with
    the same bytes, but for timings.
    """
    from dataclasses import replace

    from tensorucb.cli._reproduce_report import write_target_files
    from tensorucb.experiments import Effort, Reproduction, WorldSettings, read_settings, write_manifest

    if (data is None) == (synthetic is None):
        raise typer.BadParameter("give either --data DIR or --synthetic digg|flixster.")
    check_output_directory(out)
    world = WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
    effort = Effort.quick() if quick else Effort()
    effort = replace(effort, rounds=rounds or effort.rounds, runs=runs or effort.runs)
    note = print_to(err=True)
    environment = environment_for(data, synthetic, scale, world, out, lambda line: note.print(f"[dim]{line} …[/dim]"))
    grids = {} if settings is None else read_settings(settings)
    write_manifest(
        out / "manifest.json",
        command=["tensorucb", *sys.argv[1:]],
        seed=seed,
        environment=environment.describe(),
        settings={"target": target.value, "effort": vars(effort), "grids": grids},
    )
    wanted = [t.value for t in Target if t is not Target.all] if target is Target.all else [target.value]
    with progress_bar("reproduce") as report:
        work = Reproduction(environment, out, effort=effort, seed=seed, grids=grids, report=report)
        files = write_target_files(work, wanted, quick=quick)
    if json:
        emit_json({"targets": wanted, "files": [str(path) for path in files]})
        return
    for path in files:
        typer.echo(str(path))


def environment_for(
    data: Path | None,
    synthetic: Synthetic | None,
    scale: float,
    world: WorldSettings,
    out: Path,
    tell: Callable[[str], None],
    *,
    min_actions: int = 0,
) -> Environment:
    """The world of a data set, features and truth kept under ``out``, or of a generated network."""
    from tensorucb.experiments import Environment, environment_from_dataset

    if synthetic is not None:
        from tensorucb.data import digg_like, flixster_like

        make = digg_like if synthetic is Synthetic.digg else flixster_like
        return Environment.from_sandbox(make(scale), settings=world, name=f"{synthetic.value}-like")
    from tensorucb.data import prepare, read_dataset

    assert data is not None
    dataset = read_dataset(data)
    if min_actions:
        dataset = prepare(dataset, min_interactions=min_actions)
    return environment_from_dataset(dataset, settings=world, cache=out / "cache", tell=tell)
