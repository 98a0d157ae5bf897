"""``tensorucb reproduce``: the paper's tables and figures."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._network import (
    Data,
    Feedback,
    Generator,
    MinActions,
    Objective,
    Preparation,
    RoundFeedback,
    RoundObjective,
    Scale,
    SyntheticNetwork,
    load_network,
)
from tensorucb.cli._options import MANY, Json, Seed, finite
from tensorucb.cli._output import check_output_directory, emit_json, say, shown
from tensorucb.cli._progress import Progress

if TYPE_CHECKING:
    from tensorucb.experiments import Effort

__all__ = ["reproduce"]


class Target(StrEnum):
    """What to reproduce."""

    table_network = "table-network"
    fig_degrees = "fig-degrees"
    fig_regret = "fig-regret"
    fig_rank = "fig-rank"
    fig_runtime = "fig-runtime"
    bound = "bound"
    all = "all"


def reproduce(
    target: Annotated[Target, typer.Argument(help="Table or figure, or all of them.")],
    data: Data = None,
    synthetic: SyntheticNetwork = None,
    scale: Scale = Generator.scale,
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
    objective: RoundObjective = Objective.direct,
    feedback: RoundFeedback = Feedback.one_hop,
    runs: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Runs of each policy.", show_default="5, quick: 2")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Rounds per run.", show_default="100, quick: 15")
    ] = None,
    seed: Seed = 0,
    settings: Annotated[
        Path | None, typer.Option(help="TOML file with hyper-parameters or grids, one table per policy.")
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
    with Progress("reproduce") as progress:
        from tensorucb import experiments
        from tensorucb.cli._reproduce_report import draw, save_report
        from tensorucb.plots import save_figure

        grids = _grids(settings)
        network = load_network(
            data,
            synthetic,
            seed=seed,
            preparation=Preparation(min_actions, products, window),
            generator=Generator(scale),
        )
        wanted = [t.value for t in Target if t is not Target.all] if target is Target.all else [target.value]
        effort = _effort(quick, rounds, runs)
        described = {"name": network.name, "n_nodes": network.graph.n_nodes, "n_edges": network.graph.n_edges}
        environment = None
        if target not in (Target.table_network, Target.fig_degrees):
            rules = experiments.WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
            environment = network.environment(rules, out / "cache", progress.note)
            described = environment.describe()
        manifest = experiments.write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={"target": target.value, "effort": asdict(effort), "grids": grids},
            data=network.about,
        )
        if environment is None:
            results = experiments.PaperResults(network.name, network.graph, wanted)
        else:
            comparison = experiments.Comparison(
                environment,
                experiments.paper_policies(),
                out,
                rounds=effort.rounds,
                runs=effort.runs,
                validation_rounds=effort.validation_rounds,
                seed=seed,
                report=progress,
            )
            tuning = None
            if experiments.needs_tuning(wanted):
                tuning = comparison.tune({**effort.grids(comparison.policies), **grids})
            results = experiments.run_targets(comparison, tuning, wanted, effort)
        tables = experiments.write_results(results, out)
        charts = draw(results)
        figures = [path for name, chart in charts.items() for path in save_figure(chart, out, name)]
        page = save_report(out / "report.html", results, charts, environment, effort, seed=seed, quick=quick)
        files = [page, *sorted(tables), manifest, *figures]
    if json:
        emit_json({"targets": wanted, "files": [str(path) for path in files]})
        return
    for path in files:
        say(shown(path))


def _effort(quick: bool, rounds: int | None, runs: int | None) -> Effort:
    from tensorucb.experiments import Effort

    effort = Effort.quick() if quick else Effort()
    return replace(effort, rounds=rounds or effort.rounds, runs=runs or effort.runs)


def _grids(settings: Path | None) -> dict[str, dict[str, Any]]:
    from tensorucb.experiments import paper_policies, read_settings
    from tensorucb.experiments._tuning import check_labels

    grids: dict[str, dict[str, Any]] = {} if settings is None else dict(read_settings(settings))
    check_labels(grids, paper_policies())
    return grids
