"""Which premises of Theorem 1 hold for the paper's policy: ‖βφ‖ ≤ 1 (A3), fixed points, K updates per round.

    python -m studies.premises [--data DIR] [--rounds 30]

plays the paper's policy on a log with the paper's features, as they are and made smaller, and looks at every outcome
after its round was learned.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np

from studies import DATA
from studies.kept import means, share_of_best
from studies.paper_form import with_both_features
from tensorucb.experiments import Environment, round_regret, run_policy
from tensorucb.policies import FixedPointWarning, HighDegree, PaperTensorUCB, TensorUCB


def premises(policy: PaperTensorUCB, world: Environment, rounds: int, scale: float = 1.0) -> dict[str, float]:
    """Play ``rounds`` with all features times ``scale``.

    ``violated`` is the share of (outcome, mode, rank) with ‖βφ‖ > 1 and ``largest`` the largest ‖βφ‖;
    ``unconverged`` is the share of outcomes whose fixed point was not reached, ``updates`` the number of outcomes per
    round, ``regret`` its mean, and ``of_best`` what was reached as a share of the best possible.
    """
    users, oracle = scale * np.asarray(world.users), world.oracle(np.random.default_rng(0))
    policy.bind(world.graph, users, 0)
    norms = []
    updates = []
    reached = []
    best = []
    for t, product in enumerate(world.draw_products(rounds, run=0, seed=0).tolist()):
        z = scale * world.products[product]
        seeds = policy.choose(z, world.settings.k, oracle)
        edges, outcomes = world.observe(product, seeds, seed=0, run=0, round_number=t)
        policy.update(z, edges, outcomes)
        reached.append(world.evaluate(product, seeds))
        best.append(world.optimum(product).spread)
        updates.append(edges.size)
        arrays = policy.state().arrays
        ends = world.graph.sources[edges], world.graph.targets[edges]
        features = [*(users[rows] for rows in ends), np.tile(z, (edges.size, 1))]
        a = [phi @ arrays[f"means_{mode}"].T for mode, phi in enumerate(features)]
        for mode, phi in enumerate(features):
            beta = np.prod([x for other, x in enumerate(a) if other != mode], axis=0)
            norms.append((np.abs(beta) * np.linalg.norm(phi, axis=1)[:, None]).ravel())
    lengths = np.concatenate(norms)
    return {
        "violated": float((lengths > 1.0).mean()),
        "largest": float(lengths.max()),
        "unconverged": float(arrays["counts"][2] / arrays["counts"][0]),
        "updates": float(np.mean(updates)),
        "regret": float(np.mean(round_regret(best, reached))),
        "of_best": sum(reached) / sum(best),
    }


def main() -> None:
    """Print one row for each rank and scale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--log", default="digg_core")
    parser.add_argument("--out", type=Path, default=Path("out/paper_form"), help="where features and truth are kept")
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    warnings.simplefilter("ignore", FixedPointWarning)
    world = with_both_features(given.log, given.data, given.out / "prepared")["paper"]
    columns = ("share with ‖βφ‖ > 1", "largest", "not converged", "updates per round", "regret", "% of the best")
    print(f"| R | features times | {' | '.join(columns)} |")
    print("| --- |" + " ---: |" * 7)
    degree = means(run_policy(world, HighDegree(), rounds=given.rounds, run=0))
    print(f"| (picking by degree) | – | – | – | – | – | {degree.regret:.1f} | {share_of_best([degree]):.0f} |")
    for rank in (1, 10):
        for scale in (1.0, 0.3, 0.03):
            row = premises(TensorUCB.paper(rank=rank), world, given.rounds, scale)
            print(
                f"| {rank} | {scale:g} | {row['violated']:.1%} | {row['largest']:,.2f} | {row['unconverged']:.1%} "
                f"| {row['updates']:,.0f} | {row['regret']:.1f} | {100.0 * row['of_best']:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
