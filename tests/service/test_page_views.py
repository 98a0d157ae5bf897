"""The page in a real Chromium: what is shown by name, by filter, by segment and side by side, and taken home."""

from __future__ import annotations

import csv
import io
import re

import httpx
import polars as pl
import pytest

from campaign.worlds import out_pairs, small_graph
from service.browser import SECONDS, chromium, opened
from service.serving import add_token, bearer, serving
from tensorucb.campaign import create_campaign, read_campaign_data
from tensorucb.policies import HighDegree

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=SECONDS)

NASTY = "<b>Soap</b>"
DAY = 86_400.0
START = 1_767_225_600.0  # 2026-01-01
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def shop(storage: str, name: str, rounds: int) -> None:
    """A campaign whose products, strategies and users have names, and rounds on successive days."""
    graph = small_graph()
    ids = graph.ids.tolist()
    tables = {
        "edges": pl.DataFrame({"source": graph.ids[graph.sources], "target": graph.ids[graph.targets]}),
        "users": pl.DataFrame(
            {"user": ids, "full_name": [f"Ann Number{i:02d}" for i in range(30)], "country": ["France", "Spain"] * 15}
        ),
        "products": pl.DataFrame({"product": ["p1", "p2"], "title": ["Green tea", NASTY], "kind": ["a", "b"]}),
        "strategies": pl.DataFrame({"strategy": ["s1", "s2"], "name": ["By mail", "By phone"], "cost": [1.0, 2.0]}),
    }
    data = read_campaign_data(tables, columns={"products": {"name": "title"}, "users": {"name": "full_name"}})
    now = [START]
    with create_campaign(name, data=data, storage=storage, policy=HighDegree(), clock=lambda: now[0]) as campaign:
        for number in range(rounds):
            ask = campaign.ask(["p1", "p2"][number % 2], k=6, strategies=[["s1", "s2"][number % 2]], holdout=0.2)
            followers = sorted({target for _, target in out_pairs(campaign, ask.contacted)})
            campaign.tell(ask.id, [{"user": user, "time": now[0]} for user in followers[::2]])
            campaign.close(ask.id)
            now[0] += DAY


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    found = f"sqlite:///{tmp_path_factory.mktemp('views')}/c.db"
    for name, rounds in (("spring", 6), ("autumn", 70), ("empty", 0)):
        shop(found, name, rounds)
    return found


@pytest.fixture(scope="module")
def url(storage):
    with serving(storage) as found:
        yield found


def all_drawn(page):
    expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)
    expect(page.locator(".chart[data-state=failed]")).to_have_count(0)


