"""Every view of the page as axe-core sees it: no serious finding, light and dark, wide and narrow.

axe-core comes with the package axe-playwright-python; it runs in the test's browser alone.
"""

from __future__ import annotations

import time
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from campaign.worlds import small_campaign
from service.browser import SECONDS, opened
from service.conftest import Pages
from service.serving import add_token, serving
from tensorucb.campaign import delete_campaign

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=SECONDS)
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

SERIOUS = ("serious", "critical")
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
UNLABELLED = """[...document.querySelectorAll("input, select, textarea, canvas")]
    .filter((one) => !one.labels?.length && !one.getAttribute("aria-label")).length"""


class Seen(NamedTuple):
    """A view, the button that is pressed in it, and what it then shows."""

    view: str
    press: str = ""
    shows: str = ""
    refused: bool = False  # whether the browser notes that a request was refused


VIEWS = (
    Seen(""),
    Seen("c/worth", shows="came before the contact or after the window"),
    Seen("c/worth/next", "Propose users", "What you accept"),
    Seen("c/worth/next", "Propose users", "is not in the campaign's catalogue", refused=True),
    Seen("c/worth/rounds"),
    Seen("c/worth/rounds/1"),
    Seen("c/worth/rounds/3"),
    Seen("c/worth/network"),
    Seen("c/worth/learned"),
    Seen("c/worth/lift", "Plan", "Assumed:"),
    Seen("c/worth/people", "Opt out", "Paste ids"),
    Seen("c/worth/manage", "Delete the campaign …", "It cannot be undone"),
    Seen("c/worth/nothing", shows="There is no such page"),
    Seen("c/shop?segment=country", shows="Contacted users of closed rounds by their country"),
    Seen("c/shop?until=2001-01-01", shows="No such round"),
    Seen("c/shop?product=nothing", shows="Show everything instead", refused=True),
    Seen("c/shop/learned?product=p1", shows="This view shows the whole campaign"),
    Seen("c/stall", shows="No round yet"),
    Seen("c/stall/rounds"),
    Seen("c/stall/lift"),
    Seen("compare?c=shop&c=worth&c=stall"),
    Seen("new", "Look at the files", "What will be used"),
    Seen("new", "Look at the files", "These columns do not fit yet"),
)
EDGES = {"name": "edges.csv", "mimeType": "text/csv", "buffer": b"from,to\nann,bob\nbob,cid\ncid,ann\nann,cid\n"}


OTHER_EDGES = {"name": "edges.csv", "mimeType": "text/csv", "buffer": b"who,whom\nann,bob\nbob,cid\n"}


def findings(page: Any, script: str) -> list[str]:
    """What axe-core finds that keeps people from using the page."""
    if page.evaluate("!window.axe"):
        page.evaluate(script)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['target']}" for one in found if one["impact"] in SERIOUS]


@pytest.fixture(scope="module")
def script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="session")
def worlds(shops: Pages) -> Pages:
    """``worth`` decides by value, has costs, a hold-out, and a response that came before the contact."""
    offers = {"strategies": {"mail": [1.0, 0.0], "call": [0.0, 1.0]}, "strategy_costs": {"call": 2.0}}
    asks = {"k": 8, "holdout": 0.25, "strategies": "all"}
    settings: dict[str, Any] = {"metric": "value", "costs": np.full(30, 2.0), "ask": asks, **offers}
    with small_campaign(shops.storage, name="worth", clock=time.time, **settings) as campaign:
        for _ in range(2):
            ask = campaign.ask("tea")
            acted = campaign.graph.ids[::3].tolist()
            campaign.tell(ask, [{"user": user, "time": ask.opened + 1, "amount": 9.0} for user in acted])
            campaign.tell(ask, [{"user": "person-002", "time": ask.opened - 60}])
            campaign.close(ask)
        campaign.ask("soap", k=4)
        campaign.opt_out(["person-001"])
    return shops


@pytest.mark.parametrize(("width", "mode"), [(1280, "light"), (390, "dark")])
def test_every_view_fits_and_has_landmarks_labels_and_no_serious_finding(
    browser: Any, worlds: Pages, script: str, width: int, mode: str
) -> None:
    with opened(browser, worlds.url, width=width, mode=mode) as (page, errors):
        for view, press, shows, refused in VIEWS:
            if page.url.endswith(f"/#/{view}"):  # the same view twice begins anew
                page.goto("/#/login")
            page.goto(f"/#/{view}")
            expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)
            if view == "new":
                page.get_by_label("Name", exact=True).fill("new")
                fits = shows == "What will be used"
                page.get_by_label("Network", exact=True).set_input_files(EDGES if fits else OTHER_EDGES)
            if "catalogue" in shows:
                page.get_by_label("Product", exact=True).fill("coffee")
            if press:
                page.get_by_role("button", name=press, exact=True).click()
            if shows:
                expect(page.get_by_text(shows).first).to_be_visible()
            page.evaluate("for (const closed of document.querySelectorAll('details')) closed.open = true")
            assert findings(page, script) == [], (view, shows)
            assert page.evaluate(FITS), (view, shows)
            assert page.evaluate(UNLABELLED) == 0, (view, shows)
            expect(page.locator("h1")).to_have_count(1)
            for landmark in ("header", "main", "nav"):
                expect(page.locator(landmark).first).to_be_visible()
            assert bool(errors) == refused, (view, errors)
            errors.clear()
            if page.get_by_role("dialog").count():
                page.keyboard.press("Escape")


def test_the_login_a_reader_and_an_empty_list_have_no_serious_finding(
    browser: Any, tmp_path: Path, script: str
) -> None:
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    token = add_token(storage, "guest", "read")
    with serving(storage) as url, opened(browser, url, width=390) as (page, errors):
        page.goto("/")
        expect(page.get_by_label("Token")).to_be_visible()
        assert findings(page, script) == []
        errors.clear()  # the browser's own line on the request without a token
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("role: read")).to_be_visible()
        for view in ("c/spring", "c/spring/network", "c/spring/people"):
            page.goto(f"/#/{view}")
            expect(page.locator(".waiting")).to_have_count(0)
            assert findings(page, script) == [], view
        delete_campaign("spring", storage=storage)
        page.goto("/#/")
        expect(page.get_by_role("heading", name="No campaign yet")).to_be_visible()
        assert findings(page, script) == []
        errors.clear()  # a view that follows the campaign may hear that it is gone
