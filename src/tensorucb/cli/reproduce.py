"""``tensorucb reproduce``: the paper's tables and figures."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from typer import Argument, BadParameter, Option

from tensorucb.cli import _options as opt
from tensorucb.cli import _research as research
from tensorucb.cli._output import count, emit_json, say, shown
from tensorucb.cli._progress import Progress
from tensorucb.cli._results import print_reproduction, write_tables

if TYPE_CHECKING:
    from collections.abc import Collection

Target = Literal["table-network", "fig-degrees", "fig-regret", "fig-rank", "fig-runtime", "bound", "all"]


def reproduce(
    target: Target = Argument(..., help="Table or figure, or all of them."),
    data: research.Data = None,
    synthetic: research.SyntheticNetwork = None,
    scale: research.Scale = research.Generator.scale,
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
    quick: bool = Option(False, "--quick", help="A rehearsal in minutes; nothing to quote."),
    csv: opt.CsvTable = None,
    latex: opt.LatexTable = None,
    json: opt.Json = False,
) -> None:
    """Reproduce the paper's tables and figures on a data set or a generated network.

    Writes CSV, PNG and SVG files and one report.html to --out. A stopped command goes on where it was, if it is run
    again, and ends with the same bytes, but for timings. table-network and fig-degrees need no action log. fig-runtime
    is measured in one process, whatever --jobs says.
    """
    if (csv or latex) and target not in ("fig-regret", "all"):
        raise BadParameter("--csv and --latex write the table of regret, which fig-regret and all compute.")
    if objective == "direct" and oracle is not None:
        raise BadParameter(
            f"--oracle {oracle} is for --objective cascade; direct is solved by exact greedy. Leave it out."
        )
    with Progress("reproduce") as progress, opt.opened_engine(engine, address) as where:
        from tensorucb import experiments
        from tensorucb.cli._reports import draw, save_reproduction
        from tensorucb.experiments._comparison import Comparison
        from tensorucb.experiments._contestants import paper_policies
        from tensorucb.experiments._files import read_settings, write_manifest
        from tensorucb.experiments._paper import Effort, PaperResults, needs_tuning, run_targets, write_results
        from tensorucb.experiments._results import printed_table
        from tensorucb.experiments._tuning import check_labels
        from tensorucb.plots import save_figure

        known, published = paper_policies(features)
        policies = research.chosen_policies(known, policy)
        from_file = {} if settings is None else read_settings(settings)
        earlier = read_settings(out / "settings.toml") if (out / "settings.toml").exists() else {}
        check_labels(from_file, {**known, **policies})
        grids = {label: grid for label, grid in {**published, **from_file}.items() if label in policies}
        preparation: Any = {"min_actions": min_actions, "products": products, "window": window}
        network = research.load_network(data, synthetic, research.Generator(scale), seed=seed, **preparation)
        graph = network.content.graph
        wanted = _targets(target, policies)
        effort = Effort.quick() if quick else Effort()
        effort = replace(effort, rounds=rounds or effort.rounds, runs=runs or effort.runs)
        described = {"name": network.name, "n_nodes": graph.n_nodes, "n_edges": graph.n_edges}
        environment = None
        if target not in ("table-network", "fig-degrees"):
            rules = experiments.WorldSettings(
                k=k,
                objective=objective,
                feedback=feedback,
                algorithm=oracle or ("tim" if features == "paper" else "opim"),
                seed=seed,
            )
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
            comparison = Comparison(
                environment,
                policies,
                out,
                rounds=effort.rounds,
                runs=effort.runs,
                validation_rounds=effort.validation_rounds,
                seed=seed,
                jobs=jobs,
                engine=where,
                report=progress,
            )
            tuning = None
            if needs_tuning(wanted):
                tuning = comparison.tune(effort.grids(policies, grids))
            results = run_targets(comparison, tuning, wanted, effort)
        tables = write_results(results, out, {**earlier, **from_file})
        charts = draw(results)
        figures = [path for name, chart in charts.items() for path in save_figure(chart, out, name)]
        page = save_reproduction(out / "report.html", results, charts, environment, effort, quick=quick)
        files = [page, *sorted(tables), manifest, *figures]
        rows = [] if results.regret is None else experiments.decision_table(results.regret)
        if rows:
            write_tables(rows, printed_table(rows), csv, latex)
    if json:
        emit_json({"targets": wanted, "files": [str(path) for path in files], "rows": rows})
        return
    print_reproduction(results, rows, f"{count(effort.runs, 'run')} of {count(effort.rounds, 'round')}")
    say(f"\nReport: {shown(page)}")
    say(f"All tables and figures: {shown(out)} ({len(files)} files)")


def _targets(target: Target, policies: Collection[str]) -> list[str]:
    """The tables and figures to compute; ``all`` leaves out the bound if its policy does not take part."""
    bounded = "TensorUCB (paper)" in policies
    if target == "bound" and not bounded:
        raise BadParameter("bound is about the paper's own policy. Add --policy 'TensorUCB (paper)'.")
    if target != "all":
        return [target]
    return [each for each in get_args(Target) if each != "all" and (bounded or each != "bound")]
