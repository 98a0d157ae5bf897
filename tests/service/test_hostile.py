"""What an attacker sends: refused or shown harmlessly, and the service goes on."""

import gzip
import io
import random
import re
import socket
from contextlib import ExitStack

import httpx
import numpy as np
import polars as pl
import pytest

from campaign.worlds import small_campaign
from cli.commands import run
from service.serving import WEB, add_token, bearer, connected, read_to_end, serving, talk
from tensorucb.campaign import Campaign
from tensorucb.graph import Graph

API = "/api/v1"
SAFE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
SAFE_SOURCES = {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"}
SAFE_SOURCES |= {"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"}
NASTY = (
    "<script>alert(1)</script>",
    "Robert'); DROP TABLE tensorucb_campaign; --",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}${7*7}",
    "%s%n%x",
    "\u202egnp.exe",
    "=cmd|'/c calc'!A1",
    "../../etc/passwd",
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('hostile')}/c.db"
    small_campaign(url).disconnect()
    return url


@pytest.fixture(scope="module")
def url(storage):
    with serving(storage, max_body=64 * 1024) as url:
        yield url


def _refused(answer, status):
    """A refusal that says why, with all the safe headers and no banner."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == status
    assert found["detail"]
    assert found["request_id"] == answer.headers["x-request-id"]
    _safe(answer)
    return found["detail"]


def _safe(answer):
    for name, value in SAFE_HEADERS.items():
        assert answer.headers[name] == value
    assert set(answer.headers["content-security-policy"].split("; ")) >= SAFE_SOURCES
    assert "server" not in answer.headers


def _rounds(url):
    return WEB.get(f"{url}{API}/campaigns/spring").json()["rounds"]


# -- who is addressed, and by which page --


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "127.0.0.2",
        "[::1",
        "localhost:80:80",
        "localhost/..",
        "0",
        "2130706433",
        "<script>",
        "x" * 5000,
    ],
    ids=lambda host: host[:30],
)
def test_a_foreign_name_of_the_service_is_refused(url, host):
    for method, path in (("GET", "/"), ("GET", f"{API}/campaigns"), ("POST", f"{API}/session"), ("GET", "/healthz")):
        answer = WEB.request(method, f"{url}{path}", headers={"Host": host})
        assert answer.status_code == 400
        _safe(answer)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_are_fine(url, host):
    assert WEB.get(f"{url}/healthz", headers={"Host": host}).status_code == 200


def test_a_name_that_resolves_to_this_machine_gets_no_further(url):
    """DNS rebinding: to the browser the attacker's page and the service are the same origin."""
    port = url.rpartition(":")[2]
    headers = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"}
    before = _rounds(url)
    assert WEB.get(f"{url}{API}/campaigns/spring", headers=headers).status_code == 400
    body = {"product": "tea", "k": 1}
    assert WEB.post(f"{url}{API}/campaigns/spring/rounds", json=body, headers=headers).status_code == 400
    assert _rounds(url) == before


def test_another_name_is_allowed_on_purpose_and_then_needs_a_token(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    token = add_token(storage, "ann", "admin")
    run("token", "revoke", storage, "ann")
    with serving(storage, hosts=("ads.example",)) as url:
        answer = WEB.get(f"{url}{API}/campaigns/spring", headers={"Host": "ADS.example"})
        _refused(answer, 401)
        headers = {"Host": "ads.example", "Authorization": f"Bearer {token}"}
        _refused(WEB.get(f"{url}{API}/campaigns/spring", headers=headers), 401)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "file://", "{}.evil.example", "x"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
def test_the_page_of_another_site_may_nothing(url, origin, method):
    before = _rounds(url)
    answer = WEB.request(
        method,
        f"{url}{API}/campaigns/spring/rounds",
        headers={"Origin": origin.format(url), "Content-Type": "text/plain"},
        content=b'{"product": "tea", "k": 1}',
    )
    assert "may not use" in _refused(answer, 403)
    assert not any(name.startswith("access-control") for name in answer.headers)
    assert _rounds(url) == before


def test_a_request_that_a_browser_marks_as_foreign_is_refused(url):
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site}
        _refused(WEB.get(f"{url}{API}/campaigns/spring", headers=headers), 403)
        _refused(WEB.post(f"{url}{API}/session", json={"token": "x"}, headers=headers), 403)
        assert WEB.get(f"{url}/healthz", headers=headers).status_code == 200


