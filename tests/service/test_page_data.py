"""Files of a new campaign: looked at over HTTP and on the page before the campaign is created."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.browser import SECONDS, opened
from service.serving import serving
from tensorucb.campaign import load_campaign

EDGES = "who,whom\nC00002,C00001\nC00003,C00001\nC00001,C00003\nC00002,\nC00004,C00002\n"
PRODUCTS = "sku;price;colour\ntea;€12.99;green\njam;€3.50;red\nsoap;€4.00;green\n"
USERS = "customer,ok,tier\nC00001,yes,gold\nC00002,no,silver\nC00003,yes,gold\nC00009,yes,gold\n"
NAMED = {"edges": {"source": "who", "target": "whom"}, "users": {"consent": "ok"}}


def files(**tables: str) -> dict[str, Any]:
    return {name: (f"{name}.csv", text.encode()) for name, text in tables.items()}


def looked(client: httpx.Client, tables: dict[str, Any], **settings: Any) -> dict[str, Any]:
    answer = client.post("/preview-data", data={"settings": json.dumps(settings)}, files=tables)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    storage = f"sqlite:///{tmp_path_factory.mktemp('data')}/c.db"
    with serving(storage) as url, httpx.Client(base_url=f"{url}/api/v1", timeout=60.0) as client:
        yield client


def test_a_look_says_what_creating_says_and_keeps_nothing(client: httpx.Client) -> None:
    tables = files(edges=EDGES, products=PRODUCTS, users=USERS)
    found = looked(client, tables, columns=NAMED)
    assert (found["users"], found["edges"], found["products"]) == (4, 4, 3)
    assert found["problem"] is None
    assert found["example"] == ["C00001", "C00003"]
    users = next(one for one in found["tables"] if one["table"] == "users")
    assert users["columns"] == ["customer", "ok", "tier"]
    assert users["first"][1] == ["C00002", "no", "silver"]
    meant = {one["name"]: one["column"] for one in users["fields"]}
    assert (meant["user"], meant["consent"], meant["group"]) == ("customer", "ok", None)
    assert any("1 left out" in line and "line 5" in line for line in found["report"])
    assert client.get("/campaigns").json()["items"] == []
    settings = json.dumps({"name": "seen", "columns": NAMED})
    made = client.post("/campaigns", data={"settings": settings}, files=tables)
    assert made.status_code == 201, made.text
    assert made.json()["report"] == found["report"]
    assert client.delete("/campaigns/seen").status_code == 204


def test_columns_that_are_not_recognised_are_a_part_of_the_answer(client: httpx.Client) -> None:
    found = looked(client, files(edges=EDGES, users="id,customer\nC1,C2\n"))
    edges, users = found["tables"]
    assert [one["column"] for one in edges["fields"]] == [None, None]
    assert "has no column source" in edges["problem"]["detail"]
    assert {"kind": "argument", "name": "columns", "value": {"edges": {"source": "NAME"}}} in edges["problem"]["parts"]
    assert users["fields"][0]["candidates"] == ["id", "customer"]
    assert users["fields"][0]["column"] is None
    assert found["users"] is None


def test_what_is_wrong_with_all_files_is_said_without_places_of_the_service(client: httpx.Client) -> None:
    found = looked(client, files(edges="source,target\nann,\nbob,\ncid,ann\n"))
    assert "2 of 3 rows cannot be used" in found["problem"]["detail"]
    assert "/" not in found["problem"]["detail"].replace("max_left_out", "")
    for settings in ('{"name": "x"}', '{"columns": {"cats": {}}}', "nonsense"):
        refused = client.post("/preview-data", data={"settings": settings}, files=files(edges=EDGES))
        assert refused.status_code == 422
    assert client.post("/preview-data", json={}).status_code == 415


@pytest.mark.parametrize("width", [1280, 390])
def test_columns_are_mapped_on_the_page_and_the_options_are_kept(browser: Any, tmp_path: Path, width: int) -> None:
    expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
    expect.set_options(timeout=SECONDS)
    storage = f"sqlite:///{tmp_path}/c.db"
    nasty = "<img src=x onerror=alert(1)>"
    with serving(storage) as url, opened(browser, url, width=width) as (page, _):
        page.goto("/#/new")
        for label, text in (("Network", EDGES), ("Products", PRODUCTS), ("Users", USERS.replace("silver", nasty))):
            payload = {"name": "any.csv", "mimeType": "text/csv", "buffer": text.encode()}
            page.get_by_label(label, exact=True).set_input_files(payload)
        page.get_by_label("Name", exact=True).fill("mapped")
        page.get_by_label("A response counts for").fill("5d")
        page.get_by_label("Time zone of dates").fill("Europe/Berlin")
        page.get_by_text("Defaults of its rounds").click()
        page.get_by_label("Hold out by default, %").fill("25")
        page.get_by_label("Contact cap").fill("2/7d")
        page.get_by_label("Campaigns that share the cap").fill("spring")
        page.get_by_role("button", name="Look at the files").click()
        network = page.get_by_role("region", name="Network", exact=True)
        expect(network.get_by_role("alert")).to_contain_text("has no column source")
        expect(network.get_by_role("alert")).to_contain_text("with “Who influences” and “Who is influenced”.")
        expect(page.get_by_role("button", name="Create campaign")).to_have_count(0)
        network.get_by_label("Who influences").select_option("who")
        network.get_by_label("Who is influenced").select_option("whom")
        expect(network.get_by_text("C00002 influences C00001")).to_be_visible()
        users = page.get_by_role("region", name="Users", exact=True)
        users.get_by_label("Consent to be contacted").select_option("ok")
        users.get_by_label("The group, for quotas").select_option("tier")
        expect(users.get_by_role("cell", name=nasty)).to_be_visible()
        page.get_by_role("button", name="Look again").click()
        outcome = page.get_by_role("region", name="What will be used, and what left out")
        expect(outcome.get_by_text("4 users, 4 edges, 3 products.")).to_be_visible()
        expect(outcome.get_by_text("1 left out")).to_be_visible()
        assert page.locator("main img").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.get_by_role("button", name="Create campaign").click()
        expect(page.get_by_role("heading", name="mapped is ready")).to_be_visible()
    with load_campaign("mapped", storage=storage) as campaign:
        settings = campaign.settings
        assert (settings["window"], settings["timezone"]) == (5 * 86400.0, "Europe/Berlin")
        assert (settings["contact_cap"], settings["contact_group"]) == ("2/7d", "spring")
        assert settings["ask"] == {"holdout": 0.25}
        assert campaign.status().no_consent == 2  # one said no, one is not in the table
        assert set(campaign.groups.tolist()) == {"gold", nasty, "none"}
