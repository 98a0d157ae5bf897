"""Evaluate without a simulator: logged rounds with known propensities, and what other choices would have brought."""

from __future__ import annotations

from tensorucb.experiments.offline._campaign import (
    LoggedCampaign,
    LoggedRound,
    bandit_feedback,
    read_campaign,
    write_campaign,
)
from tensorucb.experiments.offline._estimate import Estimate, Replay, choices_of, estimate_value, replay
from tensorucb.experiments.offline._logging import draw_contacts, log_campaign, mixed_propensities
from tensorucb.experiments.offline._models import cross_fitted_model, train

__all__ = [
    "Estimate",
    "LoggedCampaign",
    "LoggedRound",
    "Replay",
    "bandit_feedback",
    "choices_of",
    "cross_fitted_model",
    "draw_contacts",
    "estimate_value",
    "log_campaign",
    "mixed_propensities",
    "read_campaign",
    "replay",
    "train",
    "write_campaign",
]
