"""The page in a real Chromium: what a person does there, by mouse and by keyboard, wide and narrow."""

from __future__ import annotations

import re
import time
from importlib.resources import files

import httpx
import numpy as np
import pytest

from campaign.worlds import answers, small_campaign
from service.browser import SECONDS, opened
from service.serving import add_token, serving
from tensorucb.campaign import create_campaign, load_campaign
from tensorucb.data import make_sandbox
from tensorucb.errors import InputError, argument, call
from tensorucb.policies import HighDegree

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
expect.set_options(timeout=SECONDS)

FOCUSED = """(document.activeElement.getAttribute("aria-label")
    || document.activeElement.labels?.[0]?.textContent || document.activeElement.textContent).trim()"""
MOMENT = """(at) => new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hour12: false })
    .format(new Date(1000 * at))"""
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="session")
def url(pages):
    """``spring`` has closed rounds and an open one, and one of its products holds markup."""
    products = {"tea": [1.0, 0.0], NASTY: [0.0, 1.0]}
    with small_campaign(pages.storage, products=products, clock=time.time) as campaign:
        for product in ("tea", NASTY, "tea", "tea"):
            ask = campaign.ask(product, k=4)
            campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
        campaign.ask("tea", k=3)
    small_campaign(pages.storage, name="other").disconnect()
    return pages.url


def shop_files():
    """A network of 40 users and a table of products, as somebody would upload them."""
    rng = np.random.default_rng(5)
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, 40, (260, 2)) if a != b}
    edges = "source,target\n" + "".join(f"person-{a:02d},person-{b:02d}\n" for a, b in sorted(pairs))
    products = "product,kind\n" + "".join(f"item-{i},{'abc'[i % 3]}\n" for i in range(9))
    return {
        "Network": {"name": "followers.csv", "mimeType": "text/csv", "buffer": edges.encode()},
        "Products": {"name": "products.csv", "mimeType": "text/csv", "buffer": products.encode()},
    }, sorted(pairs)


def all_drawn(page):
    expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)
    expect(page.locator(".chart[data-state=failed]")).to_have_count(0)


def test_from_files_to_a_learned_round(browser, url):
    files, pairs = shop_files()
    with opened(browser, url) as (page, _), opened(browser, url) as (other, _):
        page.goto("/#/new")
        page.get_by_label("Name", exact=True).fill("by-hand")
        for label, payload in files.items():
            page.get_by_label(label, exact=True).set_input_files(payload)
        page.get_by_role("button", name="Look at the files").click()
        page.get_by_role("button", name="Create campaign").click()
        page.get_by_role("link", name="Ask for the first round").click()

        page.get_by_label("Product", exact=True).fill("item-3")
        page.get_by_label("Users to contact").fill("4")
        page.get_by_role("button", name="Propose users").click()
        proposal = page.get_by_role("region", name="Proposal for item-3")
        rows = proposal.locator("tbody tr")
        expect(rows).to_have_count(4)
        chosen = [text.strip() for text in rows.locator("th").all_inner_texts()]
        other_user = next(f"person-{i:02d}" for i in range(40) if f"person-{i:02d}" not in chosen)

        proposal.get_by_role("button", name=f"Change {chosen[0]}").click()
        proposal.get_by_label(f"In place of {chosen[0]}").fill(other_user)
        proposal.get_by_role("button", name="Swap").click()
        expect(proposal.get_by_text("by your 1 change")).to_be_visible()
        expect(proposal.get_by_role("button", name=f"Back to {chosen[0]}")).to_be_visible()
        page.get_by_role("button", name="Accept and open the round").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Round 1")
        users = page.get_by_role("region", name="Chosen users").locator("tbody th")
        expect(users).to_have_count(4)
        assert {text.strip() for text in users.all_inner_texts()} == {other_user, *chosen[1:]}
        with page.expect_download() as download:
            page.get_by_role("link", name="Download as CSV").click()
        assert other_user in download.value.path().read_text("utf-8")

        other.goto("/#/c/by-hand")
        other.get_by_role("link", name="All rounds").focus()
        chart = other.locator(".chart svg.marks").first
        expect(chart.get_by_text("still open")).to_be_visible()
        contacted = {int(text[-2:]) for text in (other_user, *chosen[1:])}
        told = [(a, b) for a, b in pairs if a in contacted]
        body = "source,target,outcome\n" + "".join(
            f"person-{a:02d},person-{b:02d},{i % 2}\n" for i, (a, b) in enumerate(told)
        )
        page.get_by_label("File with responses").set_input_files(
            {"name": "responses.csv", "mimeType": "text/csv", "buffer": body.encode()}
        )
        page.get_by_role("button", name="Send responses").click()
        expect(page.get_by_text(f"{len(told)} rows stored")).to_be_visible()
        expect(page.get_by_text("0 → ")).to_be_visible()
        page.get_by_role("button", name="Close and learn").click()
        expect(page.locator(".note.good").get_by_text("The round is closed.")).to_be_visible()
        # The other window has followed by itself: the point of the round is no longer an open one.
        expect(chart.get_by_text("still open")).to_have_count(0)
        expect(other.get_by_text("All rounds are closed")).to_be_visible()
        expect(other.get_by_role("link", name="All rounds")).to_be_focused()


