"""A service without tokens behind a proxy that makes every request look like one of this machine."""

import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from campaign.worlds import small_campaign
from service.serving import FRESH, add_token, bearer, connected, read_to_end, serving, talk

API = "/api/v1"
CONFIGURATION = """
worker_processes 1;
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {server}
}}
"""
SERVER = "server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {service}; {more} }} }}"
DOCUMENTED = re.search("```nginx\n(.*?)```", Path("docs/service.md").read_text("utf-8"), re.DOTALL)


@pytest.fixture
def storage(tmp_path):
    url = f"sqlite:///{tmp_path}/c.db"
    small_campaign(url).disconnect()
    return url


@pytest.fixture
def proxied(tmp_path):
    """Starts nginx in front of a service, and stops it after the test; it replaces Host by the service's own."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed (Debian: apt install nginx)")
    running = []

    def start(service, server):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        file = tmp_path / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=tmp_path, server=server(port, service)))
        running.append(subprocess.Popen([program, "-p", tmp_path, "-e", tmp_path / "start.log", "-c", file]))
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in running:
        process.terminate()
        process.wait(timeout=30)


@pytest.mark.parametrize("more", ["", "proxy_http_version 1.1; proxy_set_header X-Forwarded-For $remote_addr;"])
def test_nginx_in_front_makes_nobody_admin(storage, proxied, more):
    def server(port, service):
        return SERVER.format(port=port, service=service, more=more)

    with serving(storage) as url, httpx.Client(base_url=proxied(url, server), timeout=60) as web:
        assert web.get("/healthz").status_code == 200
        refused = web.get(f"{API}/campaigns/spring")
        assert refused.status_code == 401
        assert refused.headers["content-type"] == "application/problem+json"
        assert "came through a proxy" in refused.json()["detail"]
        assert "tensorucb token add STORAGE NAME --role admin" in refused.json()["detail"]
        assert web.post(f"{API}/session", json={"token": "any"}).status_code == 401
        assert web.get(f"{API}/session").json()["login"]
        # Those on the machine itself go on without a token, until there is one.
        assert httpx.get(f"{url}{API}/campaigns/spring", timeout=60).status_code == 200
        headers = bearer(add_token(storage, "ann", "admin"))
        time.sleep(FRESH)
        assert web.get(f"{API}/campaigns/spring", headers=headers).status_code == 200


def documented(port, service):
    """The configuration of docs/service.md at this port, without encryption and with less patience."""
    text = (
        DOCUMENTED[1].replace("http://127.0.0.1:8000", service).replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    )
    return text.replace("15s", "1s").replace("rate=200r/s", "rate=20r/s").replace("burst=400", "burst=40")


def test_the_documented_proxy_passes_calls_and_stops_who_wastes_time(storage, proxied):
    token = add_token(storage, "ann", "admin")
    with serving(storage, hosts=("campaigns.example.org",)) as url:
        address = proxied(url, documented)
        headers = {"Authorization": f"Bearer {token}", "Host": "campaigns.example.org"}
        rounds = f"{API}/campaigns/spring/rounds"
        with httpx.Client(base_url=address, timeout=60, headers=headers) as web:
            ask = web.post(rounds, json={"product": "tea", "k": 2}).json()
            rows = [{"user": "person-001", "time": ask["opened"] + 1.0}]
            assert web.post(f"{rounds}/1/responses", json=rows).json()["accepted"] == 1
            assert web.post(f"{rounds}/1/close").json()["status"] == "closed"
            with web.stream("GET", f"{API}/campaigns/spring/live") as live:
                assert next(live.iter_lines()) == "event: changed"
            page = web.post(
                f"{API}/session", json={"token": token}, headers={"Origin": "https://campaigns.example.org"}
            )
            assert page.json()["role"] == "admin"
            assert web.post(f"{rounds}/1/responses", content=bytes(65 * 2**20)).status_code == 413
            assert web.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
            answers = [web.get("/healthz").status_code for _ in range(200)]
            assert (answers[0], 503 in answers) == (200, True)
        head = f"POST {rounds} HTTP/1.1\r\nHost: campaigns.example.org\r\nAuthorization: Bearer {token}\r\n"
        time.sleep(3.0)  # so that the address may send again
        for slow in (head, f'{head}Content-Type: application/json\r\nContent-Length: 26\r\n\r\n{{"product"'):
            with connected(address) as connection:
                connection.sendall(slow.encode())
                answer = read_to_end(connection)
            assert not answer or b" 408 " in answer.partition(b"\r\n")[0]
        with httpx.Client(base_url=url, timeout=60, headers=headers) as web:
            assert web.get(f"{API}/campaigns/spring").json()["rounds"] == 1


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Via", "X-Real-IP"]
)
def test_every_forwarding_header_demands_a_token(storage, header):
    with serving(storage) as url, httpx.Client(base_url=f"{url}{API}", timeout=60) as web:
        for method, path in (("GET", "/campaigns"), ("DELETE", "/campaigns/spring")):
            answer = web.request(method, path, headers={header: "198.51.100.7"})
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "tensorucb token add" in answer.json()["detail"]
        assert web.get("/session", headers={header: ""}).json()["role"] is None
        assert len(web.get("/campaigns", headers={"Viable": "yes"}).json()["items"]) == 1


def test_http_1_0_is_a_proxy(storage):
    with serving(storage) as url:
        host = url.removeprefix("http://")
        answer = talk(url, f"GET {API}/campaigns HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    assert b" 401 " in answer.partition(b"\r\n")[0]
    assert b"came through a proxy" in answer
