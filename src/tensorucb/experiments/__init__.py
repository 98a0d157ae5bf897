"""Experiments: the world, the runner, regret and its bound, tuning, and results on disk."""

from __future__ import annotations

from tensorucb.experiments._environment import Environment, Optimum, WorldSettings
from tensorucb.experiments._files import (
    REGRET_COLUMNS,
    RunFiles,
    write_csv,
    write_manifest,
    write_regret,
    write_timings,
)
from tensorucb.experiments._regret import (
    ETA,
    average_regret,
    exploration_condition,
    regret_bound,
    scaled_regret,
)
from tensorucb.experiments._runner import (
    Experiment,
    RunResult,
    policy_settings,
    product_sequence,
    run_experiment,
    run_policy,
)
from tensorucb.experiments._summary import Interval, mean_interval

__all__ = [
    "ETA",
    "REGRET_COLUMNS",
    "Environment",
    "Experiment",
    "Interval",
    "Optimum",
    "RunFiles",
    "RunResult",
    "WorldSettings",
    "average_regret",
    "exploration_condition",
    "mean_interval",
    "policy_settings",
    "product_sequence",
    "regret_bound",
    "run_experiment",
    "run_policy",
    "scaled_regret",
    "write_csv",
    "write_manifest",
    "write_regret",
    "write_timings",
]
