"""Campaigns and their rounds over HTTP.

List, look at, follow, export and delete campaigns; the lift, webhooks, and who may be contacted. Preview, ask, tell,
close and cancel rounds, and say why.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import hashlib
import io
import json
import logging
import re
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, Field, StrictBool, TypeAdapter
from starlette.background import BackgroundTask

from tensorucb import campaign as library
from tensorucb.campaign import Ask, Campaign, CampaignProgress, Explanation, LiftPlan, OptReport, RoundExplanation
from tensorucb.campaign._attention import unreadable
from tensorucb.campaign._lift_plan import CLUSTERING, MOST_ROUNDS
from tensorucb.errors import TensorUCBError, UnknownIdError
from tensorucb.files import FORMULA
from tensorucb.question import ARGUMENTS
from tensorucb.service._bodies import Body, Id, QuestionBody, Users
from tensorucb.service._catalogues import Entry
from tensorucb.service._open import TICK, tag_of
from tensorucb.service._problems import Refusal, leads_to, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    After,
    At,
    ForAdmin,
    ForOperator,
    ForPreview,
    ForReader,
    Key,
    Limit,
    Page,
    Progress,
    Reader,
    Round,
    chooses,
    page,
    reads,
    reads_learned,
    tells,
)
from tensorucb.service._uploads import FORMS, Rows, described

router = APIRouter(tags=["campaigns"], responses=responses(404, 409, 413))
rounds_router = APIRouter(prefix=CAMPAIGN, tags=["rounds"], responses=responses(404, 409, 413))

_log = logging.getLogger("tensorucb.service")
_BEAT = 15.0  # seconds of silence after which those who watch hear that the service is still there


class CampaignNotices(BaseModel):
    """What needs a person in a campaign."""

    name: str
    notices: tuple[library.Notice, ...] = Field(description="The most urgent first.")


@dataclass(frozen=True)
class CampaignDocument(library.CampaignStatus):
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


class ForgetBody(Body):
    """Who is to be forgotten."""

    user: Id


class OptBody(Body, json_schema_extra={"example": {"users": ["ann"]}}):
    """Who said no, or yes, to being contacted."""

    users: Users = Field(description="Ids; those who are no users are kept, in case they join.")
    everywhere: StrictBool = Field(False, description="For all campaigns of the store.")


class WebhookBody(Body):
    """Who is to be told of rounds that close."""

    url: str = Field(max_length=500, description="Where to send requests.", examples=["https://shop.example/rounds"])
    secret: str | None = Field(None, max_length=200, description="What requests are signed with; null makes a new one.")


class WebhookSecret(BaseModel):
    """The webhook as it was set."""

    url: str
    secret: str = Field(description="Keep it: it is not shown again.")


@dataclass(frozen=True)
class OpenedRound(Ask):
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


def campaign_facts(campaign: Campaign, mask: Any) -> dict[str, Any]:
    """What a `CampaignDocument` has beside the status; it changes with the log alone."""
    groups = campaign.groups
    settings = dict(campaign.settings)
    if "ask" in settings:
        settings["ask"] = {
            name: list(map(mask, value)) if ARGUMENTS[name].kind == "users" else value
            for name, value in settings["ask"].items()
        }
    return {
        "created": campaign.created,
        "groups": None if groups is None else sorted(set(groups.tolist())),
        "costs": campaign.costs is not None,
        "segments": list(campaign.segments()),
        "settings": settings,
    }


@router.get("/campaigns")
async def campaigns(caller: Reader, limit: Limit = 50, after: After = None) -> Page[library.CampaignInfo]:
    """All campaigns, oldest first."""
    opened = caller.campaigns
    lines = await opened.aside(lambda: library.list_campaigns(opened.store))
    items, following = page(lines, limit, after, lambda line: line.name)
    return Page(items=items, next=following)


@router.get("/attention")
async def all_attention(caller: Reader) -> list[CampaignNotices]:
    """What needs a person today in all campaigns; those that need nobody are left out."""
    opened = caller.campaigns

    def call() -> list[CampaignNotices]:
        found = []
        for name in opened.names_in_use():
            try:
                notices = opened.call(name, Campaign.attention)
            except Refusal:
                continue  # deleted just now
            except TensorUCBError as error:
                _log.warning("campaign %r: %s", name, error)
                notices = (unreadable("the log of the service says why."),)
            if notices:
                found.append(CampaignNotices(name=name, notices=notices))
        return found

    return await opened.aside(call)


_DOCUMENT = TypeAdapter(CampaignDocument)


@router.get(CAMPAIGN, response_model=CampaignDocument)
async def one(at: ForReader) -> Response:
    """A campaign in numbers, and its settings."""

    def document() -> bytes:
        campaign = at.campaign
        status = campaign.status()
        return at.kept(
            "document",
            status,
            lambda: _DOCUMENT.dump_json(CampaignDocument(**vars(status), **campaign_facts(campaign, at.mask))),
        )

    return Response(await at.read_together("document", document), media_type="application/json")


@router.delete(CAMPAIGN, status_code=204)
@chooses
def delete(at: ForAdmin) -> None:
    """Delete a campaign with its whole log. It cannot be undone."""
    library.delete_campaign(at.campaign.name, storage=at.campaign.store)


@router.get(f"{CAMPAIGN}/progress", response_model=CampaignProgress, responses={304: {"description": "Not changed."}})
@reads
def progress(
    at: ForReader,
    request: Request,
    response: Response,
    progress: Progress,
    rounds: Annotated[int, Query(ge=1, le=10_000, description="How many of the last rounds are listed.")] = 200,
) -> Any:
    """How a campaign is going: responses beside expectation, reach, spend, lift, calibration.

    The answer has an ETag that changes with the log; sent back as If-None-Match, nothing is counted or sent again.
    """
    query = hashlib.sha256(request.url.query.encode()).hexdigest()[:16]
    tag = response.headers["ETag"] = f'"{tag_of(at.campaign)}-{at.role}-{query}"'
    if tag in request.headers.get("if-none-match", ""):  # among others, and weak after a proxy has packed the answer
        return Response(status_code=304, headers={"ETag": tag})
    counted = at.masked(progress(at))
    return replace(counted, rounds=counted.rounds[-rounds:])


@router.get(f"{CAMPAIGN}/attention")
@reads
def attention(at: ForReader) -> tuple[library.Notice, ...]:
    """What needs a person today, the most urgent first; an empty list if nothing does."""
    return at.campaign.attention()


@router.get(f"{CAMPAIGN}/lift")
@reads
def lift(at: ForReader) -> library.Lift:
    """Compare followers of contacted and of held-out users; 409 as long as there is nothing to compare."""
    return at.campaign.lift()


Rounds = Annotated[int | None, Query(ge=1, le=MOST_ROUNDS, description="So many rounds; null to ask how many.")]
Effect = Annotated[float | None, Query(gt=0, le=1, description="What contact adds; null to ask how much shows.")]
Power = Annotated[float, Query(gt=0, lt=1, description="How surely the effect shall show.")]
Share = Query(gt=0, lt=1, description="Share of the chosen users who are not contacted.")


@router.get(f"{CAMPAIGN}/lift/plan")
@reads_learned
def plan_lift(
    at: ForReader,
    product: Annotated[str | None, Query(description="The product of the rounds.")] = None,
    k: Annotated[int | None, Query(ge=2, le=1000, description="Users of each round.")] = None,
    holdout: Annotated[float | None, Share] = None,
    rounds: Rounds = None,
    effect: Effect = None,
    power: Power = 0.8,
) -> LiftPlan:
    """Say how many rounds with a hold-out show which effect of contact; leave out what is asked for."""
    about = at.product(product)
    return at.campaign.plan_lift(about, k, holdout=holdout, rounds=rounds, effect=effect, power=power)


@router.get("/lift/plan")
async def plan_any_lift(
    caller: Reader,
    followers: Annotated[float, Query(gt=0, le=1e6, description="Of a chosen user, and of no other chosen one.")],
    rate: Annotated[float, Query(ge=0, lt=1, description="Share of them who respond without contact.")],
    k: Annotated[int, Query(ge=2, le=1000, description="Users of each round.")] = 10,
    holdout: Annotated[float, Share] = 0.2,
    rounds: Rounds = None,
    effect: Effect = None,
    power: Power = 0.8,
    clustering: Annotated[float, Query(ge=0, lt=1, description="How far followers of a user act alike.")] = CLUSTERING,
) -> LiftPlan:
    """The same before there is a campaign."""
    terms: dict[str, Any] = {"users": k, "holdout": holdout, "rounds": rounds, "effect": effect, "power": power}
    return await caller.campaigns.aside(lambda: library.plan_lift(followers, rate, **terms, clustering=clustering))


@router.get(
    f"{CAMPAIGN}/live",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def live(at: ForReader, request: Request) -> Response:
    """Follow a campaign: an event `changed` now and whenever its log has grown, with the last event's number."""
    tag = await at.read(lambda: tag_of(at.campaign))
    if request.state.bodiless:
        return Response(media_type="text/event-stream")
    return StreamingResponse(_changes(at, tag), media_type="text/event-stream")


