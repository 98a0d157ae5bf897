"""Both yardsticks beside each other: simulated worlds, and logs that answer for themselves.

    python -m studies.yardsticks [--data DIR] [--runs 5] [--only GROUP] [--out DIR]

Every policy plays with its defaults, as it comes. The oracle is told how far a second contact brings nothing new (ρ) by
every policy that has a mean; two of them also play without that. Rounds of a log draw from items whose number is 3 or 4
modulo 5; nothing about the model was chosen on these. Generated networks have numbers that no other study uses.
Finished runs are kept in ``--out`` as lines of JSON, so that the command goes on where it was.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from studies import DATA
from studies.changed_worlds import CHANGES
from studies.kept import Kept, Run, means, share_of_best
from studies.worlds import JUDGED, dataset_of, four_modes, on_items
from tensorucb.data import Dataset, digg_like
from tensorucb.experiments import (
    Environment,
    environment_from_dataset,
    replay_from_dataset,
    run_policy,
)
from tensorucb.experiments._comparison import strategy_contestants
from tensorucb.policies import DegreeCover, GammaCounts, HighDegree, LinUCB, LogisticUCB, TensorUCB

POLICIES: dict[str, Callable[[], Any]] = {
    "TensorUCB": TensorUCB,
    "LogisticUCB": LogisticUCB,
    "LinUCB": LinUCB,
    "GammaCounts": GammaCounts,
    "HighDegree": HighDegree,
    "DegreeCover": DegreeCover,
}
# These choose without the oracle.
SIMPLE = ("HighDegree", "DegreeCover")
WITHOUT = ", without ρ"
REACH = ("TensorUCB", f"TensorUCB{WITHOUT}", "LogisticUCB", f"LogisticUCB{WITHOUT}", *tuple(POLICIES)[2:])
"""Columns of the tables."""
WITH_SHARE = ("TensorUCB", "HighDegree")
FIRST_RUN, FIRST_NETWORK = 5000, 40


@dataclass(frozen=True)
class Cell:
    """One world of the tables."""

    group: str
    name: str
    world: Callable[[int], Environment]
    rounds: int = 100
    runs: int | None = None
    begin: Callable[[Any, Environment], Any] | None = None  # what a policy is told before the first round


def cells(data: Path, cache: Path | None) -> Iterator[Cell]:
    """All worlds, group by group."""
    loaded: dict[tuple[str, str, Any], Environment] = {}

    def log(kind: str, name: str, k: int = 10, objective: Any = "direct", prior: Any = None) -> Environment:
        key = (kind, name, prior)
        if key not in loaded:
            make = replay_from_dataset if kind == "replay" else environment_from_dataset
            options = {} if prior is None else {"truth_prior": prior}
            loaded[key] = make(dataset_of(name, data), cache=cache, **options)
        world = loaded[key]
        world = on_items(world, JUDGED)
        world.settings = replace(world.settings, k=k, objective=objective)
        world._make_caches()
        return world

    def generated(effect: float) -> Callable[[int], Environment]:
        return lambda run: Environment.from_sandbox(
            digg_like(0.5, np.random.default_rng([0, FIRST_NETWORK + run]), product_effect=effect)
        )

    logs = ("digg_core", "christianity", "foursquare_kualalumpur")
    for name in logs:
        yield Cell("replay", name, lambda run, name=name: log("replay", name))  # type: ignore[misc]
    for name in logs[:2]:
        yield Cell("simulated", name, lambda run, name=name: log("em", name))  # type: ignore[misc]
    for effect in (0.0, 1.5, 3.0):
        yield Cell("simulated", f"Digg-like, effect {effect:g}", generated(effect), runs=3)
    for name in ("digg ≥ 10", "digg ≥ 3"):
        yield Cell("simulated", name, lambda run, name=name: log("em", name), runs=2)  # type: ignore[misc]
    for k in (1, 3, 50):
        for name in logs[:2]:
            for kind in ("replay", "em"):
                label = f"{name}, {'replay' if kind == 'replay' else 'simulated'}, K = {k}"
                yield Cell("sizes", label, lambda run, a=(kind, name, k): log(*a), runs=3)  # type: ignore[misc]
    for name in logs[:2]:
        yield Cell("sizes", f"{name}, replay, T = 200", lambda run, name=name: log("replay", name), 200, 3)  # type: ignore[misc]
    for name in logs[1:2]:  # with imported items digg_core takes hours
        told = partial(warm, dataset_of(name, data))
        for kind in ("replay", "em"):
            label = f"{name}, {'replay' if kind == 'replay' else 'simulated'}, half of the log told"
            yield Cell("warm", label, lambda run, a=(kind, name): log(*a), runs=3, begin=told)  # type: ignore[misc]
    for prior in ((1.0, 1.0), (1.1, 10.0)):
        label = f"christianity, truth with the prior Beta{prior}"
        yield Cell("priors", label, lambda run, prior=prior: log("em", "christianity", prior=prior), runs=3)  # type: ignore[misc]
    for change, make in CHANGES.items():
        if change != "as it is":
            rounds = 160 if change == "drift" else 100
            yield Cell(
                "changed",
                change,
                lambda run, make=make, rounds=rounds: make(log("em", "christianity"), rounds),  # type: ignore[misc]
                rounds,
                3,
            )
    yield Cell("modes", "four modes", lambda run: four_modes(*_box(run)), runs=2)
    yield Cell("strategies", "four strategies, chosen per user", with_strategies, runs=3)
    yield Cell("cascade", "christianity, cascades", lambda run: log("em", "christianity", 10, "cascade"), 30, 2)


def _box(run: int) -> tuple[Any, np.random.Generator]:
    rng = np.random.default_rng([0, FIRST_NETWORK + run])
    return digg_like(0.5, rng, product_effect=1.5), rng


def with_strategies(run: int) -> Environment:
    """A generated network with four strategies: the policy says for each user which one is used."""
    rng = np.random.default_rng([0, FIRST_NETWORK + run])
    return Environment.from_sandbox(digg_like(0.5, rng, product_effect=1.5, n_strategies=4))


def warm(dataset: Dataset, policy: Any, world: Environment) -> Any:
    """The policy, which is told what happened on half of the items before its first round.

    These are items that no round is on. Whoever acted exposes all followers who had not acted yet; a follower who acted
    later responded.
    """
    graph, log, bind = world.graph, dataset.log, policy.bind
    items = np.arange(log.n_items)
    items = items[(items % 5 == 1) | (items % 5 == 2)]

    def bind_and_tell(*arguments: Any) -> None:
        bind(*arguments)
        for item in items.tolist():
            of = slice(log.item_offsets[item], log.item_offsets[item + 1])
            acted = np.full(graph.n_nodes, np.inf)
            np.minimum.at(acted, log.users[of], log.times[of])
            edges = graph.out_edges(np.unique(log.users[of]))
            exposed = edges[acted[graph.sources[edges]] < acted[graph.targets[edges]]]
            outcomes = np.isfinite(acted[graph.targets[exposed]]).astype(np.float64)
            policy.update(world.products[item], exposed, outcomes, passive=True)

    policy.bind = bind_and_tell
    return policy


def without_redundancy(policy: Any) -> Any:
    """The policy, whose oracle counts every contact as if it were independent of the others."""
    pick = type(policy).pick

    def plain(prediction: Any, *rest: Any) -> Any:
        return pick(policy, prediction.with_redundancy(0.0), *rest)

    policy.pick = plain
    return policy


def contestants(cell: Cell, world: Environment) -> dict[str, Callable[[], Any]]:
    """The policies by their labels, as this world needs them."""
    if world.strategies:
        return {label: partial(copy.deepcopy, policy) for label, policy in strategy_contestants().items()}
    made: dict[str, Callable[[], Any]] = {}
    for label, make in POLICIES.items():
        made[label] = make
        if label not in SIMPLE:
            made[label] = partial(_told, cell, world, make)
        if label + WITHOUT in REACH:
            made[label + WITHOUT] = partial(_told, cell, world, partial(_plain, make))
    return made


def _plain(make: Callable[[], Any]) -> Any:
    return without_redundancy(make())


def _told(cell: Cell, world: Environment, make: Callable[[], Any]) -> Any:
    """The policy, told what this world tells before the first round."""
    return make() if cell.begin is None else cell.begin(make(), world)


def play(cell: Cell, runs: int, out: Path) -> dict[str, list[Run]]:
    """All runs of a world by policy, read or played."""
    kept = Kept(out / f"{cell.group}-{cell.name.replace(' ', '_').replace('/', '_')}.jsonl")
    found: dict[str, list[Run]] = {}
    for run in range(cell.runs or runs):
        world = cell.world(run)
        for label, make in contestants(cell, world).items():
            one = kept.run(partial(_played, cell, world, make, run), policy=label, run=run)
            found.setdefault(label, []).append(one)
    return found


def _played(cell: Cell, world: Environment, make: Callable[[], Any], run: int) -> Run:
    return means(run_policy(world, make(), rounds=cell.rounds, run=FIRST_RUN + run))


def difference(runs: Sequence[Run], ours: Sequence[Run]) -> str:
    """How much more than ours was reached, run by run, with a standard error."""
    apart = np.array([one.reach - other.reach for one, other in zip(runs, ours, strict=True)])
    error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else np.nan
    return f"{apart.mean():+.1f} ± {error:.1f}"


def reach_row(cell: Cell, found: Mapping[str, Sequence[Run]]) -> str:
    """One world as a row: what was reached, and the difference to ours."""
    ours = found["TensorUCB"]
    cells = [f"{cell.name} ({len(ours)} runs)", f"{np.mean([run.best for run in ours]):.1f}"]
    for label in REACH:
        runs = found[label]
        reach = f"{np.mean([run.reach for run in runs]):.1f}"
        text = f"**{reach}**" if label == "TensorUCB" else f"{reach} ({difference(runs, ours)})"
        cells.append(f"{text} ({share_of_best(runs):.0f})" if label in WITH_SHARE else text)
    return f"| {' | '.join(cells)} |"


def regret_row(cell: Cell, found: Mapping[str, Sequence[Run]]) -> str:
    """One world as a row: regret, and what was reached in % of the best possible."""
    cells = [
        f"{np.mean([run.regret for run in found[label]]):.1f} ({share_of_best(found[label]):.0f})" for label in POLICIES
    ]
    return f"| {cell.name} | {' | '.join(cells)} |"


def strategy_table(found: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """A world with strategies, where other policies play: one row per policy."""
    yield "| policy | reach | minus TensorUCB | % of best |\n| --- | ---: | ---: | ---: |"
    ours = found["TensorUCB"]
    for label, runs in sorted(found.items(), key=lambda pair: -np.mean([run.reach for run in pair[1]])):
        apart = "–" if label == "TensorUCB" else difference(runs, ours)
        yield f"| {label} | {np.mean([run.reach for run in runs]):.1f} | {apart} | {share_of_best(runs):.0f} |"


def header(columns: Sequence[str]) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(columns)} |\n| --- |{' ---: |' * (len(columns) - 1)}"


def main() -> None:
    """Play what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--only",
        action="append",
        help="a group: replay, simulated, sizes, warm, priors, changed, modes, strategies, cascade",
    )
    parser.add_argument("--out", type=Path, default=Path("out/yardsticks"))
    given = parser.parse_args()
    regrets = [header(["world", *POLICIES])]
    last = ""
    for cell in cells(given.data, given.out / "prepared"):
        if given.only is not None and cell.group not in given.only:
            continue
        found = play(cell, given.runs, given.out)
        if cell.group != last:
            print(f"\n**{cell.group}**, {cell.rounds} rounds")
        if cell.group == "strategies":
            print("\n".join(strategy_table(found)), flush=True)
        else:
            names = [WITHOUT.strip(", ") if label.endswith(WITHOUT) else label for label in REACH]
            columns = [f"{name} (% of best)" if name in WITH_SHARE else name for name in names]
            if cell.group != last:
                print(header(["world", "best possible", *columns]))
            print(reach_row(cell, found), flush=True)
            regrets.append(regret_row(cell, found))
        last = cell.group
    if len(regrets) > 1:
        print("\nThe same as regret, in brackets % of best\n\n" + "\n".join(regrets))


if __name__ == "__main__":
    main()
