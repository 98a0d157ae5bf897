"""``tensorucb compare``: how good the decisions are."""

from __future__ import annotations

import sys
from functools import partial
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
    ProductEffect,
    RoundFeedback,
    RoundObjective,
    Scale,
    Strategies,
    StrategyEffect,
    Synthetic,
    SyntheticNetwork,
    TruthPrior,
    load_network,
    parse_truth_prior,
)
from tensorucb.cli._options import MANY, Json, Seed
from tensorucb.cli._output import check_output_directory, emit_json, print_table, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import Environment, WorldSettings
    from tensorucb.policies import Policy

__all__ = ["compare"]


def compare(
    data: Data = None,
    synthetic: SyntheticNetwork = None,
    scale: Scale = Generator.scale,
    product_effect: ProductEffect = Generator.product_effect,
    strategies: Strategies = Generator.strategies,
    strategy_effect: StrategyEffect = Generator.strategy_effect,
    networks: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of generated networks on which the runs take turns; with more than one, settings are tuned on "
            "yet another network, and intervals are over networks.",
        ),
    ] = 1,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Only this policy, beside TensorUCB; may be given several times. By default all take part."),
    ] = None,
    min_actions: MinActions = 0,
    truth_prior: TruthPrior = None,
    cold_start: Annotated[
        bool, typer.Option("--cold-start", help="Let half of the users and products arrive in mid-campaign instead.")
    ] = False,
    objective: RoundObjective = Objective.direct,
    feedback: RoundFeedback = Feedback.one_hop,
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
    if strategies and (cold_start or objective is not Objective.direct or feedback is not Feedback.one_hop):
        raise typer.BadParameter("--strategies is for --objective direct and --feedback one_hop, without --cold-start.")
    if strategy_effect != Generator.strategy_effect and not strategies:
        raise typer.BadParameter("--strategy-effect needs --strategies, their number.")
    if networks > runs:
        raise typer.BadParameter(f"--networks {networks} needs as many --runs; got {runs}.")
    with Progress("compare") as progress:
        from tensorucb import experiments, plots

        generator = Generator(scale, product_effect, strategies, strategy_effect)
        network = load_network(data, synthetic, seed=seed, preparation=Preparation(min_actions), generator=generator)
        rules = experiments.WorldSettings(objective=objective.value, feedback=feedback.value, seed=seed)
        environment = network.environment(rules, out / "cache", progress.note, prior)
        described = environment.describe()
        size: Any = {"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds}
        experiments.write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={**size, "networks": networks, "truth_prior": prior},
            data=network.about,
        )
        comparison = experiments.Comparison(
            environment,
            _wanted(experiments.strategy_contestants() if strategies else experiments.contestants(), policy),
            out,
            **size,
            seed=seed,
            networks=_further(generator, synthetic, rules, networks, seed),
            report=progress,
        )
        tuning = comparison.tune(experiments.ours_untouched(comparison.policies))
        experiments.write_validation(out / "validation.csv", tuning)
        if cold_start:
            before = max(1, rounds // 4)
            arrivals = experiments.cold_start(
                comparison.world, tuning.policies, rounds_before=before, rounds_after=20, runs=runs, seed=seed
            )
            rows = experiments.arrival_table(arrivals)
            experiments.write_rows(out / "cold-start.csv", rows)
        else:
            experiment = comparison.run(lambda world: {**tuning.policies, **experiments.references(world)}, "decisions")
            rows = experiments.decision_table(experiment, networks=networks)
            experiments.write_regret(out / "decisions-regret.csv", experiment)
            experiments.write_rows(out / "decisions.csv", rows)
            plots.save_figure(plots.regret_curves(experiment), out, "decisions")
    _report(rows, described, json=json, out=out)


def _wanted(known: Mapping[str, Policy], names: Sequence[str] | None) -> dict[str, Policy]:
    """Ours and the policies named; all of them if none is."""
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise InputError(f"there is no policy {unknown[0]!r} to compare. Known: {', '.join(known)}.")
    return {label: policy for label, policy in known.items() if not names or label in ("TensorUCB", *names)}


def _further(
    generator: Generator, synthetic: Synthetic | None, rules: WorldSettings, networks: int, seed: int
) -> list[partial[Environment]]:
    """Functions that generate the networks on which runs take turns; none if there is only one network."""
    if networks == 1 or synthetic is None:
        return []

    def another(number: int) -> Environment:
        return generator(synthetic, seed=seed, draw=number).environment(rules, Path(), lambda line: None)

    return [partial(another, number) for number in range(1, networks + 1)]


def _report(rows: list[dict[str, Any]], described: dict[str, Any], *, json: bool, out: Path) -> None:
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
