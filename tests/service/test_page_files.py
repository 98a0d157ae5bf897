"""The page's files and figures over HTTP."""

from __future__ import annotations

import gzip
import json
import re

import httpx
import pytest

from campaign.worlds import answers, small_campaign
from service.serving import serving
from tensorucb.campaign import load_campaign

SPRING = "/api/v1/campaigns/spring"


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('files')}/c.db"
    with small_campaign(url) as campaign:
        for product in ("tea", "soap", "tea"):
            ask = campaign.ask(product, k=4)
            campaign.tell(ask.id, answers(campaign, ask))
            campaign.close(ask.id)
    return url


@pytest.fixture(scope="module")
def client(storage):
    with serving(storage) as url, httpx.Client(base_url=url, timeout=30.0) as client:
        yield client


def test_the_page_names_only_files_of_this_service_and_has_no_inline_script(client):
    for path in ("/", "/api/docs"):
        answer = client.get(path)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
        assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
        assert "style=" not in answer.text
        files = [
            re.sub(r"^(\.\./)?", "/", found)
            for found in re.findall(r"(?:src|href)=\"([^\"#]*static[^\"]*)\"", answer.text)
        ]
        assert files
        for file in files:
            found = client.get(file)
            assert found.status_code == 200, file
            assert "immutable" in found.headers["cache-control"]


def test_the_figures_script_is_the_installed_one_and_travels_packed(client):
    plain = client.get("/static/any/vega.js", headers={"Accept-Encoding": "identity"})
    packed = client.stream("GET", "/static/any/vega.js", headers={"Accept-Encoding": "gzip"})
    with packed as answer:
        assert gzip.decompress(b"".join(answer.iter_raw())) == plain.content
    assert plain.headers["cache-control"] == "no-cache"  # another release's address
    assert b"vegaEmbed" in plain.content


@pytest.mark.parametrize("name", ["index.html", "..%2f_app.py", "%2e%2e/_app.py", "nothing.js", "main.js%00", ".."])
def test_other_files_are_not_served(client, name):
    assert client.get(f"/static/any/{name}").status_code in (400, 404)


def test_figures_are_documents_without_addresses(client):
    names = [entry["figure"] for entry in client.get(f"{SPRING}/figures").json()["items"]]
    assert names == ["expected", "sums", "calibration", "products"]
    for name in (*names, "together"):
        found = client.get(f"{SPRING}/figures/{name}")
        assert found.json()["width"] == "container"
        assert "http" not in found.text
    assert client.get(f"{SPRING}/figures/lift").status_code == 404


def test_regret_is_drawn_only_where_the_truth_is_known(client, storage):
    assert client.get(f"{SPRING}/figures/regret").status_code == 404
    with small_campaign(storage, name="known") as campaign:
        rounds = [
            {"round": ask.id, "number": ask.number, "reach": 1.0, "best": 1.0 + lost, "regret": lost}
            for ask, lost in ((campaign.ask("tea", k=2), lost) for lost in (3.0, 2.0, 1.0))
        ]
        with campaign.store.write() as session:
            session.put_blob(session.campaign("known").campaign, "regret", json.dumps(rounds).encode())
    found = client.get("/api/v1/campaigns/known/figures/regret").json()
    assert "lost 2.0 expected responses on average" in found["description"]


def test_the_network_by_round_and_product(client):
    found = client.get(f"{SPRING}/network", params={"round": "2", "product": "tea", "limit": 10}).json()
    assert (found["round"], found["product"], len(found["users"])) == (2, "tea", 10)
    for wrong in ({"round": "99"}, {"product": "coffee"}, {"limit": "0"}):
        assert client.get(f"{SPRING}/network", params=wrong).status_code in (404, 422)


def test_pictures_follow_the_log(client, storage):
    before = client.get(f"{SPRING}/learned").json()
    with load_campaign("spring", storage=storage) as campaign:
        ask = campaign.ask("soap", k=3)
        campaign.tell(ask.id, answers(campaign, ask, every=1))
        campaign.close(ask.id)
    after = client.get(f"{SPRING}/learned").json()
    assert after["rounds"] == before["rounds"] + 1
    assert json.dumps(after["affinity"]) != json.dumps(before["affinity"])
    assert client.get(f"{SPRING}/network").json()["round"] == ask.number


def test_the_description_of_the_api_lists_every_route_without_a_script(client):
    text = client.get("/api/docs").text
    assert "<script" not in text
    for path, methods in client.get("/api/openapi.json").json()["paths"].items():
        assert all(f"<b>{method.upper()}</b> <code>{path}</code>" in text for method in methods), path
    links = set(re.findall(r'href="#([^"]+)"', text))
    assert {"Problem", "TellReport", "main"} <= links <= set(re.findall(r'id="([^"]+)"', text))


def test_head_is_answered_as_get_without_a_body(client):
    for path in ("/", "/healthz", "/api/openapi.json", SPRING, f"{SPRING}/rounds/1/seeds.csv", f"{SPRING}/live"):
        head = client.head(path)
        assert head.status_code == 200, path
        assert head.content == b""
        if not path.endswith("/live"):
            assert head.headers["content-length"] == str(len(client.get(path).content))
    assert client.head("/nothing").status_code == 404
    assert client.head(f"{SPRING}/preview").status_code == 405
    assert 'method="HEAD",route="/healthz"' in client.get("/metrics").text
