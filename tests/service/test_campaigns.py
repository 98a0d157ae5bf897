from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from urllib.parse import quote

import polars as pl
import pytest

from campaign.worlds import small_campaign
from service.serving import add_token, bearer, listed
from service.test_rounds import ROUNDS, ask, problem
from tensorucb.campaign import load_campaign
from tensorucb.client import Client

NDJSON = "application/x-ndjson"
EDGES = b"source,target\nann,bob\nann,cid\nbob,cid\ncid,ann\n"
PRODUCTS = b"product,kind\ntea,food\njam,food\nsoap,home\n"


def create(client, settings, headers=None, **files):
    parts = {table: (f"{table}.csv", content) for table, content in files.items()}
    return client.post("/campaigns", data={"settings": json.dumps(settings)}, files=parts, headers=headers)


def test_a_campaign_is_created_listed_and_deleted(client):
    answer = create(client, {"name": "new", "window": "7d", "ask": {"k": 2}}, edges=EDGES, products=PRODUCTS)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["users"], made["edges"], made["products"]) == (3, 4, 3)
    assert any("kind (category)" in line for line in made["report"])
    assert made["settings"]["window"] == 7 * 86400
    listed = client.get("/campaigns").json()["items"]
    assert [line["name"] for line in listed] == ["spring", "autumn", "new"]
    assert listed[2]["created"] == made["created"]
    assert client.post("/campaigns/new/rounds", json={"product": "tea"}).status_code == 201
    added = client.post(
        "/campaigns/new/products", content=PRODUCTS + b"pot,home\n", headers={"Content-Type": "text/csv"}
    )
    assert added.json() == {"added": 1, "known": 3, "total": 4, "report": ["body.csv: 4 rows, 4 kept"]}
    added = client.post(
        "/campaigns/new/products", content=b'{"product": "mug", "kind": "home"}', headers={"Content-Type": NDJSON}
    )
    assert added.json()["report"][0].startswith("body.ndjson: 1 ")
    assert client.delete("/campaigns/new").status_code == 204
    problem(client.get("/campaigns/new"), 404, "UnknownIdError")
    problem(client.delete("/campaigns/new"), 404, "UnknownIdError")


@pytest.mark.parametrize(
    ("settings", "files", "status", "said"),
    [
        ({"name": "spring"}, {"edges": EDGES}, 409, "already"),
        ({"name": ".."}, {"edges": EDGES}, 422, "letters"),
        ({"name": "new", "policy": "Oracle"}, {"edges": EDGES}, 422, "TensorUCB"),
        ({"name": "new", "colour": 1}, {"edges": EDGES}, 422, "colour"),
        ({"name": "new"}, {}, 422, "edge"),
        ({"name": "new"}, {"edges": b"source;target\nann\n"}, 422, "wrong number of fields (line 2"),
        ({"name": "new"}, {"edges": b"x,y\nann,bob\n"}, 422, "source"),
        ({"name": "new", "window": "soon"}, {"edges": EDGES}, 422, "window"),
    ],
)
def test_campaigns_that_are_refused(shared, settings, files, status, said):
    answer = (
        create(shared, settings, **files)
        if files
        else shared.post("/campaigns", files={"settings": (None, json.dumps(settings))})
    )
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
    assert "/tmp" not in answer.text
    assert [line["name"] for line in shared.get("/campaigns").json()["items"]] == ["spring", "autumn"]


def test_a_form_is_needed_and_files_have_known_endings(shared):
    problem(shared.post("/campaigns", json={"name": "new"}), 415)
    data, files = {"settings": '{"name": "new"}'}, {"edges": ("../../edges.csv.gz", b"x")}
    assert ".csv" in problem(shared.post("/campaigns", data=data, files=files), 422)


def test_the_same_name_again_is_another_campaign(client, storage):
    """Another worker deletes and creates: nothing that this process remembers may survive it."""
    ask(client)
    with load_campaign("spring", storage=storage) as other:
        from tensorucb import delete_campaign

        delete_campaign("spring", storage=other.store)
    small_campaign(storage, clock=time.time).disconnect()
    assert client.get("/campaigns/spring").json()["rounds"] == 0
    assert client.get("/campaigns/spring/progress").json()["rounds"] == []
    assert client.get(ROUNDS).json()["items"] == []
    assert ask(client)["number"] == 1


@pytest.mark.parametrize("name", ["a/b", "/", "50% half", "é", "..", ".x", "-x", "", "a" * 101, "a b", "a\n", "_"])
def test_a_name_that_is_no_slug_is_refused(shared, name):
    refused = create(shared, {"name": name}, edges=EDGES)
    if len(name) <= 100:
        assert "letters" in problem(refused, 422)
    assert refused.status_code == 422
    # Looking for one is no more than not finding it.
    assert shared.get(f"/campaigns/{quote(name, safe='')}/rounds").status_code in (404, 422)


