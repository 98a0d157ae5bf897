"""Rounds over HTTP: preview, ask, tell, close, cancel, and the reasons."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from tensorucb.campaign import Ask, Campaign, Explanation, Preview, RoundExplanation, TellLogReport, TellReport
from tensorucb.checks import shown
from tensorucb.errors import UnknownIdError, call
from tensorucb.files import FORMULA
from tensorucb.service._bodies import Body, QuestionBody
from tensorucb.service._problems import leads_to, missing, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    After,
    ForOperator,
    ForPreview,
    ForReader,
    Key,
    Limit,
    OfRows,
    Page,
    Round,
    masked_ask,
    masked_reason,
    masked_reasons,
    page,
    user_named,
)
from tensorucb.service._uploads import FORMS, described, received_rows

router = APIRouter(prefix=CAMPAIGN, tags=["rounds"], responses=responses(404, 409, 413))


@dataclass(frozen=True)
class Opened(Ask):
    """A new round, with the reasons.

    Attributes
    ----------
    explanation
        Every seed explained.
    """

    explanation: RoundExplanation


class CloseBody(Body):
    """How to close a round."""

    early: bool = Field(False, description="Close it though most of its responses may still come.")


def round_of(campaign: Campaign, round: str) -> Ask:
    """A round by its id or its number; an answer with status 404 if there is none."""
    try:
        return campaign.round(round)
    except UnknownIdError:
        raise missing(f"campaign {shown(campaign.name)} has no such round; ", call("rounds"), " lists them.") from None


@router.post("/preview", response_model=Preview)
async def preview(at: ForPreview, body: QuestionBody) -> Preview:
    """Say who would be chosen and why, or what to expect of a list of users; nothing is opened.

    Asking straight after opens this very round, with the same users to contact and to hold out.
    """
    return await at.choose(lambda campaign: campaign.preview(**body.arguments()))


@router.post(
    "/rounds",
    status_code=201,
    response_model=Opened,
    responses={201: leads_to("rounds", "one", "explanation", "seeds", "tell", "close", "cancel", round="id")},
)
async def ask(at: ForOperator, body: QuestionBody, key: Key = None) -> Opened:
    """Open a round: choose users for a product, or take the list that somebody accepted.

    The Idempotency-Key is the round's `request_id`: the same question with the same key finds the same round.
    """

    def call(campaign: Campaign) -> Opened:
        opened = campaign.ask(**body.arguments(), request_id=key)
        return Opened(**vars(replace(opened)), explanation=cast("RoundExplanation", opened.explain()))

    return await at.choose(call)


@router.get("/rounds", response_model=Page[Ask])
async def rounds(
    at: ForReader,
    limit: Limit = 50,
    after: After = None,
    status: Annotated[Literal["open", "closed", "cancelled"] | None, Query(description="Only these.")] = None,
) -> Any:
    """All rounds, the newest first."""

    def call(campaign: Campaign) -> dict[str, Any]:
        with campaign._handle.read() as view:
            records = [record for record in reversed(view.rounds()) if status in (None, record.status)]
            listed, following = page(records, limit, after, lambda record: record.id)
            return {"items": [masked_ask(record.seen(view.network), at.mask) for record in listed], "next": following}

    return await at.read(call)


@router.get("/rounds/{round}", response_model=Ask)
async def one(at: ForReader, round: Round) -> Any:
    """One round."""
    return await at.read(lambda campaign: masked_ask(round_of(campaign, round), at.mask))


@router.get("/rounds/{round}/explanation", response_model=RoundExplanation | Explanation)
async def explanation(
    at: ForReader,
    round: Round,
    user: Annotated[str | None, Query(description="Only this user, chosen or not.", max_length=10_000)] = None,
) -> Any:
    """Say why each seed was chosen, or why one user was or was not."""

    def call(campaign: Campaign) -> RoundExplanation | Explanation:
        asked = round_of(campaign, round).id
        reasons = campaign.explain(asked, None if user is None else user_named(campaign, user, at))
        if isinstance(reasons, RoundExplanation):
            return masked_reasons(reasons, at.mask)
        return masked_reason(reasons, at.mask)

    return await at.read(call)


@router.get(
    "/rounds/{round}/seeds.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def seeds(at: ForOperator, round: Round) -> Response:
    """Who to contact, as a file for a spreadsheet; a text that would be taken for a formula gets an apostrophe."""
    asked = await at.read(lambda campaign: round_of(campaign, round))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["rank", "user", "strategy", "product", "round"])
    strategies = asked.strategies or [""] * len(asked.seeds)
    for rank, (user, strategy) in enumerate(zip(asked.seeds, strategies, strict=True), start=1):
        rows.writerow([rank, *map(_cell, (user, strategy, asked.product, asked.id))])
    attached = {"Content-Disposition": f'attachment; filename="round-{asked.number}-seeds.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=attached)


def _cell(value: Any) -> Any:
    return re.sub(FORMULA, r"'\1", value) if isinstance(value, str) else value


@router.post("/rounds/{round}/responses", response_model=TellReport, openapi_extra=described(*FORMS))
async def tell(at: ForOperator, round: Round, request: Request, options: OfRows) -> TellReport:
    """Store responses of a round, durably; again, late or in any order.

    Rows have the fields source, target and outcome (0 or 1), or user and time; optionally time and event_id.
    """
    async with received_rows(request) as rows:

        def call(campaign: Campaign) -> TellReport:
            try:
                return campaign.tell(round, rows(), **options.arguments)
            except UnknownIdError:
                round_of(campaign, round)
                raise

        report = await at.tell(call)
    request.app.state.metrics.told(report.accepted)
    return report


@router.post("/responses", response_model=TellLogReport, openapi_extra=described(*FORMS))
async def tell_log(at: ForOperator, request: Request, options: OfRows) -> TellLogReport:
    """Store the rows of a log that belong to rounds, such as all purchases since yesterday.

    A row belongs to the round in its field round, or to the rounds of its field product in whose window it falls.
    """
    async with received_rows(request) as rows:
        report = await at.tell(lambda campaign: campaign.tell_log(rows(), **options.arguments))
    request.app.state.metrics.told(report.accepted)
    return report


@router.post("/rounds/{round}/close", response_model=Ask)
async def close(at: ForOperator, round: Round, body: CloseBody | None = None) -> Any:
    """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing.

    In the first half of its time, with more than a day left, the answer is 409 unless `early` says that it is meant.
    """
    early = body is not None and body.early
    return await at.choose(lambda campaign: campaign.close(round_of(campaign, round), early=early))


@router.post("/rounds/{round}/cancel", response_model=Ask)
async def cancel(at: ForOperator, round: Round) -> Any:
    """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing."""
    return await at.choose(lambda campaign: campaign.cancel(round_of(campaign, round).id))
