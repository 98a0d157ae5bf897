"""How good the decisions are, as a table: regret early and late, with intervals over runs or networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorucb.experiments._contestants import OURS
from tensorucb.experiments._runner import Experiment
from tensorucb.experiments._summary import Interval, mean_interval

_LAST = 20
_CHECKPOINTS = (10, 30, 100, 200)


def decision_table(experiment: Experiment, *, networks: int = 1, level: float = 0.9) -> list[dict[str, Any]]:
    """One row per policy, best first: average regret up to each checkpoint and over the last 20 rounds.

    All are means over runs, with intervals for the longest checkpoint of at most 100 rounds and for the last 20;
    ``minus_ours`` is the policy's regret at that checkpoint minus ours, run by run (products and coins of a run are the
    same for all), with its interval; ``worst_of_first_ten`` is the largest mean regret among the first ten rounds.

    Parameters
    ----------
    networks
        Number of networks on which the runs took turns: runs on one network are averaged first, since intervals are
        about new networks then.
    """
    rounds = experiment.results[0].regret.size
    checkpoints = [t for t in _CHECKPOINTS if t <= rounds] or [rounds]
    main = max(t for t in checkpoints if t <= 100) if checkpoints[0] <= 100 else checkpoints[0]

    def interval(values: Sequence[float]) -> Interval:
        return mean_interval(
            values if networks == 1 else [np.mean(values[n::networks]) for n in range(networks)], level=level
        )

    at_main = {p: [float(r.average_regret[main - 1]) for r in experiment.of(p)] for p in experiment.policies}
    rows = []
    for policy in experiment.policies:
        runs = experiment.of(policy)
        average = np.mean([r.average_regret for r in runs], axis=0)
        regret = np.mean([r.regret for r in runs], axis=0)
        late = interval([float(r.regret[-_LAST:].mean()) for r in runs])
        row = {
            "policy": policy,
            **{f"T={t}": float(average[t - 1]) for t in checkpoints},
            **_ends(f"T={main}", interval(at_main[policy])),
            "last20": float(late.mean),
            **_ends("last20", late),
        }
        if OURS in at_main:
            apart = interval([a - b for a, b in zip(at_main[policy], at_main[OURS], strict=True)])
            row |= {f"T={main}_minus_ours": float(apart.mean), **_ends(f"T={main}_minus_ours", apart)}
        rows.append({**row, "worst_of_first_ten": float(regret[:10].max())})
    return sorted(rows, key=lambda row: float(row[f"T={main}"]))


def _ends(name: str, interval: Interval) -> dict[str, float]:
    return {f"{name}_low": float(interval.low), f"{name}_high": float(interval.high)}
