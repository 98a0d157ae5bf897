"""The commands: serve in a terminal and as a process that is told to stop, and tokens; logs and metrics."""

import asyncio
import json
import logging
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from campaign.worlds import answers, small_campaign
from cli.commands import run, run_json
from cli.terminal import COMMAND, in_terminal
from service.serving import add_token, bearer, serving
from tensorucb.service import ServiceSettings, create_app
from tensorucb.service._operation import JsonLines  # private: only a process of `serve` sets up logging

API = "/api/v1"


@pytest.fixture
def storage(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    with small_campaign(url) as campaign:
        ask = campaign.ask("tea", 3)
        campaign.tell(ask.id, answers(campaign, ask))
        campaign.close(ask.id)
        campaign.ask("soap", 3)
    return url


def test_tokens_are_made_listed_and_revoked(storage):
    printed = run("token", "add", storage, "ann", "--role", "operate")
    assert re.fullmatch(r"tucb_[\w-]{43}\n", printed.stdout)
    assert "not shown again" in printed.stderr
    made = run_json("token", "add", storage, "bob")
    assert made["role"] == "read"
    listed = run_json("token", "list", storage)
    assert [(entry["name"], entry["role"]) for entry in listed] == [("ann", "operate"), ("bob", "read")]
    table = run("token", "list", storage).stdout
    assert "operate" in table
    assert made["token"] not in table + json.dumps(listed)
    assert "called 'ann' already" in run("token", "add", storage, "ann", code=1).stderr
    assert (
        "--role must be 'read', 'operate' or 'admin'" in run("token", "add", storage, "x", "--role", "a", code=1).stderr
    )
    assert run_json("token", "revoke", storage, "ann") == {"revoked": "ann", "tokens": 1}
    assert "no token called 'ann'" in run("token", "revoke", storage, "ann", code=1).stderr
    assert "everybody" in run("token", "revoke", storage, "bob").stdout
    assert "no tokens" in run("token", "list", storage).stdout


def test_what_cannot_be_served_is_said_in_one_sentence(storage, tmp_path, monkeypatch):
    def said(*args):
        message = run("serve", *args, code=1).stderr
        assert message.startswith("tensorucb: ")
        assert message.count("\n") == 1
        return message

    assert "token add" in said(storage, "--host", "0.0.0.0")
    assert "token add" in said(storage, "--allow-host", "ads.example")
    assert "2 workers need PostgreSQL" in said(storage, "--workers", "2")
    assert "storage URL" in said("campaigns.db")
    assert "no store" in said(f"sqlite:///{tmp_path}/none.db", "--read-only")
    assert "--log-level" in said(storage, "--log-level", "loud")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert f"port {port} of 127.0.0.1 is in use" in said(storage, "--port", port)
    find = "importlib.util.find_spec"
    monkeypatch.setattr(find, lambda name: None)
    assert "pip install 'tensorucb[service]'" in said(storage)


def test_serve_in_a_terminal(storage):
    ended = in_terminal("serve", storage, "--port", "0", keys=[("Ctrl-C to stop.", "\x03")])
    assert ended.code == 0
    text = " ".join(ended.text.split())
    assert "are served at http://127.0.0.1:" in text
    assert "Everybody on this machine may do everything; nobody else can connect." in text
    assert "Stopped." in text
    assert "Traceback" not in text


@pytest.mark.slow
def test_a_signal_ends_the_process_after_its_requests(storage):
    token = add_token(storage, "ann", "admin")
    process = subprocess.Popen(
        [*COMMAND, "serve", storage, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}{API}/campaigns/spring", headers=headers, timeout=60).json()["rounds"] == 2
        assert httpx.get(f"{url}{API}/campaigns/spring").status_code == 401
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (0, -signal.SIGTERM)
    lines = [json.loads(line) for line in errors.splitlines()]
    shown = [
        (line["route"], line["status"], line["principal"]) for line in lines if line["logger"] == "tensorucb.access"
    ]
    route = f"{API}/campaigns/{{name}}"
    assert shown == [(route, 200, "ann"), (route, 401, None)]
    assert token not in errors


def test_read_only_shows_everything_and_changes_nothing(storage):
    with serving(storage, read_only=True) as url, httpx.Client(base_url=f"{url}{API}", timeout=60) as web:
        assert web.get("/session").json()["read_only"]
        assert web.get("/campaigns/spring").json()["rounds"] == 2
        assert web.get("/campaigns/spring/progress").status_code == 200
        refused = web.post("/campaigns/spring/rounds", json={"product": "tea", "k": 1})
        for answer in (refused, web.delete("/campaigns/spring")):
            assert answer.status_code == 403
            assert answer.json()["type"].endswith(":StateError")
            assert "read-only" in answer.json()["detail"]
        assert httpx.get(f"{url}/metrics").status_code == 200
        assert web.get("/campaigns/spring").json()["rounds"] == 2


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_was_deleted_or_replaced_takes_nothing(storage, tmp_path, replaced):
    path = tmp_path / "c.db"
    with serving(storage) as url, httpx.Client(base_url=f"{url}{API}", timeout=60) as web:
        question = {"product": "tea", "k": 1}
        assert web.post("/campaigns/spring/rounds", json=question).status_code == 201
        path.unlink()
        if replaced:
            small_campaign(storage).disconnect()
        refused = web.post("/campaigns/spring/rounds", json=question)
        assert refused.status_code == 503
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["type"].endswith("StoreError")
        assert str(tmp_path) not in refused.text
        assert web.get("/campaigns").status_code == 503
        assert httpx.get(f"{url}/readyz").status_code == 503
        assert path.exists() == replaced


def test_logs_are_json_lines_that_name_nobody(storage):
    token = add_token(storage, "ann", "operate")
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.addHandler(handler)
    level = root.level
    root.setLevel("DEBUG")
    for noisy in ("httpx", "httpcore"):
        logging.getLogger(noisy).setLevel("WARNING")
    try:
        headers = {"Authorization": f"Bearer {token}", "X-Request-ID": "call-7"}
        with serving(storage) as url, httpx.Client(base_url=f"{url}{API}", headers=headers, timeout=60) as web:
            web.get("/campaigns/spring/users/person-001")
            web.get("/campaigns/spring/users", params={"search": "person-001"})
            web.post("/campaigns/spring/rounds", json={"product": "tea", "k": 1, "exclude": ["person-001"]})
            web.post("/campaigns/spring/rounds", json={"product": "tea", "k": 1, "exclude": ["person-999"]})
            web.get("/person-001")
            web.post("/session", json={"token": token})
            logging.getLogger("tensorucb.campaign").info("a message of the library")
            try:
                raise ValueError("person-001")
            except ValueError:
                logging.getLogger("tensorucb.service").exception("unforeseen error")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    text = stream.getvalue()
    lines = [json.loads(line) for line in text.splitlines()]
    assert "person-" not in text
    assert token not in text
    access = [line for line in lines if line["logger"] == "tensorucb.access"]
    assert len(access) == 6
    assert {line["request_id"] for line in access} == {"call-7"}
    assert {line["principal"] for line in access} == {"ann"}
    assert all(line["ms"] >= 0 for line in access)
    failed = next(line for line in lines if line.get("error"))
    assert (failed["error"], failed["message"]) == ("ValueError", "unforeseen error")


def test_metrics_count_requests_and_show_campaigns(storage):
    with serving(storage) as url, httpx.Client(base_url=url, timeout=60) as web:
        for _ in range(3):
            web.get(f"{API}/campaigns/spring")
        web.get("/nowhere")
        web.request("PROPFIND", "/pot")  # of WebDAV
        text = web.get("/metrics").text
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    route = ("route", f"{API}/campaigns/{{name}}")
    assert found["tensorucb_requests_total", ("method", "GET"), route, ("status", "200")] == 3
    assert found["tensorucb_requests_total", ("method", "GET"), ("route", "-"), ("status", "404")] == 1
    assert found["tensorucb_requests_total", ("method", "-"), ("route", "-"), ("status", "404")] == 1
    assert found["tensorucb_request_seconds_count", route] == 3
    assert found["tensorucb_rounds_open", ("campaign", "spring")] == 1
    assert found["tensorucb_rounds_closed", ("campaign", "spring")] == 1
    assert found["tensorucb_model_behind", ("campaign", "spring")] >= 0
    assert found["tensorucb_responses_told_total",] == 0


def test_the_read_role_never_sees_the_id_of_a_user(storage):
    readers, operators = (bearer(add_token(storage, role, role)) for role in ("read", "operate"))
    seen = 0
    with serving(storage) as url, httpx.Client(base_url=url, timeout=60) as web:
        listed = web.get(f"{API}/campaigns/spring/figures", headers=readers).json()["items"]
        figures = [line["figure"] for line in listed]
        user = web.get(f"{API}/campaigns/spring/users?limit=1", headers=operators).json()["items"][0]["id"]
        for path, methods in web.get("/api/openapi.json").json()["paths"].items():
            if "get" not in methods or path.endswith("/live"):
                continue
            for figure in figures if "{figure}" in path else [""]:
                address = path.format(name="spring", round=1, figure=figure, user=user, user_id=user, id=user)
                answer = web.get(address, headers=readers)
                assert answer.status_code in (200, 403, 404, 409, 422), (address, answer.text)
                if answer.status_code == 200:
                    seen += 1
                    assert "person-" not in answer.text, address
        assert seen >= 10
        # Nor does a guess tell which pseudonym is whose.
        users = f"{API}/campaigns/spring/users"
        assert web.get(f"{users}/{user}", headers=operators).status_code == 200
        assert web.get(f"{users}/{user}", headers=readers).status_code == 404
        assert web.get(users, params={"search": "person"}, headers=readers).json()["items"] == []
        explained = f"{API}/campaigns/spring/rounds/1/explanation"
        assert web.get(explained, params={"user": user}, headers=readers).status_code == 404
        following = web.get(users, params={"limit": 1}, headers=readers).json()["next"]
        assert "person" not in following
        assert "person-" in web.get(f"{API}/campaigns/spring/rounds", headers=operators).text


@pytest.mark.slow
def test_several_workers_share_a_database_and_their_metrics(fresh_postgres_url, tmp_path):
    small_campaign(fresh_postgres_url).disconnect()
    with (tmp_path / "errors").open("w") as errors:
        command = [*COMMAND, "serve", fresh_postgres_url, "--port", "0", "--workers", "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        for _ in range(40):  # a connection each, so that both workers get some
            assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
        for _ in range(2):
            found = httpx.get(f"{url}/metrics", timeout=60).text
            assert 'tensorucb_requests_total{method="GET",route="/healthz",status="200"} 40.0' in found
            assert 'tensorucb_rounds_open{campaign="spring"} 0.0' in found
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        errors = (tmp_path / "errors").read_text()
        print(errors)
    assert process.returncode == 0
    assert "Stopped." in said
    assert "Traceback" not in errors


def test_answers_on_a_kept_connection_do_not_wait_for_acknowledgements(storage):
    """Without TCP_NODELAY each of them takes 40 ms."""
    with serving(storage) as url, httpx.Client(base_url=url) as client:
        client.get("/healthz")
        began = time.perf_counter()
        for _ in range(20):
            assert client.get("/healthz").status_code == 200
        assert time.perf_counter() - began < 20 * 0.02


def test_below_another_app_which_says_nothing_of_start_and_end_errors_are_the_same(storage):
    app = create_app(ServiceSettings(storage))

    async def ask_too_much():
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.post(f"{API}/campaigns/spring/rounds", json={"product": "tea", "k": 10**6})

    with ThreadPoolExecutor(1) as thread:  # a browser of another test may have a loop in this one
        refused = thread.submit(lambda: asyncio.run(ask_too_much())).result()
    app.state.campaigns.store.close()
    assert refused.status_code == 422
    assert "users are wanted" in refused.json()["detail"]
