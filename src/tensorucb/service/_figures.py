"""Figures, the picture of the network, what was learned and the regret, over HTTP.

What rounds lost against the best choice is known in a sandbox alone, whose truth is. Whoever plays a campaign by a
known truth writes the numbers to the store, as the campaign's blob ``regret``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from tensorucb.campaign import Campaign, CampaignProgress
from tensorucb.errors import call
from tensorucb.plots import specification
from tensorucb.plots._campaign import (
    believed_and_observed,
    cost_side_by_side,
    expected_and_observed,
    goes_together,
    lift_interval,
    lift_side_by_side,
    reach_side_by_side,
    running_calibration,
    running_regret,
    running_spend,
    running_sums,
    strategies_by_product,
)
from tensorucb.plots._campaign_report import CALIBRATION, EXPECTED, FEWEST, GROUPS, LIFT, SEGMENTS
from tensorucb.plots._theme import distinct
from tensorucb.service._learned import Learned, what_was_learned
from tensorucb.service._open import tag_of
from tensorucb.service._picture import Picture, layout, picture
from tensorucb.service._problems import missing, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    At,
    ForReader,
    OfRounds,
    Opened,
    Reader,
    Selected,
    mask_for,
    masked_progress,
    product_named,
)
from tensorucb.store import SQLStore

router = APIRouter(tags=["figures"], responses=responses(404, 409))

_TOGETHER = """\
Blue: more responses are expected of this user with this product than the two alone would let one expect; orange: \
fewer. Users who go with the same product stand side by side."""
_STRATEGIES = "With which strategy followers respond to which product, over the whole network."
_REGRET = """\
In this sandbox it is known how likely each follower is to respond. So each choice can be compared with the best one: \
the regret of a round is how many more responses the best choice could have expected. Real campaigns cannot know it."""
_COMPARED = {
    "reached": ("Reach", "Different users who responded to any round.", reach_side_by_side),
    "cost_per_responder": (
        "Cost per responder",
        "What all contacts cost, divided by the responders, counted once per round.",
        cost_side_by_side,
    ),
    "lift": ("What contact adds", LIFT, lift_side_by_side),
}
"""Figures of several campaigns: the value that a campaign must have, title, explanation, and what draws it."""
_USERS_FIGURE, _STRATEGIES_FIGURE = "together", "strategies-by-product"
_BLOB = "regret"


class FigureLine(BaseModel):
    """A figure that can be drawn now."""

    figure: str = Field(description="Its name in the address.")
    title: str
    about: str = Field(description="How to read it.")


class Figures(BaseModel):
    """The figures that can be drawn now."""

    items: list[FigureLine]


class Drawn(FigureLine):
    """A figure with its document."""

    document: dict[str, Any] = Field(description="Vega-Lite; it fits its container.")


class Comparison(BaseModel):
    """Campaigns side by side."""

    items: list[CampaignProgress] = Field(description="How each of them is going, without its rounds.")
    figures: list[Drawn]


class LearnedDocument(Learned):
    """Which users, products and strategies go together, and the figures on that."""

    figures: list[FigureLine]


class RoundRegret(BaseModel):
    """What a round lost against the best choice by the truth, in expected responders."""

    round: str = Field(description="The round's id.")
    number: int
    reach: float = Field(description="Expected responders to the users that were chosen, held-out ones included.")
    best: float = Field(description="Expected responders to as many users, chosen with the truth known.")
    regret: float = Field(description="best - reach.")


class RegretDocument(BaseModel):
    """The regret of all rounds."""

    known: bool = Field(description="Whether the truth is known; only that of a sandbox is.")
    rounds: list[RoundRegret] = Field(description="By number; empty if the truth is not known.")


@router.get(f"{CAMPAIGN}/figures", response_model=Figures)
async def figures(at: ForReader, selected: OfRounds) -> Figures:
    """Names of the figures on how the campaign is going that can be drawn now."""
    return Figures(items=_lines(await at.read(lambda campaign: _progress_charts(campaign, selected))))


@router.get(f"{CAMPAIGN}/figures/{{figure}}")
async def figure(at: ForReader, figure: str, selected: OfRounds) -> dict[str, Any]:
    """One figure, as a Vega-Lite document that fits its container."""

    def drawn(campaign: Campaign) -> dict[str, Any]:
        if of_model:
            charts = _learned_charts(campaign, _learned(at, campaign))
        else:
            charts = _progress_charts(campaign, selected)
        drawing = next((draw for key, _, _, draw in charts if key == figure), None)
        if drawing is None:
            raise missing("there is no such figure now; ", call("figures"), " lists those that can be drawn.")
        return _document(drawing)

    of_model = figure in (_USERS_FIGURE, _STRATEGIES_FIGURE)
    return await at.read(drawn, chooses=of_model)


def _document(draw: Callable[[], Any]) -> dict[str, Any]:
    document = specification(draw(), responsive=True)
    # Readers put their own theme there, light or dark; no address of a schema is needed.
    for key in ("$schema", "config"):
        document.pop(key, None)
    return document


Chart = tuple[str, str, str, Callable[[], Any]]
"""A figure's name, title and explanation, and what draws it."""


