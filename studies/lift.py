"""What ``lift()`` finds in campaigns in which contact changes nothing, and in some in which it does.

A log is replayed: each round is about one of its items, and users act as they did in the log, whoever is contacted.
With a planted effect, each follower of a contacted user who did not act does so with the planted probability. Seeds
are drawn with probabilities proportional to their numbers of followers, so that many followers follow several.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies import DATA
from tensorucb.campaign import LiftPlan
from tensorucb.campaign._lift import Draw, Lift, compare_arms, draw_of
from tensorucb.campaign._lift_plan import plan_from
from tensorucb.data import Dataset, generate_dataset, read_dataset

HOLD_OUTS = (0.2, 0.3, 0.5)
PLANTED = (0.02, 0.05)
PLANS = ((20, 0.2, 0.01), (20, 0.2, 0.02), (20, 0.2, 0.04), (5, 0.3, 0.03), (10, 0.5, 0.02), (40, 0.2, 0.01))


@dataclass(frozen=True)
class Row:
    """Many campaigns of one kind: what they found, and the effect that was really there in each."""

    found: tuple[Lift, ...]
    truth: tuple[float, ...]

    @property
    def errors(self) -> NDArray[np.float64]:
        """Differences found, less the truth."""
        return np.array([x.difference - t for x, t in zip(self.found, self.truth, strict=True)])

    @property
    def bias(self) -> float:
        """Their mean."""
        return float(self.errors.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return float(self.errors.std(ddof=1) / np.sqrt(len(self.found)))

    @property
    def coverage(self) -> float:
        """Share of the intervals that hold the truth."""
        return float(np.mean([x.low <= t <= x.high for x, t in zip(self.found, self.truth, strict=True)]))

    def cells(self) -> list[str]:
        """Columns of the table."""
        apart = [x.low > 0.0 or x.high < 0.0 for x in self.found]
        return [
            f"{100 * np.mean(self.truth):.2f}",
            f"{100 * self.bias:+.3f} ± {100 * self.standard_error:.3f}",
            f"{100 * self.coverage:.1f} %",
            f"{100 * np.median([x.high - x.low for x in self.found]):.1f}",
            f"{100 * np.mean(apart):.1f} %",
        ]


def play(
    dataset: Dataset, rng: np.random.Generator, *, rounds: int, k: int, share: float, effect: float = 0.0
) -> tuple[list[Draw], float]:
    """The rounds of one campaign, and the effect on the followers who count, averaged as `Lift` averages."""
    graph, log = dataset.graph, dataset.log
    popularity = graph.out_degree / graph.out_degree.sum()
    draws, weights, effects = [], [], []
    for item in rng.integers(0, log.n_items, size=rounds).tolist():
        before = np.zeros(graph.n_nodes, dtype=np.bool_)
        before[log.users[log.item_offsets[item] : log.item_offsets[item + 1]]] = True
        seeds = rng.choice(graph.n_nodes, size=k, replace=False, p=popularity)
        held = rng.choice(seeds, size=round(share * k), replace=False)
        after = before.copy()
        reached = np.unique(graph.targets[graph.out_edges(np.setdiff1d(seeds, held))])
        after[reached[rng.random(reached.size) < effect]] = True
        draw = draw_of(graph, seeds, seeds, held, after)
        untouched = draw_of(graph, seeds, seeds, held, before)
        out = ~draw.held_out
        arms = np.array([draw.followers[out].sum(), draw.followers[~out].sum()])
        weights.append(arms.prod() / max(arms.sum(), 1.0))
        effects.append(effect * (1.0 - untouched.responders[out].sum() / max(arms[0], 1.0)))
        draws.append(draw)
    return draws, float(np.average(effects, weights=weights)) if effect else 0.0


def study(dataset: Dataset, *, campaigns: int, rounds: int, k: int, share: float, effect: float, seed: int) -> Row:
    """That many campaigns of one kind."""
    found, truth = [], []
    for number in range(campaigns):
        rng = np.random.default_rng([seed, number])
        draws, real = play(dataset, rng, rounds=rounds, k=k, share=share, effect=effect)
        found.append(compare_arms(draws, rng))
        truth.append(real)
    return Row(tuple(found), tuple(truth))


@dataclass(frozen=True)
class Promise:
    """What a plan promises, and how many of the campaigns that follow it show the effect."""

    plan: LiftPlan
    shown: float
    campaigns: int

    def cells(self) -> list[str]:
        """Columns of the table."""
        error = np.sqrt(self.shown * (1.0 - self.shown) / self.campaigns)
        return [f"{100 * self.plan.effect:.1f}", f"{self.plan.power:.0%}", f"{self.shown:.0%} ± {error:.0%}"]


def promised(
    dataset: Dataset, *, campaigns: int, rounds: int, k: int, share: float, effect: float, seed: int, pilot: int = 500
) -> Promise:
    """Plan by rounds of the same log without an effect, then plant it in campaigns."""
    before, _ = play(dataset, np.random.default_rng([seed, 1]), rounds=pilot, k=k, share=share)
    plan = plan_from(before, users=k, holdout=share, rounds=rounds, effect=effect, power=0.8)
    found = study(dataset, campaigns=campaigns, rounds=rounds, k=k, share=share, effect=effect, seed=seed).found
    return Promise(plan, float(np.mean([lift.low > 0.0 for lift in found])), campaigns)


def print_promises(worlds: Mapping[str, Callable[[], Dataset]], campaigns: int, k: int, seed: int) -> None:
    """The table of plans."""
    print("| log | rounds | hold-out | effect | promised | shown |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, load in worlds.items():
        dataset = load()
        for rounds, share, effect in PLANS:
            found = promised(dataset, campaigns=campaigns, rounds=rounds, k=k, share=share, effect=effect, seed=seed)
            print(f"| {name} | {rounds} | {100 * share:.0f} % | {' | '.join(found.cells())} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--campaigns", type=int, default=400)
    parser.add_argument("--rounds", type=int, nargs="+", default=[20], help="rounds of a campaign")
    parser.add_argument("-k", type=int, default=10, help="users chosen in a round")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--plans", action="store_true", help="compare what plans promise with what campaigns show")
    options = parser.parse_args()
    worlds: dict[str, Callable[[], Dataset]] = {
        "christianity": lambda: read_dataset(options.data / "christianity"),
        "generated": lambda: generate_dataset("digg_like", scale=0.3, rng=0),
    }
    if options.plans:
        print_promises(worlds, options.campaigns, options.k, options.seed)
        return
    print("| log | rounds | hold-out | effect | error of `difference` ± s.e. | 90 % interval covers | width | not 0 |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, load in worlds.items():
        dataset = load()
        for rounds in options.rounds:
            kinds = [(share, 0.0) for share in HOLD_OUTS] + [(0.2, effect) for effect in PLANTED]
            for share, effect in kinds:
                row = study(
                    dataset,
                    campaigns=options.campaigns,
                    rounds=rounds,
                    k=options.k,
                    share=share,
                    effect=effect,
                    seed=options.seed,
                )
                print(f"| {name} | {rounds} | {100 * share:.0f} % | {' | '.join(row.cells())} |", flush=True)


if __name__ == "__main__":
    main()
