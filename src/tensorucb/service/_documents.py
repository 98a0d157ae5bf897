"""What callers get as JSON; reports of the library that are sent as they are need no document here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from tensorucb.campaign import (
    Ask,
    CampaignProgress,
    CampaignStatus,
    Explanation,
    Follower,
    Preview,
    RoundExplanation,
)
from tensorucb.campaign._explain import strongest
from tensorucb.service._auth import Mask
from tensorucb.service._bodies import Id


class CampaignLine(BaseModel):
    """A campaign in the list."""

    name: str
    policy: str
    created: float = Field(description="Unix seconds.")
    users: int
    edges: int
    products: int
    strategies: int
    rounds: int
    open: int = Field(description="Rounds that are open.")


@dataclass(frozen=True)
class CampaignDocument(CampaignStatus):
    """A campaign in numbers, and its settings.

    Attributes
    ----------
    created
        Unix seconds.
    groups
        Labels of users for quotas; null if there are none.
    costs
        Whether users or strategies have costs, so that a budget can be kept.
    """

    created: float
    groups: list[Id] | None
    costs: bool
    settings: dict[str, Any]


@dataclass(frozen=True)
class Created(CampaignDocument):
    """A new campaign.

    Attributes
    ----------
    report
        What was used of the files and what was left out.
    """

    report: list[str]


@dataclass(frozen=True)
class Opened(Ask):
    """A new round, with the reasons.

    Attributes
    ----------
    explanation
        Every seed explained.
    """

    explanation: RoundExplanation


class Closed(BaseModel):
    """Rounds that were due."""

    closed: list[str] = Field(description="Ids of the rounds that were closed.")


class Entry(BaseModel):
    """A product, a strategy or a user."""

    id: Id
    cost: float | None = Field(None, description="What it adds to the cost of a contact; null if nothing has a cost.")


class UserDocument(BaseModel):
    """What is known of a user."""

    id: Id
    followers: int
    cost: float | None
    group: Id | None
    rounds: list[int] = Field(description="Numbers of the rounds in which they were contacted, oldest first.")
    expected: float | None = Field(description="For the product: expected responses if contacted alone.")
    strongest: list[Follower] = Field(description="For the product: the strongest followers.")


class Grown(BaseModel):
    """How many were added, and how many there are now."""

    added: int
    known: int = Field(description="How many of those sent were there before.")
    total: int


class GrownNetwork(BaseModel):
    """What was added to the network, and how large it is now."""

    users_added: int
    edges_added: int
    users: int
    edges: int


def masked_ask(ask: Ask, mask: Mask) -> Ask:
    """A round."""
    lists: dict[str, Any] = {name: tuple(map(mask, getattr(ask, name))) for name in ("seeds", "held_out", "contacted")}
    return replace(ask, **lists)


def masked_preview(preview: Preview, mask: Mask) -> Preview:
    """Who would be chosen."""
    seeds = tuple(map(mask, preview.seeds))
    return replace(preview, seeds=seeds, explanation=masked_seeds(preview.explanation, mask))


def masked_seeds(reasons: RoundExplanation, mask: Mask) -> RoundExplanation:
    """Why every seed was chosen."""
    return replace(reasons, seeds=tuple(masked_user(seed, mask) for seed in reasons.seeds))


def masked_user(reason: Explanation, mask: Mask) -> Explanation:
    """Why a user was chosen or not; the text begins with the user, and lists the strongest followers."""
    followers = tuple(replace(each, user=mask(each.user)) for each in reason.followers)
    rest = reason.text.removeprefix(repr(reason.user)).replace(strongest(reason.followers), strongest(followers))
    user = mask(reason.user)
    return replace(reason, user=user, text=f"{user!r}{rest}", followers=followers)


def progress_document(progress: CampaignProgress, rounds: int, mask: Mask) -> CampaignProgress:
    """How a campaign is going, with its last rounds."""
    users = tuple(replace(user, id=None if user.id is None else mask(user.id)) for user in progress.users)
    return replace(progress, rounds=progress.rounds[-rounds:], users=users)