@pytest.mark.parametrize("name", ["a.b", "2026-summer_tea", "A", "rounds", "a" * 100, "7"])
def test_a_campaign_is_found_by_its_name(client, name):
    assert create(client, {"name": name, "ask": {"k": 1}}, edges=EDGES).status_code == 201
    with Client(str(client.base_url).removesuffix("/api/v1/")) as python:
        campaign = python.campaign(name)
        assert campaign.status().name == name
        opened = campaign.ask(request_id="first")
        assert campaign.ask(request_id="first") == opened
        assert campaign.round(1).id == opened.id
        assert campaign.close(opened.id).status == "closed"
        assert campaign.explain(1, "ann").user == "ann"
        assert [each.name for each in python.campaigns()] == ["spring", "autumn", name]
        python.delete_campaign(name)
    problem(client.get(f"/campaigns/{quote(name, safe='')}"), 404, "UnknownIdError")
    refused = client.put(f"/campaigns/{quote(name, safe='')}")
    problem(refused, 405)
    assert refused.headers["allow"] == "DELETE, GET, HEAD"


def test_progress_has_a_tag_that_changes_with_the_log(client):
    first = client.get("/campaigns/spring/progress")
    tag = first.headers["etag"]
    for had in (tag, f"W/{tag}", f'"another", W/{tag}'):  # a proxy that packs an answer makes its tag a weak one
        again = client.get("/campaigns/spring/progress", headers={"If-None-Match": had})
        assert (again.status_code, again.content) == (304, b"")
    ask(client)
    fresh = client.get("/campaigns/spring/progress", headers={"If-None-Match": tag})
    assert fresh.status_code == 200
    assert fresh.headers["etag"] != tag
    assert fresh.json()["open"]["rounds"] == 1
    for _ in range(2):
        ask(client, k=1)
    assert [r["number"] for r in client.get("/campaigns/spring/progress?rounds=2").json()["rounds"]] == [2, 3]


def test_lift_needs_a_holdout(client):
    assert "hold-out" in problem(client.get("/campaigns/spring/lift"), 409, "StateError")
    opened = ask(client, k=8, holdout=0.5)
    row = {"user": "person-001", "time": time.time() + 1.0}
    assert client.post(f"{ROUNDS}/1/responses", json=[row]).status_code == 200
    client.post(f"{ROUNDS}/1/close")
    assert len(opened["held_out"]) == 4
    found = client.get("/campaigns/spring/lift").json()
    assert found["low"] <= found["difference"] <= found["high"]


def test_an_export_is_the_library_s(client, storage, tmp_path):
    ask(client)
    for form in ("csv", "parquet"):
        answer = client.get("/campaigns/spring/export", params={"format": form})
        assert answer.headers["content-type"] == "application/zip"
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert archive.testzip() is None
            names = set(archive.namelist())
            seeds = archive.read(f"seeds.{form}")
        with load_campaign("spring", storage=storage) as campaign:
            files = campaign.export(tmp_path / form, form)
        assert names == {path.name for path in files}
        assert seeds == (tmp_path / form / f"seeds.{form}").read_bytes()
    problem(client.get("/campaigns/spring/export", params={"format": "xls"}), 422)


def test_those_who_watch_hear_of_changes(client, serve, storage):
    heard: list[int] = []
    first, changed = threading.Event(), threading.Event()

    def watch():
        with client.stream("GET", "/campaigns/spring/live") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith("data:"):
                    heard.append(json.loads(line.removeprefix("data:"))["event"])
                    (changed if first.is_set() else first).set()
                    if changed.is_set():
                        return

    watching = threading.Thread(target=watch)
    watching.start()
    assert first.wait(30.0)
    serve(storage).post(ROUNDS, json={"product": "tea", "k": 1})  # another worker
    assert changed.wait(30.0)
    watching.join(30.0)
    assert heard == [1, 2]
    problem(client.get("/campaigns/winter/live"), 404, "UnknownIdError")


def test_catalogues_grow(client):
    products = "/campaigns/spring/products"
    assert [item["id"] for item in client.get(products).json()["items"]] == ["tea", "soap"]
    body = {"ids": ["jam"], "features": [[0.5, 0.5]]}
    assert client.post(products, json=body).json() == {"added": 1, "known": 0, "total": 3, "report": []}
    assert [item["id"] for item in client.get(products, params={"search": "ja"}).json()["items"]] == ["jam"]
    assert client.post(products, json=body).json() == {"added": 0, "known": 1, "total": 3, "report": []}
    assert "jam" in problem(client.post(products, json={**body, "features": [[1.0, 0.5]]}), 422)
    problem(client.post(products, json={"ids": ["pot"], "features": [[0.5]]}), 422, "ShapeError")
    problem(client.post(products, json={"ids": "pot"}), 422)
    body = {"ids": ["call"], "features": [[1.0, 1.0]], "costs": [5.0]}
    assert client.post("/campaigns/autumn/strategies", json=body).json()["total"] == 3
    items = client.get("/campaigns/autumn/strategies").json()["items"]
    assert {item["id"]: item["cost"] for item in items} == {"email": 0.0, "letter": 2.0, "call": 5.0}


