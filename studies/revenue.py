"""Choosing by value and choosing by counts, in a world where those who respond often spend little.

Forty users can be contacted; each has followers of one kind. Followers of the one kind respond often and spend little,
those of the other kind respond rarely and spend much. What a user spends on average differs within a kind as well, and
single amounts scatter: both are log-normal. Campaigns decide by the number of responders, or by value, with what they
are told: amounts alone, amounts and the kind of each user as a group, or what each user spends on average.

All campaigns of a run meet the same coins and the same amounts. Reported are the expected responders and the expected
revenue of their choices, known exactly, and how often the intervals of the revenue held what came.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb import Graph, create_campaign
from tensorucb.campaign._reach import direct_gains

HUBS, FOLLOWERS, K = 40, 14, 6
RATES = (0.16, 0.05)
AMOUNTS = (8.0, 80.0)
BETWEEN, WITHIN = 0.5, 0.9  # deviations of logarithms: of users of a kind, and of a user's amounts
DAY = 86_400.0


@dataclass(frozen=True)
class World:
    """The network, the true probability of every edge, what each user spends on average, and the kinds."""

    graph: Graph
    p: NDArray[np.float64]
    means: NDArray[np.float64]
    kinds: NDArray[np.int64]

    def expected(self, rows: NDArray[np.int64]) -> tuple[float, float]:
        """Responders and revenue to be expected if these users are contacted."""
        counts, revenue = (direct_gains(self.graph, self.p, rows, 0.0, values) for values in (None, self.means))
        return float(counts.sum()), float(revenue.sum())


def make_world(seed: int) -> World:
    """A world of one run."""
    rng = np.random.default_rng([seed, 1])
    users = HUBS + HUBS * FOLLOWERS
    kinds = np.zeros(users, dtype=np.int64)
    kinds[HUBS + HUBS * FOLLOWERS // 2 :] = 1
    sources, targets = [], []
    for hub in range(HUBS):
        of_kind = HUBS + np.flatnonzero(kinds[HUBS:] == hub % 2)
        sources.append(np.full(FOLLOWERS, hub))
        targets.append(rng.choice(of_kind, size=FOLLOWERS, replace=False))
    graph = Graph.from_edges(np.concatenate(sources), np.concatenate(targets))
    rows = graph.ids.astype(np.int64)
    quality = np.exp(rng.normal(0.0, 0.4, size=users))
    p = np.array(RATES)[kinds[rows[graph.targets]]] * quality[rows[graph.sources]]
    means = np.array(AMOUNTS)[kinds[rows]] * np.exp(BETWEEN * rng.standard_normal(rows.size) - BETWEEN**2 / 2)
    return World(graph, np.clip(p, 0.0, 0.9), means, kinds[rows])


def arms(world: World) -> dict[str, dict[str, Any]]:
    """What distinguishes the campaigns."""
    groups = np.array(["often", "rarely"])[world.kinds]
    return {
        "responders": {},
        "value, amounts told": {"metric": "value"},
        "value, amounts and groups": {"metric": "value", "groups": groups},
        "value, mean of each user known": {"metric": "value", "values": world.means},
    }


def play(world: World, options: Mapping[str, Any], rounds: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """One campaign: expected responders and revenue of each choice, and whether the interval held what came."""
    now = [0.0]
    campaign = create_campaign(
        "study", graph=world.graph, storage="memory://", window="1d", seed=seed, clock=lambda: now[0], **options
    )
    graph = world.graph
    hubs = graph.ids[graph.out_degree > 0]
    counts = []
    revenues = []
    held = []
    widths = []
    for number in range(rounds):
        ask = campaign.ask(k=K, candidates=hubs)
        rows = graph.rows(ask.seeds)
        expected = world.expected(rows)
        counts.append(expected[0])
        revenues.append(expected[1])
        rng = np.random.default_rng([seed, 2, number])
        coins, noise = rng.random(graph.n_edges), rng.standard_normal(graph.n_nodes)
        edges = graph.out_edges(np.sort(rows))
        buyers = np.unique(graph.targets[edges[coins[edges] < world.p[edges]]])
        amounts = np.round(world.means[buyers] * np.exp(WITHIN * noise[buyers] - WITHIN**2 / 2), 2)
        told = {"user": graph.ids[buyers], "time": np.full(buyers.size, now[0] + 60.0), "amount": amounts}
        campaign.tell(ask.id, told)
        now[0] += 2 * DAY
        campaign.close(ask.id)
    for entry in campaign.progress().rounds:
        revenue = None if entry.expected is None else entry.expected.revenue
        if entry.revenue_within is not None and revenue is not None and revenue.mean > 0.0:
            held.append(float(entry.revenue_within))
            widths.append((revenue.high - revenue.low) / revenue.mean)
    return {
        name: np.array(values)
        for name, values in zip(
            ("responders", "revenue", "held", "width"), (counts, revenues, held, widths), strict=True
        )
    }


def study(runs: int, rounds: int) -> list[str]:
    """The table, a line for each kind of campaign."""
    found: dict[str, list[dict[str, NDArray[np.float64]]]] = {}
    for run in range(runs):
        world = make_world(run)
        for name, options in arms(world).items():
            found.setdefault(name, []).append(play(world, options, rounds, run))
    lines = [
        "| decides by | responders per round | revenue per round | revenue minus that by responders "
        "| intervals of the revenue that held | their median relative width |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    base = np.array([each["revenue"].mean() for each in found["responders"]])
    for name, each in found.items():
        counts, revenue = (np.array([one[key].mean() for one in each]) for key in ("responders", "revenue"))
        held, width = (np.concatenate([one[key] for one in each]) for key in ("held", "width"))
        cells = [name, _mean(counts), _mean(revenue), "" if name == "responders" else _mean(revenue - base)]
        shares = [f"{held.mean():.0%} of {held.size}", f"{np.median(width):.2f}"] if held.size else ["", ""]
        lines.append(f"| {' | '.join([*cells, *shares])} |")
    return lines


def _mean(values: NDArray[np.float64]) -> str:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():.1f} ± {error:.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print("\n".join(study(options.runs, options.rounds)))


if __name__ == "__main__":
    main()
