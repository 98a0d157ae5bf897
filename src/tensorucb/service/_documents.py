"""What callers get as JSON, made from a campaign's own records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from tensorucb.campaign import Ask, CampaignProgress, Explanation, Preview, RoundExplanation
from tensorucb.campaign._documents import ask_document, fields
from tensorucb.service._bodies import Id

Mask = Callable[[int | str], int | str]
"""How the id of a user is shown to the one who asks."""


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


class CampaignDocument(CampaignLine):
    """A campaign in numbers, and its settings."""

    closed: int
    cancelled: int
    events: int = Field(description="The number of the log's last event.")
    behind: int = Field(description="Closed rounds whose newest responses the next ask would not have learned.")
    quarantined: dict[str, str] = Field(description="Closed rounds that could not be learned, and why.")
    erasing: int
    groups: list[Id] | None = Field(description="Labels of users for quotas; null if there are none.")
    costs: bool = Field(description="Whether users or strategies have costs, so that a budget can be kept.")
    settings: dict[str, Any]


class Created(CampaignDocument):
    """A new campaign."""

    report: list[str] = Field(description="What was used of the files and what was left out.")


class ReachDocument(BaseModel):
    """How many users will respond."""

    mean: float
    low: float
    high: float
    level: float
    objective: str | None


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
    reach: ReachDocument | None
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


class Opened(RoundDocument):
    """A new round, with the reasons."""

    explanation: RoundExplanationDocument


class PreviewDocument(BaseModel):
    """Who would be chosen, and what would be expected; nothing is opened."""

    seeds: list[Id]
    strategies: list[Id] | None
    product: Id | None
    reach: ReachDocument
    best: ReachDocument = Field(description="The reach of the best choice; the same as reach if no users were given.")
    difference: float = Field(description="Expected reach minus that of the best choice.")
    cost: float | None
    explanation: RoundExplanationDocument


class ContradictionDocument(BaseModel):
    """A row that disagrees with an earlier one, which stands."""

    row: int = Field(description="Where it stood in the delivery, from 1; the header of a CSV file does not count.")
    source: Id
    target: Id | None
    kept: Any
    told: Any
    event_id: str | None


class TellDocument(BaseModel):
    """What became of the rows of a delivery."""

    accepted: int
    duplicates: int
    contradictions: list[ContradictionDocument]
    late: int
    outside_window: int
    unknown: int


class TellLogDocument(TellDocument):
    """The same of a log, summed over its rounds."""

    other: int = Field(description="Rows that belong to no round.")
    rounds: dict[str, TellDocument]


class RoundProgressDocument(BaseModel):
    """What was expected of a round, and what came so far."""

    number: int
    id: str
    product: Id | None
    kind: str
    status: str
    opened: float
    closed: float | None
    contacted: int
    held_out: int
    expected: ReachDocument | None
    responders: int
    new_responders: int
    responses: int
    spend: float | None
    within: bool | None = Field(description="Of a closed round: whether the responders lie in the interval.")


class TotalsDocument(BaseModel):
    """Sums over rounds."""

    rounds: int
    contacts: int
    expected: float | None
    foretold: int
    responders: int


class CalibrationDocument(BaseModel):
    """How often the intervals held."""

    rounds: int
    held: int
    share: float
    low: float
    high: float
    promised: float


class LiftDocument(BaseModel):
    """Followers of contacted users against followers of those held out."""

    contacted_rate: float
    held_out_rate: float
    contacted_followers: int
    held_out_followers: int
    difference: float
    low: float
    high: float
    rounds: int
    level: float


class GroupDocument(BaseModel):
    """What came of one product, strategy or user in closed rounds."""

    id: Id | None
    rounds: int
    contacts: int
    followers: int
    responders: float
    observed: float
    believed: float | None


class ProgressDocument(BaseModel):
    """How a campaign is going."""

    name: str
    rounds: list[RoundProgressDocument]
    closed: TotalsDocument
    open: TotalsDocument
    contacted: int
    reached: int
    spend: float | None
    calibration: CalibrationDocument | None
    lift: LiftDocument | None
    lift_missing: str | None
    behind: int
    products: list[GroupDocument]
    strategies: list[GroupDocument]
    users: list[GroupDocument]


class HistoryDocument(BaseModel):
    """What became of imported history."""

    rounds: int
    responses: int
    known_rounds: int
    unknown: int
    other: int


class ForgetDocument(BaseModel):
    """What was removed of a person, and the proof."""

    responses: int
    rounds: int
    model_before: str
    model_after: str
    replay: str
    proven: bool
    files: list[str] = Field(description="Names of the store's files that were searched for the id.")
    bytes_absent: bool | None
    elsewhere: list[str]
    completed: bool


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


def opened_document(ask: Ask, mask: Mask) -> dict[str, Any]:
    """A round and the reasons for its choice."""
    return {**round_document(ask, mask), "explanation": explanation_document(ask.explain(), mask)}


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


def progress_document(progress: CampaignProgress, rounds: int, mask: Mask) -> dict[str, Any]:
    """How a campaign is going, with its last rounds."""
    document: dict[str, Any] = fields(
        replace(progress, rounds=progress.rounds[max(0, len(progress.rounds) - rounds) :])
    )
    for user in document["users"]:
        user["id"] = mask(user["id"])
    return document
