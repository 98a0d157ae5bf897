"""What needs a person today stands on the first screen, in few statements however many campaigns there are."""

from __future__ import annotations

import json
import sqlite3
import time

import httpx
import pytest

from campaign.worlds import Clock, out_pairs, small_campaign
from service.browser import SECONDS, opened
from service.conftest import API
from service.serving import add_token, bearer, serving
from tensorucb import load_campaign
from tensorucb.campaign import all_attention, copy_campaign
from tensorucb.cli import main

DAY = 86_400.0
STRANGE = "2 of 5 rows told to round 1 on "


def tell_some_rubbish(campaign, round_id):
    """Five rows, two of which cannot be used."""
    pairs = out_pairs(campaign, campaign.round(round_id).contacted)[:3]
    rows = [{"source": source, "target": target, "outcome": 1} for source, target in pairs]
    stranger = {"source": pairs[0][0], "target": "nobody", "outcome": 1}
    return campaign.tell(round_id, [*rows, stranger, {**rows[0], "outcome": 7}])


@pytest.fixture
def storage(tmp_path):
    """A store with a campaign that needs a person twice, one that needs nobody, and one that ended long ago."""
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url, clock=time.time) as campaign:
        ask = campaign.ask("tea", 2, window="30d")
        tell_some_rubbish(campaign, ask.id)
        campaign.tell(ask.id, [{"user": "person-001", "time": ask.opened - DAY}])
    with small_campaign(url, name="quiet", clock=time.time) as campaign:
        campaign.ask("tea", 2)
    with small_campaign(url, name="old", clock=Clock(1000.0)) as campaign:
        ask = campaign.ask("tea", 2)
        campaign.tell(ask.id, [{"user": "person-001", "time": 10.0}])
        campaign.close(ask.id)
        assert campaign.attention()
    return url


def test_rows_that_were_left_out_are_remembered_for_a_week():
    campaign = small_campaign(clock=Clock(1_790_000_000.0))
    ask = campaign.ask("tea", 2)
    report = tell_some_rubbish(campaign, ask.id)
    assert [entry.count for entry in report.left_out if entry.malformed] == [1, 1]
    (notice,) = campaign.attention()
    assert (notice.need, notice.round) == ("left-out", 1)
    assert notice.text.startswith(f"{STRANGE}Monday, 2026-09-21 were left out: ")
    assert "a user who is not in the network (1)" in notice.text
    events = campaign.status().events
    tell_some_rubbish(campaign, ask.id)  # a delivery that comes again changes nothing
    assert campaign.status().events == events
    campaign.clock.now += DAY
    stranger = {"source": ask.contacted[0], "target": "somebody", "outcome": 1}
    pairs = out_pairs(campaign, ask.contacted)
    campaign.tell(ask.id, [{"source": pairs[-1][0], "target": pairs[-1][1], "outcome": 0}, stranger])
    (notice,) = campaign.attention()
    assert notice.text.startswith("1 of 2 rows told to round 1 on Tuesday, 2026-09-22 were left out: ")
    assert notice.text.endswith("So were 2 of another delivery in the last 7 days.")
    campaign.clock.now += 8 * DAY
    assert campaign.attention() == ()


def test_a_delivery_of_which_nothing_was_stored_is_remembered_too():
    campaign = small_campaign(clock=Clock(1_790_000_000.0))
    ask = campaign.ask("tea", 2)
    campaign.tell(ask.id, [{"source": "ann-secret", "target": "bob-secret", "outcome": 1}], max_left_out=1.0)
    (notice,) = campaign.attention()
    assert notice.text.startswith("1 of 1 rows told to round 1")
    with campaign.store.read() as session:
        assert not any("secret" in json.dumps(event.payload) for event in session.events(1))


def test_the_library_names_the_campaigns_that_need_a_person(storage):
    found = all_attention(storage)
    assert list(found) == ["spring"]
    assert [notice.need for notice in found["spring"]] == ["left-out", "left-out"]
    with load_campaign("spring", storage=storage) as campaign:
        assert found["spring"] == campaign.attention()


def test_a_campaign_that_is_damaged_is_named_and_hides_no_other(storage, tmp_path):
    copy_campaign("spring", "broken", storage=storage)
    with sqlite3.connect(tmp_path / "c.db") as connection:
        connection.execute("UPDATE tensorucb_round SET opened = opened + 1 WHERE campaign = 4")
    found = all_attention(storage)
    assert list(found) == ["spring", "broken"]
    assert [notice.need for notice in found["broken"]] == ["unreadable"]
    with serving(storage) as url:
        items = httpx.get(f"{url}{API}/attention", timeout=60).json()
        assert [item["name"] for item in items] == ["spring", "broken"]
        assert items[1]["notices"][0]["text"] == "The campaign cannot be looked at: the log of the service says why."
        assert httpx.get(f"{url}/metrics", timeout=60).status_code == 200


def test_status_of_all_campaigns_says_it(storage, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["status", "--storage", storage])
    printed = " ".join(capsys.readouterr().out.split())
    urgent = all_attention(storage)["spring"][0].text
    assert f"Attention: {urgent} (1 more: `tensorucb status spring`) quiet: " in printed
    assert printed.count("Attention") == 1
    with pytest.raises(SystemExit, match="0"):
        main(["status", "--storage", storage, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in document["campaigns"]] == ["spring", "quiet", "old"]
    assert list(document["attention"]) == ["spring"]
    assert document["attention"]["spring"][0]["text"] == urgent


def test_the_service_says_it_to_all_who_may_read(storage):
    token = add_token(storage, "ann", "read")
    with serving(storage) as url, httpx.Client(base_url=f"{url}{API}", timeout=60, headers=bearer(token)) as web:
        (item,) = web.get("/attention").json()
        assert item["name"] == "spring"
        assert item["notices"] == web.get("/campaigns/spring/attention").json()
        listed = web.get("/campaigns").json()["items"]
        assert [(line["name"], line["rounds"], line["open"]) for line in listed] == [
            ("spring", 1, 1),
            ("quiet", 1, 1),
            ("old", 1, 0),
        ]
        assert httpx.get(f"{url}{API}/attention", timeout=60).status_code == 401


def test_the_page_shows_it_on_its_first_screen_and_in_the_campaign(browser, storage):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    expect = playwright.expect
    expect.set_options(timeout=SECONDS)
    first, second = all_attention(storage)["spring"]
    with serving(storage) as url, opened(browser, url) as (page, _):
        page.goto("/")
        needed = page.get_by_role("region", name="Needs attention")
        expect(needed.locator("li")).to_have_count(1)
        expect(needed).to_contain_text(first.text)
        expect(page.get_by_role("region", name="Campaigns").first).to_contain_text("quiet")
        needed.get_by_role("link", name="1 more notice").click()
        expect(page.get_by_role("region", name="Needs attention").locator("li")).to_have_count(2)
        expect(page.get_by_role("region", name="Needs attention")).to_contain_text(second.text)
