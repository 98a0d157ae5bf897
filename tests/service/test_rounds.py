from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import threading
import time

import polars as pl
import pytest

from service.serving import comes_true, listed
from service.test_doors import PYTHON
from tensorucb.campaign import Campaign, load_campaign
from tensorucb.store import open_store

# private: SQLite is told here that its disk is full
from tensorucb.store._sqlite import SQLiteBackend

ROUNDS = "/campaigns/spring/rounds"


def ask(client, **body):
    answer = client.post(ROUNDS, json={"product": "tea", "k": 3, **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(answer, status, kind="InputError"):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["type"].endswith(f":{kind}")
    assert found["request_id"] == answer.headers["x-request-id"]
    return found["detail"]


def edges(storage, users):
    with load_campaign("spring", storage=storage) as campaign:
        graph = campaign.graph
        numbers = graph.out_edges(graph.rows(users))
        return [(graph.ids[graph.sources[e]].item(), graph.ids[graph.targets[e]].item()) for e in numbers]


def test_a_round_from_ask_to_close(client, storage):
    opened = ask(client)
    assert opened["status"] == "open"
    assert len(opened["seeds"]) == 3
    assert [seed["user"] for seed in opened["explanation"]["seeds"]] == opened["seeds"]
    rows = [{"source": s, "target": t, "outcome": 1} for s, t in edges(storage, opened["seeds"])[:4]]
    told = client.post(f"{ROUNDS}/1/responses", json=rows).json()
    assert told["accepted"] == 4
    closed = client.post(f"{ROUNDS}/{opened['id']}/close")
    assert closed.json()["status"] == "closed"
    assert client.post(f"{ROUNDS}/1/close").json() == closed.json()
    progress = client.get("/campaigns/spring/progress").json()
    assert progress["rounds"][0]["responders"] > 0
    assert client.get("/campaigns/spring").json()["closed"] == 1


def test_a_round_has_one_form_in_python_and_over_http(client, storage):
    rounds = "/campaigns/autumn/rounds"
    body = {"product": "tea", "k": 5, "strategies": "all", "per_user": True, "holdout": 0.4, "budget": 4.0}
    preview = client.post("/campaigns/autumn/preview", json=body).json()
    assert preview["difference"] == 0.0
    assert client.get(rounds).json()["items"] == []
    opened = client.post(rounds, json=body).json()
    with load_campaign("autumn", storage=storage) as campaign:
        known = campaign.round(1)
        reasons = as_json(known.explain())
        other = next(user for user in campaign.graph.ids.tolist() if user not in {*known.seeds, *known.held_out})
        assert opened == {**as_json(known), "explanation": reasons}
        assert client.get(f"{rounds}/1").json() == as_json(known)
        assert client.get(f"{rounds}/1/explanation").json() == reasons
        one = client.get(f"{rounds}/1/explanation", params={"user": other}).json()
        assert one == as_json(known.explain(other))
        for name in ("seeds", "held_out", "strategies", "reach", "cost"):
            assert preview[name] == opened[name]
        assert preview["explanation"] == reasons
        again = client.post("/campaigns/autumn/preview", json=body).json()
        assert again == as_json(campaign.preview(**body))


def as_json(record):
    return json.loads(json.dumps(dataclasses.asdict(record)))


def test_cancelled_rounds_take_nothing(client):
    ask(client)
    assert client.post(f"{ROUNDS}/1/cancel").json()["status"] == "cancelled"
    assert "cancelled" in problem(client.post(f"{ROUNDS}/1/close"), 409, "StateError")
    answer = client.post(f"{ROUNDS}/1/responses", json=[{"user": "person-001", "time": time.time()}])
    problem(answer, 409, "StateError")


def test_what_is_not_there(client):
    assert "no campaign" in problem(client.get("/campaigns/winter"), 404, "UnknownIdError")
    for path in ("rounds/7", "rounds/000007-abc", "rounds/7/explanation", "rounds/7/seeds.csv", "users/nobody"):
        problem(client.get(f"/campaigns/spring/{path}"), 404, "UnknownIdError")
    problem(client.post(f"{ROUNDS}/7/close"), 404, "UnknownIdError")
    problem(client.get("/nothing"), 404, "UnknownIdError")
    refused = client.put("/campaigns/spring")
    problem(refused, 405)
    assert refused.headers["allow"] == "DELETE, GET, HEAD"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"k": 0}, "k"),
        ({"k": 99}, "only 30 may be chosen"),
        ({"k": "3"}, "k"),
        ({"product": "coffee"}, "coffee"),
        ({"colour": "red"}, "there is no field 'colour'; there are product, k"),
        ({"prodct": "tea"}, "there is no field 'prodct'; perhaps product is meant."),
        ({"users": [{"usr": "person-001", "strategy": "x"}]}, "users"),
        ({"exclude": ["nobody"]}, "nobody"),
        ({"holdout": 2.0}, "holdout"),
        ({"deadline": 5.0}, "deadline"),
        ({"shadow": ["person-001"], "users": ["person-002"]}, "shadow"),
    ],
)
def test_questions_that_are_refused(shared, body, said):
    assert said in problem(shared.post(ROUNDS, json={"product": "tea", "k": 3, **body}), 422, _kind(body))
    assert shared.get(ROUNDS).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"shadow": ["person-001"], "users": ["person-002"]}, "users are to be contacted, and shadow were"),
        ({"cooldown": 7}, "cooldown: it needs a unit: '7d' is 7 days, '7s' is 7 seconds; got 7."),
        ({"cooldown": []}, "cooldown: input should be a valid string."),
        ({"exclude": [1.5]}, "exclude.0: input should be a valid integer."),
    ],
)
def test_errors_speak_of_fields_not_of_python(shared, body, said):
    detail = shared.post(ROUNDS, json={"product": "tea", "k": 3, **body}).json()["detail"]
    assert said in detail
    assert not re.search(PYTHON, detail)


