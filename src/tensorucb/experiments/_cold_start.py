"""Newcomers: users and products that appear in the middle of a campaign, known by their features alone."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_share
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._results import mean_interval
from tensorucb.experiments._runs import check_environment, check_policies, check_rounds, check_seed, run_policy
from tensorucb.policies import Policy

# Purposes of derived random streams: (seed, purpose, run).
_NEW, _BEFORE, _AFTER = 51, 52, 53


class WorldWithNewcomers(Environment):
    """A world in which a ``share`` of users and products arrive after ``arrival`` rounds.

    Before, new users cannot be seeded and new products are not promoted; after, every round promotes a new product.
    Who is new follows from the seed and the run. How many newcomers were seeded is counted, round by round.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> late = WorldWithNewcomers(world, share=0.5, arrival=3)
    >>> tu.experiments.run_policy(late, tu.policies.HighDegree(), rounds=5).spread.shape, len(late.newcomers_seeded)
    ((5,), 5)
    """

    def __init__(self, environment: Environment, *, share: float = 0.5, arrival: int = 50) -> None:
        vars(self).update(vars(check_environment(environment)))
        self.share = check_share("share", share, zero=False, one=False)
        self.arrival = check_rounds("arrival", arrival)
        self.name = f"{environment.name}, {share:.0%} arrive after {arrival} rounds"
        self.newcomers_seeded: list[int] = []
        self._make_caches()

    def draw_products(self, rounds: int, *, seed: int, run: int) -> I64:
        """Old products before the arrival, new ones after it."""
        _, new, old = self._newcomers(seed, run)
        before, after = (np.random.default_rng([seed, purpose, run]) for purpose in (_BEFORE, _AFTER))
        late = max(0, rounds - self.arrival)
        return np.concatenate([before.choice(old, rounds - late), after.choice(new, late)])

    def in_round(self, round_number: int, *, seed: int, run: int) -> Environment:
        """The world without new users, or with them."""
        if round_number == 0:
            self._is_new = self._newcomers(seed, run)[0]
            self.newcomers_seeded.clear()
            self._veterans = copy.copy(self)
            self._veterans.candidates = np.flatnonzero(~self._is_new)
            self._veterans.optimum = lru_cache(maxsize=None)(self._veterans._compute_optimum)
        return self._veterans if round_number < self.arrival else self

    def observe(
        self,
        product: int,
        rows: ArrayLike,
        strategies: ArrayLike | None = None,
        *,
        seed: int,
        run: int,
        round_number: int,
    ) -> tuple[I64, F64]:
        """What the round shows, as in any world; newcomers among the seeds are counted."""
        self.newcomers_seeded.append(int(self._is_new[np.asarray(rows)].sum()))
        return super().observe(product, rows, strategies, seed=seed, run=run, round_number=round_number)

    def _newcomers(self, seed: int, run: int) -> tuple[NDArray[np.bool_], I64, I64]:
        """Which users are new, the new products, and the others."""
        rng = np.random.default_rng([seed, _NEW, run])
        is_new = rng.random(self.graph.n_nodes) < self.share
        order = rng.permutation(self.product_rows)
        cut = max(1, min(order.size - 1, round(self.share * order.size)))
        return is_new, order[:cut], order[cut:]


@dataclass(frozen=True)
class Arrival:
    """One policy's regret in the rounds after the newcomers' arrival, (runs, rounds), and how many it seeded."""

    regret: F64
    newcomers_seeded: F64


def cold_start(
    environment: Environment,
    policies: Mapping[str, Policy],
    *,
    share: float = 0.5,
    rounds_before: int = 50,
    rounds_after: int = 20,
    runs: int = 5,
    seed: int = 0,
) -> dict[str, Arrival]:
    """Let policies learn without a ``share`` of users and products, then let these in.

    Before the arrival newcomers are never seeded and their products never promoted, so nothing is known of them but
    features. After it every round promotes a new product, and everybody may be seeded. The policies go on as they
    are: nothing is restarted.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> found = cold_start(world, {"HighDegree": tu.policies.HighDegree()}, rounds_before=3, rounds_after=4, runs=1)
    >>> found["HighDegree"].regret.shape
    (1, 4)
    """
    check_policies(policies)
    before, after = check_rounds("rounds_before", rounds_before), check_rounds("rounds_after", rounds_after)
    runs, seed = check_rounds("runs", runs), check_seed("seed", seed)
    world = WorldWithNewcomers(environment, share=share, arrival=before)
    found: dict[str, Arrival] = {}
    for label, policy in policies.items():
        regret, seeded = np.empty((runs, after)), np.empty((runs, after))
        for run in range(runs):
            regret[run] = run_policy(world, policy, rounds=before + after, run=run, seed=seed).regret[before:]
            seeded[run] = world.newcomers_seeded[before:]
        found[label] = Arrival(regret, seeded)
    return found


def arrival_table(found: Mapping[str, Arrival]) -> list[dict[str, Any]]:
    """One row per policy, best first: regret in the first round after the arrival and over all of them."""
    rows: list[dict[str, Any]] = []
    for policy, arrived in found.items():
        regret = mean_interval(arrived.regret.mean(axis=1)).row()
        rows.append(
            {
                "policy": policy,
                "first_round": float(arrived.regret[:, 0].mean()),
                f"rounds_1_to_{arrived.regret.shape[1]}": regret["mean"],
                "low": regret["low"],
                "high": regret["high"],
                "newcomers_seeded": float(arrived.newcomers_seeded.mean()),
            }
        )
    return sorted(rows, key=lambda row: float([*row.values()][2]))
