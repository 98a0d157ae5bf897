"""For those who run the service: is it alive, is it ready, metrics for Prometheus, and logs.

Logs are lines of JSON through the standard ``logging`` module, each with the id of the request it belongs to. A line
names no user, no token and no address within a campaign. The text of an unforeseen error may quote anything, so only
its kind and the places in the code are written.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from pydantic import BaseModel

from tensorucb.campaign import Campaign
from tensorucb.errors import TensorUCBError
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._problems import Refusal, request_id, responses
from tensorucb.service._shared import OPEN_TO_ALL, Reader
from tensorucb.service._tokens import token_count

# Otherwise each number has a second line with the moment of its first use.
disable_created_metrics()  # type: ignore[no-untyped-call]
_BOUNDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_GAUGES = {
    "open": ("tensorucb_rounds_open", "Rounds that wait for responses."),
    "closed": ("tensorucb_rounds_closed", "Rounds that were closed and are learned from."),
    "behind": ("tensorucb_model_behind", "Closed rounds that the model has not learned yet."),
}
# What these tell below their level nobody asked for.
_QUIET = {"asyncio": "WARNING", "uvicorn": "WARNING", "python_multipart": "ERROR"}

ALIVE = "/healthz"
router = APIRouter(tags=["operation"], responses=responses())
_access = logging.getLogger("tensorucb.access")


class Health(BaseModel):
    """How the service is."""

    status: str


@router.get(ALIVE, openapi_extra=OPEN_TO_ALL)
async def healthz() -> Health:
    """Whether the process answers at all; nothing else is looked at."""
    return Health(status="alive")


@router.get("/readyz", openapi_extra=OPEN_TO_ALL)
async def readyz(request: Request) -> Health:
    """Whether the store can be read and the service is not about to stop."""
    campaigns: OpenCampaigns = request.app.state.campaigns
    if campaigns.stopping.is_set():
        raise Refusal(503, "the service is about to stop.", kind="StateError")
    await campaigns.aside(partial(token_count, campaigns.store))
    return Health(status="ready")


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, caller: Reader) -> Response:
    """Requests, durations and how the campaigns are going, in Prometheus's text format."""
    numbers: Metrics = request.app.state.metrics
    text = await caller.campaigns.aside(numbers.text)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


class Metrics(Collector):
    """The numbers of one service; with several workers those of all, which share a directory."""

    def __init__(self, campaigns: OpenCampaigns) -> None:
        self._campaigns = campaigns
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "tensorucb_requests", "Answered requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "tensorucb_request_seconds", "Time to the end of an answer.", ("route",), registry=registry, buckets=_BOUNDS
        )
        self.told = Counter("tensorucb_responses_told", "New responses that were stored.", registry=registry)

    def answered(self, method: str, route: str, status: int, seconds: float, principal: str | None) -> None:
        """Count and log an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        fields = {"method": method, "route": route, "status": status, "ms": round(1000 * seconds, 1)}
        extra = {"fields": {**fields, "principal": principal}}
        _access.info("%s %s %d", method, route, status, extra=extra)

    def text(self) -> bytes:
        """Everything in Prometheus's text format; of the campaigns as they are now."""
        registry = self._registry
        now = CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        now.register(self)
        return generate_latest(registry) + generate_latest(now)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """A gauge for each number of the campaigns as they are now; of those in use also how far the model is."""
        opened = self._campaigns
        gauges = {kind: GaugeMetricFamily(*about, labels=("campaign",)) for kind, about in _GAUGES.items()}
        with opened.store.read() as session:
            counts = session.round_counts()
            names = {record.name: record.campaign for record in session.campaigns()}
        for name, number in names.items():
            for kind in ("open", "closed"):
                gauges[kind].add_metric([name], counts.get(number, {}).get(kind, 0))
        for name in opened.names_in_use():
            with suppress(Refusal, TensorUCBError):  # deleted just now, or damaged: the others count all the same
                gauges["behind"].add_metric([name], opened.call(name, Campaign.status).behind)
        return gauges.values()


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id.get(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            kind, _, frames = record.exc_info
            line["error"] = kind.__name__
            line["trace"] = [
                f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(frames)[-12:]
            ]
        return json.dumps(line, ensure_ascii=False)


def log_to_stderr(level: str) -> None:
    """Write the logs of this process, from ``level`` on, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(quiet)