def _kind(body):
    return "UnknownIdError" if "coffee" in body.values() or "exclude" in body else "InputError"


def test_bodies_that_are_no_json(client):
    for content in (b"{", b"[1]", b'"tea"', b""):
        answer = client.post(ROUNDS, content=content, headers={"Content-Type": "application/json"})
        problem(answer, 422)
    cut = {"content": b'{"ids": [', "headers": {"Content-Type": "application/json"}}
    assert problem(client.post(ROUNDS, **cut), 422) == "the body is not JSON (character 10)."
    said = problem(client.post("/campaigns/spring/products", **cut), 422)
    assert said == "the body is not JSON (line 1 column 9)."
    said = problem(client.post(f"{ROUNDS}/1/responses?column=user", json=[]), 422)
    assert said == "column must look like FIELD:COLUMN, such as user:buyer."
    problem(client.post(f"{ROUNDS}/1/responses", json=[]), 404, "UnknownIdError")
    ask(client)
    rows = client.post(f"{ROUNDS}/1/responses", content=b'"/etc/passwd"', headers={"Content-Type": "application/json"})
    assert "list of rows" in problem(rows, 422, "FileFormatError")


def test_a_preview_is_a_read(serve, storage):
    path, body, key = "/campaigns/spring/preview", {"product": "tea", "k": 3}, {"Idempotency-Key": "preview-1"}
    client = serve(storage)
    first = client.post(path, json=body).json()
    with open_store(storage) as store, store.write():  # the writer's lock is somebody else's
        assert client.post(path, json=body, headers=key, timeout=20.0).json() == first
        assert client.post(path, json={**body, "k": 2}, headers=key, timeout=20.0).status_code == 200
    reader = serve(storage, read_only=True)
    assert reader.post(path, json=body).json() == first
    assert reader.post(path, json=body, headers=key).json() == first
    refused = reader.post("/campaigns/spring/rounds", json=body, headers=key)
    assert (refused.status_code, "read-only" in refused.json()["detail"]) == (403, True)