def test_a_change_by_cookie_needs_an_origin(url):
    answer = WEB.delete(f"{url}{API}/session", headers={"Cookie": "tensorucb_session=a.1.b"})
    assert "Origin" in _refused(answer, 403)


# -- answers --


def test_every_answer_has_safe_headers(url, monkeypatch):
    _safe(WEB.get(f"{url}/healthz"))
    _refused(WEB.get(f"{url}/nowhere"), 404)
    _refused(WEB.get(f"{url}{API}/campaigns/none"), 404)
    _refused(WEB.patch(f"{url}{API}/campaigns/spring"), 405)
    _refused(WEB.post(f"{url}{API}/campaigns/spring/rounds", json={"k": -1}), 422)

    def broken(*_):
        raise ZeroDivisionError("person-001 at 10.0.0.1")

    monkeypatch.setattr(Campaign, "status", broken)
    detail = _refused(WEB.get(f"{url}{API}/campaigns/spring"), 500)
    assert "person-001" not in detail


def test_a_request_id_cannot_carry_anything(url):
    assert WEB.get(f"{url}/healthz", headers={"X-Request-ID": "job-7.a"}).headers["x-request-id"] == "job-7.a"
    for bad in ("<script>", "a b", "x" * 65, "a;b"):
        assert WEB.get(f"{url}/healthz", headers={"X-Request-ID": bad}).headers["x-request-id"] != bad


# -- bodies --


def _head(path, *lines):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


_ASK = f"{API}/campaigns/spring/rounds"


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(url):
    answer = talk(url, _head(_ASK, "Content-Type: application/json", "Content-Length: 65537"))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"at most 65,536 bytes; send it in parts" in answer
    assert b"connection: close" in answer.lower()
    assert talk(url, _head(_ASK, f"Content-Length: {'9' * 19}")).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "kind", ["application/json", "application/x-ndjson", "text/csv", "multipart/form-data; boundary=x"]
)
def test_a_body_without_a_length_is_counted(url, kind):
    before = _rounds(url)
    sent = 0

    def endless():
        nonlocal sent
        while sent < 50_000_000:
            sent += 8192
            yield b" " * 8192

    try:
        answer = WEB.post(f"{url}{_ASK}", content=endless(), headers={"Content-Type": kind})
    except httpx.TransportError:
        pass  # the service has closed the connection while we were writing
    else:
        assert answer.status_code in (413, 415, 422)
    assert sent < 10_000_000
    assert _rounds(url) == before


def test_a_truncated_body_changes_nothing(url):
    before = _rounds(url)
    body = b'{"product": "tea", "k": 1}'
    for kind in ("application/json", "text/csv", "application/x-ndjson"):
        with connected(url) as connection:
            connection.sendall(_head(_ASK, f"Content-Type: {kind}", "Content-Length: 1000") + body)
            connection.shutdown(socket.SHUT_WR)
            assert b" 201 " not in read_to_end(connection)
    with connected(url) as connection:
        connection.sendall(_head(_ASK, "Content-Type: application/json", "Transfer-Encoding: chunked"))
        connection.sendall(b"1a\r\n" + body)
    assert _rounds(url) == before


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: -1",),
        ("Content-Length: 1", "Content-Length: 2"),
        ("Content-Length: 1_0",),
        ("Transfer-Encoding: gzip",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
        ("Host: evil.example",),
        ("Bad Header: x",),
        ("X: \x00",),
    ],
    ids=str,
)
def test_a_malformed_head_is_refused(url, lines):
    answer = talk(url, _head(_ASK, *lines))
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert b"h11" not in answer.lower()
    assert b"uvicorn" not in answer.lower()


def test_a_request_cannot_be_smuggled_in_a_body(url):
    """Both a length and chunks: what stands behind the last chunk must not pass as another caller's request."""
    before = _rounds(url)
    inner = _head(_ASK, "Content-Type: application/json", "Content-Length: 26") + b'{"product": "tea", "k": 1}'
    outer = _head(f"{API}/session", "Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close")
    talk(url, outer + b"0\r\n\r\n" + inner)
    assert _rounds(url) == before


