"""Honest uncertainty: calibration, exact posteriors of small problems, and what the variational ones miss.

``python -m tensorucb.experiments.uncertainty --out DIR`` makes every table and figure of ``docs/uncertainty.md``.
"""

from __future__ import annotations

from tensorucb.experiments.uncertainty._batch import batch_posterior
from tensorucb.experiments.uncertainty._bonus import (
    BONUSES,
    bonus_study,
    collapse_study,
    covered_share,
    smallest_factor,
    standardised_errors,
)
from tensorucb.experiments.uncertainty._calibration import (
    LEVELS,
    Coverage,
    Decomposition,
    Reliability,
    binomial_interval,
    brier_score,
    expected_calibration_error,
    interval_coverage,
    log_loss,
    normal_quantile,
    reliability,
)
from tensorucb.experiments.uncertainty._compare import VARIANTS, Prediction, compare, learn, predicted
from tensorucb.experiments.uncertainty._counts import count_probabilities, predictive_counts, randomised_pit
from tensorucb.experiments.uncertainty._diagnostics import effective_sample_size, split_rhat
from tensorucb.experiments.uncertainty._mcmc import ChainModel, PosteriorDraws, prior_draw, sample_posterior, sweep
from tensorucb.experiments.uncertainty._policy import HeldOut, held_out, latent_scores, pooled
from tensorucb.experiments.uncertainty._problems import Problem, make_problem, tensor_score
from tensorucb.experiments.uncertainty._sources import GROUPS, SourceQuestions

__all__ = [
    "BONUSES",
    "GROUPS",
    "LEVELS",
    "VARIANTS",
    "ChainModel",
    "Coverage",
    "Decomposition",
    "HeldOut",
    "PosteriorDraws",
    "Prediction",
    "Problem",
    "Reliability",
    "SourceQuestions",
    "batch_posterior",
    "binomial_interval",
    "bonus_study",
    "brier_score",
    "collapse_study",
    "compare",
    "count_probabilities",
    "covered_share",
    "effective_sample_size",
    "expected_calibration_error",
    "held_out",
    "interval_coverage",
    "latent_scores",
    "learn",
    "log_loss",
    "make_problem",
    "normal_quantile",
    "pooled",
    "predicted",
    "predictive_counts",
    "prior_draw",
    "randomised_pit",
    "reliability",
    "sample_posterior",
    "smallest_factor",
    "split_rhat",
    "standardised_errors",
    "sweep",
    "tensor_score",
]
