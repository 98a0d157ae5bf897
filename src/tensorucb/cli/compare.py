"""``tensorucb compare``: how good the decisions are."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._options import MANY, Json, Seed
from tensorucb.cli._output import check_output_directory, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._world import (
    PRODUCT_EFFECT,
    STRATEGY_EFFECT,
    MinActions,
    Preparation,
    ProductEffect,
    Scale,
    Strategies,
    StrategyEffect,
    Synthetic,
    TruthPrior,
    load_world,
    parse_truth_prior,
)
from tensorucb.cli.reproduce import Feedback, Objective

if TYPE_CHECKING:
    from tensorucb.experiments import Environment

__all__ = ["compare"]


def compare(
    data: Annotated[Path | None, typer.Option(help="Directory with a network and an action log.")] = None,
    synthetic: Annotated[Synthetic | None, typer.Option(help="A generated network instead of --data.")] = None,
    scale: Scale = 1.0,
    product_effect: ProductEffect = PRODUCT_EFFECT,
    strategies: Strategies = 0,
    strategy_effect: StrategyEffect = STRATEGY_EFFECT,
    networks: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of generated networks on which the runs take turns; with more than one, settings are tuned on "
            "yet another network, and intervals are over networks.",
        ),
    ] = 1,
    min_actions: MinActions = 0,
    truth_prior: TruthPrior = None,
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

    Validation rounds have their own products (every fifth) and coins. A killed command goes on where it stopped.
    """
    check_output_directory(out)
    prior = parse_truth_prior(truth_prior)
    if prior is not None and data is None:
        raise typer.BadParameter("--truth-prior is for --data; a generated network has its own truth.")
    if networks > 1 and (synthetic is None or cold_start):
        raise typer.BadParameter("--networks is for --synthetic, and not for --cold-start.")
    if strategies and (ablation or cold_start or objective is not Objective.direct or feedback is not Feedback.one_hop):
        raise typer.BadParameter(
            "--strategies is for --objective direct and --feedback one_hop, without --ablation and --cold-start."
        )
    if strategy_effect != STRATEGY_EFFECT and not strategies:
        raise typer.BadParameter("--strategy-effect needs --strategies, their number.")
    if networks > runs:
        raise typer.BadParameter(f"--networks {networks} needs as many --runs; got {runs}.")
    with Progress("compare") as progress:
        from tensorucb import plots
        from tensorucb.experiments import (
            Decisions,
            WorldSettings,
            contestants,
            strategy_contestants,
            write_manifest,
        )

        offers: Any = {"strategies": strategies, "strategy_effect": strategy_effect}
        world = load_world(data, synthetic, scale, seed, Preparation(min_actions), product_effect, **offers)
        rules = WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
        environment = world.environment(rules, out / "cache", progress.note, prior)

        def another(number: int) -> Environment:
            drawn = load_world(data, synthetic, scale, seed, Preparation(), product_effect, **offers, network=number)
            return drawn.environment(rules, out / "cache", lambda line: None)

        described = environment.describe()
        size: Any = {"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds}
        write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={**size, "ablation": ablation, "networks": networks, "truth_prior": prior},
            data=world.about,
        )
        drawn = [partial(another, n) for n in range(1, networks + 1)] if networks > 1 else []
        policies = strategy_contestants() if strategies else contestants()
        work = Decisions(environment, out, **size, seed=seed, policies=policies, networks=drawn, report=progress)
        if cold_start:
            rows = work.arrival
        else:
            experiment = work.ablation if ablation else work.comparison
            plots.save_figure(plots.regret_curves(experiment), out, "ablation" if ablation else "decisions")
            rows = work.table(experiment)
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
