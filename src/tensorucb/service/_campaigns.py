"""Campaigns over HTTP: list, create, look at, follow, export, delete."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask

from tensorucb.campaign import (
    Campaign,
    CampaignProgress,
    ForgetReport,
    Lift,
    LiftPlan,
    Notice,
    OptReport,
    create_campaign,
    delete_campaign,
    read_campaign_data,
)
from tensorucb.campaign import plan_lift as lift_plan
from tensorucb.campaign._documents import policy_named, to_json
from tensorucb.campaign._lift_plan import CLUSTERING, MOST_ROUNDS
from tensorucb.campaign._stored import campaign_exists
from tensorucb.errors import InputError, argument
from tensorucb.question import ARGUMENTS
from tensorucb.service._bodies import Body, ForgetBody, NewCampaign, OptBody
from tensorucb.service._data import form_of_tables, tables_received
from tensorucb.service._documents import CampaignDocument, CampaignLine, Created, Entry, progress_document
from tensorucb.service._open import TICK, OpenCampaigns, tag_of
from tensorucb.service._problems import Refusal, leads_to, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    WRITING,
    Admin,
    After,
    At,
    ForAdmin,
    ForOperator,
    ForReader,
    Key,
    Limit,
    OfRounds,
    Opened,
    Page,
    Reader,
    page,
    product_named,
)

router = APIRouter(tags=["campaigns"], responses=responses(404, 409, 413), dependencies=WRITING)

_OPTIONS = (
    "metric",
    "objective",
    "credit",
    "epsilon",
    "ask",
    "contact_group",
    "contact_cap",
    "seed",
    "snapshot_every",
)
_BEAT = 15.0  # seconds of silence after which those who watch hear that the service is still there


def campaign_document(campaign: Campaign) -> dict[str, Any]:
    """A campaign in numbers, and its settings."""
    with campaign._handle.read():
        groups = campaign.groups
        return {
            **to_json(campaign.status()),
            "created": campaign.created,
            "groups": None if groups is None else sorted(set(groups.tolist())),
            "costs": campaign.costs is not None,
            "segments": campaign.segments(),
            "settings": dict(campaign.settings),
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
                lines.append(opened.call(name, campaign_document))
        return {"items": lines, "next": following}

    return await opened.aside(call)


@router.post(
    "/campaigns",
    status_code=201,
    response_model=Created,
    openapi_extra=form_of_tables("edges", "settings"),
    responses={201: leads_to("campaigns", "one", "progress", "export", "delete", name="name")},
)
async def create(request: Request, opened: Opened, who: Admin, key: Key = None) -> Any:
    """Create a campaign from files: edges (source, target), and optionally actions, products, users and strategies.

    The field `settings` is JSON: `{"name": "spring", "window": "7d"}`; beside these policy, policy_settings,
    metric, objective, credit, epsilon, ask, columns, kinds, id_type, consent, contact_group, contact_cap, seed and
    snapshot_every. The same form with the same Idempotency-Key finds the campaign that it has created.
    """
    async with tables_received(request, NewCampaign) as (files, wanted):
        return await opened.aside(lambda: _created(opened, files, wanted, key))


def _created(opened: OpenCampaigns, files: dict[str, Any], wanted: NewCampaign, key: str | None) -> dict[str, Any]:
    """The new campaign; or the one that the same call created before, if its answer was lost."""
    policy = policy_named(wanted.policy, wanted.policy_settings)
    data = read_campaign_data(**files, **wanted.arguments())
    options: dict[str, Any] = {name: getattr(wanted, name) for name in _OPTIONS}
    options["request_id"] = None if key is None else f"{key} {_digest(files, wanted)}"
    try:
        campaign = create_campaign(wanted.name, data=data, policy=policy, storage=opened.store, **options)
    except InputError:
        if not campaign_exists(wanted.name, opened.store):
            raise
        taken = "there is a campaign of this name already"
        if key is None:
            raise Refusal(409, f"{taken}; choose another name.") from None
        made = ", and what created it had another ", argument("request_id"), ", other settings or other files; "
        raise Refusal(409, taken, *made, "choose another name.") from None
    return {**campaign_document(campaign), "report": list(data.report)}


def _digest(files: dict[str, Path], wanted: NewCampaign) -> str:
    """The content of a form: with another one, a key is another call's."""
    digest = hashlib.sha256(wanted.model_dump_json().encode())
    for table, path in sorted(files.items()):
        with path.open("rb") as file:
            digest.update(f"{table} {hashlib.file_digest(file, 'sha256').hexdigest()}".encode())
    return digest.hexdigest()


@router.get(CAMPAIGN, response_model=CampaignDocument)
async def one(at: ForReader) -> Any:
    """A campaign in numbers, and its settings."""

    def call(campaign: Campaign) -> dict[str, Any]:
        found = campaign_document(campaign)
        asks = dict(found["settings"].get("ask") or {})
        for key in asks:
            if ARGUMENTS[key].kind == "users":
                asks[key] = list(map(at.mask, asks[key]))
        return {**found, "settings": {**found["settings"], **({"ask": asks} if asks else {})}}

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
        known = request.headers.get("if-none-match") == tag
        return None if known else progress_document(selected.progress(campaign), rounds, at.mask)

    found = await at.read(call)
    return found or Response(status_code=304, headers={"ETag": response.headers["ETag"]})


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
    stopping, last, quiet = at.campaigns.stopping, "", 0.0
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
        names = {} if at.named(campaign) is None else campaign.names("users")
        return {"items": [{"id": at.mask(user), "name": names.get(user)} for user in users], "next": following}

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
