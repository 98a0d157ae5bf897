"""How much should the default policy explore? Worlds as they are, and worlds in which a greedy policy may go wrong.

    python -m studies.exploration [--draws 3] [--rounds 100] [--out out/exploration.jsonl]

The same draws as in `studies.worlds`, changed in one way each: user features that say nothing (rows shuffled), a past
that misleads (influence shuffled, or turned round: the most influential look least so), newcomers in the middle of the
campaign, one or two users per round, a base rate believed far too low. A number is the mean regret, in brackets what
was reached in % of the best possible; the last rows compare the choices over all worlds: regret divided by that of the
best choice in the same world. Picking by degree stands beside them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.kept import Kept, Run, means, share_of_best
from studies.worlds import DATA, run_number, world
from tensorucb.experiments import Environment, WorldWithNewcomers, run_policy
from tensorucb.features import UserProfile
from tensorucb.policies import HighDegree, Policy, TensorUCB

Change = Callable[[Environment, np.random.Generator], Environment]
CHOICES: dict[str, dict[str, Any]] = {
    "greedy": {"exploration_kind": "greedy"},
    **{f"c = {c}": {"exploration": c} for c in (0.1, 0.3, 0.5, 1.0)},
    "Thompson, c = 0.3": {"exploration": 0.3, "exploration_kind": "thompson"},
}
DEGREE = "HighDegree"


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


def played(
    condition: Condition, choice: str, draw: int, *, data: Path, cache: Path | None, rounds: int, scale: float = 0.5
) -> Run:
    """One run of a choice, or by degree; with newcomers, its second half, after they came."""
    place = world(condition.world, draw, data=data, cache=cache, scale=scale)
    place = condition.change(place, np.random.default_rng([7, draw]))
    policy: Policy = HighDegree() if choice == DEGREE else TensorUCB(**condition.policy, **CHOICES[choice])
    run = run_number(condition.world, draw)
    if condition.newcomers:
        half = max(1, rounds // 2)
        late = WorldWithNewcomers(place, arrival=half)
        return means(run_policy(late, policy, rounds=2 * half, seed=run), start=half)
    return means(run_policy(place, policy, rounds=rounds, run=run))


def table(found: Mapping[str, Mapping[str, Sequence[Run]]]) -> list[str]:
    """Regrets by condition and choice, then both summaries; the best choice of a row is bold."""
    rows = ["| world | " + " | ".join((*CHOICES, DEGREE)) + " |", "| --- |" + " ---: |" * (len(CHOICES) + 1)]
    relative = []
    for name, by_choice in found.items():
        regrets = {choice: float(np.mean([run.regret for run in runs])) for choice, runs in by_choice.items()}
        least = min(regrets[choice] for choice in CHOICES)
        relative.append([regrets[choice] / least for choice in CHOICES])
        cells = []
        for choice in (*CHOICES, DEGREE):
            cell = f"{regrets[choice]:.1f}"
            cell = f"**{cell}**" if regrets[choice] == least else cell
            cells.append(f"{cell} ({share_of_best(by_choice[choice]):.0f})")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    for label, summary in (("mean of regret / best", np.mean), ("worst world", np.max)):
        rows.append(f"| {label} | " + " | ".join(f"{x:.2f}" for x in summary(relative, axis=0)) + " | |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--cache", type=Path, help="where features and truths of the logs are kept")
    parser.add_argument(
        "--out", type=Path, default=Path("out/exploration.jsonl"), help="runs that are not played again"
    )
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--only", choices=CONDITIONS, action="append")
    given = parser.parse_args()
    kept = Kept(given.out)
    found: dict[str, dict[str, list[Run]]] = {}
    for draw in range(given.draws):
        for name in given.only or CONDITIONS:
            for choice in (*CHOICES, DEGREE):
                options = {"data": given.data, "cache": given.cache, "rounds": given.rounds}
                play = partial(played, CONDITIONS[name], choice, draw, **options)
                one = kept.run(play, world=name, choice=choice, draw=draw, rounds=given.rounds)
                found.setdefault(name, {}).setdefault(choice, []).append(one)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