def _lines(charts: list[Chart]) -> list[FigureLine]:
    return [FigureLine(figure=key, title=title, about=about) for key, title, about, _ in charts]


def _progress_charts(campaign: Campaign, selected: Selected) -> list[Chart]:
    """The figures on how a campaign is going; only a sandbox, whose truth is known, has a regret."""
    progress = selected.progress(campaign)
    counted = {entry.number for entry in progress.rounds}
    regrets = [entry for entry in read_regret(campaign) or [] if entry["number"] in counted]
    return _charts(progress, [(entry["number"], entry["regret"]) for entry in regrets])


def _charts(progress: CampaignProgress, regret: list[tuple[int, float]]) -> list[Chart]:
    """The figures for which there are enough rounds."""
    rounds = progress.rounds
    lift = progress.lift
    charts: list[Chart] = []
    closed = sum(entry.within is not None for entry in rounds)

    def add(enough: bool, figure: str, title: str, about: str, draw: Callable[..., Any], *data: Any) -> None:
        if enough:
            charts.append((figure, title, about, partial(draw, *data)))

    expected = any(entry.expected is not None for entry in rounds)
    add(expected, "expected", "Responses beside expectation", EXPECTED, expected_and_observed, progress)
    add(closed >= FEWEST, "sums", "Reach so far", "", running_sums, rounds)
    add(closed >= FEWEST, "calibration", "Can the forecasts be trusted?", CALIBRATION, running_calibration, rounds)
    add(len(regret) >= FEWEST, "regret", "Regret, since the truth is known here", _REGRET, running_regret, regret)
    add(lift is not None, "lift", "Does contact change anything?", LIFT, lift_interval, lift)
    spent = sum(entry.spend is not None for entry in rounds)
    add(spent >= FEWEST, "spend", "Spending", "", running_spend, rounds)
    by_segment = f"Rates by {progress.segment}"
    add(
        len(progress.segments) > 1, "segments", by_segment, SEGMENTS, believed_and_observed, progress.segments, "groups"
    )
    for what, groups in (("products", progress.products), ("strategies", progress.strategies)):
        believed = sum(group.believed is not None for group in groups)
        add(believed > 1, what, f"Rates of {what}", GROUPS, believed_and_observed, groups, what)
    return charts


@router.get("/compare", response_model=Comparison)
async def compare(
    opened: Opened,
    request: Request,
    who: Reader,
    campaigns: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=100)]],
        Query(alias="campaign", min_length=1, max_length=20, description="Names of campaigns, each once."),
    ],
) -> Any:
    """Campaigns side by side: reach, cost per responder, and the lift with its interval."""
    mask = mask_for(request, who)

    def call() -> dict[str, Any]:
        names = dict.fromkeys(campaigns)
        all_progress = [opened.call(name, lambda campaign: campaign.progress()) for name in names]
        drawn = []
        for value, (title, about, draw) in _COMPARED.items():
            measured = [progress for progress in all_progress if getattr(progress, value) is not None]
            if measured:
                document = _document(partial(draw, measured))
                drawn.append({"figure": value, "title": title, "about": about, "document": document})
        items = [replace(masked_progress(progress, 1, mask), rounds=()) for progress in all_progress]
        return {"items": items, "figures": drawn}

    return await opened.aside(call)


