"""``tensorucb demo``: a campaign on a generated network, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Option

from tensorucb.cli import _options as opt
from tensorucb.cli._interrupt import ending_in_order
from tensorucb.cli._output import Answer, Table, count, say, shown
from tensorucb.cli._progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tensorucb.experiments import Environment, SeedReason
    from tensorucb.policies import Policy
    from tensorucb.threads import OnProgress


def demo(
    rounds: int | None = Option(None, help="Rounds per run.", show_default="80, quick: 15", callback=opt.counted),
    runs: opt.QuickRuns = None,
    seed: opt.Seed = 0,
    out: opt.OutDirectory = Path("out/demo"),
    quick: bool = Option(False, help="A smaller network and fewer rounds: seconds."),
    serve: bool = Option(False, help="Show the service's page on a campaign that plays itself."),
    port: int = Option(0, min=0, max=65535, help="With --serve: the port; 0 is any free one."),
) -> Answer | None:
    """Run a campaign on a generated network in about a minute: table, explained seeds, report.html.

    TensorUCB (our defaults), the paper's tensor as published and with a logistic likelihood, HighDegree and Random
    choose 10 users per round to promote products to. Prints a table and why each seed was chosen; writes report.html
    and figures.

    With --serve, the page of `tensorucb serve` shows a campaign whose rounds open, fill and close by themselves,
    until Ctrl-C. Nothing is written then.
    """
    if serve:
        _serve(port, seed)
        return None
    rounds, runs = rounds or (15 if quick else 80), runs or (2 if quick else 5)
    command = f"tensorucb demo --seed {seed} --rounds {rounds} --runs {runs}" + (" --quick" if quick else "")
    with Progress("demo") as report:
        from tensorucb.cli._reports import decisions, reason_cells, save_demo
        from tensorucb.experiments import decision_table, run_experiment, run_policy
        from tensorucb.threads import thread_count

        environment = demo_environment(seed, quick=quick)
        policies = demo_policies()
        compile_policies(environment, policies, report)
        options: Any = {"rounds": rounds, "seed": seed}
        experiment = run_experiment(environment, policies, runs=runs, jobs=thread_count(), report=report, **options)
        # Other processes have played: ours learns here what it has learned in its last run.
        run_policy(environment, policies["TensorUCB"], run=runs - 1, **options)
        product, reasons = _next_round(environment, policies["TensorUCB"])
        page, *figures = save_demo(out, environment, experiment, product=product, reasons=reasons, command=command)
    graph = environment.graph
    rows = decision_table(experiment)
    title = (
        f"{graph.n_nodes:,} users, {graph.n_edges:,} edges, {environment.settings.k} seeds per round, "
        f"{count(runs, 'run')} of {count(rounds, 'round')}\n"
    )
    why = Table(
        ("User", "Followers", "Expected", "New", "Explore", "Most likely to respond"),
        reason_cells(reasons, shown),
        words=("User", "Most likely to respond"),
        title=f"TensorUCB's seeds for {product}, and why\n",
        caption="Expected: direct responses by what has been seen. New: beyond those of the seeds above. "
        "Explore: added for what is not yet known.",
    )
    return Answer(
        {
            "seed": seed,
            "environment": environment.describe(),
            "results": rows,
            "product": product,
            "seeds": [reason.row() for reason in reasons],
            "report": str(page),
            "figures": [str(path) for path in figures],
        },
        decisions(rows, title=title),
        "",
        why,
        f"\nReport: {shown(page)}",
        f"Figures: {', '.join(map(shown, figures))}",
    )


def _serve(port: int, seed: int) -> None:
    from tensorucb.cli.serve import check_extra

    check_extra()
    with Progress("demo") as progress:
        progress(0, 1, "a network, and a campaign on it")
        from tensorucb.service._sandbox import PACE, serve_sandbox
    with ending_in_order():
        serve_sandbox(port, seed, started=lambda address: _greet(address, PACE))
    say("\nStopped. Nothing is left of the campaign.")


def _greet(address: str, pace: float) -> None:
    say(f"A campaign that plays itself: {address}")
    say(f"  A new round every {pace:g} seconds; responses come in by the network's hidden truth.")
    say("  Press Ctrl-C to stop; nothing of it stays.", flush=True)


def demo_environment(seed: int, *, quick: bool = False) -> Environment:
    """A generated network of a size that fits into a minute; the direct objective, the seeds' out-edges observed."""
    from tensorucb.data import make_sandbox
    from tensorucb.experiments import Environment, WorldSettings

    users, edges, products = (300, 3_000, 20) if quick else (1_000, 12_000, 60)
    sandbox = make_sandbox(users, edges, products, n_topics=8, rng=seed)
    return Environment.from_sandbox(sandbox, settings=WorldSettings(k=10, seed=seed), name="sandbox")


def demo_policies() -> dict[str, Policy]:
    """Ours, the paper's with both likelihoods, and two that do not learn."""
    from tensorucb.policies.registry import make_policy

    tensors = ("TensorUCB", "TensorUCB (paper, logistic)", "TensorUCB (paper)")
    return {label: make_policy(label) for label in (*tensors, "HighDegree", "Random")}


def compile_policies(environment: Environment, policies: Mapping[str, Policy], report: OnProgress) -> None:
    """Play a few rounds with every policy, so that kernels are compiled here and not in several processes at once."""
    from tensorucb.experiments import run_policy

    for number, (label, policy) in enumerate(policies.items()):
        report(number, len(policies), f"first rounds of {label}")
        run_policy(environment, policy, rounds=3)


def _next_round(environment: Environment, policy: Policy) -> tuple[str, list[SeedReason]]:
    """What ``policy`` would do next for one product, and why."""
    import numpy as np

    from tensorucb.experiments import explain_seeds

    number = int(environment.product_rows[0])
    product = environment.products[number]
    rows = policy.choose(product, environment.settings.k, environment.oracle(np.random.default_rng(0)))
    return f"product {number + 1}", explain_seeds(environment.graph, policy, product, rows)
