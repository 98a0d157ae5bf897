"""Campaigns: ask for seeds, tell what happened, close; all of it on a durable log."""

from __future__ import annotations

from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._create import IgnoredContextWarning, create_campaign, load_campaign
from tensorucb.campaign._data import CampaignData, read_campaign_data
from tensorucb.campaign._forget import ForgetReport
from tensorucb.campaign._history import HistoryReport
from tensorucb.campaign._lift import Lift
from tensorucb.campaign._model import DamagedSnapshotWarning, UnlearnableRoundWarning
from tensorucb.campaign._progress import (
    Calibration,
    CampaignProgress,
    CampaignStatus,
    GroupProgress,
    RoundProgress,
    Totals,
)
from tensorucb.campaign._round import Ask, Explanation, Follower, Offer, Preview, Reach, RoundExplanation
from tensorucb.campaign._stored import CampaignInfo, copy_campaign, delete_campaign, list_campaigns
from tensorucb.campaign._tell import Contradiction, TellReport
from tensorucb.campaign._tell_log import TellLogReport
from tensorucb.campaign._webhook import Webhook

__all__ = [
    "Ask",
    "Calibration",
    "Campaign",
    "CampaignData",
    "CampaignInfo",
    "CampaignProgress",
    "CampaignStatus",
    "Contradiction",
    "DamagedSnapshotWarning",
    "Explanation",
    "Follower",
    "ForgetReport",
    "GroupProgress",
    "HistoryReport",
    "IgnoredContextWarning",
    "Lift",
    "Offer",
    "Preview",
    "Reach",
    "RoundExplanation",
    "RoundProgress",
    "TellLogReport",
    "TellReport",
    "Totals",
    "UnlearnableRoundWarning",
    "Webhook",
    "copy_campaign",
    "create_campaign",
    "delete_campaign",
    "list_campaigns",
    "load_campaign",
    "read_campaign_data",
]
