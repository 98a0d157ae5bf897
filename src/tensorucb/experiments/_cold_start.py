"""Newcomers: users and products that appear in the middle of a campaign, known by their features alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorucb.arrays import F64
from tensorucb.checks import check_share
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._regret import scaled_regret
from tensorucb.experiments._results import mean_interval
from tensorucb.experiments._runner import check_environment, check_policies, check_rounds, check_seed
from tensorucb.policies import Policy

# Purposes of derived random streams: (seed, purpose, run).
_NEW, _BEFORE, _AFTER, _POLICY, _ORACLE = 51, 52, 53, 54, 55


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
    check_environment(environment)
    check_policies(policies)
    share = check_share("share", share, zero=False, one=False)
    before, after = check_rounds("rounds_before", rounds_before), check_rounds("rounds_after", rounds_after)
    runs, seed = check_rounds("runs", runs), check_seed("seed", seed)
    found: dict[str, Arrival] = {}
    for label, policy in policies.items():
        plays = [_play(environment, policy, share, before, after, run, seed) for run in range(runs)]
        found[label] = Arrival(np.array([p[0] for p in plays]), np.array([p[1] for p in plays]))
    return found


def arrival_table(found: Mapping[str, Arrival]) -> list[dict[str, Any]]:
    """One row per policy, best first: regret in the first round after the arrival and over all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.experiments import arrival_table
    >>> arrival_table({"LinUCB": Arrival(regret=np.ones((1, 20)), newcomers_seeded=np.full((1, 20), 3.0))})[0]["high"]
    1.0
    """
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


def _play(
    environment: Environment, policy: Policy, share: float, before: int, after: int, run: int, seed: int
) -> tuple[F64, F64]:
    """Regret of each round after the arrival, and the number of newcomers seeded in it."""
    new, draw_before, draw_after, bound, asked = (
        np.random.default_rng([seed, purpose, run]) for purpose in (_NEW, _BEFORE, _AFTER, _POLICY, _ORACLE)
    )
    new_user = new.random(environment.graph.n_nodes) < share
    order = new.permutation(environment.product_rows)
    cut = max(1, min(order.size - 1, round(share * order.size)))
    policy.bind(environment.graph, environment.users, bound)
    # Both take their random keys from one stream.
    everybody, veterans = environment.oracle(asked), environment.oracle(asked, candidates=np.flatnonzero(~new_user))
    products = [*draw_before.choice(order[cut:], before).tolist(), *draw_after.choice(order[:cut], after).tolist()]
    spread, optimum, seeded = np.empty(after), np.empty(after), np.empty(after)
    for t, product in enumerate(products):
        vector, oracle = environment.products[product], veterans if t < before else everybody
        rows = policy.choose(vector, environment.settings.k, oracle)
        policy.update(vector, *environment.observe(product, rows, seed=seed, run=run, round_number=t))
        if t >= before:
            spread[t - before] = environment.evaluate(product, rows)
            optimum[t - before] = environment.optimum(product).spread
            seeded[t - before] = new_user[rows].sum()
    return scaled_regret(optimum, spread), seeded