def test_a_compressed_body_is_not_opened(url):
    bomb = gzip.compress(bytes(40_000_000))
    assert len(bomb) < 64 * 1024
    for encoding in ("gzip", "br", "deflate", "zstd", "identity, gzip"):
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        _refused(WEB.post(f"{url}{_ASK}", content=bomb, headers=headers), 400)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b'{"product": "tea", "k": ' + b"9" * 30_000 + b"}",
        b'{"product": "tea", "k": NaN}',
        b'{"product": "tea", "k": 1e999}',
        b'{"product": "\\ud800", "k": 1}',
        b'{"product": "\\u0000", "k": 1}',
        b'{"product": "tea", "k": 1',
        b"\xff\xfe",
        b"",
        b"null",
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_strange_json_is_refused(url, body):
    answer = WEB.post(f"{url}{_ASK}", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text
    _refused(answer, answer.status_code)
    answer = WEB.post(f"{url}{API}/session", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)


# -- addresses and names --


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/static/../../../../etc/passwd",
        "/static/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/static/....//....//etc/passwd",
        "/static//etc/passwd",
        "/static/%00",
        "/static/..%5c..%5cwindows",
        "/static/%c0%ae%c0%ae/",
        "//etc/passwd",
        f"{API}/campaigns/..%2f..%2fetc%2fpasswd",
        f"{API}/campaigns/%00",
        f"{API}/campaigns/spring%00",
        f"{API}/campaigns/sqlite:%2f%2f%2fetc%2fpasswd",
        f"{API}/campaigns/spring/rounds/..%2f..%2f",
        f"{API}/campaigns/spring/rounds/%ed%a0%80",
        f"{API}/campaigns/spring/rounds/1'%20OR%20'1'='1",
        "http://evil.example/",
        "*",
        f"/{'a' * 60_000}",
        f"/{'a' * 2_000_000}",
    ],
    ids=lambda path: path[:50],
)
def test_no_path_leads_to_a_file_or_to_an_error_of_ours(url, path):
    answer = talk(url, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 422")), answer[:300]
    assert b"root:" not in answer
    assert b"content-security-policy" in answer.lower() or b"this is no request that the service takes" in answer


def test_names_and_ids_with_markup_or_sql_are_only_text(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    names = [name + str(i) for i in range(4) for name in NASTY]
    graph = Graph.from_edges(names, names[1:] + names[:1], nodes=names)
    users = np.random.default_rng(0).normal(size=(graph.n_nodes, 2))
    products = {name: [1.0, 0.0] for name in NASTY}
    small_campaign(storage, name="nasty", graph=graph, users=users, products=products).disconnect()
    with serving(storage) as url:
        place = f"{url}{API}/campaigns/nasty"
        for name in NASTY:
            opened = WEB.post(f"{place}/rounds", json={"product": name, "k": 3})
            assert opened.status_code == 201, opened.text
            assert opened.headers["content-type"] == "application/json"
            _safe(opened)
            assert WEB.get(f"{place}/products", params={"search": name}).json()["items"][0]["id"] == name
            # None of these is the name of a campaign, and the message quotes it as text.
            _refused(WEB.get(f"{url}{API}/campaigns/none", params={"search": name}), 404)
        assert WEB.get(f"{url}/readyz").status_code == 200


# -- floods --


def test_too_many_connections_are_told_so_and_the_service_goes_on(storage):
    with serving(storage, connections=20) as url:
        with ExitStack() as held:
            for _ in range(30):
                held.enter_context(connected(url))
            last = held.enter_context(connected(url))
            last.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_to_end(last).startswith(b"HTTP/1.1 503")
        assert WEB.get(f"{url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "flood",
    [b"X-A: " + b"a" * 200_000, b"\r\n".join(b"X-%d: a" % i for i in range(20_000)), b"Cookie: " + b"a=b; " * 40_000],
    ids=["one long", "many", "cookies"],
)
def test_a_flood_of_headers_is_refused(url, flood):
    with connected(url) as connection:
        try:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + flood + b"\r\n\r\n")
            answer = read_to_end(connection)
        except (ConnectionResetError, BrokenPipeError):
            answer = b""  # closed while we were still sending
    assert not answer or answer.startswith(b"HTTP/1.1 400")
    assert WEB.get(f"{url}/healthz").status_code == 200


# -- uploads and keys --


@pytest.fixture
def opened(storage):
    """A service with an open round, and where its responses go."""
    with serving(storage) as url:
        found = WEB.post(f"{url}{_ASK}", json={"product": "tea", "k": 2}).json()
        yield url, f"{url}{_ASK}/{found['id']}/responses"


_PARQUET = {"Content-Type": "application/vnd.apache.parquet"}


def _parquet(frame):
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd")
    return file.getvalue()


def _told(url):
    return float(re.search(r"^tensorucb_responses_told_total (\S+)$", WEB.get(f"{url}/metrics").text, re.MULTILINE)[1])


def test_damaged_parquet_is_refused(opened):
    url, place = opened
    whole = _parquet(pl.DataFrame({"source": ["person-001"] * 50, "target": ["person-002"] * 50, "outcome": [1] * 50}))
    rng = random.Random(0)
    pieces = [b"", b"PAR1", b"PAR1" * 4, whole[:-1], whole[: len(whole) // 2], whole + b"x"]
    for _ in range(8):
        changed = bytearray(whole)
        for _ in range(3):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        pieces.append(bytes(changed))
    for piece in pieces:
        answer = WEB.post(place, content=piece, headers=_PARQUET)
        assert answer.status_code in (200, 413, 422), answer.text
        assert "/tmp" not in answer.text
    assert WEB.get(f"{url}/readyz").status_code == 200


NO_ROWS = [
    ("text/csv", b"user\n" + b"=1+1\n"),
    ("text/csv", b"," * 50_000),
    ("text/csv", b'user,time\n"unclosed'),
    ("text/csv", b"\x00\x01\x02"),
    ("application/json", b'"/etc/passwd"'),
    ("application/json", b'{"path": "/etc/passwd"}'),
    ("application/json", b'["/etc/passwd"]'),
    ("application/json", b'[{"user": {"$ne": null}}]'),
    ("application/x-ndjson", b'{"user": "x"}\n[1]\n'),
    ("application/x-ndjson", b"file:///etc/passwd\n"),
    ("application/octet-stream", b"x"),
    ("", b"x"),
]


def test_rows_that_are_none_are_refused(opened):
    url, place = opened
    for kind, body in NO_ROWS:
        answer = WEB.post(place, content=body, headers={"Content-Type": kind})
        assert answer.status_code in (413, 415, 422), (kind, body, answer.text)
        _refused(answer, answer.status_code)
        assert "root:" not in answer.text
        assert "/tmp" not in answer.text
    assert _told(url) == 0


def test_a_truncated_upload_is_no_error_of_ours(opened):
    url, place = opened
    with connected(url) as connection:
        head = _head(place.removeprefix(url), "Content-Type: text/csv", "Content-Length: 1000")
        connection.sendall(head + b"user,time\nperson-001,1001\n")
        connection.shutdown(socket.SHUT_WR)
        read_to_end(connection)
    assert _told(url) == 0
    text = WEB.get(f"{url}/metrics").text
    assert re.search(r'route="\S*/responses",status="400"} 1.0', text)
    assert 'status="500"' not in text


def test_a_key_sent_again_does_nothing_twice_and_gives_nothing_away(tmp_path):
    storage = f"sqlite:///{tmp_path}/c.db"
    small_campaign(storage).disconnect()
    ann, bob = (bearer(add_token(storage, name, "operate")) for name in ("ann", "bob"))
    key = {"Idempotency-Key": "monday"}
    with serving(storage) as url:
        first = WEB.post(f"{url}{_ASK}", json={"product": "tea", "k": 2}, headers=ann | key)
        again = WEB.post(f"{url}{_ASK}", json={"product": "tea", "k": 2}, headers=ann | key)
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        other = WEB.post(f"{url}{_ASK}", json={"product": "tea", "k": 1}, headers=ann | key)
        assert "Idempotency-Key" in _refused(other, 422)
        # Without a token, a key that was overheard is worth nothing.
        _refused(WEB.post(f"{url}{_ASK}", json={"product": "tea", "k": 2}, headers=key), 401)
        _refused(WEB.post(f"{url}{_ASK}", json={"product": "soap", "k": 1}, headers=bob | key), 422)
