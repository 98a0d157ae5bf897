"""Calls that are sent again, because their answer was lost: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from service.test_campaigns import EDGES, create
from service.test_rounds import ROUNDS, problem

KEY = {"Idempotency-Key": "order-7"}
BODY = {"product": "tea", "k": 2}


def test_the_same_key_finds_the_same_round(client):
    first = client.post(ROUNDS, json=BODY, headers=KEY)
    client.post(f"{ROUNDS}/1/close")
    again = client.post(ROUNDS, json=BODY, headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    changed = {name for name, value in first.json().items() if again.json()[name] != value}
    assert changed == {"status", "closed"}, "the answer says where the round stands now"
    assert len(client.get(ROUNDS).json()["items"]) == 1
    assert "Idempotency-Key 'order-7' has" in problem(client.post(ROUNDS, json={**BODY, "k": 3}, headers=KEY), 422)
    assert client.post("/campaigns/autumn/rounds", json={**BODY, "product": ["tea", "email"]}, headers=KEY).json()


def test_what_was_refused_may_be_tried_again(client):
    problem(client.post(ROUNDS, json={**BODY, "product": "jam"}, headers=KEY), 422, "UnknownIdError")
    client.post("/campaigns/spring/products", json={"ids": ["jam"], "features": [[0.5, 0.5]]})
    assert client.post(ROUNDS, json={**BODY, "product": "jam"}, headers=KEY).status_code == 201


def test_other_calls_may_come_twice(client):
    """Without any key: the second time changes nothing, and says so where it has something to say."""
    round_id = client.post(ROUNDS, json=BODY).json()["id"]
    time_told = time.time()
    calls = {
        f"rounds/{round_id}/responses": ([{"user": "person-001", "time": time_told}], {"accepted": 0, "duplicates": 1}),
        "responses": ([{"user": "person-002", "time": time_told, "round": 1}], {"accepted": 0, "duplicates": 1}),
        "rounds/1/close": ({}, {"status": "closed", "id": round_id}),
        "expire": (None, {"closed": []}),
        "products": ({"ids": ["jam"], "features": [[0.5, 0.5]]}, {"added": 0, "known": 1}),
    }
    for path, (body, expected) in calls.items():
        first = client.post(f"/campaigns/spring/{path}", json=body)
        events = client.get("/campaigns/spring").json()["events"]
        again = client.post(f"/campaigns/spring/{path}", json=body)
        assert first.status_code == again.status_code < 300, first.text
        assert {name: again.json()[name] for name in expected} == expected
        if path != "products":
            assert client.get("/campaigns/spring").json()["events"] == events
    user = {"ids": ["zoe"], "features": [[0.0, 0.0, 0.0]]}
    assert client.post("/campaigns/spring/users", json=user).status_code == 201
    assert "already" in problem(client.post("/campaigns/spring/users", json=user), 422)
    assert client.post("/campaigns/spring/forget", json={"user": "zoe"}).json()["proven"]
    problem(client.post("/campaigns/spring/forget", json={"user": "zoe"}), 422, "UnknownIdError")
    assert client.delete("/campaigns/spring").status_code == 204
    problem(client.delete("/campaigns/spring"), 404, "UnknownIdError")


def test_a_creation_whose_answer_was_lost_gives_it_again(client):
    answers = [create(client, {"name": "new"}, headers=KEY, edges=EDGES) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].request.headers["content-type"] != answers[1].request.headers["content-type"]
    assert answers[0].json() == answers[1].json()
    assert any("users" in line for line in answers[1].json()["report"])
    assert "Key" not in problem(create(client, {"name": "new"}, edges=EDGES), 409)
    problem(create(client, {"name": "new"}, headers={"Idempotency-Key": "other"}, edges=EDGES), 409)
    said = problem(create(client, {"name": "new", "window": "7d"}, headers=KEY, edges=EDGES), 409)
    assert "another Idempotency-Key, other settings or other files" in said
    problem(create(client, {"name": "new"}, headers=KEY, edges=EDGES + b"bob,ann\n"), 409)
    # The key makes no difference for other names.
    assert create(client, {"name": "newer"}, headers=KEY, edges=EDGES).status_code == 201


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


@pytest.mark.parametrize("key", ["", "x" * 201, "two words"])
def test_keys_that_are_none(shared, key):
    said = problem(shared.post(ROUNDS, json=BODY, headers={"Idempotency-Key": key}), 422)
    assert said == "Idempotency-Key must be 1 to 200 visible ASCII characters without spaces."


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
