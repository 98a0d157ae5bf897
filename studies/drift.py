"""How often ``ForgetOnDrift`` rings while nothing changes, and how soon it does after a change.

The worlds are those of ``tensorucb compare``: the truth fitted to a log, the direct objective, one-hop feedback. Four
tables are printed: alarms in worlds that stand still, the delay after a change in the same worlds, how ``TensorUCB``
follows a change by itself, and what forgetting saves in small generated worlds whose strongest edges become the
weakest.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from studies import DATA
from studies.changed_worlds import ChangedWorld, sources_reversed
from tensorucb.data import make_sandbox, read_dataset
from tensorucb.experiments import Environment, WorldSettings, environment_from_dataset
from tensorucb.policies import HighDegree, LinUCB, LogisticUCB, Policy, TensorUCB
from tensorucb.policies.drift import ForgetOnDrift

POLICIES: dict[str, Callable[[], Policy]] = {"LogisticUCB": LogisticUCB, "LinUCB": LinUCB}
RUN_LENGTH = 2000
_POLICY, _ORACLE = 2, 3


Round = tuple[Environment, int, NDArray[np.int64]]


class Reached:
    """What rounds reached, beside the best possible."""

    def __init__(self, played: Iterable[Round]) -> None:
        rounds = [(world.evaluate(item, rows), world.optimum(item).spread) for world, item, rows in played]
        self.spread, self.best = np.array(rounds).T

    def cell(self, part: slice) -> str:
        """Mean regret of some rounds, and what was reached in % of the best possible."""
        spread = self.spread[part]
        best = self.best[part]
        return f"{(best - spread).mean():.1f} ({100.0 * spread.sum() / best.sum():.0f})"


def play(
    policy: Policy, worlds: tuple[Environment, Environment], *, rounds: int, change: int, run: int, seed: int = 0
) -> Iterator[Round]:
    """Play round by round, and yield world, product and seeds of each; the world changes after ``change`` rounds."""
    before, after = worlds
    policy.bind(before.graph, before.users, np.random.default_rng([seed, _POLICY, run]))
    oracle = before.oracle(np.random.default_rng([seed, _ORACLE, run]))
    for t, product in enumerate(before.draw_products(rounds, run=run, seed=seed).tolist()):
        world = before if t < change else after
        rows = policy.choose(world.products[product], world.settings.k, oracle)
        policy.update(world.products[product], *world.observe(product, rows, seed=seed, run=run, round_number=t))
        yield world, product, rows


def reversed_world(world: Environment) -> Environment:
    """The strongest edges become the weakest."""
    some = world.product_rows[:: max(1, world.product_rows.size // 20)].tolist()
    ascending = np.argsort(np.mean([world.probabilities(i) for i in some], axis=0), kind="stable")
    order = np.empty_like(ascending)
    order[ascending] = ascending[::-1]
    return ChangedWorld(world, "strongest edges become the weakest", lambda i: world.probabilities(i)[order])


def halved_world(world: Environment) -> Environment:
    """Every probability halves."""
    return ChangedWorld(world, "every probability halves", lambda i: 0.5 * world.probabilities(i))


def sandbox_worlds(seed: int) -> tuple[Environment, Environment]:
    """A small generated world, and the same with its edges reversed."""
    box = make_sandbox(100, 1000, 6, n_topics=4, base_rate=0.05, rng=seed)
    world = Environment.from_sandbox(box, settings=WorldSettings(k=5))
    return world, reversed_world(world)


def still(name: str, world: Environment, policy: str, *, runs: int, rounds: int, seed: int) -> None:
    """One row: alarms while nothing changes."""
    rang, alarms = 0, 0
    for run in range(runs):
        wrapped = ForgetOnDrift(POLICIES[policy](), run_length=RUN_LENGTH)
        for _ in play(wrapped, (world, world), rounds=rounds, change=rounds, run=run, seed=seed):
            pass
        rang, alarms = rang + bool(wrapped.alarms), alarms + len(wrapped.alarms)
    promised = 100 * (rounds - wrapped.warm_up) / RUN_LENGTH
    print(f"| {name} | {policy} | {runs} × {rounds} | {alarms} | {rang} of {runs} | {promised:.1f} % |", flush=True)


def delays(name: str, world: Environment, policy: str, *, runs: int, change: int, limit: int, seed: int) -> None:
    """Two rows: rounds from the change to the alarm."""
    for what, after in (("reversed", reversed_world(world)), ("halved", halved_world(world))):
        found = []
        for run in range(runs):
            wrapped = ForgetOnDrift(POLICIES[policy](), run_length=RUN_LENGTH)
            for _ in play(wrapped, (world, after), rounds=change + limit, change=change, run=run, seed=seed):
                if wrapped.alarms and wrapped.alarms[-1] > change:
                    break
            found += [next((t - change for t in wrapped.alarms if t > change), None)]
        seen = sorted(delay for delay in found if delay is not None)
        spread = f"{np.median(seen):g} ({seen[0]}–{seen[-1]})" if seen else "–"
        print(f"| {name} | {policy} | {what} | {len(seen)} of {runs} | {spread} |", flush=True)


def followed(name: str, world: Environment, *, runs: int, change: int, seed: int) -> None:
    """Rows on a change of the sources' places: TensorUCB as it is and started afresh there, and picking by degree."""
    worlds = world, sources_reversed(world)
    makers: dict[str, Callable[[], Policy]] = {
        "TensorUCB": TensorUCB,
        "TensorUCB, started afresh": TensorUCB,
        "HighDegree": HighDegree,
    }

    def rounds(label: str) -> Iterator[Round]:
        for run in range(runs):
            policy = makers[label]()
            played = play(policy, worlds, rounds=change + 60, change=change, run=run, seed=seed)
            for t, one in enumerate(played):
                yield one
                if t == change - 1 and label.endswith("afresh"):
                    policy.bind(world.graph, world.users, np.random.default_rng([seed, _POLICY, run]))

    for label in makers:
        found = Reached(rounds(label))
        found.spread = found.spread.reshape(runs, -1).mean(axis=0)
        found.best = found.best.reshape(runs, -1).mean(axis=0)
        cells = [found.cell(slice(start, start + 20)) for start in range(change - 20, change + 60, 20)]
        print(f"| {name} | {label} | {' | '.join(cells)} |", flush=True)


