from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from service.test_campaigns import EDGES, create
from service.test_rounds import ROUNDS, problem
from tensorucb.service import _once

KEY = {"Idempotency-Key": "order-7"}
BODY = {"product": "tea", "k": 2}


def replayed(answer):
    return answer.headers.get("idempotency-replayed") == "true"


def test_the_same_key_gives_the_same_answer(client):
    first = client.post(ROUNDS, json=BODY, headers=KEY)
    client.post(f"{ROUNDS}/1/close")
    again = client.post(ROUNDS, json=BODY, headers=KEY)
    assert not replayed(first)
    assert replayed(again)
    assert (again.status_code, again.json()) == (201, first.json())
    assert len(client.get(ROUNDS).json()["items"]) == 1
    assert "new key" in problem(client.post(ROUNDS, json={**BODY, "k": 3}, headers=KEY), 422)
    assert "new key" in problem(client.post("/campaigns/autumn/rounds", json=BODY, headers=KEY), 422)


def test_what_was_refused_may_be_tried_again(client):
    problem(client.post(ROUNDS, json={**BODY, "product": "jam"}, headers=KEY), 422, "UnknownIdError")
    client.post("/campaigns/spring/products", json={"ids": ["jam"], "features": [[0.5, 0.5]]})
    answer = client.post(ROUNDS, json={**BODY, "product": "jam"}, headers=KEY)
    assert answer.status_code == 201
    assert not replayed(answer)


def test_every_writing_call_takes_a_key(client):
    client.post(ROUNDS, json=BODY)
    calls = {
        "rounds/1/responses": [{"user": "person-001", "time": time.time()}],
        "responses": [{"user": "person-001", "time": time.time(), "round": 1}],
        "rounds/1/close": {},
        "expire": None,
        "users": {"ids": ["zoe"], "features": [[0.0, 0.0, 0.0]]},
        "products": {"ids": ["jam"], "features": [[0.5, 0.5]]},
        "forget": {"user": "zoe"},
    }
    for number, (path, body) in enumerate(calls.items()):
        key = {"Idempotency-Key": f"call-{number}"}
        first = client.post(f"/campaigns/spring/{path}", json=body, headers=key)
        again = client.post(f"/campaigns/spring/{path}", json=body, headers=key)
        assert first.status_code < 300, first.text
        assert (again.status_code, again.json(), replayed(again)) == (first.status_code, first.json(), True)


def test_a_form_sent_again_has_another_boundary(client):
    answers = [create(client, {"name": "new"}, headers=KEY, edges=EDGES) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].request.headers["content-type"] != answers[1].request.headers["content-type"]
    assert replayed(answers[1])
    other = create(client, {"name": "new"}, headers=KEY, edges=EDGES + b"bob,ann\n")
    problem(other, 422)


def test_two_at_the_same_time_are_one(client, serve, storage):
    """One pair in the same process, and one in two."""
    for key, clients in (("one", [client] * 2), ("two", [client, serve(storage)])):
        answers, together = [], threading.Barrier(2)

        def call(which, key=key, answers=answers, together=together):
            together.wait(30.0)
            answers.append(which.post(ROUNDS, json=BODY, headers={"Idempotency-Key": key}))

        threads = [threading.Thread(target=call, args=(which,)) for which in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60.0)
        assert [answer.status_code for answer in answers] == [201, 201]
        assert answers[0].json()["id"] == answers[1].json()["id"]
    assert len(client.get(ROUNDS).json()["items"]) == 2


@pytest.fixture
def killed(monkeypatch):
    """Ends the next writing call as a kill would: after its change, before its answer is kept."""

    def prepare():
        def kill(*_):
            monkeypatch.undo()
            raise SystemError("killed")

        monkeypatch.setattr(_once, "_keep", kill)

    return prepare


def test_a_creation_whose_answer_was_lost_gives_it_again(client, killed):
    killed()
    assert create(client, {"name": "new"}, headers=KEY, edges=EDGES).status_code == 500
    assert client.get("/campaigns/new").status_code == 200
    problem(create(client, {"name": "new"}, edges=EDGES), 409)
    problem(create(client, {"name": "new"}, headers={"Idempotency-Key": "other"}, edges=EDGES), 409)
    problem(create(client, {"name": "new", "window": "7d"}, headers=KEY, edges=EDGES), 409)
    found = create(client, {"name": "new"}, headers=KEY, edges=EDGES)
    assert found.status_code == 201, found.text
    assert (found.json()["users"], found.json()["rounds"]) == (3, 0)
    assert any("users" in line for line in found.json()["report"])
    again = create(client, {"name": "new"}, headers=KEY, edges=EDGES)
    assert (again.json(), replayed(again)) == (found.json(), True)


def test_a_deletion_whose_answer_was_lost_gives_it_again(client, killed):
    killed()
    assert client.delete("/campaigns/spring", headers=KEY).status_code == 500
    problem(client.delete("/campaigns/spring"), 404, "UnknownIdError")
    again = client.delete("/campaigns/spring", headers=KEY)
    assert (again.status_code, replayed(again)) == (204, True)


def test_the_answer_of_a_creation_goes_with_a_person_who_is_forgotten(client, storage):
    """It may name them, as every answer about the campaign may."""
    create(client, {"name": "new"}, headers=KEY, edges=EDGES)
    assert client.post("/campaigns/new/forget", json={"user": "bob"}).status_code == 200
    problem(create(client, {"name": "new"}, headers={"Idempotency-Key": "other"}, edges=EDGES), 409)
    with sqlite3.connect(storage.removeprefix("sqlite:///")) as database:
        assert database.execute("select count(*) from tensorucb_answer where body like '%new%'").fetchone() == (0,)


@pytest.mark.parametrize("key", ["", "x" * 201, "two words"])
def test_keys_that_are_none(shared, key):
    problem(shared.post(ROUNDS, json=BODY, headers={"Idempotency-Key": key}), 422)


@pytest.mark.slow
def test_a_stop_finishes_what_was_begun(storage):
    """The signal comes while a request is on its way and somebody watches; both end well, and so does the process."""
    command = [sys.executable, "-m", "tensorucb", "serve", storage, "--port", "0", "--log-level", "error"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = next(line for line in server.stdout if "http://" in line).split("http://")[1].split()[0]
            _stop_while_asking(server, address)
            assert server.wait(60) in (0, -signal.SIGTERM)
        finally:
            server.kill()


def _stop_while_asking(server, address):
    host, _, port = address.partition(":")
    body = json.dumps(BODY).encode()
    form = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"

    def begin(request, more=b""):
        connection = socket.create_connection((host, int(port)), 60)
        connection.sendall(f"{request} HTTP/1.1\r\nHost: {address}\r\n".encode() + more)
        return connection

    with begin("GET /api/v1/campaigns/spring/live", b"\r\n") as live:
        assert b"200 OK" in live.recv(4096)
        with begin(f"POST /api/v1{ROUNDS}", form.encode() + b"\r\n" + body[:5]) as ask:
            # The server has read that head once it answers somebody who came later.
            with begin("GET /healthz", b"\r\n") as later:
                assert b"200 OK" in later.recv(4096)
            server.send_signal(signal.SIGTERM)
            while live.recv(4096):
                pass
            ask.sendall(body[5:])
            assert b"201 Created" in ask.recv(4096)
