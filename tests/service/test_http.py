"""What a bare connection sees: heads that are no HTTP to us, and several requests at once."""

import json

import pytest

from service.conftest import API
from service.serving import connected, read_to_end, talk

LEAST, MOST = (
    1 << 16,
    1 << 25,
)  # bytes of a head without an end: it is refused, but buffers of the system lie in between


@pytest.fixture(scope="module")
def url(shared):
    return str(shared.base_url).removesuffix("/").removesuffix(API)


def _head(*lines):
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize(
    "lines",
    [
        ("GET /healthz HTTP/1.1",),
        ("GET /healthz HTTP/1.1", "Host: localhost", "Host: localhost"),
        ("GET /healthz HTTP/1.0", "Host: localhost", "Host: localhost"),
        ("GET http://localhost/healthz HTTP/1.1", "Host: localhost"),
        ("CONNECT localhost:80 HTTP/1.1", "Host: localhost"),
        ("BREW /healthz HTTP/1.1", "Host: localhost"),
        ("GET healthz HTTP/1.1", "Host: localhost"),
        ("GET /healthz HTTP/1.1", "Host: localhost", f"X: {'a' * 60_000}", f"Y: {'b' * 10_000}"),
    ],
    ids=lambda lines: " ".join(lines)[:60],
)
def test_a_head_that_is_not_for_us_is_refused_as_everything_else_is(url, lines):
    head, _, body = talk(url, _head(*lines)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"content-type: application/problem+json" in head
    assert f"content-length: {len(body)}".encode() in head
    refused = json.loads(body)
    assert (refused["status"], refused["title"]) == (400, "Bad Request")
    assert "65,536 bytes" in refused["detail"]


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        (b"GET /", b"a" * 10_000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 10_000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X: a\r\n" * 2_000),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n" * 2_000),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"a" * 10_000),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 10_000),
    ],
    ids=["path", "header", "headers", "trailers", "trailer", "extension"],
)
def test_a_head_without_an_end_is_cut_off(url, first, piece):
    sent = 0
    with connected(url) as connection:
        try:
            connection.sendall(first)
            while sent < MOST:
                connection.sendall(piece)
                sent += len(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass
    assert sent < MOST


def test_a_long_body_in_small_chunks_is_no_endless_head(url):
    text = json.dumps({"product": "tea", "k": 0, "note": "x" * 100_000}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in text)
    request = _head(
        f"POST {API}/campaigns/spring/rounds HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
        "Connection: close",
    )
    assert len(chunks) > LEAST
    assert talk(url, request + chunks + b"0\r\n\r\n").startswith(b"HTTP/1.1 422")


def test_several_requests_at_once_are_answered_in_their_order(url):
    paths = ["/healthz", f"{API}/campaigns/spring", "/nowhere", "/healthz"]
    heads = [_head(f"GET {path} HTTP/1.1", "Host: localhost") for path in paths[:-1]]
    heads.append(_head(f"GET {paths[-1]} HTTP/1.1", "Host: localhost", "Connection: close"))
    answers = talk(url, b"".join(heads)).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200", b"200", b"404", b"200"]
    assert b"spring" in answers[1]


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_a_wish_for_another_protocol_is_overlooked(url, protocol):
    lines = "GET /healthz HTTP/1.1", "Host: localhost", "Connection: Upgrade, close", f"Upgrade: {protocol}"
    assert talk(url, _head(*lines)).startswith(b"HTTP/1.1 200")


def test_a_client_that_waits_to_be_told_so_sends_its_body(url):
    body = b'{"product": "tea", "k": 0}'
    with connected(url) as connection:
        head = _head(
            f"POST {API}/campaigns/spring/rounds HTTP/1.1",
            "Host: localhost",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Expect: 100-continue",
            "Connection: close",
        )
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100")
        connection.sendall(body)
        assert read_to_end(connection).startswith(b"HTTP/1.1 422")


def test_head_is_answered_as_get_without_the_body(url):
    lines = "Host: localhost", "Connection: close"
    got = talk(url, _head("GET /healthz HTTP/1.1", *lines))
    head = talk(url, _head("HEAD /healthz HTTP/1.1", *lines))
    assert got.partition(b"\r\n\r\n")[2]
    assert head.endswith(b"\r\n\r\n")
    assert b"content-length: 18" in got.lower()
    assert b"content-length: 18" in head.lower()
