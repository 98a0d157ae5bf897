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
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from tensorucb.campaign import Campaign, CampaignProgress
from tensorucb.errors import call
from tensorucb.plots._campaign import (
    Measure,
    believed_and_observed,
    goes_together,
    lift_interval,
    measures,
    side_by_side,
    strategies_by_product,
)
from tensorucb.plots._campaign_report import CALIBRATION, EXPECTED, FEWEST, GROUPS, LIFT, SEGMENTS
from tensorucb.plots._report import page_document
from tensorucb.plots._rounds import (
    expected_and_observed,
    running_calibration,
    running_loss,
    running_spend,
    running_sums,
)
from tensorucb.plots._theme import distinct
from tensorucb.service._learned import Learned, what_was_learned
from tensorucb.service._open import tag_of
from tensorucb.service._picture import Picture, picture
from tensorucb.service._problems import missing, responses
from tensorucb.service._shared import CAMPAIGN, At, ForReader, Progress, Reader, reads, reads_learned
from tensorucb.store import SQLStore

router = APIRouter(tags=["figures"], responses=responses(404, 409))

_TOGETHER = """\
Blue: more responses are expected of this user with this product than the two alone would let one expect; orange: \
fewer. Users who go with the same product stand side by side."""
_STRATEGIES = "With which strategy followers respond to which product, over the whole network."
_LOST_TITLE = "Responses lost, since the truth is known here"
_LOST = """\
In this sandbox it is known how likely each follower is to respond. So each choice can be compared with the best one: \
what a round lost is how many more responses the best choice could have expected. Real campaigns cannot know it."""
_SIDE_BY_SIDE = """\
Reach: different users who responded to any round. Cost per responder: what all contacts cost, divided by the \
responders, counted once per round. Both intervals say how far rounds of the campaign differ from one another in what \
they bring; one round has none. What contact adds: followers of contacted users \
are compared with followers of users who were held out at random, within each round; the dashed line is no effect."""
_USERS_FIGURE, _STRATEGIES_FIGURE = "together", "strategies-by-product"
_BLOB = "regret"


class FigureLine(BaseModel):
    """A figure that can be drawn now."""

    figure: str = Field(description="Its name in the address.")
    title: str
    about: str = Field(description="How to read it.")


class Chart(FigureLine):
    """The same here, with the function that draws it."""

    draw: Callable[[], Any]


class Figures(BaseModel):
    """The figures that can be drawn now."""

    items: Sequence[FigureLine]


class Drawn(FigureLine):
    """A figure with its document."""

    document: dict[str, Any] = Field(description="Vega-Lite.")


class Comparison(BaseModel):
    """Campaigns side by side."""

    items: list[CampaignProgress] = Field(description="How each of them is going, without its rounds.")
    measures: list[Measure] = Field(description="Reach, cost per responder and lift of each, with 90 % intervals.")
    figures: list[Drawn]


class LearnedDocument(Learned):
    """Which users, products and strategies go together, and the figures on that."""

    figures: Sequence[FigureLine]


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


@router.get(f"{CAMPAIGN}/figures")
@reads
def figures(at: ForReader, progress: Progress) -> Figures:
    """Names of the figures on how the campaign is going that can be drawn now."""
    return Figures(items=_progress_charts(at, progress))


@router.get(f"{CAMPAIGN}/figures/{{figure}}")
async def figure(at: ForReader, figure: str, progress: Progress) -> dict[str, Any]:
    """One figure, as a Vega-Lite document that fits its container."""

    def drawn() -> dict[str, Any]:
        charts = _learned_charts(at, _learned(at)) if of_model else _progress_charts(at, progress)
        chart = next((chart for chart in charts if chart.figure == figure), None)
        if chart is None:
            raise missing("there is no such figure now; ", call("figures"), " lists those that can be drawn.")
        return page_document(chart.draw())

    of_model = figure in (_USERS_FIGURE, _STRATEGIES_FIGURE)
    return await at.read(drawn, learned=of_model)


