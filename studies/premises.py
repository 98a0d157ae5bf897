"""Which premises of Theorem 1 hold for the paper's policy: ‖βφ‖ ≤ 1 (A3), and updates that reach their fixed point.

    python -m studies.premises

plays the paper's policy on a log as ``tensorucb compare`` does, and looks at every outcome after its round was learned.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from studies import DATA
from tensorucb.data import read_dataset
from tensorucb.experiments import Environment, environment_from_dataset
from tensorucb.policies import FixedPointWarning, PaperTensorUCB, TensorUCB


def premises(policy: PaperTensorUCB, world: Environment, rounds: int, run: int = 0) -> tuple[float, float, float]:
    """Share of (outcome, mode, rank) with ‖βφ‖ > 1, the largest ‖βφ‖, and the share of rounds that did not converge."""
    users, oracle = np.asarray(world.users), world.oracle(np.random.default_rng(run))
    policy.bind(world.graph, world.users, run)
    norms, warned = [], 0
    for t, product in enumerate(world.draw_products(rounds, run=run, seed=0).tolist()):
        z = world.products[product]
        edges, outcomes = world.observe(product, policy.choose(z, 10, oracle), seed=0, run=run, round_number=t)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FixedPointWarning)
            policy.update(z, edges, outcomes)
        warned += bool(caught)
        arrays = policy.state().arrays
        ends = world.graph.sources[edges], world.graph.targets[edges]
        features = [*(users[rows] for rows in ends), np.tile(z, (edges.size, 1))]
        a = [phi @ arrays[f"means_{mode}"].T for mode, phi in enumerate(features)]
        for mode, phi in enumerate(features):
            beta = np.prod([x for other, x in enumerate(a) if other != mode], axis=0)
            norms.append(np.abs(beta) * np.linalg.norm(phi, axis=1)[:, None])
    found = np.concatenate([part.ravel() for part in norms])
    return float((found > 1.0).mean()), float(found.max()), warned / rounds


def main() -> None:
    """Print one row for each rank."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA / "digg_core")
    parser.add_argument("--cache", type=Path, default=Path("out/studies"), help="where features and truth are kept")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    world = environment_from_dataset(read_dataset(given.data), cache=given.cache)
    print("| R | share with ‖βφ‖ > 1 | largest | rounds with an update that did not converge |")
    print("| --- | ---: | ---: | ---: |")
    for rank in (1, 10):
        share, largest, warned = premises(TensorUCB.paper(rank=rank, exploration=0.001), world, given.rounds)
        print(f"| {rank} | {share:.0%} | {largest:,.0f} | {warned:.0%} |")


if __name__ == "__main__":
    main()
