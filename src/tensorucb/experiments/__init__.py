"""Experiments: the world, runs and comparisons of policies, tuning, regret and its bound."""

from __future__ import annotations

from tensorucb.experiments._comparison import compare
from tensorucb.experiments._dataset import ReplayedLog, environment_from_dataset, replay_from_dataset
from tensorucb.experiments._environment import Environment, Optimum, WorldSettings, WorldWithNewcomers
from tensorucb.experiments._explain import SeedReason, explain_seeds
from tensorucb.experiments._files import write_csv
from tensorucb.experiments._results import (
    ETA,
    Experiment,
    Interval,
    average_regret,
    decision_table,
    exploration_condition,
    mean_interval,
    regret_bound,
    round_regret,
)
from tensorucb.experiments._runs import run_experiment, run_policy
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.experiments._tuning import Trial, Tuning, split_products, tune

__all__ = [
    "ETA",
    "Environment",
    "Experiment",
    "Interval",
    "Optimum",
    "ReplayedLog",
    "SeedReason",
    "StrategyPolicy",
    "Trial",
    "Tuning",
    "WorldSettings",
    "WorldWithNewcomers",
    "average_regret",
    "compare",
    "decision_table",
    "environment_from_dataset",
    "explain_seeds",
    "exploration_condition",
    "mean_interval",
    "regret_bound",
    "replay_from_dataset",
    "round_regret",
    "run_experiment",
    "run_policy",
    "split_products",
    "tune",
    "write_csv",
]
