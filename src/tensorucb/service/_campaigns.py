"""Campaigns over HTTP: list, look at, follow, export, delete; the lift, webhooks, and who may be contacted."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictBool
from starlette.background import BackgroundTask

from tensorucb.campaign import (
    Campaign,
    CampaignProgress,
    CampaignStatus,
    ForgetReport,
    Lift,
    LiftPlan,
    Notice,
    OptReport,
    delete_campaign,
)
from tensorucb.campaign import plan_lift as lift_plan
from tensorucb.campaign._lift_plan import CLUSTERING, MOST_ROUNDS
from tensorucb.question import ARGUMENTS
from tensorucb.service._bodies import Body, Id, Users
from tensorucb.service._catalogues import Entry
from tensorucb.service._open import TICK, tag_of
from tensorucb.service._problems import Refusal, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    After,
    At,
    ForAdmin,
    ForOperator,
    ForReader,
    Limit,
    Mask,
    OfRounds,
    Opened,
    Page,
    Reader,
    masked_progress,
    page,
    product_named,
)

router = APIRouter(tags=["campaigns"], responses=responses(404, 409, 413))

_BEAT = 15.0  # seconds of silence after which those who watch hear that the service is still there


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


class ForgetBody(Body):
    """Who is to be forgotten."""

    user: Id


class OptBody(Body):
    """Who said no, or yes, to being contacted."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"users": ["ann"]}})

    users: Users = Field(description="Ids; those who are no users are kept, in case they join.")
    everywhere: StrictBool = Field(False, description="For all campaigns of the store.")


def campaign_facts(campaign: Campaign, mask: Mask) -> dict[str, Any]:
    """What a `CampaignDocument` has beside the status; it changes with the network alone."""
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


@router.get("/campaigns", response_model=Page[CampaignLine])
async def campaigns(opened: Opened, who: Reader, limit: Limit = 50, after: After = None) -> Any:
    """All campaigns, oldest first."""

    def call() -> dict[str, Any]:
        names, following = page(opened.names(), limit, after, lambda name: name)
        lines = []
        for name in names:
            # Somebody may delete one meanwhile.
            with contextlib.suppress(Refusal):
                lines.append(opened.call(name, lambda it: {**vars(it.status()), "created": it.created}))
        return {"items": lines, "next": following}

    return await opened.aside(call)


@router.get(CAMPAIGN, response_model=CampaignDocument)
async def one(at: ForReader) -> CampaignDocument:
    """A campaign in numbers, and its settings."""

    def call(campaign: Campaign) -> CampaignDocument:
        with campaign._handle.read() as view:
            tag = view.number, view.ledger.revision
        facts = at.kept("facts", tag, lambda: campaign_facts(campaign, at.mask))
        return CampaignDocument(**vars(campaign.status()), **facts)

    return await at.read(call)


@router.delete(CAMPAIGN, status_code=204, response_class=Response)
async def delete(at: ForAdmin) -> Response:
    """Delete a campaign with its whole log. It cannot be undone."""
    await at.choose(lambda campaign: delete_campaign(campaign.name, storage=campaign.store))
    return Response(status_code=204)


@router.get(f"{CAMPAIGN}/progress", response_model=CampaignProgress, responses={304: {"description": "Not changed."}})
async def progress(
    at: ForReader,
    request: Request,
    response: Response,
    selected: OfRounds,
    rounds: Annotated[int, Query(ge=1, le=10_000, description="How many of the last rounds are listed.")] = 200,
) -> Any:
    """How a campaign is going: responses beside expectation, reach, spend, lift, calibration.

    The answer has an ETag that changes with the log; sent back as If-None-Match, nothing is counted or sent again.
    """

    def call(campaign: Campaign) -> CampaignProgress | None:
        tag = response.headers["ETag"] = (
            f'"{tag_of(campaign)}-{at.who.role}-{hashlib.sha256(request.url.query.encode()).hexdigest()[:16]}"'
        )
        same = request.headers.get("if-none-match") == tag
        return None if same else masked_progress(selected.progress(campaign), rounds, at.mask)

    counted = await at.read(call)
    return counted or Response(status_code=304, headers={"ETag": response.headers["ETag"]})


@router.get(f"{CAMPAIGN}/attention", response_model=list[Notice])
async def attention(at: ForReader) -> tuple[Notice, ...]:
    """What needs a person today, the most urgent first; an empty list if nothing does."""
    return await at.read(lambda campaign: campaign.attention())


@router.get(f"{CAMPAIGN}/lift", response_model=Lift)
async def lift(at: ForReader) -> Lift:
    """Compare followers of contacted and of held-out users; 409 as long as there is nothing to compare."""
    return await at.read(lambda campaign: campaign.lift())


Rounds = Annotated[int | None, Query(ge=1, le=MOST_ROUNDS, description="So many rounds; null to ask how many.")]
Effect = Annotated[float | None, Query(gt=0, le=1, description="What contact adds; null to ask how much shows.")]
Power = Annotated[float, Query(gt=0, lt=1, description="How surely the effect shall show.")]
Share = Query(gt=0, lt=1, description="Share of the chosen users who are not contacted.")


