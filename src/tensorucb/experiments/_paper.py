"""The paper's tables and figures as numbers: run the targets, then write their tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tensorucb.experiments._comparison import Comparison
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._files import write_csv, write_settings, write_validation
from tensorucb.experiments._results import REGRET_COLUMNS, SECONDS, Experiment, exploration_condition, regret_bound
from tensorucb.experiments._runs import run_policy
from tensorucb.experiments._tuning import Tuning, own_grid, with_arguments
from tensorucb.features import UserProfile
from tensorucb.graph import Graph
from tensorucb.policies import Grid, Policy
from tensorucb.threads import OnProgress

# The paper's table of network statistics; its text has 2,843 users for Digg.
_PAPER_NETWORKS = {
    "users": (2_483, 29_384),
    "edges": (75_895, 371_722),
    "out-degree 50": (1, 9),
    "out-degree 90": (8, 154),
    "out-degree 99": (101, 2_064),
}
VARIED = ", products vary"
# The c that was used and the one that Theorem 1 asks for, and the bound on the cumulative regret with each of them; the
# other columns are the mean cumulative regret of the tensor policies.
BOUND_COLUMNS = ("round", "c_used", "c_needed", "bound_at_c_used", "bound_at_c_needed")
_SIZES = (15 / 29, 20 / 29, 25 / 29, 1.0)  # the paper's |V| of about 15, 20, 25 and 29 thousand


@dataclass(frozen=True)
class Effort:
    """How much to compute; ``candidates``: at most so many of each argument are tried, and no grid is extended."""

    rounds: int = 100
    runs: int = 5
    validation_rounds: int = 50
    candidates: int | None = None
    figure_ranks: Sequence[int] = (1, 2, 3, 4, 5, 10, 20)
    runtime_rounds: int = 20

    @classmethod
    def quick(cls) -> Effort:
        """A rehearsal: every target, nothing to quote."""
        return cls(15, 2, 5, 2, (1, 2, 3, 5), 3)

    def grids(self, policies: Mapping[str, Policy], chosen: Mapping[str, Grid]) -> dict[str, Grid]:
        """The grids that were chosen; with a limit to ``candidates``, every policy's grid, thinned."""
        if self.candidates is None:
            return dict(chosen)
        size = self.candidates

        def middle(values: Sequence[Any]) -> Sequence[Any]:
            return values[max(0, len(values) - size) // 2 :][:size]

        grids = {label: chosen.get(label, own_grid(policy)) for label, policy in policies.items()}
        return {label: {name: middle(values) for name, values in grid.items()} for label, grid in grids.items()}


@dataclass(frozen=True)
class PaperResults:
    """What the targets found; None for what was not asked for. The network's tables follow from ``graph``.

    ``rank`` holds, for each tensor policy, an experiment on a single product with labels ``R = …``, and another one
    with a random product in each round; ``runtime`` median milliseconds per round, one row per size and policy, which
    differ between repetitions; ``bound`` Theorem 1 beside what was measured, one row per round (`BOUND_COLUMNS`).
    """

    name: str
    graph: Graph
    targets: Collection[str]
    tuning: Tuning | None = None
    regret: Experiment | None = None
    rank: Mapping[str, Experiment] | None = None
    runtime: Sequence[Mapping[str, Any]] | None = None
    bound: pl.DataFrame | None = None


def needs_tuning(targets: Collection[str]) -> bool:
    """Whether one of the targets is about tuned policies."""
    return bool({"fig-regret", "fig-rank", "bound"} & set(targets))


def run_targets(
    comparison: Comparison, tuning: Tuning | None, targets: Collection[str], effort: Effort
) -> PaperResults:
    """Compute what the targets need, each part once; ``tuning`` may be None if :func:`needs_tuning` is false."""
    environment = comparison.environment
    regret = rank = runtime = bound = None
    if tuning is not None:
        if "fig-regret" in targets or "bound" in targets:
            regret = comparison.run(lambda world: tuning.policies, "fig-regret")
        if "fig-rank" in targets:
            rank = _by_rank(comparison, tuning.policies, effort.figure_ranks)
        if "bound" in targets and regret is not None:
            bound = _bound(environment, tuning.policies["TensorUCB (paper)"], regret)
    if "fig-runtime" in targets:
        # With their default settings (R = 10 for the paper's, 5 for ours), so that nothing need be tuned.
        report = comparison.staged("fig-runtime")
        runtime = _runtimes(environment, comparison.policies, effort.runtime_rounds, comparison.seed, report)
    return PaperResults(environment.name, environment.graph, targets, tuning, regret, rank, runtime, bound)


def network_statistics(graph: Graph) -> list[tuple[str, float, int, int]]:
    """table-network: (quantity, here, the paper's Digg, the paper's Flixster)."""
    here = (graph.n_nodes, graph.n_edges, *np.percentile(graph.out_degree, (50, 90, 99)).tolist())
    return [(name, value, *paper) for (name, paper), value in zip(_PAPER_NETWORKS.items(), here, strict=True)]


def _by_rank(comparison: Comparison, policies: Mapping[str, Policy], ranks: Sequence[int]) -> dict[str, Experiment]:
    """Every policy that has a rank, with each of the ranks: on one product, as in the paper, and on all of them."""
    world = comparison.world
    rows = world.product_rows
    product = int(rows[np.random.default_rng([comparison.seed, 31]).integers(rows.size)])
    single = world.with_product_rows([product], f"{world.name}, product {product}")
    experiments: dict[str, Experiment] = {}
    for label, policy in policies.items():
        if "rank" in getattr(policy, "tunable", ()):
            by_rank = {f"R = {r}": with_arguments(policy, {"rank": r}) for r in ranks}
            experiments[label] = comparison.play(single, by_rank, "fig-rank")
            experiments[f"{label}{VARIED}"] = comparison.play(world, by_rank, "fig-rank")
    return experiments


def _runtimes(
    environment: Environment, policies: Mapping[str, Policy], rounds: int, seed: int, report: OnProgress | None
) -> list[dict[str, Any]]:
    """Median milliseconds per round of every policy that learns, on networks of growing size."""
    timed = {label: policy for label, policy in policies.items() if label not in ("HighDegree", "Random")}
    rows: list[dict[str, Any]] = []
    for share in _SIZES:
        size = max(environment.settings.k, round(share * environment.graph.n_nodes))
        smaller = sampled(environment, size, seed=seed)
        for label, policy in timed.items():
            seconds = run_policy(smaller, policy, rounds=rounds).select(SECONDS).to_numpy()
            parts = dict(zip(SECONDS, (1e3 * np.median(seconds, axis=0)).tolist(), strict=True))
            whole = max(1e3 * float(np.median(seconds.sum(axis=1))), 1e-3)
            users, edges = smaller.graph.n_nodes, smaller.graph.n_edges
            rows.append({"policy": label, "users": users, "edges": edges, "milliseconds": whole, **parts})
            if report is not None:
                report(len(rows), len(_SIZES) * len(timed), label)
    return rows


def _bound(environment: Environment, policy: Any, experiment: Experiment) -> pl.DataFrame:
    """Theorem 1 for the paper's own policy, and the condition on c."""
    tensors = [label for label in experiment.policies if label.startswith("TensorUCB")]
    measured = {label: np.cumsum(experiment.by_run(label, "regret"), axis=1).mean(axis=0) for label in tensors}
    rounds = experiment.frame["round"].unique().sort().to_numpy()
    features = 0 if environment.users is None else environment.users.shape[1]
    dims = (features, features, environment.products.shape[1])
    k, noise = environment.settings.k, policy.noise_variance
    model: Any = {"k": k, "dims": dims, "rank": policy.rank, "noise_variance": noise}
    # ‖w‖ is not known beforehand; its start, the vector of ones, has norm √d.
    needed = exploration_condition(rounds, largest_weight=float(np.sqrt(max(dims))), **model)
    model["n_nodes"] = environment.graph.n_nodes
    at_used = regret_bound(rounds, exploration=policy.exploration, **model)
    at_needed = [float(regret_bound(t, exploration=c, **model)) for t, c in zip(rounds, needed, strict=True)]
    used = np.full(rounds.size, float(policy.exploration))
    columns = (rounds, used, needed, at_used, np.array(at_needed))
    return pl.DataFrame({**dict(zip(BOUND_COLUMNS, columns, strict=True)), **measured})


def write_results(results: PaperResults, directory: Path, settings: Mapping[str, Grid]) -> list[Path]:
    """Write the tables of the targets as CSV files, and the settings; returns their paths.

    ``settings`` are those that stay in ``settings.toml`` where nothing was chosen.
    """
    tables: dict[str, Any] = {}
    if "table-network" in results.targets:
        columns = ("quantity", "here", "paper_digg", "paper_flixster")
        tables["network"] = [dict(zip(columns, row, strict=True)) for row in network_statistics(results.graph)]
    if "fig-degrees" in results.targets:
        values, counts = np.unique(results.graph.out_degree, return_counts=True)
        share = np.cumsum(counts[::-1])[::-1] / counts.sum()
        tables["degrees"] = pl.DataFrame({"out_degree": values, "users": counts, "share_at_least": share})
    if results.regret is not None:
        tables["regret"] = results.regret.frame.select(REGRET_COLUMNS)
        tables["regret-timings"] = results.regret.frame.select("policy", "run", "round", *SECONDS)
    if results.rank is not None:
        rank = pl.col("policy").str.strip_prefix("R = ").cast(pl.Int64).alias("rank")
        tables["rank"] = pl.concat(
            experiment.frame.select(pl.lit(label).alias("policy"), rank, "run", "round", "regret", "average_regret")
            for label, experiment in results.rank.items()
        )
    if results.runtime is not None:
        tables["runtime-timings"] = results.runtime
    if results.bound is not None:
        tables["bound"] = results.bound
    written = [write_csv(directory / f"{name}.csv", table) for name, table in tables.items()]
    if results.tuning is not None:
        written.append(write_validation(directory / "validation.csv", results.tuning))
        written.append(write_settings(directory / "settings.toml", results.tuning, settings))
    return written


def sampled(environment: Environment, size: int, *, seed: int = 0) -> Environment:
    """The environment on ``size`` users drawn at random, without those who lose all their edges."""
    graph = environment.graph
    keep = np.zeros(graph.n_nodes, dtype=np.bool_)
    keep[np.random.default_rng([seed, 41, size]).choice(graph.n_nodes, min(size, graph.n_nodes), replace=False)] = True
    edges = keep[graph.sources] & keep[graph.targets]
    joined = np.zeros(graph.n_nodes, dtype=np.bool_)
    joined[graph.sources[edges]] = joined[graph.targets[edges]] = True
    smaller = graph.subgraph(graph.ids[joined])
    users = environment.users
    kept = np.flatnonzero(edges)
    if users is not None:
        users = users.select(joined) if isinstance(users, UserProfile) else users[joined]
    return Environment(
        smaller,
        users,
        environment.products,
        lambda product: environment.probabilities(product)[kept],
        settings=replace(environment.settings, k=min(environment.settings.k, smaller.n_nodes)),
        product_rows=environment.product_rows,
        name=f"{environment.name}, {smaller.n_nodes} users",
    )
