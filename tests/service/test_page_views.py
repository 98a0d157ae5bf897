"""The page in a real Chromium: what is shown by name, by filter, by segment and side by side, and taken home."""

from __future__ import annotations

import base64
import csv
import io
import re

import httpx
import pytest

from service.browser import SECONDS, opened
from service.serving import add_token, bearer, serving
from service.shops import NASTY, shop

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=SECONDS)

SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="session")
def url(shops):
    return shops.url


def all_drawn(page):
    expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)
    expect(page.locator(".chart[data-state=failed]")).to_have_count(0)


def test_a_view_is_filtered_and_its_address_shows_the_same_to_somebody_else(browser, url):
    with opened(browser, url) as (page, _), opened(browser, url) as (other, _):
        page.goto("/#/c/shop")
        all_drawn(page)
        rounds = page.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")
        expect(rounds).to_have_count(6)
        page.get_by_label("Product", exact=True).select_option(label="Green tea (p1)")
        expect(rounds).to_have_count(3)
        page.get_by_label("To", exact=True).fill("2026-01-03")
        expect(rounds).to_have_count(2)
        assert "product=p1" in page.url
        assert "until=2026-01-03" in page.url
        other.goto(page.url.removeprefix(url))
        all_drawn(other)
        expect(other.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")).to_have_count(2)
        expect(other.get_by_label("Product", exact=True)).to_have_value("p1")
        other.get_by_role("link", name="All rounds").click()
        expect(other.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")).to_have_count(2)
        page.get_by_label("Strategy", exact=True).select_option(label="By phone (s2)")
        expect(page.get_by_role("heading", name="No such round")).to_be_visible()


PIXELS = """async (content) => {
    const image = new Image();
    image.src = `data:image/png;base64,${content}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height), brush = canvas.getContext("2d");
    brush.drawImage(image, 0, 0);
    const dark = (top, height) => {
        const points = brush.getImageData(0, top, image.width, height).data;
        let found = 0;
        for (let i = 0; i < points.length; i += 4) found += points[i] + points[i + 1] + points[i + 2] < 250 ? 1 : 0;
        return found;
    };
    return { corner: [...brush.getImageData(0, 0, 1, 1).data], title: dark(0, 80), all: dark(0, image.height) };
}"""


def test_figures_are_taken_home_as_a_picture_and_as_numbers(browser, url):
    def pixels(download):
        content = base64.b64encode(download.value.path().read_bytes()).decode()
        blank = browser.new_page()
        found = blank.evaluate(PIXELS, content)
        blank.close()
        return found

    with opened(browser, url, mode="dark") as (page, _):
        page.goto("/#/c/shop")
        all_drawn(page)
        card = page.get_by_role("region", name="Responses beside expectation")
        with page.expect_download() as picture:
            card.get_by_role("button", name="PNG").click()
        assert picture.value.suggested_filename == "responses-beside-expectation.png"
        found = pixels(picture)
        assert found["corner"] == [255, 255, 255, 255]  # white, though the page is dark
        assert found["title"] > 100
        with page.expect_download() as numbers:
            card.get_by_role("button", name="CSV").click()
        rows = list(csv.DictReader(io.StringIO(numbers.value.path().read_text("utf-8"))))
        progress = httpx.get(f"{url}/api/v1/campaigns/shop/progress").json()
        assert [int(row["responded"]) for row in rows] == [one["responders"] for one in progress["rounds"]]
        page.goto("/#/c/shop/network")
        expect(page.get_by_role("img", name="Picture of the network")).to_be_visible()
        with page.expect_download() as picture:
            page.get_by_role("button", name="PNG").click()
        assert picture.value.suggested_filename == "shop-network.png"
        found = pixels(picture)
        assert found["corner"] == [255, 255, 255, 255]
        assert found["title"] > 100
        assert found["all"] > found["title"]


def test_what_is_chosen_goes_along_from_view_to_view(browser, url):
    with opened(browser, url) as (page, _):
        page.goto("/#/c/shop?segment=country")
        all_drawn(page)
        page.get_by_label("Product", exact=True).select_option(label="Green tea (p1)")
        page.get_by_role("link", name="Rounds", exact=True).click()
        rounds = page.get_by_role("region", name="Rounds", exact=True).locator("tbody tr")
        expect(rounds).to_have_count(3)
        page.get_by_label("From", exact=True).fill("2026-01-02")
        expect(rounds).to_have_count(2)
        page.get_by_role("link", name="Lift", exact=True).click()
        lift = httpx.get(f"{url}/api/v1/campaigns/shop/progress?product=p1&since=2026-01-02").json()["lift"]
        measured = page.get_by_role("list", name="What contact adds")
        expect(measured).to_contain_text(
            f"{100 * lift['contacted_rate']:.2f} %of {lift['contacted_followers']} followers"
        )
        page.get_by_role("link", name="What was learned").click()
        said = page.get_by_text("This view shows the whole campaign")
        expect(said).to_contain_text("Product: Green tea; From: 2026-01-02; Split users by: country")
        page.get_by_role("link", name="Overview", exact=True).click()
        expect(page.get_by_label("From", exact=True)).to_have_value("2026-01-02")
        expect(page.get_by_role("heading", name="By country", exact=True)).to_be_visible()
        expect(said).to_have_count(0)


def test_days_are_those_of_the_campaign_wherever_it_is_looked_at(browser, url, shops, seventy):
    noon = 1_767_268_800.0  # of 2026-01-01 in UTC: one in the morning of the second in Auckland
    shop(shops.storage, "kiwi", 3, start=noon, timezone="Pacific/Auckland")
    with opened(browser, url, timezone="America/New_York") as (page, _):
        dates = page.get_by_role("region", name="Rounds", exact=True).locator("tbody td:nth-child(2)")
        for name, days, until in (("shop", range(6, 0, -1), 2), ("kiwi", range(4, 1, -1), 3)):
            page.goto(f"/#/c/{name}")
            all_drawn(page)
            assert dates.all_inner_texts() == [f"Jan {day}, 2026" for day in days]
            first = page.locator(".chart svg.marks").first
            expect(first.get_by_text(f"{min(days)} Jan", exact=True)).to_be_visible()
            page.get_by_label("To", exact=True).fill(f"2026-01-0{until}")
            expect(dates).to_have_count(2)
        page.goto("/#/c/kiwi/rounds/1")
        facts = page.get_by_role("list", name="The round")
        expect(facts).to_contain_text("Jan 2, 2026, 01:00 (Pacific/Auckland)")
        page.goto("/#/c/autumn")
        all_drawn(page)
        page.locator(".chart svg.marks").first.locator(".mark-rect path").first.hover()
        expect(page.locator("#vg-tooltip-element")).to_contain_text("29 Dec 2025")


def test_an_old_round_that_is_still_open_is_on_the_first_screen(browser, url, shops):
    shop(shops.storage, "late", 20, left_open=(2,))
    with opened(browser, url) as (page, _):
        page.goto("/#/c/late")
        expect(page.get_by_text("1 round open")).to_be_visible()
        expect(page.get_by_role("listitem").filter(has_text="Round 2 for")).to_contain_text("responses so far")
        page.get_by_role("link", name="Round 2", exact=True).click()
        responders = httpx.get(f"{url}/api/v1/campaigns/late/progress").json()["rounds"][1]["responders"]
        expect(page.get_by_role("list", name="Key numbers").get_by_role("listitem").first).to_contain_text(
            f"{responders}"
        )


def test_names_stand_before_ids_and_both_are_found(browser, url):
    with opened(browser, url) as (page, _):
        page.goto("/#/c/shop/next")
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

        page.goto("/#/c/shop/rounds/2")
        expect(page.get_by_role("list", name="The round").get_by_text(NASTY)).to_be_visible()
        why = page.get_by_label("Why not somebody else?")
        why.fill(f"Number{fresh:02d}")
        expect(page.locator(f'option[value="Ann Number{fresh:02d}"]')).to_be_attached()
        why.fill(f"Ann Number{fresh:02d}")
        page.get_by_role("button", name="Explain").click()
        expect(page.get_by_text(f"Ann Number{fresh:02d} (person-{fresh:03d}) was")).to_be_visible()
        seeds = httpx.get(f"{url}/api/v1/campaigns/shop/rounds/2/seeds.csv").text
        assert {row["name"] for row in csv.DictReader(io.StringIO(seeds))} <= {f"Ann Number{i:02d}" for i in range(30)}

        page.goto("/#/c/shop/network")
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
    with opened(browser, url, width=390) as (page, _):
        page.goto("/#/c/shop")
        all_drawn(page)
        page.get_by_label("Split users by").select_option("country")
        table = page.get_by_role("region", name="By country").locator("tbody tr")
        told = httpx.get(f"{url}/api/v1/campaigns/shop/progress?segment=country").json()["segments"]
        expect(table).to_have_count(len(told))
        for row, entry in zip(table.all(), told, strict=True):
            expect(row.locator("th")).to_contain_text(entry["id"])
            expect(row.get_by_text("too few to tell")).to_have_count(0 if entry["enough"] else 1)
        expect(page.get_by_role("heading", name="Rates by country")).to_be_visible()
        assert "segment=country" in page.url
        all_drawn(page)
        assert page.evaluate(SIDEWAYS) <= 0


def test_seventy_rounds_are_put_together_by_week(browser, url, seventy):
    with opened(browser, url) as (page, _):
        page.goto("/#/c/autumn")
        all_drawn(page)
        expect(page.get_by_text("70 closed rounds, by week")).to_be_visible()
        figure = httpx.get(f"{url}/api/v1/campaigns/autumn/figures/expected").json()
        progress = httpx.get(f"{url}/api/v1/campaigns/autumn/progress").json()
        rows = figure["layer"][0].get("data", figure.get("data"))["values"]
        assert sum(row["responses"] for row in rows) == progress["closed"]["compared"]
        assert sum(row["expected"] for row in rows) == pytest.approx(progress["closed"]["expected"])
        mondays = {f"{day}T00:00:00" for day in ("2025-12-29", "2026-01-05", "2026-03-09")}
        assert {row["begin"] for row in rows} >= mondays
        page.get_by_label("From", exact=True).fill("2026-03-01")
        expect(page.get_by_text("70 closed rounds, by week")).to_have_count(0)
        expect(page.locator(".chart svg.marks").first.get_by_text("in the interval")).to_be_visible()


def test_campaigns_are_compared_by_keyboard_alone(browser, url, seventy):
    with opened(browser, url) as (page, _):
        page.goto("/")
        for name in ("shop", "autumn"):
            page.get_by_label(f"Compare {name}").focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Compare", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Compare campaigns")
        rows = page.get_by_role("region", name="Campaigns side by side").locator("tbody tr")
        expect(rows).to_have_count(2)
        all_drawn(page)
        figure = page.get_by_role("region", name="Side by side").locator("svg.marks")
        for title in ("Users who responded", "Cost per responder", "Lift in percentage points"):
            expect(figure.get_by_text(title)).to_be_visible()
        expect(figure).to_have_count(1)
        progress = httpx.get(f"{url}/api/v1/campaigns/autumn/progress").json()
        expect(rows.filter(has_text="autumn")).to_contain_text(f"{progress['reached']}")
        assert page.url.endswith("#/compare?c=shop&c=autumn")
        measures = httpx.get(f"{url}/api/v1/compare?campaign=shop&campaign=autumn").json()["measures"]
        assert all(one["low"] <= one["value"] <= one["high"] for one in measures)
        assert {one["what"] for one in measures} == {"reach", "cost", "lift"}
        with page.expect_download() as numbers:
            page.get_by_role("button", name="CSV: Side by side").click()
        taken = list(csv.DictReader(io.StringIO(numbers.value.path().read_text("utf-8"))))
        assert [(row["campaign"], row["what"]) for row in taken] == [(one["campaign"], one["what"]) for one in measures]
        assert [float(row["value"]) for row in taken] == [one["value"] for one in measures]
        page.get_by_label("To", exact=True).fill("2026-01-02")
        expect(rows.nth(0).locator("td").first).to_have_text("2")
        expect(rows.nth(1).locator("td").first).to_have_text("2")
        page.reload()
        expect(page.get_by_label("To", exact=True)).to_have_value("2026-01-02")
        expect(rows.nth(1).locator("td").first).to_have_text("2")
    with opened(browser, url, width=390, mode="dark") as (page, _):
        page.goto("/#/compare?c=shop&c=stall")
        all_drawn(page)
        expect(page.get_by_role("region", name="Campaigns side by side").locator("tbody tr")).to_have_count(2)
        assert page.evaluate(SIDEWAYS) <= 0
        page.goto("/#/compare?c=shop")
        expect(page.get_by_role("heading", name="Nothing to compare")).to_be_visible()
