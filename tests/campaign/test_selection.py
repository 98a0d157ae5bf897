"""`progress` of some rounds counts these as if there were no others; HTTP and the client give the same."""

from __future__ import annotations

import time
from datetime import date, datetime

import pytest

from campaign.worlds import Clock, answers, small_campaign
from service.serving import serving
from tensorucb.client import Client
from tensorucb.errors import InputError, UnknownIdError

DAY = 86_400.0
STRATEGIES = {"strategies": {"mail": [1.0, 0.0], "visit": [0.0, 1.0]}, "strategy_costs": {"visit": 3.0}}


def played(storage="memory://", clock=None):
    """Eight rounds, one a day, of two products with two strategies; the last one is open."""
    clock = clock or Clock(10 * DAY)
    campaign = small_campaign(storage, clock=clock, window="6h", **STRATEGIES)
    for number in range(8):
        strategies = ["mail"] if number % 4 < 2 else ["visit"]
        ask = campaign.ask("tea" if number % 2 else "soap", 4, strategies=strategies, holdout=0.25)
        campaign.tell(ask.id, answers(campaign, ask))
        users = campaign.graph.ids[: 3 + number].tolist()
        campaign.tell(ask.id, [{"user": user, "time": ask.opened + 60.0} for user in users])
        if number < 7:
            campaign.close(ask.id, early=True)
        clock.now += DAY
    return campaign


def test_products_and_strategies_share_out_the_rounds():
    campaign = played()
    whole = campaign.progress()
    for selections in ([{"product": p} for p in ("tea", "soap")], [{"strategy": s} for s in ("mail", "visit")]):
        parts = [campaign.progress(**selection) for selection in selections]
        assert sorted(e.number for part in parts for e in part.rounds) == [e.number for e in whole.rounds]
        for name in ("rounds", "contacts", "responders", "compared"):
            assert sum(getattr(part.closed, name) for part in parts) == getattr(whole.closed, name)
        assert sum(part.spend or 0.0 for part in parts) == pytest.approx(whole.spend)
        assert sum(part.calibration.rounds for part in parts) == whole.calibration.rounds
    # Somebody may respond to rounds of both.
    reached = [campaign.progress(product=p).reached for p in ("tea", "soap")]
    assert max(reached) <= whole.reached <= sum(reached)


def test_a_period_begins_with_its_first_moment_and_ends_before_its_last():
    campaign = played()
    entries = campaign.progress(since=11 * DAY, until="1970-01-14").rounds
    assert [entry.number for entry in entries] == [2, 3]
    assert campaign.progress(until=5 * DAY).rounds == ()
    both = campaign.progress(product="tea", since="1970-01-13")
    assert [entry.number for entry in both.rounds] == [4, 6, 8]
    assert {entry.strategies for entry in both.rounds} == {("visit",), ("mail",)}


def test_a_date_begins_at_midnight_of_the_campaigns_zone():
    clock = Clock(5 * 3600.0)  # midnight of 1970-01-01 in New York
    campaign = small_campaign(clock=clock, timezone="America/New_York")
    for _ in range(2):
        campaign.close(campaign.ask("tea", k=2))
        clock.now -= 1.0
    for given in ("1970-01-01", date(1970, 1, 1), datetime(1970, 1, 1), "1970-01-01T05:00:00Z"):
        assert [entry.number for entry in campaign.progress(since=given).rounds] == [1]
    assert campaign.progress().timezone == "America/New_York"


def test_lift_is_that_of_the_rounds_selected():
    campaign = played()
    whole, part = campaign.progress().lift, campaign.progress(product="tea").lift
    assert part.rounds < whole.rounds
    assert part.contacted_followers < whole.contacted_followers


def test_a_response_later_counts_in_the_selection_too():
    campaign = played()
    before = campaign.progress(product="tea").rounds[-1].responders
    last = campaign.rounds()[-1]
    campaign.tell(last.id, [{"user": user, "time": last.opened + 90.0} for user in campaign.graph.ids.tolist()])
    assert campaign.progress(product="tea").rounds[-1].responders > before


def test_what_there_is_not_is_refused():
    campaign = played()
    with pytest.raises(UnknownIdError, match="product is 'cocoa'"):
        campaign.progress(product="cocoa")
    with pytest.raises(UnknownIdError, match="strategy is 'fax'"):
        campaign.progress(strategy="fax")
    with pytest.raises(InputError, match="since must be unix seconds, a datetime, or a text such as '2026-11-17'"):
        campaign.progress(since="yesterday")


def test_http_and_the_client_select_the_same(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    campaign = played(storage, Clock(time.time() - 7 * DAY - 60.0))
    first = campaign.rounds()[2].opened
    wanted = campaign.progress(product="tea", strategy="visit", since=first)
    campaign.disconnect()
    with serving(storage) as url, Client(url) as client:
        remote = client.campaign("spring")
        assert remote.progress(product="tea", strategy="visit", since=first) == wanted
        assert remote.progress(product="tea") != wanted
        with pytest.raises(UnknownIdError, match="cocoa"):
            remote.progress(product="cocoa")
        service = remote._service
        names = {item["figure"] for item in service.get("figures", product="tea")["items"]}
        figure = service.get("figures", "expected", product="tea")
        rows = next(layer["data"]["values"] for layer in [figure, *figure["layer"]] if "data" in layer)
    assert "expected" in names
    assert {row["product"] for row in rows} == {"tea"}
