"""Rounds over HTTP: preview, ask, tell, close, cancel, and the reasons."""

from __future__ import annotations

import csv
import io
import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from tensorucb.campaign import Ask, Campaign
from tensorucb.campaign._documents import fields
from tensorucb.checks import shown
from tensorucb.errors import UnknownIdError
from tensorucb.files import FORMULA
from tensorucb.service._answering import (
    After,
    AtDesk,
    Limit,
    Masked,
    Name,
    Operator,
    Page,
    Reader,
    Round,
    page,
    user_named,
)
from tensorucb.service._answers import KEY, PARAMETER, Once
from tensorucb.service._bodies import AskBody, PreviewBody, arguments
from tensorucb.service._documents import (
    ExplanationDocument,
    Opened,
    PreviewDocument,
    RoundDocument,
    RoundExplanationDocument,
    TellDocument,
    TellLogDocument,
    explanation_document,
    opened_document,
    preview_document,
    round_document,
)
from tensorucb.service._problems import leads_to, missing, responses
from tensorucb.service._uploads import described, reading, received, rows_of

reads = APIRouter(prefix="/campaigns/{name}", tags=["rounds"], responses=responses(404, 409))
writes = APIRouter(prefix="/campaigns/{name}", tags=["rounds"], responses=responses(404, 409, 413), route_class=Once)

_KEYED: dict[str, Any] = {"parameters": [PARAMETER]}
Unknown = Annotated[
    Literal["refuse", "skip"],
    Query(description="Rows with users or edges that are not in the network: refuse all, or skip and count them."),
]
Columns = Annotated[
    list[Annotated[str, Query(pattern=".:.", max_length=1000)]],
    Query(alias="column", description="Which column is which field, such as `user:buyer`.", max_length=20),
]


def round_of(campaign: Campaign, round: str) -> Ask:
    """A round by its id or its number; an answer with status 404 if there is none."""
    try:
        return campaign.round(round)
    except UnknownIdError:
        raise missing(f"campaign {shown(campaign.name)} has no such round; GET …/rounds lists them.") from None


def column_names(columns: list[str]) -> dict[str, str] | None:
    """Names of columns by field."""
    return dict(text.split(":", 1) for text in columns) or None


@writes.post("/preview", response_model=PreviewDocument, openapi_extra=_KEYED)
async def preview(name: Name, body: PreviewBody, desk: AtDesk, who: Operator, mask: Masked) -> Any:
    """Say who would be chosen and why, or what to expect of a list of users; nothing is opened.

    Asking straight after gives the same users. A hold-out is drawn only when the round is opened.
    """
    return await desk.choose(
        name, lambda campaign: preview_document(campaign.preview(**arguments(body, campaign)), mask)
    )


@writes.post(
    "/rounds",
    status_code=201,
    response_model=Opened,
    openapi_extra=_KEYED,
    responses={201: leads_to("rounds", "one", "explanation", "seeds", "tell", "close", "cancel", round="round")},
)
async def ask(name: Name, body: AskBody, request: Request, desk: AtDesk, who: Operator, mask: Masked) -> Any:
    """Open a round: choose users for a product, or take the list that somebody accepted.

    The Idempotency-Key is the round's `request_id` too.
    """

    def call(campaign: Campaign) -> dict[str, Any]:
        opened = campaign.ask(**arguments(body, campaign), request_id=request.headers.get(KEY))
        return opened_document(opened, mask)

    return await desk.choose(name, call)


@reads.get("/rounds", response_model=Page[RoundDocument])
async def rounds(
    name: Name,
    desk: AtDesk,
    who: Reader,
    mask: Masked,
    limit: Limit = 50,
    after: After = None,
    status: Annotated[Literal["open", "closed", "cancelled"] | None, Query(description="Only these.")] = None,
) -> Any:
    """All rounds, the newest first."""

    def call(campaign: Campaign) -> dict[str, Any]:
        known = [ask for ask in reversed(campaign.rounds()) if status in (None, ask.status)]
        found, following = page(known, limit, after, lambda ask: ask.id)
        return {"items": [round_document(ask, mask) for ask in found], "next": following}

    return await desk.read(name, call)


