"""A real server of the service on a free loopback port, in a thread of the test's process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from cli.commands import run_json
from tensorucb.service import ServiceSettings, create_app

# private: `run` ends only by a signal, which a thread never gets
from tensorucb.service._app import configured, listening_socket

WEB = httpx.Client(timeout=60.0)  # making one takes longer than a request
FRESH = 1.1  # seconds after which a running service knows that a token was made or revoked, with some to spare


@contextmanager
def serving(storage: str, engine: Any = None, **settings: Any) -> Iterator[str]:
    """The address of a service on this store; stopped at the end, as a signal would stop it."""
    chosen = ServiceSettings(storage, port=0, **settings)
    server = uvicorn.Server(configured(chosen, create_app(chosen, engine)))
    with listening_socket(chosen) as listening:
        # Clients can connect from now on; they are answered as soon as the app has started.
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=60)
            assert not thread.is_alive()


def add_token(storage: str, name: str, role: str) -> str:
    """A new token of the service on this store."""
    return run_json("token", "add", storage, name, "--role", role)["token"]


def bearer(token: str) -> dict[str, str]:
    """The header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def listed(client: httpx.Client, path: str, **query: Any) -> list[dict[str, Any]]:
    """All entries of a list, page after page."""
    found: list[dict[str, Any]] = []
    after = {}
    while True:
        page = client.get(path, params={**query, **after}).json()
        assert len(page["items"]) <= query.get("limit", 50)
        found += page["items"]
        if page["next"] is None:
            return found
        after = {"after": page["next"]}


def comes_true(found: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether something is so within a while."""
    end = time.monotonic() + seconds
    while not found():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def connected(url: str, timeout: float = 20.0) -> socket.socket:
    """A bare connection, for what no HTTP library would send."""
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=timeout)


def read_to_end(connection: socket.socket) -> bytes:
    """All that the server still says, until it closes; the connection's timeout is the bound."""
    found = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return found
        if not part:
            return found
        found += part


def talk(url: str, request: bytes) -> bytes:
    """The whole answer to bare bytes."""
    with connected(url) as connection:
        connection.sendall(request)
        return read_to_end(connection)
