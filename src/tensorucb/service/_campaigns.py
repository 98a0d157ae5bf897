"""Campaigns over HTTP: list, create, look at, follow, export, delete."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import ValidationError
from starlette.background import BackgroundTask

from tensorucb.campaign import Campaign, create_campaign, delete_campaign, read_campaign_data
from tensorucb.campaign._documents import fields, policy_named
from tensorucb.service._answering import Admin, After, AtDesk, Limit, Masked, Name, Operator, Page, Reader, page
from tensorucb.service._answers import PARAMETER, Once
from tensorucb.service._bodies import ForgetBody, NewCampaign
from tensorucb.service._desk import TICK, Desk
from tensorucb.service._documents import (
    CampaignDocument,
    CampaignLine,
    Created,
    ForgetDocument,
    LiftDocument,
    ProgressDocument,
    progress_document,
)
from tensorucb.service._problems import Refusal, leads_to, responses
from tensorucb.service._uploads import check_size, form_of, reading, saved

reads = APIRouter(prefix="/campaigns", tags=["campaigns"], responses=responses(404, 409))
writes = APIRouter(prefix="/campaigns", tags=["campaigns"], responses=responses(404, 409, 413), route_class=Once)

_KEYED: dict[str, Any] = {"parameters": [PARAMETER]}
_TABLES = ("edges", "actions", "products", "users", "strategies")
_FILE = {"type": "string", "format": "binary"}
_FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["edges", "settings"],
                    "additionalProperties": False,
                    "properties": {**dict.fromkeys(_TABLES, _FILE), "settings": {"type": "string"}},
                },
                "encoding": {"settings": {"contentType": "application/json"}},
            }
        },
    }
}
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


@reads.get("", response_model=Page[CampaignLine])
async def campaigns(desk: AtDesk, who: Reader, limit: Limit = 50, after: After = None) -> Any:
    """All campaigns, oldest first."""
    names, following = page(await desk.aside(desk.names), limit, after, lambda name: name)
    lines = []
    for name in names:
        # Somebody may delete one meanwhile.
        with contextlib.suppress(Refusal):
            lines.append(await desk.read(name, lambda campaign: campaign_document(desk, campaign)))
    return {"items": lines, "next": following}


@writes.post(
    "",
    status_code=201,
    response_model=Created,
    openapi_extra={**_FORM, **_KEYED},
    responses={201: leads_to("campaigns", "one", "progress", "export", "delete", name="name")},
)
async def create(request: Request, desk: AtDesk, who: Admin) -> Any:
    """Create a campaign from files: edges (source, target), and optionally actions, products, users and strategies.

    The field `settings` is JSON: `{"name": "spring", "window": "7d"}`; beside these policy, policy_settings,
    objective, credit, ask, columns, kinds and seed.
    """
    if form_of(request) != "multipart/form-data":
        raise Refusal(415, "a campaign is created by a form (multipart/form-data) with files and the field settings.")
    async with request.form(max_files=len(_TABLES), max_fields=1, max_part_size=2**20) as form:
        wanted = _settings(form.get("settings"))
        with tempfile.TemporaryDirectory(prefix="tensorucb-") as folder:
            files = await saved(form, Path(folder), _TABLES)
            return await desk.aside(lambda: _created(desk, Path(folder), files, wanted), "count")


def _settings(text: Any) -> NewCampaign:
    if not isinstance(text, str):
        raise Refusal(422, 'the form needs a field settings with JSON such as {"name": "spring"}.')
    try:
        return NewCampaign.model_validate_json(text)
    except ValidationError as error:
        found = error.errors()[0]
        place = ".".join(map(str, found["loc"])) or "it"
        raise Refusal(422, f"settings: {place}: {found['msg']}.") from None


def _created(desk: Desk, folder: Path, files: dict[str, Any], wanted: NewCampaign) -> dict[str, Any]:
    policy = policy_named(wanted.policy, wanted.policy_settings)
    with desk.store.read() as session:
        if session.campaign(wanted.name) is not None:
            raise Refusal(409, "there is a campaign of this name already; choose another name.")
    with reading(folder):
        for path in files.values():
            check_size(path)
        data = read_campaign_data(
            **files, columns=wanted.columns, kinds=wanted.kinds, id_type=wanted.id_type, window=wanted.window
        )
    options: dict[str, Any] = {name: getattr(wanted, name) for name in ("objective", "credit", "ask", "seed")}
    campaign = create_campaign(wanted.name, data=data, policy=policy, storage=desk.store, **options)
    return {**campaign_document(desk, campaign), "report": list(data.report)}


@reads.get("/{name}", response_model=CampaignDocument)
async def one(name: Name, desk: AtDesk, who: Reader, mask: Masked) -> Any:
    """A campaign in numbers, and its settings."""

    def call(campaign: Campaign) -> dict[str, Any]:
        found = campaign_document(desk, campaign)
        asks = found["settings"].get("ask")
        if asks:
            lists = {
                key: list(map(mask, asks[key])) for key in ("exclude", "candidates", "must_include") if key in asks
            }
            found["settings"]["ask"] = {**asks, **lists}
        return found

    return await desk.read(name, call)


@writes.delete("/{name}", status_code=204, response_class=Response, openapi_extra=_KEYED)
async def delete(name: Name, desk: AtDesk, who: Admin) -> Response:
    """Delete a campaign with its whole log. It cannot be undone."""

    def call(campaign: Campaign) -> None:
        delete_campaign(name, storage=desk.store)

    await desk.choose(name, call)
    return Response(status_code=204)


@reads.get("/{name}/progress", response_model=ProgressDocument, responses={304: {"description": "Not changed."}})
async def progress(
    name: Name,
    request: Request,
    response: Response,
    desk: AtDesk,
    who: Reader,
    mask: Masked,
    rounds: Annotated[int, Query(ge=1, le=10_000, description="How many of the last rounds are listed.")] = 200,
) -> Any:
    """How a campaign is going: responses beside expectation, reach, spend, lift, calibration.

    The answer has an ETag that changes with the log; sent back as If-None-Match, nothing is counted or sent again.
    """
    tag = f'"{await desk.aside(lambda: desk.tag(name))}-{rounds}-{who.role}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    seen, found = await desk.progress(name)
    response.headers["ETag"] = f'"{seen}-{rounds}-{who.role}"'
    return progress_document(found, rounds, mask)


@reads.get("/{name}/lift", response_model=LiftDocument)
async def lift(name: Name, desk: AtDesk, who: Reader) -> Any:
    """Compare followers of contacted and of held-out users; 409 as long as there is nothing to compare."""
    return await desk.count(name, lambda campaign: fields(campaign.lift()))


@reads.get(
    "/{name}/live",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def live(name: Name, desk: AtDesk, who: Reader) -> StreamingResponse:
    """Follow a campaign: an event `changed` now and whenever its log has grown, with the last event's number."""
    first = await desk.aside(lambda: desk.tag(name))
    return StreamingResponse(_changes(desk, name, first), media_type="text/event-stream")


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


@reads.get(
    "/{name}/export",
    response_class=FileResponse,
    responses={200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
)
async def export(
    name: Name, desk: AtDesk, who: Operator, format: Annotated[Literal["parquet", "csv"], Query()] = "parquet"
) -> FileResponse:
    """The campaign as tables in a zip file: rounds, seeds, responses, users, edges … and a manifest."""
    folder = Path(tempfile.mkdtemp(prefix="tensorucb-"))

    def call(campaign: Campaign) -> Path:
        archive = folder / "export.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in campaign.export(folder / "tables", format):
                packed.write(path, path.name)
        return archive

    try:
        archive = await desk.count(name, call)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    gone = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(archive, media_type="application/zip", filename="campaign.zip", background=gone)


@writes.post("/{name}/forget", response_model=ForgetDocument, openapi_extra=_KEYED)
async def forget(name: Name, body: ForgetBody, desk: AtDesk, who: Admin) -> Any:
    """Remove a person from the log and the model, and prove it by replay."""

    def call(campaign: Campaign) -> dict[str, Any]:
        report = campaign.forget(body.user)
        # Where the store lies is nobody's business.
        return {**fields(report), "files": [Path(file).name for file in report.files]}

    return await desk.choose(name, call)
