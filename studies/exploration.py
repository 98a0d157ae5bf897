"""How much should the default policy explore? Worlds as they are, and worlds in which a greedy policy may go wrong.

    python -m studies.exploration [--draws 3] [--rounds 100] [--out out/exploration.csv]

The same draws as in `studies.worlds`, changed in one way each: user features that say nothing (rows shuffled), a past
that misleads (influence shuffled, or turned round: the most influential look least so), newcomers in the middle of the
campaign, one or two users per round, a base rate believed far too low. A number is the mean regret; the last rows
compare the choices over all worlds: regret divided by that of the best choice in the same world.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.worlds import DATA, run_number, world
from tensorucb.experiments import Environment, WorldWithNewcomers, run_policy
from tensorucb.features import UserProfile
from tensorucb.policies import TensorUCB

Change = Callable[[Environment, np.random.Generator], Environment]
CHOICES: dict[str, dict[str, Any]] = {
    "greedy": {"exploration_kind": "greedy"},
    **{f"c = {c}": {"exploration": c} for c in (0.1, 0.3, 0.5, 1.0)},
    "Thompson, c = 0.3": {"exploration": 0.3, "exploration_kind": "thompson"},
}


@dataclass(frozen=True)
class Condition:
    """A world, what is changed in it, and settings of the policy other than its exploration."""

    world: str
    change: Change = lambda environment, rng: environment
    newcomers: bool = False
    policy: dict[str, Any] = field(default_factory=dict)


def seeds(k: int) -> Change:
    """Only ``k`` users per round."""

    def change(old: Environment, rng: np.random.Generator) -> Environment:
        settings = replace(old.settings, k=k)
        return Environment(
            old.graph, old.users, old.products, old.probabilities, settings=settings, product_rows=old.product_rows
        )

    return change


def no_features(old: Environment, rng: np.random.Generator) -> Environment:
    """Every user gets the description of another."""
    order, users = rng.permutation(old.graph.n_nodes), old.users
    if isinstance(users, UserProfile):
        return old.with_users(UserProfile(**{name: part[order] for name, part in users.parts().items()}))
    return old.with_users(None if users is None else users[order])


def few_without_features(old: Environment, rng: np.random.Generator) -> Environment:
    """Two users per round, and nothing is known of them."""
    return seeds(2)(no_features(old, rng), rng)


def past(order: Callable[[NDArray[np.float64], np.random.Generator], NDArray[np.int64]]) -> Change:
    """Users get the past influence of others."""

    def change(old: Environment, rng: np.random.Generator) -> Environment:
        users = old.users
        assert isinstance(users, UserProfile)
        assert users.credit is not None
        assert users.exposure is not None
        expected = users.exposure.sum(axis=1) * users.credit.sum() / users.exposure.sum()
        taken = order((users.credit.sum(axis=1) + 2.0) / (expected + 2.0), rng)
        return old.with_users(replace(users, credit=users.credit[taken], exposure=users.exposure[taken]))

    return change


def shuffled(influence: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Anybody's."""
    return rng.permutation(influence.size)


def turned(influence: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """The most influential get the past of the least influential."""
    order = np.argsort(influence, kind="stable")
    taken = np.empty_like(order)
    taken[order] = order[::-1]
    return taken


CONDITIONS = {
    "digg_core": Condition("digg_core"),
    "christianity": Condition("christianity"),
    "effect 1.5": Condition("effect 1.5"),
    "effect 0, features say nothing": Condition("effect 0", no_features),
    "effect 1.5, features say nothing": Condition("effect 1.5", no_features),
    "digg_core, past of others": Condition("digg_core", past(shuffled)),
    "digg_core, past turned round": Condition("digg_core", past(turned)),
    "christianity, past turned round": Condition("christianity", past(turned)),
    "digg_core, newcomers": Condition("digg_core", newcomers=True),
    "effect 1.5, newcomers": Condition("effect 1.5", newcomers=True),
    "digg_core, one user per round": Condition("digg_core", seeds(1)),
    "effect 1.5, two users, no features": Condition("effect 1.5", few_without_features),
    "digg_core, base rate far too low": Condition("digg_core", policy={"base_logit": -7.0}),
    "effect 0, no features, base rate far too low": Condition("effect 0", no_features, policy={"base_logit": -7.0}),
}


def regret(
    condition: Condition, choice: str, draw: int, *, data: Path, cache: Path | None, rounds: int, scale: float = 0.5
) -> float:
    """Mean regret of one run; with newcomers, of the second half, after they came."""
    place = world(condition.world, draw, data=data, cache=cache, scale=scale)
    place = condition.change(place, np.random.default_rng([7, draw]))
    policy, run = TensorUCB(**condition.policy, **CHOICES[choice]), run_number(condition.world, draw)
    if condition.newcomers:
        half = max(1, rounds // 2)
        late = WorldWithNewcomers(place, arrival=half)
        return float(run_policy(late, policy, rounds=2 * half, seed=run)["regret"][half:].mean())
    return float(run_policy(place, policy, rounds=rounds, run=run)["regret"].mean())


def table(found: dict[tuple[str, str, int], float]) -> list[str]:
    """Mean regrets by condition and choice, then both summaries; the best of a row is bold."""
    names, draws = list(dict.fromkeys(key[0] for key in found)), sorted({key[2] for key in found})
    rows = ["| world | " + " | ".join(CHOICES) + " |", "| --- |" + " --- |" * len(CHOICES)]
    values = np.array([[[found[n, c, d] for d in draws] for c in CHOICES] for n in names])
    means = values.mean(axis=2)
    for name, row in zip(names, means, strict=True):
        cells = [f"**{x:.1f}**" if x == row.min() else f"{x:.1f}" for x in row]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    relative = means / means.min(axis=1, keepdims=True)
    for label, summary in (("mean of regret / best", relative.mean(axis=0)), ("worst world", relative.max(axis=0))):
        rows.append(f"| {label} | " + " | ".join(f"{x:.2f}" for x in summary) + " |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, help="where features and truths of the logs are kept")
    parser.add_argument("--out", type=Path, default=Path("out/exploration.csv"), help="runs that are not played again")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", choices=CONDITIONS, action="append")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found: dict[tuple[str, str, int], float] = {}
    if given.out.exists():
        with given.out.open(newline="") as file:
            found = {(name, choice, int(draw)): float(value) for name, choice, draw, value in csv.reader(file)}
    for draw in range(given.draws):
        for name in given.only or CONDITIONS:
            for choice in CHOICES:
                if (name, choice, draw) not in found:
                    options = {"data": given.data, "cache": given.cache, "rounds": given.rounds}
                    found[name, choice, draw] = regret(CONDITIONS[name], choice, draw, **options)
                    with given.out.open("a", newline="") as file:
                        csv.writer(file).writerow([name, choice, draw, found[name, choice, draw]])
    asked = given.only or list(CONDITIONS)
    kept = [key for key in found if key[0] in asked and key[1] in CHOICES and key[2] < given.draws]
    print("\n".join(table({key: found[key] for key in kept})))


if __name__ == "__main__":
    main()
