"""What callers get as JSON; reports of the library that are sent as they are need no document here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from tensorucb.campaign import Ask, CampaignProgress, CampaignStatus, Explanation, Preview, Reach, RoundExplanation
from tensorucb.campaign._documents import ask_document, fields
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


class RoundDocument(BaseModel):
    """A round: who to contact, what to expect, and where it stands."""

    round: str = Field(description="The round's id.")
    number: int
    status: Literal["open", "closed", "cancelled"]
    kind: Literal["ask", "shadow", "history"]
    product: Id | None
    seeds: list[Id] = Field(description="Who to contact, in the order of choice.")
    strategies: list[Id] | None = Field(description="For each seed the strategy they get.")
    held_out: list[Id]
    contacted: list[Id]
    reach: Reach | None
    cost: float | None
    opened: float
    deadline: float | None
    closed: float | None
    behind: int


class Follower(BaseModel):
    """A follower, and the expected probability of a response."""

    user: Id
    probability: float


class Offer(BaseModel):
    """A strategy, the expected responses if this user alone got it, and what it adds to the cost."""

    strategy: Id
    expected: float
    cost: float


class ExplanationDocument(BaseModel):
    """Why a user was or was not chosen."""

    user: Id
    status: str
    text: str
    rank: int | None
    gain: float | None
    score: float | None
    threshold: float | None
    followers: list[Follower]
    strategy: Id | None
    offers: list[Offer]


class RoundExplanationDocument(BaseModel):
    """Every seed explained, and how many users were left out for what reason."""

    seeds: list[ExplanationDocument]
    left_out: dict[str, int]
    certificate: str


class Opened(RoundDocument):
    """A new round, with the reasons."""

    explanation: RoundExplanationDocument


class PreviewDocument(BaseModel):
    """Who would be chosen, and what would be expected; nothing is opened."""

    seeds: list[Id]
    strategies: list[Id] | None
    product: Id | None
    reach: Reach
    best: Reach = Field(description="The reach of the best choice; the same as reach if no users were given.")
    difference: float = Field(description="Expected reach minus that of the best choice.")
    cost: float | None
    explanation: RoundExplanationDocument


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


def round_document(ask: Ask, mask: Mask) -> dict[str, Any]:
    """A round."""
    document = ask_document(ask)
    return {**document, **{name: list(map(mask, document[name])) for name in ("seeds", "held_out", "contacted")}}


def preview_document(found: Preview, mask: Mask) -> dict[str, Any]:
    """Who would be chosen."""
    return {
        **fields(found),
        "seeds": list(map(mask, found.seeds)),
        "difference": found.difference,
        "explanation": explanation_document(found.explanation, mask),
    }


def explanation_document(found: Explanation | RoundExplanation, mask: Mask) -> dict[str, Any]:
    """Why one user, or every seed, was chosen or not."""
    if isinstance(found, RoundExplanation):
        return {
            "seeds": [explanation_document(seed, mask) for seed in found.seeds],
            "left_out": dict(found.left_out),
            "certificate": found.certificate,
        }
    shown = replace(
        found,
        user=mask(found.user),
        text=_masked_text(found, mask),
        followers=tuple((mask(user), p) for user, p in found.followers),
    )
    return {
        **fields(shown),
        "followers": [{"user": user, "probability": p} for user, p in shown.followers],
        "offers": [{"strategy": name, "expected": p, "cost": cost} for name, p, cost in shown.offers],
    }


def _masked_text(found: Explanation, mask: Mask) -> str:
    """The text with every user's id masked: it begins with the user, and lists the strongest followers."""

    def listed(name: Mask) -> str:
        return ", ".join(f"{name(user)!r} {p:.2f}" for user, p in found.followers)

    rest = found.text.removeprefix(repr(found.user)).replace(listed(lambda user: user), listed(mask))
    return f"{mask(found.user)!r}{rest}"


def progress_document(progress: CampaignProgress, rounds: int, mask: Mask) -> CampaignProgress:
    """How a campaign is going, with its last rounds."""
    users = tuple(replace(user, id=None if user.id is None else mask(user.id)) for user in progress.users)
    return replace(progress, rounds=progress.rounds[-rounds:], users=users)
