"""The rank of influence: the truth's source × product part at each rank, beside the CP tensor that has to learn.

    python -m studies.influence_rank [--data DIR] [--log digg_core] [--runs 3] [--rounds 100] [--out out/paper_form]

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
from numpy.typing import NDArray

from studies import DATA
from studies.ceilings import logit, mean_regret, sigmoid, source_means, truth
from studies.paper_form import Runs, summary, with_both_features
from tensorucb.experiments import Environment, mean_interval
from tensorucb.plots import save_figure
from tensorucb.plots._lines import line_chart
from tensorucb.policies import FixedPointWarning, TensorUCB

F64 = NDArray[np.float64]
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
    return sigmoid(source + product + part / np.maximum(roots, 1.0))


def fitted(world: Environment) -> dict[int, float]:
    """Regret of the oracle that knows the truth up to each rank."""
    means = source_means(world, truth(world))
    regrets = {}
    for rank in (0, *RANKS):
        believed = of_rank(world, means, rank)
        regrets[rank] = mean_regret(world, lambda place, p=believed: p[world.graph.sources, place])  # type: ignore[misc]
    return regrets


def learned(worlds: Mapping[str, Environment], runs: Runs, number: int, rounds: int) -> dict[str, list[list[float]]]:
    """Of each tensor, the regrets of every run at each rank."""
    regrets: dict[str, list[list[float]]] = {label: [] for label in TENSORS}
    for run in range(number):
        for label, (features, arguments) in TENSORS.items():
            regrets[label].append([])
            for rank in RANKS:
                world = worlds[features]
                about = {"log": world.name, "form": label, "rank": rank, "run": run}
                make = partial(TensorUCB.paper, rank=rank, **arguments)
                value = runs.regret(world, make, rounds=rounds, **about)
                regrets[label][-1].append(value)
    return regrets


def chart(name: str, exact: Mapping[int, float], regrets: Mapping[str, list[list[float]]]) -> Any:
    """All curves over the rank."""
    curves = {label: mean_interval(values) for label, values in regrets.items()}
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
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("out/paper_form"))
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", FixedPointWarning)
    runs = Runs(given.out / "rank.jsonl")
    for name in given.log or ("digg_core",):
        worlds = with_both_features(name, given.data, given.out / "prepared")
        exact = fitted(worlds["paper"])
        print(f"\n**{name}**, {given.runs} runs of {given.rounds} rounds\n", flush=True)
        print("| | " + " | ".join(f"rank {rank}" for rank in (0, *RANKS)) + " |")
        print("| --- |" + " ---: |" * (1 + len(RANKS)))
        print(f"| {TRUTH} | " + " | ".join(f"{regret:.1f}" for regret in exact.values()) + " |", flush=True)
        regrets = learned(worlds, runs, given.runs, given.rounds)
        for label, values in regrets.items():
            cells = [summary([of_run[at] for of_run in values]) for at in range(len(RANKS))]
            print(f"| {label} | – | " + " | ".join(cells) + " |")
        for path in save_figure(chart(name, exact, regrets), given.figures, f"rank-{name.replace('_', '-')}"):
            print(f"Figure: {path}")


if __name__ == "__main__":
    main()
