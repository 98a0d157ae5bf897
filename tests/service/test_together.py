"""Who reads the same thing at once shares one session of the store, and each gets what was true after they came."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from service.conftest import API
from service.serving import add_token, bearer, serving

CLIENTS = 12


def test_many_readers_at_once_get_whole_answers_of_their_own(storage):
    with serving(storage) as url, ThreadPoolExecutor(CLIENTS) as clients:
        start = threading.Barrier(CLIENTS)

        def read(number):
            with httpx.Client(base_url=f"{url}{API}", timeout=60, headers={"X-Request-ID": f"call-{number}"}) as web:
                start.wait()
                return [web.get("/campaigns/spring") for _ in range(10)]

        answers = [answer for own in clients.map(read, range(CLIENTS)) for answer in own]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert {answer.headers["x-request-id"] for answer in answers} == {f"call-{number}" for number in range(CLIENTS)}
    assert all(len(answer.headers.get_list("x-request-id")) == 1 for answer in answers)


def test_a_reader_sees_what_was_written_before_they_came(client):
    over = threading.Event()

    def read(_):
        with httpx.Client(base_url=client.base_url, timeout=60) as web:
            while not over.is_set():
                web.get("/campaigns/spring")

    with ThreadPoolExecutor(CLIENTS) as clients:
        readers = [clients.submit(read, number) for number in range(CLIENTS - 1)]
        before = client.get("/campaigns/spring").json()["rounds"]
        for number in range(1, 6):
            client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 1})
            assert client.get("/campaigns/spring").json()["rounds"] == before + number
        over.set()
        for reader in readers:
            reader.result()


def test_nobody_gets_what_somebody_else_may_see(storage):
    with serving(storage) as first, httpx.Client(base_url=f"{first}{API}", timeout=60) as web:
        web.get("/campaigns/spring")
    headers = [bearer(add_token(storage, role, role)) for role in ("read", "admin")]
    with serving(storage) as url, ThreadPoolExecutor(CLIENTS) as clients:

        def read(number):
            known = number % 3
            one = headers[known] if known < len(headers) else {}
            return known, httpx.get(f"{url}{API}/campaigns/spring", headers=one, timeout=60).status_code

        found = list(clients.map(read, range(30)))
    assert {status for known, status in found if known < len(headers)} == {200}
    assert {status for known, status in found if known == len(headers)} == {401}


def test_a_reader_who_goes_away_takes_the_answer_from_nobody(client):
    for _ in range(20):
        with contextlib.suppress(httpx.TimeoutException):
            httpx.get(f"{client.base_url}campaigns/spring", timeout=0.001)
        assert client.get("/campaigns/spring").status_code == 200
    assert client.get("/campaigns/nowhere").status_code == 404
    time.sleep(0.05)
    assert client.delete("/campaigns/autumn").status_code == 204
    assert client.get("/campaigns/autumn").status_code == 404