async def _changes(at: At, tag: str) -> AsyncIterator[str]:
    stopping = at.campaigns.stopping
    last = ""
    quiet = 0.0
    while not stopping.is_set():
        if tag != last:
            yield f"event: changed\ndata: {json.dumps({'event': int(tag.rpartition('-')[2])})}\n\n"
            last, quiet = tag, 0.0
        elif quiet >= _BEAT:
            yield ": still here\n\n"
            quiet = 0.0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), TICK)
        quiet += TICK
        try:
            tag = await at.read(lambda: tag_of(at.campaign))
        except Refusal:
            yield "event: gone\ndata: {}\n\n"
            return


@router.get(
    f"{CAMPAIGN}/export",
    response_class=FileResponse,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
)
@reads
def export(
    at: ForOperator, request: Request, format: Annotated[Literal["parquet", "csv"], Query()] = "parquet"
) -> FileResponse:
    """The campaign as tables in a zip file: rounds, seeds, responses, users, edges … and a manifest."""
    folder = Path(tempfile.mkdtemp(dir=request.app.state.uploads.folder))
    archive = folder / "export.zip"
    try:
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in at.campaign.export(folder / "tables", format):
                packed.write(path, path.name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(archive, media_type="application/zip", filename="campaign.zip", background=gone)


@router.put(f"{CAMPAIGN}/webhook")
@tells
def set_webhook(at: ForAdmin, body: WebhookBody) -> WebhookSecret:
    """Tell another system of every round that closes from now on, by a signed request.

    The field `webhook` of the campaign says how far it is.
    """
    return WebhookSecret(url=body.url, secret=at.campaign.set_webhook(body.url, body.secret))


@router.delete(f"{CAMPAIGN}/webhook", status_code=204)
@tells
def remove_webhook(at: ForAdmin) -> None:
    """Tell nobody any more."""
    at.campaign.remove_webhook()


@router.get(f"{CAMPAIGN}/opt-outs")
@reads
def opted_out(at: ForReader, limit: Limit = 50, after: After = None) -> Page[Entry]:
    """Users who opted out."""
    users, following = page(at.campaign.opted_out(), limit, after)
    names = at.names(at.campaign.graph.rows(users).tolist())
    items = [Entry(id=at.mask(user), name=name) for user, name in zip(users, names, strict=True)]
    return Page(items=items, next=following)


@router.post(f"{CAMPAIGN}/opt-outs")
@tells
def opt_out(at: ForOperator, body: OptBody) -> OptReport:
    """Never contact these people again, in this campaign or everywhere."""
    return at.campaign.opt_out(body.users, everywhere=body.everywhere)


@router.post(f"{CAMPAIGN}/opt-ins")
@tells
def opt_in(at: ForOperator, body: OptBody) -> OptReport:
    """Undo an opt-out; in a campaign with consent this is consent as well."""
    return at.campaign.opt_in(body.users, everywhere=body.everywhere)


@router.post(f"{CAMPAIGN}/forget")
@chooses
def forget(at: ForAdmin, body: ForgetBody) -> library.ForgetReport:
    """Remove a person from the log and the model, and prove it by replay."""
    report = at.campaign.forget(body.user)
    # Where the store lies is nobody's business.
    return replace(report, files=tuple(Path(file).name for file in report.files))


# -- rounds --


@rounds_router.post("/preview")
@chooses
def preview(at: ForPreview, body: QuestionBody) -> library.Preview:
    """Say who would be chosen and why, or what to expect of a list of users; nothing is opened.

    Asking straight after opens this very round, with the same users to contact and to hold out.
    """
    return at.campaign.preview(**body.arguments())


@rounds_router.post(
    "/rounds",
    status_code=201,
    responses={201: leads_to("rounds", "one", "explanation", "seeds", "tell", "close", "cancel", round="id")},
)
@chooses
def ask(at: ForOperator, body: QuestionBody, key: Key = None) -> OpenedRound:
    """Open a round: choose users for a product, or take the list that somebody accepted.

    The Idempotency-Key is the round's `request_id`: the same question with the same key finds the same round.
    """
    opened = at.campaign.ask(**body.arguments(), request_id=key)
    return OpenedRound(**vars(replace(opened)), explanation=cast("RoundExplanation", opened.explain()))


@rounds_router.get("/rounds")
@reads
def rounds(
    at: ForReader,
    limit: Limit = 50,
    after: After = None,
    status: Annotated[Literal["open", "closed", "cancelled"] | None, Query(description="Only these.")] = None,
) -> Page[Ask]:
    """All rounds, the newest first."""
    with at.campaign._handle.read() as view:
        records = [record for record in reversed(view.rounds()) if status in (None, record.status)]
        listed, following = page(records, limit, after, lambda record: record.id)
        return Page(items=[at.masked(record.seen(view.network)) for record in listed], next=following)


@rounds_router.get("/rounds/{round}", name="one")
@reads
def one_round(at: ForReader, round: Round) -> Ask:
    """One round."""
    return at.masked(at.round(round))


@rounds_router.get("/rounds/{round}/explanation")
@reads
def explanation(
    at: ForReader,
    round: Round,
    user: Annotated[str | None, Query(description="Only this user, chosen or not.", max_length=10_000)] = None,
) -> RoundExplanation | Explanation:
    """Say why each seed was chosen, or why one user was or was not."""
    return at.masked(at.campaign.explain(at.round(round).id, None if user is None else at.user(user)))


@rounds_router.get(
    "/rounds/{round}/seeds.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {"schema": {"type": "string"}}}}},
)
@reads
def seeds(at: ForOperator, round: Round) -> Response:
    """Who to contact, as a file for a spreadsheet; a text that would be taken for a formula gets an apostrophe."""
    asked = at.round(round)
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    strategies = asked.strategies or [""] * len(asked.seeds)
    names = at.names(at.campaign.graph.rows(list(asked.seeds)).tolist())
    called = any(names)
    rows.writerow(["rank", "user", *(["name"] if called else []), "strategy", "product", "round"])
    for rank, (user, name, strategy) in enumerate(zip(asked.seeds, names, strategies, strict=True), start=1):
        cells = [user, *([name or ""] if called else []), strategy, asked.product, asked.id]
        rows.writerow([rank, *(re.sub(FORMULA, r"'\1", cell) if isinstance(cell, str) else cell for cell in cells)])
    attached = {"Content-Disposition": f'attachment; filename="round-{asked.number}-seeds.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=attached)


@rounds_router.post("/rounds/{round}/responses", openapi_extra=described(*FORMS))
@tells
def tell(at: ForOperator, round: Round, request: Request, rows: Rows) -> library.TellReport:
    """Store responses of a round, durably; again, late or in any order.

    Rows have the fields source, target and outcome (0 or 1), or user and time; optionally time and event_id.
    """
    try:
        report = at.campaign.tell(round, **rows)
    except UnknownIdError:
        at.round(round)
        raise
    request.app.state.metrics.told.inc(report.accepted)
    return report


@rounds_router.post("/responses", openapi_extra=described(*FORMS))
@tells
def tell_log(at: ForOperator, request: Request, rows: Rows) -> library.TellLogReport:
    """Store the rows of a log that belong to rounds, such as all purchases since yesterday.

    A row belongs to the round in its field round, or to the rounds of its field product in whose window it falls.
    """
    report = at.campaign.tell_log(**rows)
    request.app.state.metrics.told.inc(report.accepted)
    return report


@rounds_router.post("/rounds/{round}/close")
@chooses
def close(at: ForOperator, round: Round, body: CloseBody | None = None) -> Ask:
    """Close a round: silence becomes "no", and the model learns it. Closing again changes nothing.

    In the first half of its time, with more than a day left, the answer is 409 unless `early` says that it is meant.
    """
    return at.campaign.close(at.round(round), early=body is not None and body.early)


@rounds_router.post("/rounds/{round}/cancel")
@chooses
def cancel(at: ForOperator, round: Round) -> Ask:
    """Cancel an open round: nobody counts as contacted, nothing is learned. Cancelling again changes nothing."""
    return at.campaign.cancel(at.round(round).id)
