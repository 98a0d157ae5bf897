"""The page on people and money: opt-outs, consent and caps, the planner of a hold-out, revenue and return on cost."""

from __future__ import annotations

import re
import shutil
import time

import numpy as np
import pytest

from campaign.worlds import small_campaign
from service.browser import SECONDS, opened
from service.serving import add_token, serving
from tensorucb.campaign import load_campaign

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=SECONDS)
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A campaign by value, with costs, consent, a cap, and closed rounds with a hold-out and amounts; to be copied."""
    path = tmp_path_factory.mktemp("people") / "c.db"
    url = f"sqlite:///{path}"
    consent = np.arange(30) != 3
    rules = {"contact_cap": "2/7d", "contact_group": "all", "consent": consent, "groups": ["a", "b"] * 15}
    ask = {"k": 8, "holdout": 0.25}
    with small_campaign(url, metric="value", costs=np.full(30, 2.0), ask=ask, clock=time.time, **rules) as campaign:
        for _ in range(2):
            round_ = campaign.ask("tea")
            acted = [user for at, user in enumerate(campaign.graph.ids.tolist()) if at % 3 == 0]
            rows = [{"user": user, "time": round_.opened + 1, "amount": 5.0 + at} for at, user in enumerate(acted)]
            campaign.tell(round_, rows)
            campaign.close(round_)
        campaign.ask("soap", k=4)
    return path


@pytest.fixture
def storage(tmp_path, played):
    """A store of the test's own with this campaign."""
    return f"sqlite:///{shutil.copy(played, tmp_path)}"


@pytest.mark.parametrize("width", [1280, 390])
def test_people_opt_out_and_in_and_the_reason_is_said(browser, storage, width):
    with serving(storage) as url, opened(browser, url, width=width) as (page, _):
        page.goto("/#/c/spring/people")
        facts = page.get_by_role("list", name="People")
        expect(facts.get_by_role("listitem").filter(has_text="others without consent")).to_contain_text("1")
        rules = page.get_by_role("region", name="Rules of the campaign")
        expect(rules).to_contain_text("at most 2 contacts of a user in 7d")
        expect(rules).to_contain_text("all campaigns of the group all")
        out = page.get_by_role("region", name="Opt people out")
        out.get_by_label("Ids to opt out").fill("person-001, person-002\nzoe")
        file = {"name": "no.csv", "mimeType": "text/csv", "buffer": b"user\nperson-005\n"}
        out.get_by_label("File to opt out").set_input_files(file)
        out.get_by_role("button", name="Opt out", exact=True).click()
        expect(
            out.get_by_text("4 people opted out. Users of this campaign among those named: 3; others: 1.")
        ).to_be_visible()
        listed = page.get_by_role("region", name="Who has opted out", exact=True).first.locator("tbody th")
        assert listed.all_inner_texts() == ["person-001", "person-002", "person-005"]
        wide = {"name": "no.csv", "mimeType": "text/csv", "buffer": b"user,since\nperson-007,2026-01-01\n"}
        out.get_by_label("File to opt out").set_input_files(wide)
        out.get_by_role("button", name="Opt out", exact=True).click()
        expect(out.get_by_role("alert")).to_contain_text("several columns")
        back = page.get_by_role("region", name="Opt people in again")
        back.get_by_label("Ids to opt in").fill("person-002")
        back.get_by_role("button", name="Opt in", exact=True).click()
        expect(back.get_by_text("1 person opted in.")).to_be_visible()
        with load_campaign("spring", storage=storage) as campaign:
            assert campaign.opted_out() == ("person-001", "person-005")
            capped = [user for user in campaign.graph.ids.tolist() if "contact cap" in (campaign.why_not(user) or "")]
        one = page.get_by_role("region", name="One user")
        for user, why in (
            ("person-001", "has opted out"),
            ("person-003", "has given no consent"),
            (capped[0], "contact cap until"),
        ):
            one.get_by_label("May this user be contacted?").fill(user)
            one.get_by_role("button", name="Ask").click()
            expect(one.get_by_text(re.compile(f"{user} may not be contacted: this user .*{why}"))).to_be_visible()
        assert page.evaluate(FITS)
        page.goto("/#/c/spring/network")
        page.get_by_label("Find a user").fill("person-001")
        page.get_by_label("Find a user").press("Enter")
        expect(page.get_by_text("May not be contacted: this user has opted out.")).to_be_visible()


