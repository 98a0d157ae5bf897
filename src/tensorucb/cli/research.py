"""The commands of experiments: ``tensorucb compare``, ``reproduce`` and ``tune``."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from typer import Argument, Option

from tensorucb.cli import _options as opt
from tensorucb.cli import _research as research
from tensorucb.cli._options import refuse
from tensorucb.cli._output import Answer, Next, Table, count, shown
from tensorucb.cli._progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tensorucb.experiments import Environment, WorldSettings
    from tensorucb.policies import Policy

_STRATEGY_EFFECT = 1.0
_WITH_NEWCOMERS = 20
Target = Literal["table-network", "fig-degrees", "fig-regret", "fig-rank", "fig-runtime", "bound", "all"]


# -- compare --


def compare(
    data: research.Data = None,
    synthetic: research.SyntheticNetwork = None,
    scale: research.Scale = 1.0,
    product_effect: float = Option(
        research.PRODUCT_EFFECT,
        min=0.0,
        help="How much the product matters in the generated network; at 0 it does not.",
    ),
    strategies: int = Option(
        0,
        min=0,
        max=1000,
        help="Number of strategies (channels, offers …) of the generated network; one is chosen for each seed.",
    ),
    strategy_effect: float = Option(
        _STRATEGY_EFFECT,
        min=0.0,
        max=20.0,
        help="How much the strategy matters, in logits; at 0 the choice does not matter.",
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
    cold_start: bool = Option(False, help="Let half of the users and products arrive in mid-campaign instead."),
    replay: bool = Option(
        False,
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
) -> Answer:
    """Play a long campaign with our defaults, untouched, and with every baseline, tuned on validation rounds.

    TensorUCB always takes part, since differences are taken to it, and so does HighDegree. Validation rounds have their
    own products (every fifth) and coins. A stopped command goes on where it was, if it is run again.
    """
    wanted = "two numbers of at least 1 with a comma between, such as 1.1,3"
    prior = None if truth_prior is None else tuple(opt.numbers("--truth-prior", truth_prior, wanted, low=1.0, size=2))
    refuse(prior and data is None, "--truth-prior is for --data; a generated network has its own truth.")
    one_hop = (objective, feedback) == ("direct", "one_hop")
    refuse(
        replay and (data is None or prior or cold_start or not one_hop),
        "--replay is for --data, --objective direct and --feedback one_hop, without --truth-prior and --cold-start.",
    )
    one_network = synthetic is None or cold_start
    refuse(networks > 1 and one_network, "--networks is for --synthetic, and not for --cold-start.")
    refuse(
        strategies and (cold_start or not one_hop),
        "--strategies is for --objective direct and --feedback one_hop, without --cold-start.",
    )
    refuse(
        strategy_effect != _STRATEGY_EFFECT and not strategies, "--strategy-effect needs --strategies, their number."
    )
    refuse(networks > runs, f"--networks {networks} needs as many --runs; got {runs}.")
    if data is not None and synthetic is None:
        refuse(
            product_effect != research.PRODUCT_EFFECT, "--product-effect is for --synthetic; a data set has its own."
        )
        refuse(strategies, "--strategies is for --synthetic; a data set says nothing about strategies.")
    with opt.opened_engine(engine, address) as where, Progress("compare") as progress:
        from tensorucb import experiments
        from tensorucb.cli._reports import decisions, save_comparison, write_tables
        from tensorucb.experiments._comparison import Comparison, ours_untouched, references
        from tensorucb.experiments._files import write_csv, write_manifest, write_validation
        from tensorucb.experiments._results import REGRET_COLUMNS

        policies = _contestants(policy, in_strategies=bool(strategies))
        offers: dict[str, Any] = {"n_strategies": strategies, "strategy_effect": strategy_effect} if strategies else {}
        generate = partial(research.generated, scale=scale, product_effect=product_effect, **offers)
        network = research.load_network(data, synthetic, generate, seed=seed, min_actions=min_actions)
        rules = experiments.WorldSettings(k=k, objective=objective, feedback=feedback, seed=seed)
        truth: dict[str, Any] = {"truth_prior": prior} if prior else {}
        environment = network.environment(rules, out / "cache", progress, replay=replay, engine=where, **truth)
        described = environment.describe()
        size: Any = {"rounds": rounds, "runs": runs, "validation_rounds": validation_rounds}
        varied = {"networks": networks, "truth_prior": prior, "replay": replay, "cold_start": cold_start}
        command = ["tensorucb", *sys.argv[1:]]
        about: Any = {"command": command, "seed": seed, "environment": described, "data": network.about}
        write_manifest(out / "manifest.json", **about, settings={**size, **varied, "policies": list(policies)})
        comparison = Comparison(
            environment,
            policies,
            out,
            **size,
            seed=seed,
            networks=_further(generate, synthetic, rules, networks),
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
        again = shlex.join(command)
        save_comparison(out, experiment, rows, tuning, environment, command=again, networks=networks)
        write_tables(rows, csv, latex)
    title = (
        f"{shown(described['name'])}: {described['n_nodes']:,} users, {described['n_edges']:,} edges, "
        f"{count(k, 'seed')} per round, {count(runs, 'run')} of {count(rounds, 'round')}\n"
    )
    newcomers = "\nHalf of the users and products are newcomers, who arrive before the last 20 rounds."
    return Answer(
        {"environment": described, "rows": rows},
        decisions(rows, title=title, networks=networks, replay=replay),
        newcomers if cold_start else (),
        f"\nReport: {shown(out / 'report.html')}",
        f"All tables and figures: {shown(out)}",
    )


def _contestants(names: Sequence[str] | None, *, in_strategies: bool) -> dict[str, Policy]:
    """Ours, plain degree and the policies named; all that are known if none is. One's own choose per user."""
    from tensorucb.experiments import StrategyPolicy
    from tensorucb.experiments._comparison import always, contestants, strategy_contestants

    by_label = strategy_contestants() if in_strategies else contestants()
    chosen = research.chosen_policies(by_label, names)
    own = {label for label in chosen if label not in by_label} if in_strategies else set()
    return {**always(by_label), **{label: StrategyPolicy(p) if label in own else p for label, p in chosen.items()}}


