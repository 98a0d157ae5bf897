"""``tensorucb compare``: how good the decisions are."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli import _research as research
from tensorucb.cli._output import count, emit_json, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._results import print_decisions, write_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tensorucb.experiments import Environment, WorldSettings
    from tensorucb.policies import Policy

_WITH_NEWCOMERS = 20


def compare(
    data: research.Data = None,
    synthetic: research.SyntheticNetwork = None,
    scale: research.Scale = research.Generator.scale,
    product_effect: float = Option(
        research.Generator.product_effect,
        min=0.0,
        help="How much the product matters in the generated network; at 0 it does not.",
        callback=opt.finite,
    ),
    strategies: int = Option(
        research.Generator.strategies,
        min=0,
        max=1000,
        help="Number of strategies (channels, offers …) of the generated network; one is chosen for each seed.",
    ),
    strategy_effect: float = Option(
        research.Generator.strategy_effect,
        min=0.0,
        max=20.0,
        help="How much the strategy matters, in logits; at 0 the choice does not matter.",
        callback=opt.finite,
    ),
    networks: int = Option(
        1,
        min=1,
        help="Number of generated networks on which the runs take turns; with more than one, settings are tuned on "
        "yet another network, and intervals are over networks.",
    ),
    policy: research.PolicyNames = None,
    min_actions: research.MinActions = 0,
    truth_prior: str | None = Option(
        None,
        metavar="A,B",
        help="Beta prior of the truth that is fitted to the log: A − 1 extra successes and B − 1 failures of each "
        "edge and topic.",
        show_default="1.1,3",
    ),
    cold_start: bool = Option(
        False, "--cold-start", help="Let half of the users and products arrive in mid-campaign instead."
    ),
    replay: bool = Option(
        False,
        "--replay",
        help="Let the log itself answer: a follower of a seed responds if it acted on the round's item. Counts "
        "distinct responders; no truth is fitted.",
    ),
    objective: research.RoundObjective = "direct",
    feedback: research.RoundFeedback = "one_hop",
    k: opt.SeedsPerRound = 10,
    runs: opt.Runs = 10,
    rounds: opt.Rounds = 200,
    validation_rounds: int = Option(
        50,
        help="Rounds on which the baselines are tuned; 0: they play with their defaults.",
        callback=opt.between(0, 1_000_000_000),
    ),
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    engine: opt.EngineName = "local",
    address: opt.Address = None,
    out: opt.Results = Path("comparison"),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
    json: opt.Json = False,
) -> None:
    """Play a long campaign with our defaults, untouched, and with every baseline, tuned on validation rounds.

    TensorUCB always takes part, since differences are taken to it, and so does HighDegree. Validation rounds have their
    own products (every fifth) and coins. A stopped command goes on where it was, if it is run again.
    """
    prior = None if truth_prior is None else _two_numbers(truth_prior)
    if prior is not None and data is None:
        raise BadParameter("--truth-prior is for --data; a generated network has its own truth.")
    if replay and (data is None or prior is not None or cold_start or (objective, feedback) != ("direct", "one_hop")):
        raise BadParameter(
            "--replay is for --data, --objective direct and --feedback one_hop, without --truth-prior and --cold-start."
        )
    if networks > 1 and (synthetic is None or cold_start):
        raise BadParameter("--networks is for --synthetic, and not for --cold-start.")
    if strategies and (cold_start or objective != "direct" or feedback != "one_hop"):
        raise BadParameter("--strategies is for --objective direct and --feedback one_hop, without --cold-start.")
    if strategy_effect != research.Generator.strategy_effect and not strategies:
        raise BadParameter("--strategy-effect needs --strategies, their number.")
    if networks > runs:
        raise BadParameter(f"--networks {networks} needs as many --runs; got {runs}.")
    with Progress("compare") as progress, opt.opened_engine(engine, address) as where:
        from tensorucb import experiments
        from tensorucb.cli._reports import save_comparison
        from tensorucb.experiments._comparison import Comparison
        from tensorucb.experiments._contestants import contestants, ours_untouched, references, strategy_contestants
        from tensorucb.experiments._files import write_csv, write_manifest, write_validation
        from tensorucb.experiments._results import REGRET_COLUMNS, printed_table

        known = strategy_contestants() if strategies else contestants()
        policies = _contestants(known, policy, in_strategies=bool(strategies))
        generator = research.Generator(scale, product_effect, strategies, strategy_effect)
        network = research.load_network(data, synthetic, generator, seed=seed, min_actions=min_actions)
        rules = experiments.WorldSettings(k=k, objective=objective, feedback=feedback, seed=seed)
        truth: dict[str, Any] = {} if prior is None else {"truth_prior": prior}
        environment = network.environment(rules, out / "cache", progress, replay=replay, engine=where, **truth)
        described = environment.describe()
        size: Any = {"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds}
        write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={
                **size,
                "networks": networks,
                "truth_prior": prior,
                "replay": replay,
                "cold_start": cold_start,
                "policies": list(policies),
            },
            data=network.about,
        )
        comparison = Comparison(
            environment,
            policies,
            out,
            **size,
            seed=seed,
            networks=_further(generator, synthetic, rules, networks),
            jobs=jobs,
            engine=where,
            report=progress,
        )
        tuning = comparison.tune(ours_untouched(comparison.policies))
        write_validation(out / "validation.csv", tuning)
        if cold_start:
            # The settings were chosen without newcomers. Of the runs the last 20 rounds have them.
            before = max(1, rounds // 4)
            rounds = before + _WITH_NEWCOMERS
            late = partial(experiments.WorldWithNewcomers, comparison.world, arrival=before)
            comparison = replace(comparison, rounds=rounds, networks=[late])
        experiment = comparison.run(lambda world: {**tuning.policies, **references(world)}, "decisions")
        rows = experiments.decision_table(experiment, networks=networks)
        write_csv(out / "decisions-regret.csv", experiment.frame.select(REGRET_COLUMNS))
        write_csv(out / "decisions.csv", rows)
        command = shlex.join(["tensorucb", *sys.argv[1:]])
        save_comparison(out, experiment, rows, tuning, environment, command=command, networks=networks)
        printed = printed_table(rows)
        write_tables(rows, printed, csv, latex)
    if json:
        emit_json({"environment": described, "rows": rows})
        return
    title = (
        f"{shown(described['name'])}: {described['n_nodes']:,} users, {described['n_edges']:,} edges, "
        f"{count(k, 'seed')} per round, {count(runs, 'run')} of {count(rounds, 'round')}\n"
    )
    print_decisions(rows, title=title, networks=networks, replay=replay)
    if cold_start:
        say("\nHalf of the users and products are newcomers, who arrive before the last 20 rounds.")
    say(f"\nReport: {shown(out / 'report.html')}")
    say(f"All tables and figures: {shown(out)}")


def _two_numbers(text: str) -> tuple[float, float]:
    try:
        alpha, beta = (float(part) for part in text.split(","))
        if not (1.0 <= alpha < float("inf") and 1.0 <= beta < float("inf")):
            raise ValueError
    except ValueError as error:
        raise BadParameter(
            f"--truth-prior must be two numbers of at least 1 with a comma between, such as 1.1,3; got {text!r}."
        ) from error
    return alpha, beta


def _contestants(known: Mapping[str, Policy], names: Sequence[str] | None, *, in_strategies: bool) -> dict[str, Policy]:
    """Ours, plain degree and the policies named; all that are known if none is. One's own choose per user."""
    from tensorucb.experiments import StrategyPolicy
    from tensorucb.experiments._contestants import always

    chosen = research.chosen_policies(known, names)
    own = {label for label in chosen if label not in known} if in_strategies else set()
    return {**always(known), **{label: StrategyPolicy(p) if label in own else p for label, p in chosen.items()}}


def _further(
    generator: research.Generator, synthetic: research.Synthetic | None, rules: WorldSettings, networks: int
) -> list[partial[Environment]]:
    """Functions that generate the networks on which runs take turns; none if there is only one network."""
    if networks == 1 or synthetic is None:
        return []

    def another(number: int) -> Environment:
        return generator(synthetic, seed=rules.seed, draw=number).environment(rules, Path(), None)

    return [partial(another, number) for number in range(1, networks + 1)]
