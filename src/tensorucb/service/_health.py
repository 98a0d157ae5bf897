"""For those who run the service: is it alive, is it ready, and the metrics."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel

from tensorucb.campaign import CampaignStatus
from tensorucb.service._auth import Principal, reader
from tensorucb.service._desk import Desk
from tensorucb.service._metrics import CONTENT_TYPE
from tensorucb.service._problems import Refusal, responses

router = APIRouter(tags=["operation"])


class Health(BaseModel):
    """How the service is."""

    status: str


@router.get("/healthz", responses=responses())
async def healthz() -> Health:
    """Whether the process answers at all; nothing else is looked at."""
    return Health(status="alive")


@router.get("/readyz", responses=responses())
async def readyz(request: Request) -> Health:
    """Whether the store can be read and the service is not about to stop."""
    desk: Desk = request.app.state.desk
    if desk.stopping.is_set():
        raise Refusal(503, "the service is about to stop.", kind="StateError")
    await desk.aside(lambda: _look(desk))
    return Health(status="ready")


def _look(desk: Desk) -> None:
    with desk.store.read() as session:
        session.campaigns()


@router.get("/metrics", response_class=Response, responses=responses())
async def metrics(request: Request, who: Annotated[Principal, Depends(reader)]) -> Response:
    """Requests, durations and how the campaigns are going, in Prometheus's text format."""
    desk: Desk = request.app.state.desk
    names = await desk.aside(desk.names)
    found = await asyncio.gather(*(_status(desk, name) for name in names))
    text = request.app.state.metrics.text([status for status in found if status is not None])
    return Response(text, media_type=CONTENT_TYPE)


async def _status(desk: Desk, name: str) -> CampaignStatus | None:
    try:
        return await desk.read(name, lambda campaign: campaign.status())
    except Refusal:  # deleted just now
        return None
