"""Campaigns: ask for seeds, tell what happened, close; all of it on a durable log."""

from __future__ import annotations

from tensorucb.campaign._attention import Notice, all_attention
from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._create import IgnoredContextWarning, create_campaign, load_campaign
from tensorucb.campaign._data import CampaignData, read_campaign_data
from tensorucb.campaign._forget import ForgetReport
from tensorucb.campaign._history import HistoryReport
from tensorucb.campaign._lift import Lift, RevenueLift
from tensorucb.campaign._lift_plan import LiftPlan, plan_lift
from tensorucb.campaign._model import DamagedSnapshotWarning, UnlearnableRoundWarning
from tensorucb.campaign._people import OptReport
from tensorucb.campaign._progress import Calibration, CampaignProgress, CampaignStatus, RevenueProgress, Totals
from tensorucb.campaign._round import (
    Ask,
    Explanation,
    Fatigue,
    Follower,
    Offer,
    Preview,
    Reach,
    Revenue,
    RoundExplanation,
)
from tensorucb.campaign._stored import CampaignInfo, copy_campaign, delete_campaign, list_campaigns
from tensorucb.campaign._tally import GroupProgress, RoundProgress, SegmentProgress
from tensorucb.campaign._tell import Contradiction, TellLogReport, TellReport
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
    "Fatigue",
    "Follower",
    "ForgetReport",
    "GroupProgress",
    "HistoryReport",
    "IgnoredContextWarning",
    "Lift",
    "LiftPlan",
    "Notice",
    "Offer",
    "OptReport",
    "Preview",
    "Reach",
    "Revenue",
    "RevenueLift",
    "RevenueProgress",
    "RoundExplanation",
    "RoundProgress",
    "SegmentProgress",
    "TellLogReport",
    "TellReport",
    "Totals",
    "UnlearnableRoundWarning",
    "Webhook",
    "all_attention",
    "copy_campaign",
    "create_campaign",
    "delete_campaign",
    "list_campaigns",
    "load_campaign",
    "plan_lift",
    "read_campaign_data",
]
