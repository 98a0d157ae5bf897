"""The rank of influence: the truth's source × product part at each rank, beside the CP tensor that has to learn.

    python -m studies.influence_rank [--data DIR] [--log digg_core] [--product N] [--runs 3] [--rounds 100]

For the direct objective a source counts by the mean response of its targets. The logits of these means are a matrix of
sources and products. An effect of each source and each product, plus a part of rank 0, 1, 2 …, is fitted to it, every
source weighted by its number of targets; the oracle chooses by the fit. Beside it the CP tensor of each rank learns
from responses, with the paper's features and with ours. Finished runs are kept in ``--out`` as lines of JSON; the
figure goes to ``--figures``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from studies import DATA
from studies.ceilings import best_reach, logit, mean_regret, source_means, truth
from studies.kept import Run, regret_and_share
from studies.paper_form import Runs, with_both_features
from tensorucb.arrays import F64
from tensorucb.experiments import Environment, mean_interval
from tensorucb.plots import save_figure
from tensorucb.plots._lines import line_chart
from tensorucb.policies import FixedPointWarning, HighDegree, TensorUCB

RANKS = (1, 2, 3, 5, 10)
TRUTH = "the truth, fitted at this rank"
TENSORS: dict[str, tuple[str, dict[str, Any]]] = {
    "paper's tensor, its features": ("paper", {}),
    "logistic tensor, the paper's features": ("paper", {"likelihood": "logistic"}),
    "logistic tensor, our features": ("ours", {"likelihood": "logistic"}),
}
"""Label -> features, and arguments of `TensorUCB.paper`."""


def of_rank(world: Environment, means: F64, rank: int) -> F64:
    """``(users, products)``: effects of sources and products, and a part of this rank, in probabilities."""
    weights = world.graph.out_degree.astype(np.float64)
    scores = logit(means)
    source = scores.mean(axis=1, keepdims=True)
    product = np.average(scores - source, axis=0, weights=weights)
    roots = np.sqrt(weights)[:, None]
    left, sizes, right = np.linalg.svd(roots * (scores - source - product), full_matrices=False)
    part = (left[:, :rank] * sizes[:rank]) @ right[:rank]
    return expit(source + product + part / np.maximum(roots, 1.0))


def fitted(world: Environment) -> dict[int, float]:
    """Regret of the oracle that knows the truth up to each rank."""
    means = source_means(world, truth(world))
    regrets = {}
    for rank in (0, *RANKS):
        believed = of_rank(world, means, rank)
        regrets[rank] = mean_regret(world, lambda place, p=believed: p[world.graph.sources, place])  # type: ignore[misc]
    return regrets


def learned(worlds: Mapping[str, Environment], runs: Runs, number: int, rounds: int) -> dict[str, list[list[Run]]]:
    """Of each tensor, every run at each rank."""
    found: dict[str, list[list[Run]]] = {label: [] for label in TENSORS}
    for run in range(number):
        for label, (features, arguments) in TENSORS.items():
            found[label].append([])
            for rank in RANKS:
                world = worlds[features]
                about = {"log": world.name, "form": label, "rank": rank, "run": run}
                make = partial(TensorUCB.paper, rank=rank, **arguments)
                found[label][-1].append(runs.run(world, make, rounds=rounds, **about))
    return found


def chart(name: str, exact: Mapping[int, float], found: Mapping[str, list[list[Run]]]) -> Any:
    """All curves over the rank."""
    curves = {
        label: mean_interval([[run.regret for run in ranks] for ranks in by_run]) for label, by_run in found.items()
    }
    curves[TRUTH] = mean_interval([[exact[rank] for rank in RANKS]])
    return line_chart(
        curves,
        x=RANKS,
        x_title="Rank",
        y_title="Regret, mean of all rounds (users)",
        title=f"The rank of influence in {name}",
        subtitle=[
            f"The truth: effects of sources alone (rank 0) have {exact[0]:.1f}; a source × product part adds the rest.",
            "The CP tensor learns both from responses. Bars at the right: 90 % intervals over runs.",
        ],
        points=True,
        reference="best possible",
    )


def main() -> None:
    """Play what is missing, print one table per log, and draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--log", action="append", help="digg_core by default")
    parser.add_argument("--product", type=int, help="this product in every round, by its number")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/paper_form"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", FixedPointWarning)
    runs = Runs(given.out / "rank.jsonl")
    for name in given.log or ("digg_core",):
        worlds = with_both_features(name, given.data, given.out / "prepared")
        if given.product is not None:
            one = f"{name}, product {given.product}"
            worlds = {label: world.with_product_rows([given.product], one) for label, world in worlds.items()}
        exact = fitted(worlds["paper"])
        best = best_reach(worlds["paper"])
        degree = [
            runs.run(
                worlds["paper"], HighDegree, rounds=given.rounds, log=worlds["paper"].name, form="HighDegree", run=run
            )
            for run in range(given.runs)
        ]
        print(f"\n**{name}**, {given.runs} runs of {given.rounds} rounds: regret (% of the best possible); ", end="")
        print(f"picking by degree: {regret_and_share(degree)}\n", flush=True)
        print("| | " + " | ".join(f"rank {rank}" for rank in (0, *RANKS)) + " |")
        print("| --- |" + " ---: |" * (1 + len(RANKS)))
        cells = [f"{regret:.1f} ({100.0 * (1.0 - regret / best):.0f})" for regret in exact.values()]
        print(f"| {TRUTH} | " + " | ".join(cells) + " |", flush=True)
        found = learned(worlds, runs, given.runs, given.rounds)
        for label, by_run in found.items():
            cells = [regret_and_share(of_run[at] for of_run in by_run) for at in range(len(RANKS))]
            print(f"| {label} | – | " + " | ".join(cells) + " |")
        for path in save_figure(chart(name, exact, found), given.figures, f"rank-{name.replace('_', '-')}"):
            print(f"Figure: {path}")


if __name__ == "__main__":
    main()
