"""A service without tokens behind a proxy that makes every request look like one of this machine."""

import shutil
import socket
import subprocess
import time

import httpx
import pytest

from campaign.worlds import small_campaign
from service.serving import serving, talk
from tensorucb.service import _tokens
from tensorucb.service._tokens import add_token
from tensorucb.store import open_store

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
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass {service};
            {more}
        }}
    }}
}}
"""


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
        pytest.skip("nginx is not installed (Debian: apt install nginx-light)")
    running = []

    def start(service, more):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        file = tmp_path / "nginx.conf"
        file.write_text(CONFIGURATION.format(folder=tmp_path, port=port, service=service, more=more))
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
def test_nginx_in_front_makes_nobody_admin(storage, proxied, more, monkeypatch):
    monkeypatch.setattr(_tokens, "_FRESH", 0.0)
    with serving(storage) as url, httpx.Client(base_url=proxied(url, more), timeout=60) as web:
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
        with open_store(storage) as store:
            token = add_token(store, "ann", "admin")
        assert web.get(f"{API}/campaigns/spring", headers={"Authorization": f"Bearer {token}"}).status_code == 200


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
