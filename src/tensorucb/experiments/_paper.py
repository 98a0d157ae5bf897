"""The paper's tables and figures as numbers: each target computes, and writes its CSV.

Finished runs are kept under ``runs/`` of the output directory, so that targets share them and a killed command goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_count
from tensorucb.experiments._arguments import check_environment, check_seed
from tensorucb.experiments._contestants import paper_policies
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._files import write_csv, write_regret, write_timings
from tensorucb.experiments._network import NetworkTables
from tensorucb.experiments._regret import exploration_condition, regret_bound
from tensorucb.experiments._runner import Experiment, Report, run_experiment, run_policy
from tensorucb.experiments._tuning import Tuning, check_labels, split_products, tune, with_arguments
from tensorucb.features import UserProfile
from tensorucb.policies import Grid, Policy

__all__ = ["Effort", "Reproduction", "sampled"]

Floats = NDArray[np.float64]

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


@dataclass
class Reproduction:
    """The targets of one environment; each is computed once and written to ``directory``.

    Parameters
    ----------
    grids
        Candidates by policy and argument, instead of the paper's grids.
    report
        ``report(done, total, what)``.
    written
        Gets the path of every table that is written.
    """

    environment: Environment
    directory: Path
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    grids: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    policies: Mapping[str, Policy] = field(default_factory=paper_policies)
    report: Report | None = None
    written: list[Path] = field(default_factory=list)

    @property
    def _runs(self) -> Path:
        return self.directory / "runs"

    @cached_property
    def _split(self) -> tuple[Environment, Environment]:
        """The world to tune in, and the one to compare in."""
        return split_products(self.environment)

    def __post_init__(self) -> None:
        """Refuse grids of policies that do not take part."""
        check_labels(self.grids, self.policies)

    @cached_property
    def tables(self) -> NetworkTables:
        """What the network alone tells."""
        return NetworkTables(self.environment.name, self.environment.graph, self.directory, self.written)

    @property
    def network(self) -> list[tuple[str, float, int, int]]:
        """table-network: (quantity, here, the paper's Digg, the paper's Flixster)."""
        return self.tables.network

    @property
    def degrees(self) -> NDArray[np.int64]:
        """fig-degrees: the out-degree of every user."""
        return self.tables.degrees

    @cached_property
    def tuning(self) -> Tuning:
        """Hyper-parameters of every policy, from the same validation rounds."""
        effort = self.effort
        grids: dict[str, Grid] = {}
        if effort.candidates is not None:
            grids = {
                p: _thinned(getattr(policy, "tunable", {}), effort.candidates) for p, policy in self.policies.items()
            }
        found = tune(
            self._split[0],
            self.policies,
            rounds=effort.validation_rounds,
            seed=self.seed,
            grids={**grids, **self.grids},
            directory=self._runs,
            report=self._staged("validation"),
        )
        self._table("validation", ("policy", "setting", "average_regret", "chosen"), found.rows())
        return found

    @cached_property
    def regret(self) -> Experiment:
        """fig-regret: average scaled regret of every policy over rounds."""
        experiment = run_experiment(
            self._split[1],
            self.tuning.policies,
            rounds=self.effort.rounds,
            runs=self.effort.runs,
            seed=self.seed,
            directory=self._runs,
            report=self._staged("fig-regret"),
        )
        self.written += [
            write_regret(self.directory / "regret.csv", experiment),
            write_timings(self.directory / "regret-timings.csv", experiment),
        ]
        return experiment

    @cached_property
    def rank(self) -> dict[str, Experiment]:
        """fig-rank: regret by rank on a single product; tensor policy -> an experiment with labels ``R = …``."""
        world = self._split[1]
        product = int(world.campaign[np.random.default_rng([self.seed, 31]).integers(world.campaign.size)])
        single = world.with_campaign([product], f"{world.name}, product {product}")
        found = {}
        for label, policy in self.tuning.policies.items():
            if "rank" not in getattr(policy, "tunable", ()):
                continue
            ranked = {f"R = {rank}": with_arguments(policy, {"rank": rank}) for rank in self.effort.figure_ranks}
            found[label] = run_experiment(
                single,
                ranked,
                rounds=self.effort.rounds,
                runs=self.effort.runs,
                seed=self.seed,
                directory=self._runs,
                report=self._staged("fig-rank"),
            )
        rows = [
            (label, int(r.policy.removeprefix("R = ")), r.run, t + 1, r.regret[t], r.average_regret[t])
            for label, experiment in found.items()
            for r in experiment.results
            for t in range(r.regret.size)
        ]
        self._table("rank", ("policy", "rank", "run", "round", "regret", "average_regret"), rows)
        return found

    @cached_property
    def runtime(self) -> tuple[list[int], dict[str, list[float]]]:
        """fig-runtime: median milliseconds a round over |V|; (sizes, policy -> times). Differs between repetitions.

        The policies have their default settings (R = 10 for the paper's, 5 for ours), so that nothing need be tuned.
        """
        sizes = [max(self.environment.settings.k, round(s * self.environment.graph.n_nodes)) for s in _SIZES]
        labels = [label for label in self.policies if label not in ("HighDegree", "Random")]
        times: dict[str, list[float]] = {label: [] for label in labels}
        measured: list[int] = []
        rows = []
        total, done = len(sizes) * len(labels), 0
        for size in sizes:
            smaller = sampled(self.environment, size, seed=self.seed)
            measured.append(smaller.graph.n_nodes)
            for label in labels:
                result = run_policy(smaller, self.policies[label], rounds=self.effort.runtime_rounds)
                parts = (1e3 * np.median(result.seconds, axis=0)).tolist()
                times[label].append(max(1e3 * float(np.median(result.seconds.sum(axis=1))), 1e-3))
                rows.append((label, smaller.graph.n_nodes, smaller.graph.n_edges, times[label][-1], *parts))
                done += 1
                if self.report:
                    self.report(done, total, f"fig-runtime: {label}")
        columns = ("policy", "users", "edges", "milliseconds", "score", "select", "update")
        self._table("runtime-timings", columns, rows)
        return measured, times

    @cached_property
    def bound(self) -> Mapping[str, Any]:
        """Theorem 1 beside the measured cumulative regret of the paper's own policy, and the condition on c."""
        policy: Any = self.tuning.policies["TensorUCB (paper)"]
        environment, rounds = self.environment, np.arange(1, self.effort.rounds + 1)
        features = 0 if environment.users is None else environment.users.shape[1]
        shape: dict[str, Any] = {
            "k": environment.settings.k,
            "dims": (features, features, environment.products.shape[1]),
            "rank": policy.rank,
            "noise_variance": policy.noise_variance,
        }
        # ‖w‖ is not known beforehand; its start, the vector of ones, has norm √d.
        weight = float(np.sqrt(max(shape["dims"])))
        needed = exploration_condition(rounds, largest_weight=weight, **shape)
        n_nodes = environment.graph.n_nodes
        bounds = {
            "used": regret_bound(rounds, n_nodes=n_nodes, exploration=policy.exploration, **shape),
            "needed": np.array(
                [
                    float(regret_bound(t, n_nodes=n_nodes, exploration=c, **shape))
                    for t, c in zip(rounds, needed, strict=True)
                ]
            ),
        }
        measured = {
            label: np.mean([np.cumsum(r.regret) for r in self.regret.of(label)], axis=0)
            for label in self.regret.policies
            if label.startswith("TensorUCB")
        }
        columns = ("round", "c_used", "c_needed", "bound_at_c_used", "bound_at_c_needed", *measured)
        used = np.full(rounds.size, float(policy.exploration))
        table = np.column_stack([used, needed, bounds["used"], bounds["needed"], *measured.values()])
        self._table("bound", columns, ((t, *row) for t, row in zip(rounds.tolist(), table.tolist(), strict=True)))
        return {
            "rounds": rounds,
            "needed": needed,
            "exploration": policy.exploration,
            "bounds": bounds,
            "measured": measured,
        }

    def _table(self, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.written.append(write_csv(self.directory / f"{name}.csv", columns, rows))

    def _staged(self, stage: str) -> Report | None:
        report = self.report
        if report is None:
            return None
        return lambda done, total, what: report(done, total, f"{stage}: {what}")


def _thinned(grid: Grid, size: int) -> Grid:
    """The candidates in the middle, at most ``size`` of each argument."""
    return {name: values[max(0, len(values) - size) // 2 :][:size] for name, values in grid.items()}


def _rows(users: Any, keep: Any) -> Any:
    return users.select(keep) if isinstance(users, UserProfile) else users[keep]


def sampled(environment: Environment, size: int, *, seed: int = 0) -> Environment:
    """The environment on ``size`` users drawn at random, without those who lose all their edges."""
    graph = check_environment(environment).graph
    size, seed = check_count("size", size), check_seed("seed", seed)
    keep = np.zeros(graph.n_nodes, dtype=np.bool_)
    keep[np.random.default_rng([seed, 41, size]).choice(graph.n_nodes, min(size, graph.n_nodes), replace=False)] = True
    edges = keep[graph.sources] & keep[graph.targets]
    joined = np.zeros(graph.n_nodes, dtype=np.bool_)
    joined[graph.sources[edges]] = joined[graph.targets[edges]] = True
    smaller = graph.subgraph(graph.ids[joined])
    kept = np.flatnonzero(edges)
    return Environment(
        smaller,
        None if environment.users is None else _rows(environment.users, joined),
        environment.products,
        lambda product: environment.probabilities(product)[kept],
        settings=replace(environment.settings, k=min(environment.settings.k, smaller.n_nodes)),
        campaign=environment.campaign,
        name=f"{environment.name}, {smaller.n_nodes} users",
        threads=environment.threads,
    )
