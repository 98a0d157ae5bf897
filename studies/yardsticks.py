"""Both yardsticks beside each other: simulated worlds, and logs that answer for themselves.

    python -m studies.yardsticks [--data DIR] [--runs 5] [--only GROUP] [--out DIR]

Every policy plays with its defaults, as it comes. A policy with a mean plays twice: with the oracle told how far a
second contact brings nothing new, and without. Rounds of a log draw from items whose number is 3 or 4 modulo 5; nothing
about the model was chosen on these. Generated networks have numbers that no other study uses. Finished runs are kept in
``--out`` as lines of JSON, so that the command goes on where it was.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from studies import DATA
from studies.changed_worlds import CHANGES
from studies.worlds import dataset_of, four_modes
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
WITHOUT = ", no redundancy"
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
        rows = world.product_rows[world.product_rows % 5 >= 3]
        world = world.with_product_rows(rows)
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
            made[label + WITHOUT] = partial(_told, cell, world, partial(_plain, make))
    return made


def _plain(make: Callable[[], Any]) -> Any:
    return without_redundancy(make())


def _told(cell: Cell, world: Environment, make: Callable[[], Any]) -> Any:
    """The policy, told what this world tells before the first round."""
    return make() if cell.begin is None else cell.begin(make(), world)


def play(cell: Cell, runs: int, out: Path) -> dict[str, list[dict[str, Any]]]:
    """All runs of a world, read or played."""
    path = out / f"{cell.group}-{cell.name.replace(' ', '_').replace('/', '_')}.jsonl"
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    if path.exists():
        for text in path.read_text().splitlines():
            entry = json.loads(text)
            kept[entry["policy"], entry["run"]] = entry
    found: dict[str, list[dict[str, Any]]] = {}
    for run in range(cell.runs or runs):
        world = cell.world(run)
        for label, make in contestants(cell, world).items():
            if (label, run) not in kept:
                result = run_policy(world, make(), rounds=cell.rounds, run=FIRST_RUN + run, label=label)
                kept[label, run] = _entry(label, result, run)
                with path.open("a") as file:
                    file.write(json.dumps(kept[label, run]) + "\n")
            found.setdefault(label, []).append(kept[label, run])
    return found


def _entry(label: str, result: pl.DataFrame, run: int) -> dict[str, Any]:
    spread, best, regret = (result[name].to_numpy() for name in ("spread", "optimum", "regret"))
    return {
        "policy": label,
        "run": run,
        "reach": float(spread.mean()),
        "first": float(spread[:20].mean()),
        "last": float(spread[-20:].mean()),
        "best": float(best.mean()),
        "regret": float(regret.mean()),
    }


def table(cell: Cell, found: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """One world as rows: reach, its difference to ours with a standard error, % of the best possible, regret."""
    ours = np.array([entry["reach"] for entry in found["TensorUCB"]])
    yield f"\n**{cell.group}: {cell.name}** ({ours.size} runs of {cell.rounds} rounds)\n"
    yield "| policy | reach | minus TensorUCB | % of best | first 20 | last 20 | regret |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for label, entries in sorted(found.items(), key=lambda pair: -np.mean([entry["reach"] for entry in pair[1]])):
        reach = np.array([entry["reach"] for entry in entries])
        apart = reach - ours
        error = apart.std(ddof=1) / np.sqrt(apart.size) if apart.size > 1 else np.nan
        difference = "–" if label == "TensorUCB" else f"{apart.mean():+.2f} ± {error:.2f}"
        share = 100.0 * reach.mean() / np.mean([entry["best"] for entry in entries])
        first, last, regret = (np.mean([entry[name] for entry in entries]) for name in ("first", "last", "regret"))
        numbers = f"{reach.mean():.1f} | {difference} | {share:.1f} | {first:.1f} | {last:.1f} | {regret:.1f}"
        yield f"| {label} | {numbers} |"


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
    given.out.mkdir(parents=True, exist_ok=True)
    for cell in cells(given.data, given.out / "prepared"):
        if given.only is None or cell.group in given.only:
            print("\n".join(table(cell, play(cell, given.runs, given.out))), flush=True)


if __name__ == "__main__":
    main()