def test_a_changed_list_is_judged_and_accepted(client):
    first = client.post("/campaigns/spring/preview", json={"product": "tea", "k": 3}).json()
    other = next(f"person-{i:03d}" for i in range(30) if f"person-{i:03d}" not in first["seeds"])
    users = [*first["seeds"][:2], other]
    judged = client.post("/campaigns/spring/preview", json={"product": "tea", "users": users}).json()
    assert judged["seeds"] == users
    assert judged["best"] == first["reach"]
    assert judged["difference"] == pytest.approx(judged["reach"]["mean"] - first["reach"]["mean"])
    opened = client.post(ROUNDS, json={"product": "tea", "users": users, "holdout": 0.34}).json()
    assert sorted([*opened["seeds"], *opened["held_out"]]) == sorted(users)
    assert len(opened["held_out"]) == 1
    assert "put on the list by a person" in opened["explanation"]["seeds"][0]["text"]
    other = client.get(f"{ROUNDS}/1/explanation", params={"user": first["seeds"][2]}).json()
    assert "a person made the list" in other["text"]


def test_a_list_with_strategies(client):
    contacts = [{"user": "person-001", "strategy": "email"}, {"user": "person-002", "strategy": "letter"}]
    body = {"product": "tea", "strategies": "all", "users": contacts}
    assert "per_user" in problem(client.post("/campaigns/autumn/rounds", json=body), 422)
    opened = client.post("/campaigns/autumn/rounds", json={**body, "per_user": True}).json()
    assert opened["strategies"] == ["email", "letter"]
    assert opened["cost"] == 2.0
    refused = client.post("/campaigns/autumn/rounds", json={**body, "per_user": True, "budget": 1.0})
    assert "over the budget" in problem(refused, 422)


def test_seeds_as_a_file_for_a_spreadsheet(serve, tmp_path):
    from tensorucb import Graph, create_campaign
    from tensorucb.policies import HighDegree

    names = ["=cmd()", "=cmd()", "bob"]
    url = f"sqlite:///{tmp_path}/odd.db"
    graph = Graph.from_edges(names, ["bob", "cid", "cid"])
    create_campaign("spring", graph=graph, policy=HighDegree(), storage=url).disconnect()
    client = serve(url)
    assert client.post(ROUNDS, json={"k": 1}).status_code == 201
    answer = client.get(f"{ROUNDS}/1/seeds.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="round-1-seeds.csv"'
    assert next(csv.DictReader(io.StringIO(answer.text)))["user"] == "'=cmd()"


FORMS = {
    "application/json": lambda frame: json.dumps(frame.to_dicts()).encode(),
    "application/x-ndjson": lambda frame: frame.write_ndjson().encode(),
    "text/csv": lambda frame: frame.write_csv().encode(),
    "application/vnd.apache.parquet": lambda frame: _parquet(frame),
}


def _parquet(frame):
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def test_responses_in_four_forms(client, storage):
    opened = ask(client)
    pairs = edges(storage, opened["seeds"])[:6]
    frame = pl.DataFrame({"follower": [t for _, t in pairs], "source": [s for s, _ in pairs], "outcome": [1] * 6})
    for number, (form, packed) in enumerate(FORMS.items()):
        answer = client.post(
            f"{ROUNDS}/1/responses?column=target:follower", content=packed(frame), headers={"Content-Type": form}
        )
        assert answer.status_code == 200, answer.text
        assert (answer.json()["accepted"], answer.json()["duplicates"]) == ((6, 0) if number == 0 else (0, 6))
        broken = client.post(f"{ROUNDS}/1/responses", content=packed(frame)[:-9], headers={"Content-Type": form})
        if form != "text/csv":  # a shorter CSV file is still one
            assert broken.status_code == 422
            assert "tmp" not in broken.text
    problem(client.post(f"{ROUNDS}/1/responses", content=b"x", headers={"Content-Type": "image/png"}), 415)


def test_strangers_are_refused_or_skipped(client):
    ask(client)
    rows = [{"user": "stranger", "time": time.time()}]
    assert "stranger" in problem(client.post(f"{ROUNDS}/1/responses", json=rows), 422, "UnknownIdError")
    assert client.post(f"{ROUNDS}/1/responses?max_left_out=1", json=rows).json()["unknown"] == 1


def test_a_log_of_all_rounds(client):
    opened = ask(client)
    row = {"user": opened["seeds"][0], "item": "tea", "time": time.time() + 1.0}
    report = client.post("/campaigns/spring/responses", json=[row, {**row, "item": "soap"}]).json()
    assert (report["accepted"], report["other"]) == (1, 1)
    assert list(report["rounds"]) == [opened["id"]]


def test_a_full_disk_is_refused_without_the_place_of_the_database(serve, storage, tmp_path, monkeypatch):
    real = SQLiteBackend._connect

    def full(backend):
        connection = real(backend)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages + 2}")
        return connection

    monkeypatch.setattr(SQLiteBackend, "_connect", full)
    client = serve(storage)
    added = {"ids": [f"product {i} {'x' * 500}" for i in range(500)], "features": [[1.0, 0.0]] * 500}
    answer = client.post("/campaigns/spring/products", json=added)
    said = problem(answer, 503, "StoreError")
    assert said == "no space left for the store; nothing was written. Free some and try again."
    assert str(tmp_path) not in answer.text


