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
    GroupProgress,
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
    segments
        Columns of the table of users by which the progress can be split.
    """

    created: float
    groups: list[Id] | None
    costs: bool
    segments: list[str]
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
    name: str | None = Field(None, description="What people call it; null if that is not known, or not for you.")
    cost: float | None = Field(None, description="What it adds to the cost of a contact; null if nothing has a cost.")


class UserDocument(BaseModel):
    """What is known of a user."""

    id: Id
    name: str | None = Field(description="What the user is called; null if that is not known, or not for you.")
    followers: int
    cost: float | None
    group: Id | None
    rounds: list[int] = Field(description="Numbers of the rounds in which they were contacted, oldest first.")
    why_not: str | None = Field(description="Why they may not be contacted now, by the campaign's defaults; else null.")
    expected: float | None = Field(description="For the product: expected responses if contacted alone.")
    strongest: list[Follower] = Field(description="For the product: the strongest followers.")


class Grown(BaseModel):
    """How many were added, and how many there are now."""

    added: int
    known: int = Field(description="How many of those sent were there before.")
    total: int
    report: list[str] = Field([], description="Of a file: what was read and what was left out, a line each.")


class GrownNetwork(BaseModel):
    """What was added to the network, and how large it is now."""

    users_added: int
    edges_added: int
    users: int
    edges: int
    report: list[str] = Field([], description="Of files: what was read and what was left out, a line each.")


def masked_ask(ask: Ask, mask: Mask) -> Ask:
    """A round."""
    lists: dict[str, Any] = {name: tuple(map(mask, getattr(ask, name))) for name in ("seeds", "held_out", "contacted")}
    return replace(ask, **lists)


def masked_preview(preview: Preview, mask: Mask) -> Preview:
    """Who would be chosen."""
    seeds = tuple(map(mask, preview.seeds))
    held_out = tuple(map(mask, preview.held_out))
    return replace(preview, seeds=seeds, held_out=held_out, explanation=masked_seeds(preview.explanation, mask))


def masked_seeds(reasons: RoundExplanation, mask: Mask) -> RoundExplanation:
    """Why every seed was chosen."""
    return replace(reasons, seeds=tuple(masked_user(seed, mask) for seed in reasons.seeds))


def masked_user(reason: Explanation, mask: Mask) -> Explanation:
    """Why a user was chosen or not; the text begins with the user, and lists the strongest followers.

    Whoever sees pseudonyms sees no names.
    """
    user = mask(reason.user)
    if user == reason.user:
        return reason
    followers = tuple(replace(each, user=mask(each.user), name=None) for each in reason.followers)
    rest = reason.text.removeprefix(repr(reason.user)).replace(strongest(reason.followers), strongest(followers))
    return replace(reason, user=user, name=None, text=f"{user!r}{rest}", followers=followers)


def _masked_group(group: GroupProgress, mask: Mask) -> GroupProgress:
    user = None if group.id is None else mask(group.id)
    return group if user == group.id else replace(group, id=user, name=None)


def progress_document(progress: CampaignProgress, rounds: int, mask: Mask) -> CampaignProgress:
    """How a campaign is going, with its last rounds."""
    users = tuple(_masked_group(user, mask) for user in progress.users)
    return replace(progress, rounds=progress.rounds[-rounds:], users=users)
