"""A webhook: each closed round is told, signed, sent again when it fails, and given up in the end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from campaign.worlds import Clock, small_campaign
from service.serving import comes_true
from tensorucb import copy_campaign, load_campaign
from tensorucb.client import Client
from tensorucb.errors import InputError

SECRET = "whsec_" + base64.b64encode(bytes(range(24))).decode()


class Receiver:
    """Takes requests on loopback; ``answers`` are statuses, 0 for nonsense, None for no answer; after these, 204."""

    def __init__(self) -> None:
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int | None] = []
        self.meanwhile = lambda: None  # runs before a request is answered
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.came.append(({key.lower(): value for key, value in self.headers.items()}, body))
                receiver.meanwhile()
                status = receiver.answers.pop(0) if receiver.answers else 204
                if status is None:
                    return
                if status == 0:
                    self.wfile.write(b"what is no HTTP\r\n")
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/rounds"
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join(30)
        self.server.server_close()

    def rounds(self) -> list[int]:
        return [json.loads(body)["number"] for _, body in self.came]


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.close()


def _genuine(headers, body, secret):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    seal = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{seal}"


def test_a_service_tells_of_rounds_that_close(serve, storage, receiver):
    client = serve(storage)
    rounds = "/campaigns/spring/rounds"
    client.post(rounds, json={"product": "tea", "k": 2})
    client.post(f"{rounds}/1/close")  # before anybody wanted to know
    assert client.get("/campaigns/spring").json()["webhook"] is None
    made = client.put("/campaigns/spring/webhook", json={"url": receiver.url})
    assert made.status_code == 200
    receiver.answers = [500]
    opened = client.post(rounds, json={"product": "tea", "k": 3, "holdout": 0.4}).json()
    client.post(rounds, json={"product": "soap", "k": 2, "deadline": time.time() + 1.0})
    client.post(f"{rounds}/2/close")
    assert comes_true(lambda: client.get("/campaigns/spring").json()["webhook"]["error"] == "the receiver answered 500")
    assert comes_true(lambda: client.get("/campaigns/spring").json()["webhook"]["delivered"] == 2)
    found = client.get("/campaigns/spring").json()["webhook"]
    assert found == {"url": receiver.url, "delivered": 2, "pending": 0, "failed": 0, "error": None}
    assert receiver.rounds() == [2, 2, 3]
    assert all(_genuine(headers, body, made.json()["secret"]) for headers, body in receiver.came)
    assert {headers["webhook-id"] for headers, _ in receiver.came[:2]} == {opened["id"]}
    told = json.loads(receiver.came[1][1])
    assert (told["type"], told["campaign"], told["contacted"], told["held_out"]) == ("round.closed", "spring", 2, 1)
    assert not any(user in body.decode() for user in opened["contacted"] for _, body in receiver.came)
    assert client.delete("/campaigns/spring/webhook").status_code == 204
    assert client.get("/campaigns/spring").json()["webhook"] is None


def test_what_is_due_outlives_a_restart(serve, storage, receiver):
    with load_campaign("spring", storage=storage) as campaign:
        assert campaign.set_webhook(receiver.url, SECRET) == SECRET
        campaign.close(campaign.ask("tea", 2).id)
        assert campaign.status().webhook.pending == 1
    assert receiver.came == []
    serve(storage)
    assert comes_true(lambda: receiver.rounds() == [1])
    with load_campaign("spring", storage=storage) as campaign:
        assert comes_true(lambda: campaign.status().webhook.delivered == 1)
        assert campaign.deliver() == 0
    assert receiver.rounds() == [1]


def test_what_cannot_be_understood_is_a_failed_attempt(receiver):
    campaign = small_campaign()
    campaign.set_webhook(receiver.url, SECRET)
    campaign.close(campaign.ask("tea", 1).id)
    receiver.answers = [0]
    assert campaign.deliver() == 0
    assert campaign.status().webhook.error == "the receiver's answer is no HTTP"
    campaign.set_webhook(receiver.url, SECRET)
    campaign.close(campaign.ask("tea", 1).id)
    receiver.answers = [None]
    assert campaign.deliver() == 0
    assert "without response" in campaign.status().webhook.error
    campaign.set_webhook("http://127.0.0.1:99999/", SECRET)
    campaign.close(campaign.ask("tea", 1).id)
    assert campaign.deliver() == 0
    assert "cannot be reached" in campaign.status().webhook.error


def test_attempts_have_a_bound_and_waits_between_them(receiver, tmp_path):
    clock, storage = Clock(), f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(storage, clock=clock)
    campaign.set_webhook(receiver.url, SECRET)
    for _ in range(2):
        campaign.close(campaign.ask("tea", 1).id)
    receiver.answers = [503] * 7 + [302]
    for attempt in range(8):
        assert campaign.deliver() == 0
        assert len(receiver.came) == attempt + 1
        if attempt < 7:
            clock.now += 5.0 * 2**attempt - 1.0
            with load_campaign("spring", storage=storage, clock=clock) as other:
                assert other.deliver() == campaign.deliver() == 0  # it is not time yet
            assert len(receiver.came) == attempt + 1
            assert campaign.status().webhook.failed == 0
            clock.now += 1.0
    assert receiver.rounds() == [1] * 8
    status = campaign.status().webhook
    assert (status.failed, status.pending, status.error) == (1, 1, "the receiver answered 302")
    assert campaign.deliver() == 1
    assert receiver.rounds()[-1] == 2
    status = campaign.status().webhook
    assert (status.delivered, status.failed, status.pending, status.error) == (1, 1, 0, None)


def _slow(receiver, meanwhile):
    """Let the next request, and no other, take as long as ``meanwhile`` does."""

    def once():
        receiver.meanwhile = lambda: None
        meanwhile()

    receiver.meanwhile = once


def test_a_slow_receiver_gets_each_round_once(receiver, tmp_path):
    clock, storage = Clock(), f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(storage, clock=clock)
    campaign.set_webhook(receiver.url, SECRET)
    campaign.close(campaign.ask("tea", 1).id)
    others = []

    def meanwhile():
        clock.now += 9.0
        with load_campaign("spring", storage=storage, clock=clock) as other:
            others.append(other.deliver())

    _slow(receiver, meanwhile)
    assert campaign.deliver() == 1
    assert (others, receiver.rounds()) == ([0], [1])
    assert campaign.status().webhook.delivered == 1


@pytest.mark.parametrize("answers", [[], [503]])
def test_a_round_that_another_process_has_told_counts_once(receiver, tmp_path, answers):
    clock, storage = Clock(), f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(storage, clock=clock)
    campaign.set_webhook(receiver.url, SECRET)
    campaign.close(campaign.ask("tea", 1).id)

    def meanwhile():
        clock.now += 60.0
        with load_campaign("spring", storage=storage, clock=clock) as other:
            assert other.deliver() == 1
        receiver.answers = answers

    _slow(receiver, meanwhile)
    campaign.deliver()
    assert receiver.rounds() == [1, 1]
    status = campaign.status().webhook
    assert (status.delivered, status.pending, status.failed, status.error) == (1, 0, 0, None)


def test_a_webhook_that_is_set_anew_is_not_charged_with_the_old_one(receiver, tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    campaign = small_campaign(storage, clock=Clock())
    campaign.set_webhook(receiver.url, SECRET)
    campaign.close(campaign.ask("tea", 1).id)

    def meanwhile():
        with load_campaign("spring", storage=storage) as other:
            other.set_webhook(f"{receiver.url}/new", SECRET)
        receiver.answers = [503]

    _slow(receiver, meanwhile)
    assert campaign.deliver() == 0
    status = campaign.status().webhook
    assert (status.url, status.delivered, status.error) == (f"{receiver.url}/new", 0, None)


def test_a_receiver_that_is_not_there_is_an_error_in_the_status():
    campaign = small_campaign(clock=Clock())
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as gone:
        port = gone.server_address[1]
    campaign.set_webhook(f"http://127.0.0.1:{port}/")
    campaign.close(campaign.ask("tea", 1).id)
    assert campaign.deliver() == 0
    assert "cannot be reached" in campaign.status().webhook.error
    campaign.remove_webhook()
    assert campaign.deliver() == 0
    assert campaign.status().webhook is None


def test_a_copy_tells_nobody_and_history_is_no_round_that_closes(receiver, tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(storage) as campaign:
        campaign.set_webhook(receiver.url)
        source = campaign.graph.ids[campaign.graph.sources[0]].item()
        target = campaign.graph.ids[campaign.graph.targets[0]].item()
        campaign.import_history([{"source": source, "target": target, "outcome": 1}], product="tea")
        assert campaign.status().webhook.pending == campaign.deliver() == 0
    copy_campaign("spring", "rehearsal", storage=storage)
    with load_campaign("rehearsal", storage=storage) as copy:
        assert copy.status().webhook is None


@pytest.mark.parametrize(
    ("url", "secret"),
    [
        ("ftp://shop.example", None),
        ("https://ann:pw@shop.example/", None),
        ("shop", None),
        ("http://a b/", None),
        ("http://shop.example:port/", None),
        ("http://shop.example\x01/", None),
        ("http://shop.example/a\x7fb", None),
        ("https://shop.example", ""),
        ("https://shop.example", "whsec_abc"),
        ("https://shop.example", f"whsec_{'!' * 30}"),
        ("https://shop.example", f"whsec_{'A' * 25}"),
    ],
)
def test_what_is_no_webhook_is_refused(shared, url, secret):
    with pytest.raises(InputError):
        small_campaign().set_webhook(url, secret)
    assert shared.put("/campaigns/spring/webhook", json={"url": url, "secret": secret}).status_code == 422
    assert shared.get("/campaigns/spring").json()["webhook"] is None


def test_the_client_sets_and_removes_it(client, receiver):
    with Client(str(client.base_url).removesuffix("/api/v1/")) as python:
        campaign = python.campaign("spring")
        assert campaign.set_webhook(receiver.url, SECRET) == SECRET
        campaign.close(campaign.ask("tea", 2).id)
        assert comes_true(lambda: campaign.status().webhook.delivered == 1)
        campaign.remove_webhook()
        assert campaign.status().webhook is None
