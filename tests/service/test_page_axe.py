"""Every view of the page as axe-core sees it: no serious finding, light and dark, wide and narrow.

axe-core comes with the package axe-playwright-python; it runs in the test's browser alone.
"""

from __future__ import annotations

import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from campaign.worlds import small_campaign
from service.browser import SECONDS, chromium, opened
from service.serving import add_token, serving

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=SECONDS)
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")

SERIOUS = ("serious", "critical")
# What somebody does in a view before it is looked at, and what they then see.
VIEWS: dict[str, tuple[str, str] | None] = {
    "": None,
    "c/spring": None,
    "c/spring/next": ("Propose users", "What you accept"),
    "c/spring/rounds": None,
    "c/spring/rounds/1": None,
    "c/spring/rounds/3": None,
    "c/spring/network": None,
    "c/spring/learned": None,
    "c/spring/lift": ("Plan", "Assumed:"),
    "c/spring/people": ("Opt out", "Paste ids"),
    "c/spring/manage": None,
    "c/spring/nothing": None,
    "c/empty": None,
    "c/empty/rounds": None,
    "c/empty/lift": None,
    "compare?c=spring&c=empty": None,
    "new": ("Look at the files", "What will be used"),
}
EDGES = {"name": "edges.csv", "mimeType": "text/csv", "buffer": b"from,to\nann,bob\nbob,cid\ncid,ann\nann,cid\n"}


def findings(page: Any, script: str) -> list[str]:
    """What axe-core finds that keeps people from using the page."""
    page.evaluate(script)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [f"{one['id']}: {one['nodes'][0]['target']}" for one in found if one["impact"] in SERIOUS]


@pytest.fixture(scope="module")
def script() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('axe')}/c.db"
    offers = {"strategies": {"mail": [1.0, 0.0], "call": [0.0, 1.0]}, "strategy_costs": {"call": 2.0}}
    asks = {"k": 8, "holdout": 0.25, "strategies": "all"}
    with small_campaign(url, metric="value", costs=np.full(30, 2.0), ask=asks, clock=time.time, **offers) as campaign:
        for _ in range(2):
            ask = campaign.ask("tea")
            acted = campaign.graph.ids[::3].tolist()
            campaign.tell(ask, [{"user": user, "time": ask.opened + 1, "amount": 9.0} for user in acted])
            campaign.close(ask)
        campaign.ask("soap", k=4)
        campaign.opt_out(["person-001"])
    small_campaign(url, name="empty").disconnect()
    return url


@pytest.mark.slow
@pytest.mark.parametrize(("width", "mode"), [(1280, "light"), (390, "dark")])
def test_no_view_has_a_serious_finding(storage: str, script: str, width: int, mode: str) -> None:
    with chromium() as browser, serving(storage) as url, opened(browser, url, width=width, mode=mode) as seen:
        page = seen.page
        for view, done in VIEWS.items():
            page.goto(f"/#/{view}")
            expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)
            if view == "new":
                page.get_by_label("Name", exact=True).fill("new")
                page.get_by_label("Network", exact=True).set_input_files(EDGES)
            if done is not None:
                page.get_by_role("button", name=done[0], exact=True).click()
                expect(page.get_by_text(done[1]).first).to_be_visible()
            page.evaluate("for (const closed of document.querySelectorAll('details')) closed.open = true")
            assert findings(page, script) == [], view


@pytest.mark.slow
def test_the_login_has_no_serious_finding(tmp_path: Path, script: str) -> None:
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    add_token(storage, "guest", "read")
    with chromium() as browser, serving(storage) as url, opened(browser, url) as seen:
        seen.page.goto("/")
        expect(seen.page.get_by_label("Token")).to_be_visible()
        assert findings(seen.page, script) == []
        seen.errors.clear()  # the browser's own line on the request without a token
