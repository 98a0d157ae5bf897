"""Newcomers: users and products that appear in the middle of a campaign, known by their features alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_share
from tensorucb.experiments._arguments import check_environment, check_policies, check_rounds, check_seed
from tensorucb.experiments._environment import Environment
from tensorucb.experiments._regret import scaled_regret
from tensorucb.experiments._summary import mean_interval
from tensorucb.policies import Oracle, Policy

_NEW, _BEFORE, _AFTER, _POLICY, _ORACLE = 51, 52, 53, 54, 55


@dataclass(frozen=True)
class Arrival:
    """One policy's regret in the rounds after the newcomers' arrival, (runs, rounds), and how many it seeded."""

    regret: F64
    newcomers_seeded: F64


class _Restricted:
    """An oracle that may choose among some rows only."""

    def __init__(self, oracle: Oracle, candidates: I64) -> None:
        self._oracle, self.candidates = oracle, candidates

    def __call__(
        self, probabilities: F64, k: int, *, candidates: I64 | None = None, must_include: I64 | None = None
    ) -> I64:
        allowed = self.candidates if candidates is None else np.intersect1d(self.candidates, candidates)
        return self._oracle(probabilities, k, candidates=allowed, must_include=must_include)


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
    """Let policies learn without a share of users and products, then let these in.

    Before the arrival newcomers are never seeded and their products never promoted, so nothing is known of them but
    features. After it every round promotes a new product, and everybody may be seeded. The policies go on as they
    are: nothing is restarted.

    Parameters
    ----------
    share
        Share of users, and of products, that arrive later.
    """
    check_environment(environment)
    check_policies(policies)
    share = check_share("share", share, zero=False, one=False)
    rounds_before, rounds_after = (
        check_rounds("rounds_before", rounds_before),
        check_rounds("rounds_after", rounds_after),
    )
    runs, seed = check_rounds("runs", runs), check_seed("seed", seed)
    found: dict[str, Arrival] = {}
    for label, policy in policies.items():
        plays = [_play(environment, policy, share, rounds_before, rounds_after, run, seed) for run in range(runs)]
        found[label] = Arrival(np.array([p[0] for p in plays]), np.array([p[1] for p in plays]))
    return found


def arrival_table(found: Mapping[str, Arrival]) -> list[dict[str, Any]]:
    """One row per policy, best first: regret in the first round after the arrival and over all of them."""
    rows: list[dict[str, Any]] = []
    for policy, arrived in found.items():
        regret = mean_interval(arrived.regret.mean(axis=1))
        rows.append(
            {
                "policy": policy,
                "first_round": float(arrived.regret[:, 0].mean()),
                f"rounds_1_to_{arrived.regret.shape[1]}": float(regret.mean),
                "low": float(regret.low),
                "high": float(regret.high),
                "newcomers_seeded": float(arrived.newcomers_seeded.mean()),
            }
        )
    return sorted(rows, key=lambda row: float([*row.values()][2]))


def _play(
    environment: Environment, policy: Policy, share: float, before: int, after: int, run: int, seed: int
) -> tuple[F64, F64]:
    rng = np.random.default_rng([seed, _NEW, run])
    n, k = environment.graph.n_nodes, environment.settings.k
    new_user = rng.random(n) < share
    order = rng.permutation(environment.product_rows)
    cut = max(1, min(order.size - 1, round(share * order.size)))
    policy.bind(environment.graph, environment.users, np.random.default_rng([seed, _POLICY, run]))
    oracle = environment.oracle(np.random.default_rng([seed, _ORACLE, run]))
    veterans = _Restricted(oracle, np.flatnonzero(~new_user))
    draws = np.random.default_rng([seed, _BEFORE, run])
    for t, product in enumerate(draws.choice(order[cut:], before).tolist()):
        rows = policy.choose(environment.products[product], k, veterans)
        told = environment.observe(product, rows, seed=seed, run=run, round_number=t)
        policy.update(environment.products[product], *told)
    spread, optimum, seeded = np.empty(after), np.empty(after), np.empty(after)
    draws = np.random.default_rng([seed, _AFTER, run])
    for t, product in enumerate(draws.choice(order[:cut], after).tolist()):
        rows = policy.choose(environment.products[product], k, oracle)
        told = environment.observe(product, rows, seed=seed, run=run, round_number=before + t)
        policy.update(environment.products[product], *told)
        spread[t] = environment.evaluate(product, rows)
        optimum[t] = environment.optimum(product).spread
        seeded[t] = new_user[rows].sum()
    return scaled_regret(optimum, spread), seeded
