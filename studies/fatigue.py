"""What a rest for the audience is worth where followers tire of contacts, and what it costs where they do not.

    python -m studies.fatigue [--data DIR] [--runs 3] [--rounds 60]

Campaigns with a round every week. Each of the last five rounds in which a follower was addressed halves the probability
that it responds (`studies.changed_worlds.Fatigue`); the second table is the same world without that. "Never rests"
asks as if nothing were known of fatigue, "follows the suggestion" takes over ``Ask.fatigue.rest`` from the round on in
which it is made, and "rests the contacted" gives the contacted users a cooldown of the same length instead. Reach is
the expected number of responders; the best possible is that of a rested audience.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from studies import DATA
from studies.changed_worlds import Fatigue
from studies.worlds import log_environment
from tensorucb.arrays import F64
from tensorucb.campaign import IgnoredContextWarning, create_campaign
from tensorucb.data import digg_like
from tensorucb.experiments import Environment
from tensorucb.policies import GammaCounts, HighDegree, Policy, TensorUCB

WEEK = 7 * 86400.0
POLICIES: dict[str, Callable[[], Policy]] = {
    "TensorUCB": TensorUCB,
    "GammaCounts": GammaCounts,
    "HighDegree": HighDegree,
}
WAYS = ("never rests", "follows the suggestion", "rests the contacted")
FIRST_RUN, FIRST_NETWORK = 7000, 40
_K = 10


def play(world: Environment, policy: Policy, way: str, *, rounds: int, run: int) -> tuple[F64, int]:
    """The reach of each round, and the number of the first one with a rest (one more than there are without any)."""
    now = 1.7e9
    products = {str(row): world.products[row] for row in range(len(world.products))}
    campaign = create_campaign(
        "fatigue",
        graph=world.graph,
        users=world.users,
        products=products,
        policy=policy,
        storage="memory://",
        clock=lambda: now,
        seed=run,
    )
    ids = world.graph.ids
    reach = np.empty(rounds)
    rest: str | None = None
    first = rounds
    for number, product in enumerate(world.draw_products(rounds, seed=0, run=run).tolist()):
        today = world.in_round(number, seed=0, run=run)
        spared = {} if rest is None else {"audience_rest" if way == WAYS[1] else "cooldown": rest}
        ask = campaign.ask(str(product), _K, **spared)  # type: ignore[arg-type]
        if way != WAYS[0] and rest is None and ask.fatigue is not None and ask.fatigue.rest is not None:
            rest = ask.fatigue.rest
            first = number + 1
        rows = world.graph.rows(list(ask.seeds))
        edges, outcomes = today.observe(product, rows, seed=0, run=run, round_number=number)
        told = {
            "source": ids[world.graph.sources[edges]],
            "target": ids[world.graph.targets[edges]],
            "outcome": outcomes,
        }
        campaign.tell(ask.id, told)
        campaign.close(ask.id)
        reach[number] = today.evaluate(product, rows)
        now += WEEK
    return reach, first + 1


def table(title: str, worlds: list[Environment], *, rounds: int) -> Iterator[str]:
    """One world as rows: the reach of each policy in each way, and its difference to the first way."""
    drawn = [world.draw_products(rounds, seed=0, run=FIRST_RUN + run) for run, world in enumerate(worlds)]
    best = np.mean(
        [[world.optimum(product).spread for product in some] for world, some in zip(worlds, drawn, strict=True)]
    )
    yield f"\n**{title}** ({len(worlds)} runs of {rounds} rounds; best possible {best:.1f})\n"
    yield "| policy | " + " | ".join(WAYS) + " | rest from round |"
    yield "| --- |" + " ---: |" * (len(WAYS) + 1)
    for label, make in POLICIES.items():
        played = {
            way: [play(w, make(), way, rounds=rounds, run=FIRST_RUN + i) for i, w in enumerate(worlds)] for way in WAYS
        }
        means = {way: np.array([reach.mean() for reach, _ in found]) for way, found in played.items()}
        cells = [f"{means[WAYS[0]].mean():.1f}"]
        for way in WAYS[1:]:
            apart = means[way] - means[WAYS[0]]
            error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else np.nan
            cells.append(f"{means[way].mean():.1f} ({apart.mean():+.1f} ± {error:.1f})")
        began = ", ".join(str(first) if first <= rounds else "none" for _, first in played[WAYS[1]])
        yield f"| {label} | {' | '.join(cells)} | {began} |"


def main() -> None:
    """Play, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    warnings.simplefilter("ignore", IgnoredContextWarning)  # baselines, on purpose
    boxes = [digg_like(0.5, np.random.default_rng([0, FIRST_NETWORK + run])) for run in range(given.runs)]
    worlds = {"generated": [Environment.from_sandbox(box) for box in boxes]}
    if (given.data / "christianity").is_dir():
        worlds["christianity, simulated"] = [log_environment("christianity", data=given.data)] * given.runs
    for name, plain in worlds.items():
        for title, made in (("with fatigue", [Fatigue(world) for world in plain]), ("without fatigue", plain)):
            print("\n".join(table(f"{name}, {title}", list(made), rounds=given.rounds)), flush=True)


if __name__ == "__main__":
    main()
