"""Requests that are sent again: nothing is lost, nothing is done twice, and the end of patience is said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from service.serving import serving
from tensorucb import Graph, create_campaign
from tensorucb.client import Client
from tensorucb.errors import ServiceError, UnknownIdError
from tensorucb.policies import HighDegree


@pytest.fixture
def storage(tmp_path):
    url = f"sqlite:///{tmp_path}/campaigns.db"
    graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    create_campaign("spring", graph=graph, policy=HighDegree(), storage=url).disconnect()
    return url


@contextmanager
def lossy_wire(url: str, loses: Callable[[int], bool]) -> Iterator[str]:
    """A wire to a service that breaks: of some requests, by their number, the answer never arrives.

    Each connection carries one request, which reaches the service in any case.
    """
    there = ("127.0.0.1", int(url.rpartition(":")[2]))
    threads = []

    def carry(near: socket.socket, number: int) -> None:
        with near, socket.create_connection(there) as far:
            far.sendall(_whole_request(near))
            answer = b"".join(iter(lambda: far.recv(65536), b""))
            if not loses(number):
                near.sendall(answer)

    def accept() -> None:
        number = 0
        with suppress(OSError):  # the listening socket was closed
            while True:
                near, _ = listening.accept()
                threads.append(threading.Thread(target=carry, args=(near, number)))
                threads[-1].start()
                number += 1

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join()
            for thread in threads:
                thread.join()


def _whole_request(near: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += near.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    length = next((int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += near.recv(65536)
    return b"\r\n".join([*lines, b"Connection: close", b"", body])


def test_an_answer_that_is_lost_does_not_open_a_second_round(storage):
    # The answer to the first ask and to the first tell get lost; the request before them finds the campaign.
    with serving(storage) as url, lossy_wire(url, lambda number: number in (1, 3)) as wire, Client(wire) as client:
        campaign = client.campaign("spring")
        ask = campaign.ask(k=1)
        report = campaign.tell(ask.id, [{"source": "ann", "target": "bob", "outcome": 1}])
        assert (report.accepted, report.duplicates) == (0, 1)  # the attempt whose answer was lost has stored it
        assert [found.id for found in campaign.rounds()] == [ask.id]
        assert campaign.progress().rounds[0].responders == 1


def test_a_creation_and_a_deletion_whose_answers_are_lost_are_done(storage, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\nann,bob\n")
    with serving(storage) as url, lossy_wire(url, lambda number: number in (0, 3)) as wire, Client(wire) as client:
        made = client.create_campaign("new", edges=tmp_path / "edges.csv")
        assert made.report
        assert made.status().users == 2
        client.delete_campaign("new")
        assert [info.name for info in client.campaigns()] == ["spring"]
        with pytest.raises(UnknownIdError):
            client.delete_campaign("new")


def test_a_service_that_is_busy_is_asked_again_when_it_says():
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    answers = [busy, busy, _good(b'{"items": [], "next": null}')]
    with _answering(answers) as url, Client(url) as client:
        assert client.campaigns() == []
    assert answers == []


def test_a_page_of_another_server_is_no_answer():
    with (
        _answering([_good(b"<html>Welcome!</html>")]) as url,
        Client(url) as client,
        pytest.raises(ServiceError, match=r"something else than JSON\. Is that address a tensorucb service\?"),
    ):
        client.campaigns()


def _good(content):
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(content), content)


@contextmanager
def _answering(answers):
    """A server that gives these answers, one after the other."""

    def serve():
        while answers:
            near, _ = listening.accept()
            with near:
                _whole_request(near)
                near.sendall(answers.pop(0))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(60)


def test_nobody_there_is_an_error_that_names_the_address(monkeypatch):
    # How long it waits before each attempt is no part of this.
    monkeypatch.setattr("tensorucb.client._http._FIRST_WAIT", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}") as client, pytest.raises(ServiceError, match=f"127.0.0.1:{port}.*running"):
        client.campaigns()


def test_an_address_below_which_there_is_no_service_is_said_so(tmp_path):
    with (
        serving(f"sqlite:///{tmp_path}/c.db") as url,
        Client(f"{url}/elsewhere") as client,
        pytest.raises(UnknownIdError, match="nothing at this address"),
    ):
        client.campaigns()
