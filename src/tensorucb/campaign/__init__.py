"""Campaigns: ask for seeds, tell what happened, close; all of it on a durable log."""

from __future__ import annotations

from tensorucb.campaign._ask import Ask
from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._create import (
    CampaignInfo,
    copy_campaign,
    create_campaign,
    delete_campaign,
    list_campaigns,
    load_campaign,
)
from tensorucb.campaign._explain import Explanation, RoundExplanation
from tensorucb.campaign._fold import UnlearnableRoundWarning
from tensorucb.campaign._forget import ForgetReport
from tensorucb.campaign._history import HistoryReport
from tensorucb.campaign._lift import Lift
from tensorucb.campaign._model import DamagedSnapshotWarning
from tensorucb.campaign._reach import Reach
from tensorucb.campaign._status import CampaignStatus
from tensorucb.campaign._tell import Contradiction, TellReport

__all__ = [
    "Ask",
    "Campaign",
    "CampaignInfo",
    "CampaignStatus",
    "Contradiction",
    "DamagedSnapshotWarning",
    "Explanation",
    "ForgetReport",
    "HistoryReport",
    "Lift",
    "Reach",
    "RoundExplanation",
    "TellReport",
    "UnlearnableRoundWarning",
    "copy_campaign",
    "create_campaign",
    "delete_campaign",
    "list_campaigns",
    "load_campaign",
]
