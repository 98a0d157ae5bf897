"""Campaigns over HTTP: list, create, look at, follow, export, delete."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from starlette.background import BackgroundTask

from tensorucb.campaign import (
    Campaign,
    CampaignProgress,
    ForgetReport,
    Lift,
    create_campaign,
    delete_campaign,
    load_campaign,
    read_campaign_data,
)
from tensorucb.campaign._documents import fields, policy_named
from tensorucb.question import ARGUMENTS
from tensorucb.service._bodies import ForgetBody, NewCampaign, checked
from tensorucb.service._desk import TICK, Desk
from tensorucb.service._documents import CampaignDocument, CampaignLine, Created, progress_document
from tensorucb.service._once import Call, Once, Together
from tensorucb.service._problems import Refusal, leads_to, responses
from tensorucb.service._shared import (
    CAMPAIGN,
    Admin,
    After,
    AtDesk,
    ForAdmin,
    ForOperator,
    ForReader,
    Limit,
    Page,
    Reader,
    page,
)
from tensorucb.service._uploads import described, form_described, form_of, received_form
from tensorucb.store._protocol import AnswerRecord

router = APIRouter(tags=["campaigns"], responses=responses(404, 409, 413), route_class=Once)

_TABLES = ("edges", "actions", "products", "users", "strategies")
_FORM = form_described(_TABLES, ["edges", "settings"], settings={"type": "string"})
_FORM["multipart/form-data"]["encoding"] = {"settings": {"contentType": "application/json"}}
_OPTIONS = ("objective", "credit", "epsilon", "ask", "seed", "snapshot_every")
_MADE_BY = "created-by"  # the blob with the key and the hash of the call that created a campaign
_BEAT = 15.0  # seconds of silence after which those who watch hear that the service is still there


def campaign_document(desk: Desk, campaign: Campaign) -> dict[str, Any]:
    """A campaign in numbers, and its settings."""
    groups = campaign.groups
    return {
        **fields(campaign.status()),
        "created": desk.record(campaign.name).created,
        "groups": None if groups is None else sorted(set(groups.tolist())),
        "costs": campaign.costs is not None,
        "settings": dict(campaign.settings),
    }


@router.get("/campaigns", response_model=Page[CampaignLine])
async def campaigns(desk: AtDesk, who: Reader, limit: Limit = 50, after: After = None) -> Any:
    """All campaigns, oldest first."""
    names, following = page(await desk.aside(desk.names), limit, after, lambda name: name)
    lines = []
    for name in names:
        # Somebody may delete one meanwhile.
        with contextlib.suppress(Refusal):
            lines.append(await desk.run("read", name, lambda campaign: campaign_document(desk, campaign)))
    return {"items": lines, "next": following}


@router.post(
    "/campaigns",
    status_code=201,
    response_model=Created,
    openapi_extra=described(more=_FORM),
    responses={201: leads_to("campaigns", "one", "progress", "export", "delete", name="name")},
)
async def create(request: Request, desk: AtDesk, who: Admin) -> Any:
    """Create a campaign from files: edges (source, target), and optionally actions, products, users and strategies.

    The field `settings` is JSON: `{"name": "spring", "window": "7d"}`; beside these policy, policy_settings,
    objective, credit, epsilon, ask, columns, kinds, id_type, seed and snapshot_every.
    """
    if form_of(request) != "multipart/form-data":
        raise Refusal(415, "a campaign is created by a form (multipart/form-data) with files and the field settings.")
    async with received_form(request, _TABLES, "edges") as (form, files):
        settings, call = form.get("settings"), request.state.call
        if not isinstance(settings, str):
            raise Refusal(422, 'the form needs a field settings with JSON such as {"name": "spring"}.')
        wanted = checked(NewCampaign, settings, "settings")
        mark = None if call is None else f"{call.key} {await call.digest()}"
        if call is not None:
            call.created = wanted.name
        return await desk.aside(lambda: _created(desk, files, wanted, mark), "count")


def _created(desk: Desk, files: dict[str, Any], wanted: NewCampaign, mark: str | None) -> dict[str, Any]:
    """The new campaign; or the one that the same call created before, if its answer was lost."""
    policy = policy_named(wanted.policy, wanted.policy_settings)
    made = _made_before(desk, wanted.name, mark)
    data = read_campaign_data(
        **files, columns=wanted.columns, kinds=wanted.kinds, id_type=wanted.id_type, window=wanted.window
    )

    def sign(session: Any) -> None:
        if mark is not None:
            session.put_blob(session.campaign(wanted.name).campaign, _MADE_BY, mark.encode())

    if not made:
        options: dict[str, Any] = {name: getattr(wanted, name) for name in _OPTIONS}
        store: Any = Together(desk.store, sign)
        create_campaign(wanted.name, data=data, policy=policy, storage=store, **options)
    campaign = load_campaign(wanted.name, storage=desk.store)
    return {**campaign_document(desk, campaign), "report": list(data.report)}


def _made_before(desk: Desk, name: str, mark: str | None) -> bool:
    """Whether the same call has created the campaign already; a campaign of another call is refused."""
    with desk.store.read() as session:
        known = session.campaign(name)
        if known is None:
            return False
        made_by = session.blob(known.campaign, _MADE_BY)
    if made_by is None or mark is None or made_by != mark.encode():
        raise Refusal(409, "there is a campaign of this name already; choose another name.")
    return True


@router.get(CAMPAIGN, response_model=CampaignDocument)
async def one(at: ForReader) -> Any:
    """A campaign in numbers, and its settings."""

    def call(campaign: Campaign) -> dict[str, Any]:
        found = campaign_document(at.desk, campaign)
        asks = dict(found["settings"].get("ask") or {})
        for key in asks:
            if ARGUMENTS[key].kind == "users":
                asks[key] = list(map(at.mask, asks[key]))
        return {**found, "settings": {**found["settings"], **({"ask": asks} if asks else {})}}

    return await at.read(call)


@router.delete(CAMPAIGN, status_code=204, response_class=Response)
async def delete(at: ForAdmin, request: Request) -> Response:
    """Delete a campaign with its whole log. It cannot be undone."""
    call: Call | None = request.state.call
    digest = "" if call is None else await call.digest()

    def keep(session: Any) -> None:
        if call is not None:
            session.put_answer(AnswerRecord(0, call.key, digest, 204, "", time.time()))

    store: Any = Together(at.desk.store, keep)
    await at.choose(lambda campaign: delete_campaign(at.name, storage=store))
    return Response(status_code=204)


@router.get(f"{CAMPAIGN}/progress", response_model=CampaignProgress, responses={304: {"description": "Not changed."}})
async def progress(
    at: ForReader,
    request: Request,
    response: Response,
    rounds: Annotated[int, Query(ge=1, le=10_000, description="How many of the last rounds are listed.")] = 200,
) -> Any:
    """How a campaign is going: responses beside expectation, reach, spend, lift, calibration.

    The answer has an ETag that changes with the log; sent back as If-None-Match, nothing is counted or sent again.
    """
    tag = f'"{await at.desk.aside(lambda: at.desk.tag(at.name))}-{rounds}-{at.who.role}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    seen, found = await at.desk.progress(at.name)
    response.headers["ETag"] = f'"{seen}-{rounds}-{at.who.role}"'
    return progress_document(found, rounds, at.mask)


@router.get(f"{CAMPAIGN}/lift", response_model=Lift)
async def lift(at: ForReader) -> Lift:
    """Compare followers of contacted and of held-out users; 409 as long as there is nothing to compare."""
    return await at.count(lambda campaign: campaign.lift())


@router.get(
    f"{CAMPAIGN}/live",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def live(at: ForReader) -> StreamingResponse:
    """Follow a campaign: an event `changed` now and whenever its log has grown, with the last event's number."""
    first = await at.desk.aside(lambda: at.desk.tag(at.name))
    return StreamingResponse(_changes(at.desk, at.name, first), media_type="text/event-stream")


async def _changes(desk: Desk, name: str, first: str) -> AsyncIterator[str]:
    tag, last, quiet = first, "", 0.0
    while not desk.stopping.is_set():
        if tag != last:
            yield f"event: changed\ndata: {json.dumps({'event': int(tag.rpartition('-')[2])})}\n\n"
            last, quiet = tag, 0.0
        elif quiet >= _BEAT:
            yield ": still here\n\n"
            quiet = 0.0
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(desk.stopping.wait(), TICK)
        quiet += TICK
        try:
            tag = await desk.watched(name)
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
        archive = await at.count(call)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(archive, media_type="application/zip", filename="campaign.zip", background=gone)


@router.post(f"{CAMPAIGN}/forget", response_model=ForgetReport)
async def forget(at: ForAdmin, body: ForgetBody) -> ForgetReport:
    """Remove a person from the log and the model, and prove it by replay."""
    report = await at.choose(lambda campaign: campaign.forget(body.user))
    # Where the store lies is nobody's business.
    return replace(report, files=tuple(Path(file).name for file in report.files))