def test_somebody_is_opted_out_by_keyboard_alone(browser, storage):
    with serving(storage) as url, opened(browser, url) as (page, _):
        page.goto("/#/c/spring/people")
        page.get_by_label("May this user be contacted?").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        expect(page.get_by_label("Ids to opt out")).to_be_focused()
        page.keyboard.type("person-009")
        for _ in range(3):
            page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Opt out", exact=True)).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator(".note.good")).to_be_focused()
    with load_campaign("spring", storage=storage) as campaign:
        assert campaign.opted_out() == ("person-009",)


def test_a_reader_sees_rules_and_no_forms(browser, storage):
    token = add_token(storage, "guest", "read")
    with serving(storage) as url, opened(browser, url) as (page, errors):
        page.goto("/#/c/spring/people")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("region", name="Rules of the campaign")).to_be_visible()
        expect(page.get_by_role("button", name="Opt out")).to_have_count(0)
        errors.clear()  # the browser's own line on the request before the log-in


def test_the_plan_of_a_hold_out_is_that_of_the_library(browser, storage):
    with load_campaign("spring", storage=storage) as campaign:
        plan = campaign.plan_lift("tea", 6, holdout=0.5, rounds=12, power=0.7)
        needed = campaign.plan_lift("tea", effect=0.5).rounds
        lift = campaign.lift()
    with serving(storage) as url, opened(browser, url, width=390) as (page, _):
        page.goto("/#/c/spring/lift")
        measured = page.get_by_role("list", name="What contact adds")
        expect(measured).to_contain_text(f"{100 * lift.difference:+.2f}".replace("-", "−"))
        expect(measured).to_contain_text("revenue per follower")
        for label, value in (
            ("Hold out, %", "50"),
            ("Users of each round", "6"),
            ("Rounds", "12"),
            ("Probability", "70"),
        ):
            page.get_by_role("spinbutton", name=label).fill(value)
        page.get_by_role("button", name="Plan").click()
        shown = page.get_by_role("list", name="The plan")
        expect(shown).to_contain_text(f"{100 * plan.effect:+.2f}")
        expect(shown).to_contain_text("50\u00a0%of 6 users per round held out")
        for label in ("Hold out, %", "Users of each round", "Rounds", "Probability"):
            page.get_by_role("spinbutton", name=label).fill("")
        page.get_by_label("Effect in percentage points").fill("50")
        page.get_by_role("button", name="Plan").click()
        expect(shown.get_by_role("listitem").first).to_have_text(re.compile(f"^{needed}rounds?$"))
        assert page.evaluate(FITS)


def test_revenue_and_return_on_cost_are_those_of_the_library(browser, storage):
    def money(value):
        return f"{value:,.2f}"

    with load_campaign("spring", storage=storage) as campaign:
        progress, last = campaign.progress(), campaign.round(3)
    revenue = progress.revenue
    with serving(storage) as url, opened(browser, url) as (page, _):
        page.goto("/#/c/spring")
        facts = page.get_by_role("list", name="Key numbers")
        expect(facts).to_contain_text(f"{money(revenue.closed)}revenue of closed rounds")
        expect(facts).to_contain_text(f"{money(revenue.return_on_cost)}return on cost")
        expect(facts).to_contain_text(f"{money(revenue.low)} to {money(revenue.high)}")
        row = page.get_by_role("region", name="Rounds").last.locator("tbody tr").nth(1)
        expect(row).to_contain_text(money(progress.rounds[1].revenue))
        page.goto("/#/c/spring/rounds")
        expect(page.locator("tbody tr").nth(1)).to_contain_text(money(progress.rounds[1].revenue))
        page.goto("/#/c/spring/rounds/3")
        facts = page.get_by_role("list", name="Key numbers")
        expect(facts).to_contain_text(money(last.reach.revenue.mean))
        expect(facts).to_contain_text(f"{money(last.reach.revenue.low)} to {money(last.reach.revenue.high)}")
        expect(facts).to_contain_text(money(last.return_on_cost.mean))
        expect(page.get_by_role("columnheader", name="Adds revenue")).to_be_visible()
        page.goto("/#/c/spring/next")
        page.get_by_label("Users to contact").fill("4")
        page.get_by_role("button", name="Propose users").click()
        expect(page.get_by_role("list", name="What to expect")).to_contain_text("revenue expected")
        expect(page.get_by_text("Return on cost", exact=True)).to_be_visible()