@router.get(f"{CAMPAIGN}/network", response_model=Picture)
async def network(
    at: ForReader,
    product: Annotated[str | None, Query(description="Show the strongest edges for this product.")] = None,
    round: Annotated[str | None, Query(description="Mark the users of this round: its id or its number.")] = None,
    limit: Annotated[int, Query(ge=1, le=20_000, description="The most users, and at most as many edges.")] = 2_000,
) -> Any:
    """The picture of the network: places of users, marks of a round, edges."""

    def call(campaign: Campaign) -> Picture:
        # Users keep their places as long as the network stays the same.
        graph = campaign.graph
        places = at.campaigns.kept("layout", at.name, graph, lambda: layout(graph))
        drawn = picture(campaign, places, product=product_named(campaign, product), round_id=round, limit=limit)
        names = at.names(campaign, graph.rows(drawn.users).tolist())
        shown = {"users": list(map(at.mask, drawn.users)), "names": names if any(names) else None}
        return drawn.model_copy(update=shown)

    return await at.read(call, chooses=product is not None)


@router.get(f"{CAMPAIGN}/learned", response_model=LearnedDocument)
async def learned(at: ForReader) -> LearnedDocument:
    """Which users, products and strategies go together, by what the model expects now."""

    def call(campaign: Campaign) -> LearnedDocument:
        beliefs = _learned(at, campaign)
        return LearnedDocument(**dict(beliefs), figures=_lines(_learned_charts(campaign, beliefs)))

    return await at.read(call, chooses=True)


def _learned_charts(campaign: Campaign, beliefs: Learned) -> list[Chart]:
    charts = list[Chart]()
    called = campaign.names("products")
    titles = ["any product" if it.product is None else called.get(it.product, it.product) for it in beliefs.products]
    products = _marked(titles, [it.rounds for it in beliefs.products])
    users = distinct(name or user for user, name in zip(beliefs.users, beliefs.names, strict=True))
    if users and len(products) > 1:
        together = partial(goes_together, users, products, np.array(beliefs.affinity))
        charts.append((_USERS_FIGURE, "Users and products", _TOGETHER, together))
    if len(beliefs.strategies) > 1:
        offers = campaign.names("strategies")
        strategies = _marked([offers.get(each, each) for each in beliefs.strategies], beliefs.strategy_rounds)
        best = partial(strategies_by_product, strategies, products, np.array(beliefs.shares))
        charts.append((_STRATEGIES_FIGURE, "Strategies and products", _STRATEGIES, best))
    return charts


def _marked(names: Sequence[Any], rounds: Sequence[int]) -> list[str]:
    """The names, each told apart from the others, with a mark on those without a closed round."""
    return [each if tried else f"{each} (not tried)" for each, tried in zip(distinct(names), rounds, strict=True)]


def _learned(at: At, campaign: Campaign) -> Learned:
    """What was learned, as this caller may see it; worked out again only if the log has grown."""
    return at.kept("learned", tag_of(campaign), lambda: what_was_learned(campaign, at))


@router.get(f"{CAMPAIGN}/regret", response_model=RegretDocument)
async def regret(at: ForReader) -> Any:
    """What each round lost against the best choice; known of the sandbox of `tensorucb demo --serve` alone."""
    rounds = await at.read(read_regret)
    return {"known": rounds is not None, "rounds": rounds or []}


def write_regret(store: SQLStore, name: str, rounds: Sequence[RoundRegret]) -> None:
    """Keep the regret of a campaign's rounds."""
    with store.write() as session:
        record = session.campaign(name)
        if record is not None:
            content = json.dumps([entry.model_dump() for entry in rounds])
            session.put_blob(record.campaign, _BLOB, content.encode())


def read_regret(campaign: Campaign) -> list[dict[str, Any]] | None:
    """The regret of a campaign's rounds as it was kept; None if the truth is not known."""
    with campaign._handle.read() as view:
        kept = view.session.blob(view.number, _BLOB)
    return None if kept is None else list(json.loads(kept))
