"""Campaigns side by side over HTTP: their numbers with intervals, in a period, and the one figure of them."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from campaign.worlds import Clock, answers, small_campaign
from service.serving import serving

DAY = 86_400.0


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """``spring`` has six rounds on successive days and costs, ``autumn`` one round, ``empty`` none."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('compare')}/c.db"
    clock = Clock(0.0)
    for name, rounds, settings in (("spring", 6, {"costs": np.full(30, 2.0)}), ("autumn", 1, {}), ("empty", 0, {})):
        with small_campaign(storage, name=name, clock=clock, **settings) as campaign:
            for number in range(rounds):
                clock.now = number * DAY
                ask = campaign.ask("tea", 4)
                campaign.tell(ask, answers(campaign, ask, every=2 + number % 3))
                campaign.close(ask)
    with serving(storage) as url, httpx.Client(base_url=f"{url}/api/v1", timeout=60.0) as client:
        yield client


def compared(client, **period):
    found = client.get("/compare", params={"campaign": ["spring", "autumn", "empty"], **period})
    assert found.status_code == 200, found.text
    return found.json()


def test_numbers_have_intervals_as_wide_as_rounds_differ(client):
    found = compared(client)
    numbers = {(one["campaign"], one["what"]): one for one in found["measures"]}
    assert set(numbers) == {("spring", "reach"), ("spring", "cost"), ("autumn", "reach"), ("empty", "reach")}
    spring = found["items"][0]
    assert numbers["spring", "reach"]["value"] == spring["reached"]
    assert numbers["spring", "cost"]["value"] == spring["cost_per_responder"]
    for what in ("reach", "cost"):
        one = numbers["spring", what]
        assert one["low"] < one["value"] < one["high"]
    for name in ("autumn", "empty"):  # too few rounds to tell how far they differ
        assert (numbers[name, "reach"]["low"], numbers[name, "reach"]["high"]) == (None, None)


def test_a_period_counts_its_rounds_alone(client):
    found = compared(client, since="1970-01-02", until="1970-01-04")
    assert [one["closed"]["rounds"] for one in found["items"]] == [2, 0, 0]
    refused = client.get("/compare", params={"campaign": "spring", "since": "yesterday"})
    assert refused.status_code == 422
    assert "2026-11-17" in refused.json()["detail"]


def test_one_figure_has_a_part_for_each_number_and_a_row_for_each_campaign(client):
    (figure,) = compared(client)["figures"]
    parts = figure["document"]["hconcat"]
    assert len(parts) == 2
    for part in parts:
        places = [layer["encoding"]["y"] for layer in part["layer"] if "y" in layer["encoding"]]
        assert all(place["scale"]["domain"] == ["spring", "autumn", "empty"] for place in places)
    assert "Cost per responder: spring" in figure["document"]["description"]
