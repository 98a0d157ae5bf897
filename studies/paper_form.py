"""Why the paper's form loses: its belief about edges, and what changes when one part after the other is replaced.

    python -m studies.paper_form

plays the network of ``tensorucb demo``; with ``--data``, a log as ``tensorucb compare`` does.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from tensorucb.cli.demo import demo_environment
from tensorucb.data import read_dataset
from tensorucb.experiments import Environment, environment_from_dataset, run_policy
from tensorucb.policies import FixedPointWarning, HighDegree, PaperTensorUCB, Policy, TensorUCB

FORMS: dict[str, Policy] = {
    "HighDegree": HighDegree(),
    "paper: Gaussian, sigmoid": PaperTensorUCB(),
    "the same, clipped to [0, 1] instead of a sigmoid": PaperTensorUCB(projection="clip"),
    "logistic likelihood, base rate, no effects of single users": PaperTensorUCB(
        likelihood="logistic", intercept_variance=0.0
    ),
    "the same with effects of single users": PaperTensorUCB(likelihood="logistic"),
    "TensorUCB": TensorUCB(),
}


def row(world: Environment, policy: Policy, rounds: int, runs: int) -> tuple[float, list[float], int]:
    """Mean regret, the 5, 50 and 95 % points of the believed probabilities, and how many seeds are the best connected.

    The last two after the last run, for the first product.
    """
    regret = float(np.mean([run_policy(world, policy, rounds=rounds, run=run).regret.mean() for run in range(runs)]))
    product, k = world.products[int(world.product_rows[0])], world.settings.k
    believed = np.quantile(policy.score(product), (0.05, 0.5, 0.95)).tolist()
    seeds = np.asarray(policy.choose(product, k, world.oracle(np.random.default_rng(0))))
    largest = np.argsort(-world.graph.out_degree, kind="stable")[:k]
    return regret, believed, int(np.isin(seeds, largest).sum())


def main() -> None:
    """Print one row for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cache", type=Path, default=Path("out/studies"), help="where features and truth are kept")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    world = demo_environment(0, quick=False)
    if given.data is not None:
        world = environment_from_dataset(read_dataset(given.data), cache=given.cache)
    warnings.simplefilter("ignore", FixedPointWarning)
    truth = np.quantile(world.probabilities(int(world.product_rows[0])), (0.05, 0.5, 0.95))
    print("True probabilities, 5, 50 and 95 %:", ", ".join(f"{share:.3f}" for share in truth))
    print("| form | regret | believed p: 5, 50, 95 % | seeds among the best connected |")
    print("| --- | ---: | ---: | ---: |")
    for name, policy in FORMS.items():
        regret, believed, connected = row(world, policy, given.rounds, given.runs)
        shares = ", ".join(f"{share:.3f}" for share in believed)
        print(f"| {name} | {regret:.1f} | {shares} | {connected} of {world.settings.k} |", flush=True)


if __name__ == "__main__":
    main()