def test_a_view_is_filtered_and_its_address_shows_the_same_to_somebody_else(browser, url):
    with opened(browser, url) as seen, opened(browser, url) as other:
        page = seen.page
        page.goto("/#/c/spring")
        all_drawn(page)
        rounds = page.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")
        expect(rounds).to_have_count(6)
        page.get_by_label("Product", exact=True).select_option(label="Green tea (p1)")
        expect(rounds).to_have_count(3)
        page.get_by_label("To", exact=True).fill("2026-01-03")
        expect(rounds).to_have_count(2)
        assert "product=p1" in page.url
        assert "until=2026-01-03" in page.url
        other.page.goto(page.url.removeprefix(url))
        all_drawn(other.page)
        expect(other.page.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")).to_have_count(2)
        expect(other.page.get_by_label("Product", exact=True)).to_have_value("p1")
        other.page.get_by_role("link", name="All rounds").click()
        expect(other.page.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")).to_have_count(2)
        page.get_by_label("Strategy", exact=True).select_option(label="By phone (s2)")
        expect(page.get_by_role("heading", name="No such round")).to_be_visible()


def test_figures_are_taken_home_as_a_picture_and_as_numbers(browser, url):
    with opened(browser, url) as seen:
        page = seen.page
        page.goto("/#/c/spring")
        all_drawn(page)
        card = page.get_by_role("region", name="Responses beside expectation")
        with page.expect_download() as picture:
            card.get_by_role("button", name="PNG").click()
        assert picture.value.suggested_filename == "responses-beside-expectation.png"
        assert picture.value.path().read_bytes().startswith(b"\x89PNG")
        with page.expect_download() as numbers:
            card.get_by_role("button", name="CSV").click()
        rows = list(csv.DictReader(io.StringIO(numbers.value.path().read_text("utf-8"))))
        progress = httpx.get(f"{url}/api/v1/campaigns/spring/progress").json()
        assert [int(row["responded"]) for row in rows] == [one["responders"] for one in progress["rounds"]]


def test_names_stand_before_ids_and_both_are_found(browser, url):
    with opened(browser, url) as seen:
        page = seen.page
        page.goto("/#/c/spring/next")
        product = page.get_by_label("Product", exact=True)
        expect(product).to_have_value("Green tea")
        product.fill("soap")
        expect(page.locator(f'option[value="{NASTY}"]').first).to_be_attached()
        product.fill(NASTY)
        page.get_by_label("Users to contact").fill("3")
        expect(page.get_by_label("By mail")).to_be_checked()
        page.get_by_role("button", name="Propose users").click()
        proposal = page.get_by_role("region", name=f"Proposal for {NASTY}")
        first = proposal.locator("tbody th").first
        expect(first).to_have_text(re.compile(r"Ann Number\d\d person-0\d\d"))
        chosen = proposal.locator("tbody th").all_inner_texts()
        fresh = next(i for i in range(30) if not any(f"Number{i:02d}" in text for text in chosen))
        proposal.get_by_role("button", name="Change").first.click()
        proposal.get_by_label("In place of").fill(f"Number{fresh:02d}")
        expect(proposal.locator(f'option[value="Ann Number{fresh:02d}"]')).to_be_attached()
        proposal.get_by_label("In place of").fill(f"Ann Number{fresh:02d}")
        proposal.get_by_role("button", name="Swap").click()
        swapped = proposal.locator("tbody th").get_by_text(f"Ann Number{fresh:02d}", exact=True)
        expect(swapped).to_be_visible()  # followers of others are named in the cells beside

        page.goto("/#/c/spring/rounds/2")
        expect(page.get_by_role("list", name="The round").get_by_text(NASTY)).to_be_visible()
        why = page.get_by_label("Why not somebody else?")
        why.fill(f"Number{fresh:02d}")
        expect(page.locator(f'option[value="Ann Number{fresh:02d}"]')).to_be_attached()
        why.fill(f"Ann Number{fresh:02d}")
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_text(f"'person-{fresh:03d}' was")).to_be_visible()

        page.goto("/#/c/spring/network")
        page.get_by_label("Find a user").fill("Number07")
        expect(page.locator('option[value="Ann Number07"]')).to_be_attached()
        page.get_by_label("Find a user").fill("Ann Number07")
        page.get_by_label("Find a user").press("Enter")
        expect(page.get_by_role("heading", name="Ann Number07")).to_be_visible()
        expect(page.get_by_text("person-007", exact=True).first).to_be_visible()


def test_those_who_only_read_see_no_names_of_people(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    shop(storage, "spring", 3)
    header = bearer(add_token(storage, "reader", "read"))
    with serving(storage) as url, httpx.Client(base_url=f"{url}/api/v1/campaigns/spring", headers=header) as client:
        for path in ("users", "users?search=Ann", "rounds/1/explanation", "progress", "network", "learned"):
            answer = client.get(path, timeout=60)
            assert answer.status_code == 200
            assert "Ann Number" not in answer.text, path
        assert client.get("users", params={"search": "Number07"}).json()["items"] == []
        assert client.get("products").json()["items"][0]["name"] == "Green tea"
        assert [one["id"] for one in client.get("progress?segment=country").json()["segments"]] == ["France", "Spain"]


def test_segments_are_shown_with_a_mark_on_small_ones(browser, url):
    with opened(browser, url, width=390) as seen:
        page = seen.page
        page.goto("/#/c/spring")
        all_drawn(page)
        page.get_by_label("Split users by").select_option("country")
        table = page.get_by_role("region", name="By country").locator("tbody tr")
        told = httpx.get(f"{url}/api/v1/campaigns/spring/progress?segment=country").json()["segments"]
        expect(table).to_have_count(len(told))
        for row, entry in zip(table.all(), told, strict=True):
            expect(row.locator("th")).to_contain_text(entry["id"])
            expect(row.get_by_text("too few to tell")).to_have_count(0 if entry["enough"] else 1)
        expect(page.get_by_role("heading", name="Rates by country")).to_be_visible()
        assert "segment=country" in page.url
        all_drawn(page)
        assert page.evaluate(SIDEWAYS) <= 0


def test_seventy_rounds_are_put_together_by_week(browser, url):
    with opened(browser, url) as seen:
        page = seen.page
        page.goto("/#/c/autumn")
        all_drawn(page)
        expect(page.get_by_text("70 closed rounds, by week")).to_be_visible()
        figure = httpx.get(f"{url}/api/v1/campaigns/autumn/figures/expected").json()
        progress = httpx.get(f"{url}/api/v1/campaigns/autumn/progress").json()
        rows = figure["layer"][0].get("data", figure.get("data"))["values"]
        assert sum(row["responses"] for row in rows) == progress["closed"]["compared"]
        assert sum(row["expected"] for row in rows) == pytest.approx(progress["closed"]["expected"])
        assert {row["begin"] for row in rows} >= {"2025-12-29", "2026-01-05", "2026-03-09"}  # Mondays
        page.get_by_label("From", exact=True).fill("2026-03-01")
        expect(page.get_by_text("70 closed rounds, by week")).to_have_count(0)
        expect(page.locator(".chart svg.marks").first.get_by_text("in the interval")).to_be_visible()


def test_campaigns_are_compared_by_keyboard_alone(browser, url):
    with opened(browser, url) as seen:
        page = seen.page
        page.goto("/")
        for name in ("spring", "autumn"):
            page.get_by_label(f"Compare {name}").focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Compare", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Compare campaigns")
        rows = page.get_by_role("region", name="Campaigns side by side").locator("tbody tr")
        expect(rows).to_have_count(2)
        all_drawn(page)
        for title in ("Reach", "Cost per responder", "What contact adds"):
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        progress = httpx.get(f"{url}/api/v1/campaigns/autumn/progress").json()
        expect(rows.filter(has_text="autumn")).to_contain_text(f"{progress['reached']}")
        assert page.url.endswith("#/compare?c=spring&c=autumn")
    with opened(browser, url, width=390, mode="dark") as seen:
        seen.page.goto("/#/compare?c=spring&c=empty")
        all_drawn(seen.page)
        expect(seen.page.get_by_role("region", name="Campaigns side by side").locator("tbody tr")).to_have_count(2)
        assert seen.page.evaluate(SIDEWAYS) <= 0
        seen.page.goto("/#/compare?c=spring")
        expect(seen.page.get_by_role("heading", name="Nothing to compare")).to_be_visible()