@pytest.mark.slow
def test_markup_in_names_is_text(browser, url):
    with opened(browser, url) as (page, _):
        page.goto("/")
        page.get_by_role("link", name="other").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("other")
        page.goto("/#/c/spring/learned")
        all_drawn(page)
        expect(page.get_by_role("rowheader", name=NASTY)).to_be_visible()
        assert page.locator("main img").count() == 0


@pytest.mark.slow
def test_an_error_repeats_the_words_of_the_library(browser, url):
    with opened(browser, url) as (page, errors):
        page.goto("/#/c/spring/next")
        page.get_by_label("Product", exact=True).fill("coffee")
        page.get_by_role("button", name="Propose users").click()
        expect(page.get_by_role("alert")).to_contain_text("'coffee' is not in the campaign's catalogue")
        expect(page.get_by_role("alert")).to_contain_text("Add it with “Add products” under Manage")
        page.get_by_label("Product", exact=True).fill("tea")
        page.get_by_text("Limits: budget").click()
        page.get_by_label("Leave out users contacted within").fill("soon")
        page.get_by_role("button", name="Propose users").click()
        expect(page.get_by_role("alert")).to_contain_text("“Leave out users contacted within” must be")
        assert len(errors) == 2  # the browser's own lines on the refused requests
        errors.clear()


