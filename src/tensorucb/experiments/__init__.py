"""Experiments: the world, the runner, regret and its bound, tuning, and results on disk."""

from __future__ import annotations

from tensorucb.experiments._cold_start import WorldWithNewcomers, arrival_table, cold_start
from tensorucb.experiments._comparison import Comparison, compare
from tensorucb.experiments._contestants import (
    contestants,
    ours_untouched,
    paper_policies,
    references,
    strategy_contestants,
)
from tensorucb.experiments._dataset import ReplayedLog, environment_from_dataset, replay_from_dataset
from tensorucb.experiments._environment import Environment, Optimum, WorldSettings
from tensorucb.experiments._explain import SeedReason, explain_seeds
from tensorucb.experiments._files import (
    read_settings,
    write_csv,
    write_latex,
    write_manifest,
    write_regret,
    write_rows,
    write_settings,
    write_validation,
)
from tensorucb.experiments._paper import (
    Bound,
    Effort,
    PaperResults,
    needs_tuning,
    network_statistics,
    run_targets,
    sampled,
    write_results,
)
from tensorucb.experiments._regret import ETA, average_regret, exploration_condition, regret_bound, scaled_regret
from tensorucb.experiments._results import Experiment, Interval, RunResult, decision_table, mean_interval, printed_table
from tensorucb.experiments._runner import product_sequence, run_policy
from tensorucb.experiments._runs import run_experiment
from tensorucb.experiments._strategies import StrategyPolicy
from tensorucb.experiments._tuning import FeatureChoice, Trial, Tuning, choose_features, split_products, tune

__all__ = [
    "ETA",
    "Bound",
    "Comparison",
    "Effort",
    "Environment",
    "Experiment",
    "FeatureChoice",
    "Interval",
    "Optimum",
    "PaperResults",
    "ReplayedLog",
    "RunResult",
    "SeedReason",
    "StrategyPolicy",
    "Trial",
    "Tuning",
    "WorldSettings",
    "WorldWithNewcomers",
    "arrival_table",
    "average_regret",
    "choose_features",
    "cold_start",
    "compare",
    "contestants",
    "decision_table",
    "environment_from_dataset",
    "explain_seeds",
    "exploration_condition",
    "mean_interval",
    "needs_tuning",
    "network_statistics",
    "ours_untouched",
    "paper_policies",
    "printed_table",
    "product_sequence",
    "read_settings",
    "references",
    "regret_bound",
    "replay_from_dataset",
    "run_experiment",
    "run_policy",
    "run_targets",
    "sampled",
    "scaled_regret",
    "split_products",
    "strategy_contestants",
    "tune",
    "write_csv",
    "write_latex",
    "write_manifest",
    "write_regret",
    "write_results",
    "write_rows",
    "write_settings",
    "write_validation",
]