def _progress_charts(at: At, selected: Callable[[At], CampaignProgress]) -> list[Chart]:
    """The figures on how a campaign is going for which there are enough rounds; only a sandbox has a regret."""
    progress = selected(at)
    rounds = progress.rounds
    lift: Any = progress.lift
    counted = {entry.number for entry in rounds}
    regrets = read_regret(at.campaign) or []
    lost = {entry["number"]: entry["regret"] for entry in regrets if entry["number"] in counted}
    closed = sum(entry.within is not None for entry in rounds)
    spent = sum(entry.spend is not None for entry in rounds)
    expected = any(entry.expected is not None for entry in rounds)
    trust = partial(running_calibration, progress)
    charts = [
        (expected, "expected", "Responses beside expectation", EXPECTED, partial(expected_and_observed, progress)),
        (closed >= FEWEST, "sums", "Reach so far", "", partial(running_sums, progress)),
        (closed >= FEWEST, "calibration", "Can the forecasts be trusted?", CALIBRATION, trust),
        (len(lost) >= FEWEST, "regret", _LOST_TITLE, _LOST, partial(running_loss, progress, lost)),
        (lift is not None, "lift", "Does contact change anything?", LIFT, partial(lift_interval, lift)),
        (spent >= FEWEST, "spend", "Spending", "", partial(running_spend, progress)),
    ]
    rates = [
        ("segments", f"Rates by {progress.segment}", SEGMENTS, "groups", progress.segments),
        ("products", "Rates of products", GROUPS, "products", progress.products),
        ("strategies", "Rates of strategies", GROUPS, "strategies", progress.strategies),
    ]
    for name, title, about, what, groups in rates:
        enough = sum(group.believed is not None for group in groups) > 1
        charts.append((enough, name, title, about, partial(believed_and_observed, groups, what)))
    return [
        Chart(figure=name, title=title, about=about, draw=draw) for enough, name, title, about, draw in charts if enough
    ]


@router.get("/compare")
async def compare(
    caller: Reader,
    campaigns: Annotated[
        list[Annotated[str, Query(min_length=1, max_length=100)]],
        Query(alias="campaign", min_length=1, max_length=20, description="Names of campaigns, each once."),
    ],
    since: Annotated[str | None, Query(description="Only rounds opened from this moment on.", max_length=1000)] = None,
    until: Annotated[str | None, Query(description="Only rounds opened before this moment.", max_length=1000)] = None,
) -> Comparison:
    """Campaigns side by side: reach, cost per responder, and the lift, with their intervals."""
    opened = caller.campaigns

    def progress(campaign: Campaign) -> CampaignProgress:
        return campaign.progress(since=since, until=until)

    def compared() -> Comparison:
        all_progress = [opened.call(name, progress) for name in dict.fromkeys(campaigns)]
        measured = [measure for each in all_progress for measure in measures(each)]
        items = [replace(caller.masked(each), rounds=()) for each in all_progress]
        document = page_document(side_by_side(measured), responsive=False)
        drawn = Drawn(figure="side-by-side", title="Side by side", about=_SIDE_BY_SIDE, document=document)
        return Comparison(items=items, measures=measured, figures=[drawn])

    return await opened.aside(compared)


@router.get(f"{CAMPAIGN}/network")
async def network(
    at: ForReader,
    product: Annotated[str | None, Query(description="Show the strongest edges for this product.")] = None,
    round: Annotated[str | None, Query(description="Mark the users of this round: its id or its number.")] = None,
    limit: Annotated[int, Query(ge=1, le=20_000, description="The most users, and at most as many edges.")] = 2_000,
) -> Picture:
    """The picture of the network: places of users, marks of a round, edges."""
    return await at.read(lambda: picture(at, at.product(product), round, limit), learned=product is not None)


@router.get(f"{CAMPAIGN}/learned")
@reads_learned
def learned(at: ForReader) -> LearnedDocument:
    """Which users, products and strategies go together, by what the model expects now."""
    beliefs = _learned(at)
    return LearnedDocument(**dict(beliefs), figures=_learned_charts(at, beliefs))


def _learned(at: At) -> Learned:
    """What was learned, as this caller may see it; worked out again only if the log has grown."""
    return at.kept("learned", tag_of(at.campaign), lambda: what_was_learned(at))


def _learned_charts(at: At, beliefs: Learned) -> list[Chart]:
    charts = list[Chart]()
    called = at.campaign.names("products")
    titles = ["any product" if it.product is None else called.get(it.product, it.product) for it in beliefs.products]
    products = _marked(titles, [it.rounds for it in beliefs.products])
    users = distinct(name or user for user, name in zip(beliefs.users, beliefs.names, strict=True))
    if users and len(products) > 1:
        together = partial(goes_together, users, products, np.array(beliefs.affinity))
        charts.append(Chart(figure=_USERS_FIGURE, title="Users and products", about=_TOGETHER, draw=together))
    if len(beliefs.strategies) > 1:
        offers = at.campaign.names("strategies")
        strategies = _marked([offers.get(each, each) for each in beliefs.strategies], beliefs.strategy_rounds)
        best = partial(strategies_by_product, strategies, products, np.array(beliefs.shares))
        title = "Strategies and products"
        charts.append(Chart(figure=_STRATEGIES_FIGURE, title=title, about=_STRATEGIES, draw=best))
    return charts


def _marked(names: Sequence[Any], rounds: Sequence[int]) -> list[str]:
    """The names, each told apart from the others, with a mark on those without a closed round."""
    return [each if tried else f"{each} (not tried)" for each, tried in zip(distinct(names), rounds, strict=True)]


@router.get(f"{CAMPAIGN}/regret", response_model=RegretDocument)
@reads
def regret(at: ForReader) -> Any:
    """What each round lost against the best choice; known of the sandbox of `tensorucb demo --serve` alone."""
    rounds = read_regret(at.campaign)
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