def test_rounds_come_in_pages(client):
    for _ in range(5):
        ask(client, k=1)
    assert [item["number"] for item in listed(client, ROUNDS, limit=2)] == [5, 4, 3, 2, 1]
    client.post(f"{ROUNDS}/2/close")
    assert [item["number"] for item in listed(client, ROUNDS, status="closed")] == [2]
    problem(client.get(ROUNDS, params={"after": "????"}), 422)
    problem(client.get(ROUNDS, params={"limit": 501}), 422)


def test_due_rounds_close_by_themselves(client, serve):
    opened = ask(client, deadline=time.time() + 1.2)
    assert opened["status"] == "open"
    assert comes_true(lambda: client.get(f"{ROUNDS}/1").json()["status"] == "closed")


def test_a_slow_ask_delays_neither_tell_nor_reads(client, monkeypatch):
    """The ask is held inside its choice until everything else has been answered."""
    ask(client)
    inside, go_on = threading.Event(), threading.Event()
    choose = Campaign.ask

    def slow(self, *args, **named):
        inside.set()
        assert go_on.wait(60.0)
        return choose(self, *args, **named)

    monkeypatch.setattr(Campaign, "ask", slow)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(client.post(ROUNDS, json={"product": "tea", "k": 2})))
    asking.start()
    assert inside.wait(60.0)
    told = client.post(f"{ROUNDS}/1/responses", json=[{"user": "person-001", "time": time.time()}])
    assert told.status_code == 200
    for path in ("", "/progress", "/rounds", "/rounds/1/explanation", "/users", "/users/person-001", "/products"):
        assert client.get(f"/campaigns/spring{path}").status_code == 200
    assert not answers
    go_on.set()
    asking.join(60.0)
    assert answers[0].status_code == 201


def test_dirty_rows_are_left_out_and_counted(client):
    number = ask(client)["number"]
    body = "\ufeffuser;time\nperson-001;2026-11-18\nperson-002;soon\n\nguest;2026-11-18\nperson-003;1790000000\n"
    place, kind = f"{ROUNDS}/{number}/responses", {"Content-Type": "text/csv"}
    refused = client.post(f"{place}?strict=true", content=body.encode(), headers=kind)
    assert refused.status_code == 422
    assert "2 of 4 rows cannot be used" in refused.json()["detail"]
    assert client.post(f"{place}?max_left_out=0.4", content=body.encode(), headers=kind).status_code == 422
    report = client.post(place, content=body.encode(), headers=kind).json()
    assert (report["accepted"], report["unknown"]) == (2, 1)
    assert [(entry["reason"][:20], entry["first_lines"]) for entry in report["left_out"]] == [
        ("time is not a time i", [3]),
        ("a user who is not in", [5]),
    ]
    assert "fields are separated by semicolons" in report["remarks"]
    # Large enough for a process of its own, by lines that are blank.
    large = f"{body}{(' ' * 99 + chr(10)) * 700}".encode()
    again = client.post(place, content=large, headers=kind).json()
    assert (again["accepted"], again["duplicates"]) == (0, 2)
    assert again["left_out"][:2] == report["left_out"]
    assert again["remarks"] == report["remarks"]