IN_PAGE_WORDS = """async ([source, parts, labels]) => {
    const words = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
    return words.inPageWords(parts, labels);
}"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InputError(argument="k", wanted="a whole number", got="None"), "“Users” must be a whole number; got nothing."),
        (InputError("x.", advice=("Use ", call("add_users"), ".")), "x. Use “Add users” under Manage."),
        (InputError("Use ", argument("max_left_out", 1.0), "."), "Use “Leave all of them out”."),
        (InputError("Use ", argument("columns", {"user": "NAME"}), "."), "Use “Columns”, as user:NAME."),
        (InputError("is 'k'.", argument="settings.k"), "“Users” is 'k'."),
        (InputError("budget is plain text here."), "budget is plain text here."),
        (InputError("No user.", advice=(call("users"), " has all.")), "No user. The tab Network has all."),
    ],
)
def test_parts_of_an_error_are_said_in_words_of_the_page(browser, error, said):
    source = (files("tensorucb.service") / "page" / "words.js").read_text("utf-8")
    parts = [part if isinstance(part, str) else part._asdict() for part in error.parts()]
    page = browser.new_page()
    assert (
        page.evaluate(IN_PAGE_WORDS, [source, parts, {"k": "Users", "columns": "Columns", "budget": "Budget"}]) == said
    )
    page.close()


def table(text, name="table.csv"):
    return {"name": name, "mimeType": "text/csv", "buffer": text.encode()}


def test_a_campaign_is_managed_and_deleted(browser, tmp_path):
    """Whoever deletes or forgets types the name."""
    edges, products = (payload["buffer"] for payload in shop_files()[0].values())
    files = {"edges": ("edges.csv", edges), "products": ("products.csv", products)}
    with serving(f"sqlite:///{tmp_path}/c.db") as url, opened(browser, url) as (page, _):
        made = httpx.post(f"{url}/api/v1/campaigns", data={"settings": '{"name": "a.b"}'}, files=files, timeout=60.0)
        assert made.status_code == 201, made.text
        page = page
        page.goto("/")
        page.get_by_role("link", name="a.b").click()
        page.get_by_role("link", name="Manage").click()

        part = page.get_by_role("region", name="Add products")
        part.get_by_label("Table of products").set_input_files(table("product,kind\nnew-1,a\nitem-0,a\n"))
        part.get_by_role("button", name="Add products").click()
        expect(part.get_by_text("1 product added; the catalogue has 10 now.")).to_be_visible()
        part = page.get_by_role("region", name="Add users")
        part.get_by_label("Table of users").set_input_files(table("user\nzoe\n"))
        part.get_by_label("Who follows whom").set_input_files(table("source,target\nzoe,person-00\n"))
        part.get_by_role("button", name="Add users").click()
        expect(part.get_by_text("1 user and 1 edge added")).to_be_visible()
        part = page.get_by_role("region", name="Learn from the past")
        part.get_by_label("File with responses").set_input_files(table("source,target,outcome\nzoe,person-00,1\n"))
        part.get_by_label("Product of all rows").fill("new-1")
        part.get_by_role("button", name="Learn from it").click()
        expect(part.get_by_text("1 past round learned. 1 response stored.")).to_be_visible()

        page.get_by_label("Id of the user").fill("zoe")
        page.get_by_role("button", name="Forget …").click()
        dialog = page.get_by_role("dialog", name="Forget zoe?")
        expect(dialog.get_by_role("button", name="Forget this person")).to_be_disabled()
        dialog.get_by_label("Type zoe to confirm").fill("zoe")
        page.keyboard.press("Enter")
        expect(page.get_by_text("zoe is forgotten: 1 response and 1 round named them.")).to_be_visible()

        page.get_by_role("button", name="Delete the campaign …").click()
        dialog = page.get_by_role("dialog", name="Delete a.b?")
        dialog.get_by_label("to confirm").fill("a")
        expect(dialog.get_by_role("button", name="Delete the campaign")).to_be_disabled()
        dialog.get_by_role("button", name="Keep everything").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("button", name="Delete the campaign …")).to_be_focused()
        page.keyboard.press("Enter")
        dialog.get_by_label("to confirm").fill("a.b")
        dialog.get_by_role("button", name="Delete the campaign").click()
        expect(page.get_by_role("heading", name="No campaign yet")).to_be_visible()


@pytest.mark.slow
def test_a_user_is_found_and_chosen_in_the_network(browser, url):
    with opened(browser, url) as (page, _):
        page.goto("/#/c/spring/network")
        expect(page.get_by_role("img", name="Picture of the network with 30 users")).to_be_visible()
        page.get_by_label("Find a user").fill("person-007")
        page.get_by_label("Find a user").press("Enter")
        expect(page.get_by_role("heading", name="person-007")).to_be_visible()
        expect(page.get_by_text("Strongest followers")).to_be_visible()
        canvas = page.locator("canvas")
        before = canvas.screenshot()
        canvas.press("+")
        assert canvas.screenshot() != before
        canvas.press("0")


def test_by_keyboard_alone(browser, url):
    """From files to a closed round; a filter; somebody opts out, and somebody is forgotten."""
    files, _ = shop_files()
    with opened(browser, url) as (page, _):
        # Somebody always waits for files, so that the browser never opens a dialog of its own between two of them.
        page.on("filechooser", lambda _: None)
        page.goto("/")
        expect(page.get_by_role("link", name="spring")).to_be_visible()

        def tab_to(name):
            for _ in range(90):
                page.keyboard.press("Tab")
                if page.evaluate(FOCUSED) == name:
                    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                    return
            pytest.fail(f"the Tab key never comes to {name!r}")

        def press(name):
            tab_to(name)
            page.keyboard.press("Enter")

        def choose(name, payload):
            tab_to(name)
            with page.expect_file_chooser() as chooser:
                page.keyboard.press("Space")
            chooser.value.set_files(payload)

        def write(name, text):
            tab_to(name)
            page.keyboard.press("Control+A")
            page.keyboard.type(text)

        def headed(title):
            # The address changes before the view does, and a label of the new view may be one of the old one too.
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            expect(page.locator(".waiting, .chart[data-state=waiting]")).to_have_count(0)

        tab_to("Skip to the content")
        press("New campaign")
        headed("New campaign")
        write("Name", "by-keys")
        for label, payload in files.items():
            choose(label, payload)
        press("Look at the files")
        expect(page.get_by_role("heading", name="Network")).to_be_focused()
        press("Create campaign")
        expect(page.get_by_role("link", name="Ask for the first round")).to_be_focused()
        page.keyboard.press("Enter")

        headed("Next round")
        write("Users to contact", "3")
        press("Propose users")
        expect(page.get_by_role("heading", name="Proposal for")).to_be_focused()
        press("Accept and open the round")
        headed("Round 1")
        acted = "".join(f"person-{i:02d},{time.time():.0f}\n" for i in range(40))
        choose("File with responses", table(f"user,time\n{acted}"))
        press("Send responses")
        expect(page.locator(".note.good")).to_be_focused()
        press("Close and learn")
        expect(page.locator(".note.good").get_by_text("The round is closed.")).to_be_visible()

        press("Overview")
        headed("by-keys")
        tab_to("Product")
        page.keyboard.press("ArrowDown")
        expect(page).to_have_url(re.compile("product=item-0"))

        press("People")
        headed("People")
        write("Ids to opt out", "person-09")
        press("Opt out")
        expect(page.locator(".note.good").get_by_text("1 person opted out.")).to_be_visible()

        press("Manage")
        headed("Manage")
        write("Name or id of the user", "person-11")
        press("Forget …")
        expect(page.get_by_label("Type person-11 to confirm")).to_be_focused()
        page.keyboard.type("person-11")
        page.keyboard.press("Enter")
        expect(page.locator(".note.good").get_by_text("person-11 is forgotten")).to_be_visible()


def test_log_in_with_a_token_and_not_without(browser, tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    tokens = {role: add_token(storage, role, role) for role in ("read", "operate")}
    with serving(storage) as url, opened(browser, url) as (page, errors):
        page.goto("/#/c/spring")
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        page.get_by_label("Token").fill("nonsense")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("knows no such token")
        assert all("401" in error for error in errors)
        errors.clear()
        page.get_by_label("Token").fill(tokens["read"])
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("spring")
        expect(page.get_by_text("role: read")).to_be_visible()
        expect(page.get_by_role("link", name="Next round")).to_have_count(0)
        page.get_by_role("link", name="Network").click()
        expect(page.locator("canvas")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Token").fill(tokens["operate"])
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="spring").click()
        expect(page.get_by_role("link", name="Ask for the first round")).to_be_visible()
        page.get_by_role("link", name="Manage").click()
        expect(page.get_by_role("heading", name="Add users")).to_be_visible()
        expect(page.get_by_role("heading", name="Delete the campaign")).to_have_count(0)


@pytest.mark.slow
def test_the_description_of_the_api_is_shown_without_other_hosts(browser, url):
    with opened(browser, url) as (page, _):
        page.goto("/api/docs")
        expect(page.get_by_text("/api/v1/campaigns", exact=True).first).to_be_visible()


@pytest.mark.slow
def test_ten_thousand_users(browser, tmp_path):
    storage, box = f"sqlite:///{tmp_path}/c.db", make_sandbox(10_000, 120_000, 5, rng=0)
    products = {f"p{i}": vector for i, vector in enumerate(box.products)}
    create_campaign("large", graph=box.graph, policy=HighDegree(), products=products, storage=storage).disconnect()
    with load_campaign("large", storage=storage) as campaign:
        campaign.ask("p0", k=500)
    with serving(storage) as url, opened(browser, url, width=390) as (page, _):
        page.goto("/#/c/large/network")
        expect(page.get_by_role("img", name="Picture of the network with 10,000 users")).to_be_visible()
        page.goto("/#/c/large/rounds/1")
        rows = page.get_by_role("region", name="Chosen users").locator("tbody tr")
        expect(rows).to_have_count(25)
        page.get_by_role("button", name="Show 25 more rows of 500").click()
        expect(rows).to_have_count(50)


def test_the_campaigns_own_strategies_are_the_ones_that_are_ticked(browser, tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    offers = {"mail": [1.0, 0.0], "visit": [0.0, 1.0]}
    asks = {"strategies": ["visit"], "per_user": True}
    small_campaign(url, strategies=offers, ask=asks, clock=time.time).disconnect()
    with serving(url) as address, opened(browser, address) as (page, _):
        page.goto("/#/c/spring/next")
        expect(page.get_by_label("visit", exact=True)).to_be_checked()
        expect(page.get_by_label("mail", exact=True)).not_to_be_checked()
        expect(page.get_by_label("Each user gets the best one for them")).to_be_checked()


def test_the_proposal_is_what_is_accepted_and_an_early_close_asks(browser, tmp_path):
    """The campaign's hold-out, rest and window are in the proposal, and in its fields; no other is."""
    url = f"sqlite:///{tmp_path}/c.db"
    asks = {"k": 6, "holdout": 0.34, "cooldown": "3d"}
    caps = {"contact_cap": "5/30d", "contact_group": "all"}
    small_campaign(url, window="9d", ask=asks, clock=time.time, **caps).disconnect()
    with serving(url) as address, opened(browser, address) as (page, errors):
        page.goto("/#/c/spring/next")
        page.get_by_text("Limits: budget").click()
        for label, kept in (
            ("Hold out, %", "34"),
            ("Leave out users contacted", "3d"),
            ("Close by itself after", "9d"),
        ):
            expect(page.get_by_label(label)).to_have_attribute("placeholder", kept)
        page.get_by_label("Never these users").fill("person-001, person-002")
        page.get_by_label("Only among these").fill("\n".join(f"person-{i:03d}" for i in range(25)))
        page.get_by_role("button", name="Propose users").click()
        proposal = page.get_by_role("region", name="Proposal for tea")
        expect(proposal.get_by_text("users to contact; 2 more are held out")).to_be_visible()
        agreed = dict(
            zip(proposal.locator("dt").all_inner_texts(), proposal.locator("dd").all_inner_texts(), strict=True)
        )
        assert agreed["Contacted"] == "4 users"
        assert agreed["Never these users"] == "2: person-001, person-002"
        assert agreed["Only among these users"].startswith("25: person-000, person-001")
        assert agreed["Only among these users"].endswith(" and 20 more")
        assert "Always these users" not in agreed
        assert agreed["Held out"].startswith("2 users")
        assert "34" in agreed["Held out"]
        assert (agreed["Rest between contacts"], agreed["A response counts for"]) == ("3d", "9d")
        assert (agreed["Rest of the audience"], agreed["Contact cap"]) == ("none", "5/30d, over all campaigns of all")
        held = proposal.locator("tbody tr", has_text="held out").locator("th .id")
        names = held.all_inner_texts()
        chosen = proposal.locator("tbody th .id").all_inner_texts()
        assert len(names) == 2
        page.get_by_role("button", name="Accept and open the round").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Round 1")
        with load_campaign("spring", storage=url) as campaign:
            opened_round = campaign.round(1)
            assert set(opened_round.held_out) == set(names)
            assert set(opened_round.seeds) == set(chosen) - set(names)
            closes = page.evaluate(MOMENT, opened_round.deadline)
            assert agreed["Closes by itself"] == closes
            with pytest.raises(InputError, match="within the cooldown"):
                campaign.ask("tea", users=opened_round.seeds, holdout=0)
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Close and learn").click()
        expect(page.get_by_role("button", name="Close and learn")).to_be_enabled()
        with load_campaign("spring", storage=url) as campaign:
            assert campaign.round(1).status == "open"
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Close and learn").click()
        expect(page.locator(".note.good").get_by_text("The round is closed.")).to_be_visible()
        # Chromium notes each of the two refusals.
        assert len(errors) == 2
        assert all("409" in error for error in errors)
        errors.clear()