def _further(
    generate: Callable[..., research.LoadedNetwork],
    synthetic: research.Synthetic | None,
    rules: WorldSettings,
    networks: int,
) -> list[Callable[[], Environment]]:
    """Functions that generate the networks on which runs take turns; none if there is only one network."""

    def another(number: int) -> Environment:
        return generate(synthetic, seed=rules.seed, draw=number).environment(rules, Path(), None)

    return [partial(another, number) for number in range(1, networks + 1)] if networks > 1 else []


# -- reproduce --


def reproduce(
    target: Target = Argument(..., help="Table or figure, or all of them."),
    data: research.Data = None,
    synthetic: research.SyntheticNetwork = None,
    scale: research.Scale = 1.0,
    features: research.Features = Option(
        "paper",
        help="What policies know of users. paper: the eigenmap of the network and nothing else, baselines as "
        "published and tuned, and the paper's oracle. ours: their past as well, everybody tuned.",
    ),
    policy: research.PolicyNames = None,
    min_actions: research.MinActions = 0,
    products: int | None = Option(
        None, help="Sample that many products of the data set.", show_default="all", callback=opt.counted
    ),
    window: research.ActivationWindow = None,
    objective: research.RoundObjective = "direct",
    feedback: research.RoundFeedback = "one_hop",
    oracle: Literal["tim", "opim"] | None = Option(
        None,
        help="What maximises whole cascades: TIM+, the paper's oracle, or OPIM-C, with the same guarantee from far "
        "fewer samples.",
        show_default="tim for --features paper, else opim",
    ),
    k: opt.SeedsPerRound = 10,
    runs: opt.QuickRuns = None,
    rounds: int | None = Option(None, help="Rounds per run.", show_default="100, quick: 15", callback=opt.counted),
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    engine: opt.EngineName = "local",
    address: opt.Address = None,
    settings: Path | None = Option(None, help="TOML file with hyper-parameters or grids, one table per policy."),
    out: opt.Results = Path("reproduction"),
    quick: bool = Option(False, help="A rehearsal in minutes; nothing to quote."),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
) -> Answer:
    """Reproduce the paper's tables and figures on a data set or a generated network.

    Writes CSV, PNG and SVG files and one report.html to --out. A stopped command goes on where it was, if it is run
    again, and ends with the same bytes, but for timings. table-network and fig-degrees need no action log. fig-runtime
    is measured in one process, whatever --jobs says.
    """
    no_regret = target not in ("fig-regret", "all")
    refuse(
        (csv or latex) and no_regret, "--csv and --latex write the table of regret, which fig-regret and all compute."
    )
    refuse(
        objective == "direct" and oracle is not None,
        f"--oracle {oracle} is for --objective cascade; direct is solved by exact greedy. Leave it out.",
    )
    with opt.opened_engine(engine, address) as where, Progress("reproduce") as progress:
        from tensorucb import experiments
        from tensorucb.cli._reports import draw, reproduction, save_reproduction, write_tables
        from tensorucb.experiments._comparison import Comparison, paper_policies
        from tensorucb.experiments._files import read_settings, write_manifest
        from tensorucb.experiments._paper import Effort, PaperResults, needs_tuning, run_targets, write_results
        from tensorucb.experiments._tuning import check_labels
        from tensorucb.plots import save_figure

        by_label, published = paper_policies(features)
        policies = research.chosen_policies(by_label, policy)
        from_file = {} if settings is None else read_settings(settings)
        earlier = read_settings(out / "settings.toml") if (out / "settings.toml").exists() else {}
        check_labels(from_file, {**by_label, **policies})
        grids = {label: grid for label, grid in {**published, **from_file}.items() if label in policies}
        generate = partial(research.generated, scale=scale)
        preparation: Any = {"min_actions": min_actions, "products": products, "window": window}
        network = research.load_network(data, synthetic, generate, seed=seed, **preparation)
        graph = network.content.graph
        wanted = _targets(target, policies)
        effort = Effort.quick() if quick else Effort()
        effort = replace(effort, rounds=rounds or effort.rounds, runs=runs or effort.runs)
        described = {"name": network.name, "n_nodes": graph.n_nodes, "n_edges": graph.n_edges}
        environment = None
        if target not in ("table-network", "fig-degrees"):
            algorithm = oracle or ("tim" if features == "paper" else "opim")
            rules = experiments.WorldSettings(k, objective, feedback, algorithm=algorithm, seed=seed)
            environment = network.environment(rules, out / "cache", progress, features=features, engine=where)
            described = environment.describe()
        manifest = write_manifest(
            out / "manifest.json",
            command=["tensorucb", *sys.argv[1:]],
            seed=seed,
            environment=described,
            settings={"target": target, "features": features, "effort": asdict(effort), "grids": grids},
            data=network.about,
        )
        if environment is None:
            results = PaperResults(network.name, graph, wanted)
        else:
            played: Any = {"seed": seed, "jobs": jobs, "engine": where, "report": progress}
            size = effort.rounds, effort.runs, effort.validation_rounds
            comparison = Comparison(environment, policies, out, *size, **played)
            tuning = comparison.tune(effort.grids(policies, grids)) if needs_tuning(wanted) else None
            results = run_targets(comparison, tuning, wanted, effort)
        tables = write_results(results, out, {**earlier, **from_file})
        charts, sections = draw(results, effort)
        figures = [path for name, chart in charts.items() for path in save_figure(chart, out, name)]
        page = save_reproduction(out / "report.html", results, sections, environment, effort, quick=quick)
        files = [page, *sorted(tables), manifest, *figures]
        rows = [] if results.regret is None else experiments.decision_table(results.regret)
        if rows:
            write_tables(rows, csv, latex)
    return Answer(
        {"targets": wanted, "files": [str(path) for path in files], "rows": rows},
        reproduction(results, rows, f"{count(effort.runs, 'run')} of {count(effort.rounds, 'round')}"),
        f"\nReport: {shown(page)}",
        f"All tables and figures: {shown(out)} ({len(files)} files)",
    )


