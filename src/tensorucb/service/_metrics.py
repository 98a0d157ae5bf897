"""Metrics for Prometheus: requests by route, and how the campaigns are going."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from tensorucb.campaign import CampaignStatus

# Otherwise each number has a second line with the moment of its first use.
disable_created_metrics()  # type: ignore[no-untyped-call]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_GAUGES = {
    "open": ("tensorucb_rounds_open", "Rounds that wait for responses."),
    "closed": ("tensorucb_rounds_closed", "Rounds that were closed and are learned from."),
    "behind": ("tensorucb_model_behind", "Closed rounds that the model has not learned yet."),
}


class Metrics:
    """The numbers of one service; with several workers those of all, which share a directory."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._requests = Counter(
            "tensorucb_requests", "Answered requests.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "tensorucb_request_seconds", "Time to the end of an answer.", ("route",), registry=registry, buckets=_BOUNDS
        )
        self._told = Counter("tensorucb_responses_told", "New responses that were stored.", registry=registry)
        self._registry = registry

    def told(self, responses: int) -> None:
        """Count new responses."""
        self._told.inc(responses)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self, campaigns: list[CampaignStatus]) -> bytes:
        """Everything in Prometheus's text format."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        now = CollectorRegistry()
        now.register(_Campaigns(campaigns))
        return generate_latest(registry) + generate_latest(now)


class _Campaigns(Collector):
    """The campaigns as they are at the moment of asking."""

    def __init__(self, found: list[CampaignStatus]) -> None:
        self._found = found

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One gauge for each number."""
        for field, (name, meaning) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, meaning, labels=("campaign",))
            for status in self._found:
                gauge.add_metric([status.name], getattr(status, field))
            yield gauge