@router.get(f"{CAMPAIGN}/lift/plan", response_model=LiftPlan)
async def plan_lift(
    at: ForReader,
    product: Annotated[str | None, Query(description="The product of the rounds.")] = None,
    k: Annotated[int | None, Query(ge=2, le=1000, description="Users of each round.")] = None,
    holdout: Annotated[float | None, Share] = None,
    rounds: Rounds = None,
    effect: Effect = None,
    power: Power = 0.8,
) -> LiftPlan:
    """Say how many rounds with a hold-out show which effect of contact; leave out what is asked for."""

    def call(campaign: Campaign) -> LiftPlan:
        about = product_named(campaign, product)
        return campaign.plan_lift(about, k, holdout=holdout, rounds=rounds, effect=effect, power=power)

    return await at.read(call, chooses=True)


@router.get("/lift/plan", response_model=LiftPlan)
async def plan_any_lift(
    opened: Opened,
    who: Reader,
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
    return await opened.aside(lambda: lift_plan(followers, rate, **terms, clustering=clustering))


@router.get(
    f"{CAMPAIGN}/live",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def live(at: ForReader, request: Request) -> Response:
    """Follow a campaign: an event `changed` now and whenever its log has grown, with the last event's number."""
    tag = await at.read(tag_of)
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
            tag = await at.read(tag_of)
        except Refusal:
            yield "event: gone\ndata: {}\n\n"
            return


@router.get(
    f"{CAMPAIGN}/export",
    response_class=FileResponse,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def export(
    at: ForOperator, request: Request, format: Annotated[Literal["parquet", "csv"], Query()] = "parquet"
) -> FileResponse:
    """The campaign as tables in a zip file: rounds, seeds, responses, users, edges … and a manifest."""
    folder = Path(tempfile.mkdtemp(dir=request.app.state.uploads.folder))

    def call(campaign: Campaign) -> Path:
        archive = folder / "export.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in campaign.export(folder / "tables", format):
                packed.write(path, path.name)
        return archive

    try:
        archive = await at.read(call)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(archive, media_type="application/zip", filename="campaign.zip", background=gone)


class WebhookBody(Body):
    """Who is to be told of rounds that close."""

    url: str = Field(max_length=500, description="Where to send requests.", examples=["https://shop.example/rounds"])
    secret: str | None = Field(None, max_length=200, description="What requests are signed with; null makes a new one.")


class WebhookSecret(BaseModel):
    """The webhook as it was set."""

    url: str
    secret: str = Field(description="Keep it: it is not shown again.")


@router.put(f"{CAMPAIGN}/webhook", response_model=WebhookSecret)
async def set_webhook(at: ForAdmin, body: WebhookBody) -> Any:
    """Tell another system of every round that closes from now on, by a signed request.

    The field `webhook` of the campaign says how far it is.
    """
    secret = await at.tell(lambda campaign: campaign.set_webhook(body.url, body.secret))
    return {"url": body.url, "secret": secret}


@router.delete(f"{CAMPAIGN}/webhook", status_code=204, response_class=Response)
async def remove_webhook(at: ForAdmin) -> Response:
    """Tell nobody any more."""
    await at.tell(lambda campaign: campaign.remove_webhook())
    return Response(status_code=204)


@router.get(f"{CAMPAIGN}/opt-outs", response_model=Page[Entry])
async def opted_out(at: ForReader, limit: Limit = 50, after: After = None) -> Any:
    """Users who opted out."""

    def call(campaign: Campaign) -> dict[str, Any]:
        users, following = page(campaign.opted_out(), limit, after)
        names = at.names(campaign, campaign.graph.rows(users).tolist())
        items = [{"id": at.mask(user), "name": name} for user, name in zip(users, names, strict=True)]
        return {"items": items, "next": following}

    return await at.read(call)


@router.post(f"{CAMPAIGN}/opt-outs", response_model=OptReport)
async def opt_out(at: ForOperator, body: OptBody) -> OptReport:
    """Never contact these people again, in this campaign or everywhere."""
    return await at.tell(lambda campaign: campaign.opt_out(body.users, everywhere=body.everywhere))


@router.post(f"{CAMPAIGN}/opt-ins", response_model=OptReport)
async def opt_in(at: ForOperator, body: OptBody) -> OptReport:
    """Undo an opt-out; in a campaign with consent this is consent as well."""
    return await at.tell(lambda campaign: campaign.opt_in(body.users, everywhere=body.everywhere))


@router.post(f"{CAMPAIGN}/forget", response_model=ForgetReport)
async def forget(at: ForAdmin, body: ForgetBody) -> ForgetReport:
    """Remove a person from the log and the model, and prove it by replay."""
    report = await at.choose(lambda campaign: campaign.forget(body.user))
    # Where the store lies is nobody's business.
    return replace(report, files=tuple(Path(file).name for file in report.files))