def _targets(target: Target, policies: Mapping[str, Policy]) -> list[str]:
    """The tables and figures to compute; ``all`` leaves out those about policies that do not take part."""
    ranked = any("rank" in getattr(policy, "tunable", ()) for policy in policies.values())
    lacking = {
        "bound": "TensorUCB (paper)" not in policies and "the paper's own policy. Add --policy 'TensorUCB (paper)'.",
        "fig-rank": not ranked and "policies with a rank. Add --policy TensorUCB.",
        "fig-runtime": not policies.keys() - {"HighDegree", "Random"}
        and "policies that learn. Add --policy TensorUCB.",
    }
    if target != "all":
        refuse(lacking.get(target), f"{target} is about {lacking.get(target)}")
        return [target]
    return [each for each in get_args(Target) if each != "all" and not lacking.get(each)]


# -- tune --


def tune(
    data: Path = Option(..., help="Directory with a network and an action log.", metavar="DIR"),
    policy: research.PolicyNames = None,
    rounds: int = Option(50, help="Validation rounds each setting is tried on.", callback=opt.counted),
    k: opt.SeedsPerRound = 10,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = 1,
    out: Path = Option(
        Path("tensorucb-settings.toml"),
        help="TOML file for the settings, for `reproduce --settings`.",
        callback=opt.writable_file,
    ),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
) -> Answer:
    """Choose c and R for a data set of your own on simulated rounds, and keep them in a file.

    The rounds are played against a truth fitted to the log (topic-aware cascades); user features come from every fifth
    item, rounds from the others. Without --policy TensorUCB is tuned. What was tried is kept beside the file of --out,
    so that a stopped command goes on where it was, if it is run again.
    """
    with Progress("tune") as progress:
        from tensorucb import experiments
        from tensorucb.cli._reports import write_tables
        from tensorucb.data import read_dataset
        from tensorucb.experiments._comparison import contestants, paper_policies
        from tensorucb.experiments._files import read_settings, write_settings

        earlier = read_settings(out) if out.exists() else {}
        # In the form in which `reproduce --settings` uses them.
        by_label = {**contestants(), **paper_policies("ours")[0]}
        policies = research.chosen_policies(by_label, policy or ["TensorUCB"])
        world = experiments.WorldSettings(k=k, seed=seed)
        kept = out.with_name(f"{out.stem}-runs")
        dataset = read_dataset(data)
        environment = experiments.environment_from_dataset(dataset, settings=world, cache=kept, report=progress)
        options: Any = {"rounds": rounds, "seed": seed, "jobs": jobs, "directory": kept, "report": progress}
        tuning = experiments.tune(environment, policies, **options)
        write_settings(out, tuning, earlier)
        names = ("policy", "setting", "average_regret", "chosen")
        rows = [dict(zip(names, row, strict=True)) for row in tuning.rows()]
        cells = [
            [shown(policy), shown(setting), f"{regret:.2f}", "chosen" if chosen else ""]
            for policy, setting, regret, chosen in tuning.rows()
        ]
        columns = ["Policy", "Setting", "Average regret", "Chosen"]
        write_tables(rows, csv, latex, (columns, cells))
    described = environment.describe()
    title = (
        f"{shown(described['name'])}: {described['n_nodes']:,} users with {described['user_features']} features, "
        f"{described['n_edges']:,} edges, {described['campaign_products']} products"
    )
    following = ["tensorucb", "reproduce", "fig-regret", "--data", str(data), "--features", "ours"]
    return Answer(
        {"environment": described, "settings": str(out), "trials": rows},
        Table(columns, cells, words=("Policy", "Setting", "Chosen"), title=title),
        f"Settings: {shown(out)}",
        Next(shlex.join([*following, "--settings", str(out)])),
    )