def test_users_join_and_are_found(client):
    body = {"ids": ["zoe"], "features": [[0.0, 0.0, 0.0]], "sources": ["zoe"], "targets": ["person-001"]}
    grown = client.post("/campaigns/spring/users", json=body).json()
    assert grown == {"users_added": 1, "edges_added": 1, "users": 31, "edges": 151, "report": []}
    assert client.get("/campaigns/spring/users", params={"search": "zo"}).json()["items"] == [
        {"id": "zoe", "name": None, "cost": None}
    ]
    seen = [item["id"] for item in listed(client, "/campaigns/spring/users", limit=12)]
    assert len(seen) == len(set(seen)) == 31
    opened = client.post(ROUNDS, json={"product": "tea", "users": ["zoe"]}).json()
    found = client.get("/campaigns/spring/users/zoe", params={"product": "tea"}).json()
    assert (found["followers"], found["rounds"]) == (1, [opened["number"]])
    assert found["strongest"][0]["user"] == "person-001"
    assert found["expected"] == pytest.approx(found["strongest"][0]["probability"])
    problem(client.get("/campaigns/spring/users/zoe", params={"product": "coffee"}), 422, "UnknownIdError")


def test_history_is_learned_first_and_people_are_forgotten(client, storage):
    rows = [{"source": s, "target": t, "outcome": 1, "product": "tea"} for s, t in _edges(storage)[:5]]
    report = client.post("/campaigns/spring/history", json=rows).json()
    assert (report["rounds"], report["responses"]) == (1, 5)
    user = rows[0]["source"]
    forgotten = client.post("/campaigns/spring/forget", json={"user": user}).json()
    assert forgotten["replay"] == forgotten["model_after"]
    assert forgotten["elsewhere"] == ["autumn"]
    assert all("/" not in name for name in forgotten["files"])
    problem(client.get(f"/campaigns/spring/users/{user}"), 404, "UnknownIdError")
    assert client.post("/campaigns/spring/expire").json() == {"closed": []}


def _edges(storage):
    with load_campaign("spring", storage=storage) as campaign:
        graph = campaign.graph
        return list(zip(graph.ids[graph.sources].tolist(), graph.ids[graph.targets].tolist(), strict=True))


@pytest.mark.parametrize("rows", [10, 2_500_000])
def test_a_parquet_file_is_measured_before_it_is_read(client, rows):
    ask(client)
    file = io.BytesIO()
    pl.DataFrame({"user": ["person-001"] * rows, "time": [1.0] * rows}).write_parquet(file)
    headers = {"Content-Type": "application/vnd.apache.parquet"}
    answer = client.post(f"{ROUNDS}/1/responses", content=file.getvalue(), headers=headers)
    assert answer.status_code == (200 if rows == 10 else 413), answer.text


def test_those_who_only_read_see_nobody_s_id(serve, storage):
    does, reads = (bearer(add_token(storage, role, role)) for role in ("operate", "read"))
    client = serve(storage)
    opened = client.post(ROUNDS, json={"product": "tea", "k": 4, "holdout": 0.25}, headers=does).json()
    client.post(f"{ROUNDS}/1/close", headers=does)
    seen = client.get(f"{ROUNDS}/1", headers=reads).json()
    masked = dict(zip(opened["contacted"], seen["contacted"], strict=True))
    first = opened["seeds"][0]
    assert masked[first].startswith("user-")
    paths = ("", "/progress", "/rounds", "/rounds/1/explanation", "/users", f"/users/{masked[first]}?product=tea")
    paths += (f"/rounds/1/explanation?user={masked[first]}", "/network?product=tea", "/learned", "/figures/together")
    for path in paths:
        answer = client.get(f"/campaigns/spring{path}", headers=reads)
        assert answer.status_code == 200, answer.text
        assert "person" not in answer.text, path
    found = client.get(f"/campaigns/spring/users?search={masked[first][:12]}", headers=reads).json()["items"]
    assert [item["id"] for item in found] == [masked[first]]
    said = client.get(f"{ROUNDS}/1/explanation", headers=reads).json()["seeds"][0]
    assert said["text"].startswith(f"'{masked[first]}' was chosen as number 1")
    assert all(repr(each["user"]) in said["text"] for each in said["followers"])
    problem(client.get(f"/campaigns/spring/users/{first}", headers=reads), 404, "UnknownIdError")
    problem(client.post(f"{ROUNDS}/1/close", headers=reads), 403)
    problem(client.get(f"{ROUNDS}/1/seeds.csv", headers=reads), 403)
