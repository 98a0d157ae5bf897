"""Does the interval of expected reach hold what it says? Campaigns on logs and generated worlds, round by round.

    python -m studies.reach [--data DIR] [--runs 3] [--rounds 100] [--policy TensorUCB]
        [--objective direct] [--only WORLD] [--tuning]

A log is replayed (`ReplayedLog`): an edge i → j responds to an item if i was contacted and j acted on it. Every fifth
item describes users and is never asked about; rounds draw from the items with a number of 3 or 4 modulo 5. Decisions
about the model are made on those with 1 or 2 (``--tuning``). Generated worlds answer by their truth. In every third
round only users never contacted before may be chosen.

Of a log it also says how narrow an honest interval could be: an oracle knows who responds to each item, but not which
item comes. Its intervals, the shortest and the central one, hold 90 % of the items' responders to the round's seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

import tensorucb as tu
from studies import DATA
from studies.worlds import JUDGED, TUNED, dataset_of, on_items
from tensorucb import policies
from tensorucb.arrays import I64
from tensorucb.data import Dataset, digg_like, make_sandbox
from tensorucb.experiments import Environment, WorldSettings, replay_from_dataset

LOGS = ("digg_core", "christianity", "foursquare_kualalumpur")
WORLDS = (*LOGS, "sandbox", "digg_like")
SIZES = (10, 5, 20)  # seeds per round, by run
SEED = 3
LEVEL = 0.9
Objective = Literal["direct", "cascade"]
Feedback = Literal["one_hop", "cascade"]


@dataclass(frozen=True)
class Played:
    """One round: when, the share of its seeds never contacted before, the interval, and what was observed."""

    world: str
    round: int
    untried: float
    reach: tu.campaign.Reach
    observed: int
    seeds: I64

    @property
    def covered(self) -> bool:
        """Whether the interval holds the observed number."""
        return self.reach.low <= self.observed <= self.reach.high


def world(
    name: str, run: int, data: Path, objective: Objective = "direct", items: tuple[int, ...] = JUDGED
) -> Environment:
    """A world by name; generated ones differ from run to run."""
    if name in LOGS:
        return log_world(name, data, items)
    box = make_sandbox(rng=100 + run) if name == "sandbox" else digg_like(0.3, 100 + run, product_effect=3.0)
    feedback: Feedback = "one_hop" if objective == "direct" else "cascade"
    return Environment.from_sandbox(box, settings=WorldSettings(feedback=feedback), name=name)


@cache
def log_world(name: str, data: Path, items: tuple[int, ...]) -> Environment:
    """A log that answers itself, for items with these numbers modulo 5."""
    return on_items(replay_from_dataset(dataset_of(name, data)), items)


def oracle_widths(data: Dataset, items: I64, seeds: I64) -> tuple[float, float]:
    """Widths, in units of the mean, of intervals with 90 % of the items' responders to these seeds.

    The shortest one, and the central one, which leaves out as many items above as below.
    """
    follows = np.zeros(data.graph.n_nodes, dtype=np.bool_)
    follows[data.graph.targets[data.graph.out_edges(seeds)]] = True
    follows[seeds] = False
    responding = np.repeat(np.arange(data.log.n_items), np.diff(data.log.item_offsets))[follows[data.log.users]]
    counts = np.sort(np.bincount(responding, minlength=data.log.n_items)[items])
    held = math.ceil(LEVEL * counts.size)
    shortest = (counts[held - 1 :] - counts[: counts.size - held + 1]).min()
    low, high = np.quantile(counts, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    mean = max(counts.mean(), 0.5)
    return float(shortest / mean), float((high - low) / mean)


def play(
    name: str, place: Environment, policy: Any, k: int, rounds: int, run: int, objective: Objective = "direct"
) -> Iterator[Played]:
    """The rounds of one campaign."""
    graph, contacted = place.graph, set[int]()
    terms: dict[str, Any] = {"storage": "memory://", "seed": run, "objective": objective}
    campaign = tu.create_campaign(name, graph=graph, users=place.users, policy=policy, **terms)
    for number, item in enumerate(place.draw_products(rounds, seed=SEED, run=run).tolist(), 1):
        fresh = graph.n_nodes - len(contacted) >= k and number % 3 == 0
        ask = campaign.ask(place.products[item], k, exclude=sorted(contacted) if fresh and contacted else None)
        rows = graph.rows(list(ask.seeds))
        edges, outcomes = place.observe(item, rows, seed=SEED, run=run, round_number=number)
        responding = edges[outcomes > 0.0]
        # Only followers of contacted users can be told, and learned.
        yes = responding[np.isin(graph.sources[responding], rows)]
        sources, targets = graph.ids[graph.sources[yes]], graph.ids[graph.targets[yes]]
        campaign.tell(ask.id, {"source": sources, "target": targets, "outcome": np.ones(yes.size)})
        campaign.close(ask.id)
        observed = np.setdiff1d(graph.targets[responding], rows).size
        untried = np.mean([seed not in contacted for seed in ask.seeds])
        contacted.update(ask.seeds)
        yield Played(name, number, float(untried), ask.reach, int(observed), rows)


def cell(rounds: list[Played], oracle: Callable[[I64], tuple[float, float]] | None) -> str:
    """Coverage, the median width in units of the mean (and those of an oracle), and how many rounds."""
    if not rounds:
        return "–"
    known = ""
    if oracle is not None:
        shortest, central = np.median([oracle(entry.seeds) for entry in rounds], axis=0)
        known = f" [{shortest:.1f}, {central:.1f}]"
    covered = np.mean([entry.covered for entry in rounds])
    width = np.median([(entry.reach.high - entry.reach.low) / max(entry.reach.mean, 0.5) for entry in rounds])
    return f"{covered:.0%}, {width:.1f}{known} ({len(rounds)})"


def line(name: str, rounds: list[Played], oracle: Callable[[I64], tuple[float, float]] | None = None) -> str:
    """A row of the table."""
    mean = np.mean([entry.reach.mean for entry in rounds])
    observed = np.mean([entry.observed for entry in rounds])
    ratios = [entry.reach.mean / max(entry.observed, 0.5) for entry in rounds if entry.round > 10]
    median = f"{np.median(ratios):.2f}" if ratios else "–"
    parts = (
        rounds,
        [entry for entry in rounds if entry.round <= 5],
        [entry for entry in rounds if 5 < entry.round <= 20],
        [entry for entry in rounds if entry.round > 20],
        [entry for entry in rounds if entry.untried < 0.5],
        [entry for entry in rounds if entry.untried >= 0.5],
    )
    cells = [cell(part, oracle) for part in parts]
    return " | ".join([f"| {name}", f"{mean:.1f} / {observed:.1f}", median, *cells]) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--policy", default="TensorUCB")
    parser.add_argument("--objective", choices=("direct", "cascade"), default="direct")
    parser.add_argument("--only", choices=WORLDS, action="append")
    parser.add_argument("--tuning", action="store_true", help="the items on which decisions are made")
    given = parser.parse_args()
    items = TUNED if given.tuning else JUDGED
    columns = ("world", "forecast / observed", "median of the ratio", "all", "rounds 1–5", "6–20", "later")
    print(" | ".join(["", *columns, "mostly tried", "mostly untried", ""]).strip())
    print("| --- " * (len(columns) + 2) + "|")
    # A log does not say who would have persuaded whom further on.
    for name in given.only or (WORLDS if given.objective == "direct" else WORLDS[len(LOGS) :]):
        rounds: list[Played] = []
        for run in range(given.runs):
            policy = getattr(policies, given.policy)()
            place = world(name, run, given.data, given.objective, items)
            rounds += play(name, place, policy, SIZES[run % len(SIZES)], given.rounds, run, given.objective)
        oracle = None
        if name in LOGS:
            oracle = partial(oracle_widths, dataset_of(name, given.data), place.product_rows)
        print(line(name, rounds, oracle), flush=True)


if __name__ == "__main__":
    main()