@reads.get("/rounds/{round}", response_model=RoundDocument)
async def one(name: Name, round: Round, desk: AtDesk, who: Reader, mask: Masked) -> Any:
    """One round."""
    return await desk.read(name, lambda campaign: round_document(round_of(campaign, round), mask))


@reads.get("/rounds/{round}/explanation", response_model=RoundExplanationDocument | ExplanationDocument)
async def explanation(
    name: Name,
    round: Round,
    desk: AtDesk,
    who: Reader,
    mask: Masked,
    user: Annotated[str | None, Query(description="Only this user, chosen or not.", max_length=10_000)] = None,
) -> Any:
    """Say why each seed was chosen, or why one user was or was not."""

    def call(campaign: Campaign) -> dict[str, Any]:
        known = round_of(campaign, round).id
        asked = None if user is None else user_named(campaign, user, mask)
        return explanation_document(campaign.explain(known, asked), mask)

    return await desk.read(name, call)


@reads.get(
    "/rounds/{round}/seeds.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def seeds(name: Name, round: Round, desk: AtDesk, who: Operator) -> Response:
    """Who to contact, as a file for a spreadsheet; a text that would be taken for a formula gets an apostrophe."""

    def call(campaign: Campaign) -> tuple[int, str]:
        found = round_of(campaign, round)
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["rank", "user", "strategy", "product", "round"])
        gets = found.strategies or [""] * len(found.seeds)
        for rank, (user, strategy) in enumerate(zip(found.seeds, gets, strict=True), start=1):
            rows.writerow([rank, *map(_cell, (user, strategy, found.product, found.id))])
        return found.number, text.getvalue()

    number, text = await desk.read(name, call)
    attached = {"Content-Disposition": f'attachment; filename="round-{number}-seeds.csv"'}
    return Response(text, media_type="text/csv", headers=attached)


def _cell(value: Any) -> Any:
    return re.sub(FORMULA, r"'\1", value) if isinstance(value, str) else value


@writes.post("/rounds/{round}/responses", response_model=TellDocument, openapi_extra={**described(), **_KEYED})
async def tell(
    name: Name,
    round: Round,
    request: Request,
    desk: AtDesk,
    who: Operator,
    unknown: Unknown = "refuse",
    columns: Columns = [],  # noqa: B006
) -> Any:
    """Store responses of a round, durably; again, late or in any order.

    Rows have the fields source, target and outcome (0 or 1), or user and time; optionally time and event_id.
    """
    async with received(request) as path:

        def call(campaign: Campaign) -> dict[str, Any]:
            known = round_of(campaign, round).id
            with reading(path.parent):
                return fields(campaign.tell(known, rows_of(path), unknown=unknown, columns=column_names(columns)))  # type: ignore[no-any-return]

        report = await desk.tell(name, call)
    request.app.state.metrics.told(report["accepted"])
    return report


@writes.post("/responses", response_model=TellLogDocument, openapi_extra={**described(), **_KEYED})
async def tell_log(
    name: Name,
    request: Request,
    desk: AtDesk,
    who: Operator,
    unknown: Unknown = "refuse",
    columns: Columns = [],  # noqa: B006
) -> Any:
    """Store the rows of a log that belong to rounds, such as all purchases since yesterday.

    A row belongs to the round in its field round, or to the rounds of its field product in whose window it falls.
    """
    async with received(request) as path:

        def call(campaign: Campaign) -> dict[str, Any]:
            with reading(path.parent):
                return fields(campaign.tell_log(rows_of(path), unknown=unknown, columns=column_names(columns)))  # type: ignore[no-any-return]

        report = await desk.tell(name, call)
    request.app.state.metrics.told(report["accepted"])
    return report


@writes.post("/rounds/{round}/close", response_model=RoundDocument, openapi_extra=_KEYED)
async def close(name: Name, round: Round, desk: AtDesk, who: Operator, mask: Masked) -> Any:
    """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing."""
    return await desk.choose(name, lambda campaign: round_document(campaign.close(round_of(campaign, round).id), mask))


@writes.post("/rounds/{round}/cancel", response_model=RoundDocument, openapi_extra=_KEYED)
async def cancel(name: Name, round: Round, desk: AtDesk, who: Operator, mask: Masked) -> Any:
    """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing."""
    return await desk.choose(name, lambda campaign: round_document(campaign.cancel(round_of(campaign, round).id), mask))
