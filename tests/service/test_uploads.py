"""Uploads that would use up the memory of a careless service: refused, while others are answered."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import polars as pl
import pytest

from campaign.worlds import small_campaign
from service.bombs import CSV, JSON, NDJSON, PARQUET, Bomb, Watch, bombs, few_bombs, parquet, send, watching
from service.conftest import Serve
from service.serving import connected
from studies.service_load import serving as process

_ALLOWED = 100.0  # MB by which the server may grow
_PLACE = "/campaigns/spring/rounds/1/responses"


@contextmanager
def _watched_server(folder: Path) -> Iterator[tuple[httpx.Client, Watch]]:
    """A server in a process of its own that has read files before, and whose memory is looked at."""
    storage = f"sqlite:///{folder}/c.db"
    with small_campaign(storage) as campaign:
        campaign.ask("tea", k=1, must_include=["person-001"])
    with process(storage) as server, httpx.Client(base_url=server.url, timeout=120.0) as client:
        row = {"source": "person-001", "target": "person-005", "outcome": 1}
        table = pl.DataFrame([row])
        whole = {
            CSV: table.write_csv().encode(),
            JSON: json.dumps([row]).encode(),
            NDJSON: json.dumps(row).encode(),
            PARQUET: parquet(table),
        }
        for kind, content in whole.items():
            assert send(client, Bomb("one row", kind, content)).status_code == 200
        with watching(server.pid, server.url) as watch:
            yield client, watch


def _send_all(folder: Path, bodies: Iterator[Bomb]) -> int:
    """Send bodies to a server, which refuses them cheaply; how many there were."""
    count = 0
    with _watched_server(folder) as (client, watch):
        for bomb in bodies:
            answer = send(client, bomb)
            count += 1
            assert answer.status_code == 200 or 400 <= answer.status_code < 500, (bomb.name, answer.text[:300])
            if answer.status_code != 200:
                assert answer.headers["content-type"] == "application/problem+json"
                assert tempfile.gettempdir() not in answer.text
            assert watch.grown < _ALLOWED, (bomb.name, watch.grown)
    assert watch.waited
    assert max(watch.waited) < 30.0
    return count


def test_hostile_bodies_cost_the_server_little(tmp_path):
    assert _send_all(tmp_path, few_bombs()) == 13


@pytest.mark.slow
def test_two_hundred_hostile_bodies_cost_the_server_little(tmp_path):
    assert _send_all(tmp_path, bombs()) == 200


@pytest.mark.slow
def test_a_large_body_of_json_costs_a_few_times_its_size(tmp_path):
    rows = b'{"source":"person-001","target":"person-005","outcome":1},' * 1_000_000
    with _watched_server(tmp_path) as (client, watch):
        answer = send(client, Bomb("a million rows", JSON, b"[" + rows[:-1] + b"]"))
        assert answer.json()["duplicates"] == 1_000_000
        assert watch.grown < 600.0  # 2,200 when all rows were objects at once


def test_text_that_is_packed_is_refused(client):
    for packed in (gzip.compress(b"user,time\n"), b"\x28\xb5\x2f\xfd" + bytes(100)):
        answer = client.post(_PLACE, content=packed, headers={"Content-Type": CSV})
        assert answer.status_code == 422
        assert "Unpack it first" in answer.json()["detail"]


def test_values_of_several_kinds_are_taken_as_text(client):
    client.post("/campaigns/spring/rounds", json={"product": "tea", "k": 2}).raise_for_status()
    now = time.time()
    rows = [{"user": "person-001", "time": now, "event_id": 7, "note": [1]}, {"user": "person-002", "time": now}]
    rows += [{"user": "person-003", "time": int(now), "event_id": "8"}]
    assert client.post(_PLACE, json=rows).json()["accepted"] == 3
    # The same again, but large enough for a process of its own: the event ids are the same.
    rows[1]["note"] = "x" * 70_000
    assert client.post(_PLACE, json=rows).json() == {**client.post(_PLACE, json=rows).json(), "duplicates": 3}


def test_too_many_at_once_are_told_to_wait(client, monkeypatch):
    monkeypatch.setattr("tensorucb.service._uploads._MOST_WAITING", 0)
    answer = client.post(_PLACE, content=parquet(pl.DataFrame({"user": ["a"]})), headers={"Content-Type": PARQUET})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"


def test_a_file_that_takes_too_long_is_refused(client, monkeypatch):
    monkeypatch.setattr("tensorucb.service._uploads.PATIENCE", 0.01)
    answer = client.post(_PLACE, content=parquet(pl.DataFrame({"user": ["a"]})), headers={"Content-Type": PARQUET})
    assert answer.status_code == 413
    assert "takes more than" in answer.json()["detail"]


def test_what_a_killed_server_left_is_removed_by_the_next(serve: Serve, storage, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    body = b"source,target,outcome\nperson-001,person-005,1\n"
    head = f"POST /api/v1{_PLACE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\nContent-Length: 1000\r\n\r\n"
    with process(storage) as server:
        with connected(server.url) as connection:
            connection.sendall(head.encode() + body)
            deadline = time.monotonic() + 30
            while not list(tmp_path.glob("tensorucb-uploads-*/*/body.csv")) and time.monotonic() < deadline:
                time.sleep(0.05)
            server.kill()
        (left,) = tmp_path.glob("tensorucb-uploads-*")
        assert list(left.glob("*/body.csv"))
        server.start()
        httpx.get(f"{server.url}/healthz", timeout=60.0).raise_for_status()
        (own,) = tmp_path.glob("tensorucb-uploads-*")
        assert own != left
        # That of a service that runs is left alone.
        serve(storage).get("/campaigns").raise_for_status()
        assert own.exists()
    assert not own.exists()