def forgetting(seed: int, *, change: int, rounds: int) -> None:
    """One row: with and without the alarm, and picking by degree."""
    wrapped = ForgetOnDrift(LogisticUCB(), run_length=RUN_LENGTH)
    found = [
        Reached(play(policy, sandbox_worlds(seed), rounds=rounds, change=change, run=seed))
        for policy in (LogisticUCB(), wrapped, HighDegree())
    ]
    when = ", ".join(str(t - change) for t in wrapped.alarms) or "never"
    cells = [found[0].cell(slice(change)), *(one.cell(slice(change, None)) for one in found)]
    print(f"| {seed} | {when} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, default=Path("out/studies"), help="where features and truth are kept")
    parser.add_argument("--logs", nargs="*", default=["digg_core", "christianity"])
    parser.add_argument("--policies", nargs="*", default=list(POLICIES), choices=list(POLICIES))
    parser.add_argument("--runs", type=int, default=40, help="runs without a change")
    parser.add_argument("--rounds", type=int, default=150, help="rounds of each of them")
    parser.add_argument("--changed-runs", type=int, default=10, help="runs with a change after round 100")
    parser.add_argument("--followed-runs", type=int, default=3, help="runs of TensorUCB alone with such a change")
    parser.add_argument("--sandboxes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=100)
    options = parser.parse_args()
    worlds = {
        name: environment_from_dataset(read_dataset(options.data / name), cache=options.cache / name)
        for name in options.logs
    }
    print("| log | policy | runs × rounds | alarms | runs with an alarm | promised at most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, world in worlds.items():
        for policy in options.policies if options.runs else ():
            still(name, world, policy, runs=options.runs, rounds=options.rounds, seed=options.seed)
    print("\n| log | policy | change after round 100 | noticed within 50 rounds | after … rounds, median (range) |")
    print("| --- | --- | --- | --- | --- |")
    for name, world in worlds.items():
        for policy in options.policies:
            delays(name, world, policy, runs=options.changed_runs, change=100, limit=50, seed=options.seed)
    print("\nRegret (% of the best possible) after sources have changed places:\n")
    print("| log | policy | rounds 81–100 | 101–120 | 121–140 | 141–160 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, world in worlds.items():
        followed(name, world, runs=options.followed_runs, change=100, seed=options.seed)
    print("\nRegret (% of the best possible) of LogisticUCB alone and wrapped, and of picking by degree:\n")
    print("| seed | alarm after … rounds | before | after, alone | after, forgetting | after, HighDegree |")
    print("| --- | --- | --- | --- | --- | --- |")
    for seed in range(options.sandboxes):
        forgetting(seed, change=120, rounds=240)


if __name__ == "__main__":
    main()
