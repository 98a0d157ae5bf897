"""``python -m benchmarks.service_calls [--storage URL] [--workers N]``: what calls take with eight clients at once.

A server of its own on loopback, with a campaign of 1,000 users. Eight clients, each a process with a connection of its
own, make one kind of call after the other: they ask whether the process is alive, which is what the framework alone
takes, read the campaign, tell a response that is new, and open rounds. Printed are calls per second, the server's CPU
milliseconds per call, and how long a client waits. A client sends bytes that were made before, and looks at nothing of
an answer but its status and its length, so that it takes little of the cores that it shares with the server.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from studies.service_load import NAME, make_campaign, serving
from tensorucb.data import Sandbox, make_sandbox

CLIENTS = 8
_ROUNDS = 8  # that each client tells
_WARM = 1.0  # seconds of calls that are not counted
_BASE = f"/api/v1/campaigns/{NAME}"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(map(cpu_seconds, map(int, children)))


def request(method: str, path: str, body: object = None) -> bytes:
    """The bytes of a request."""
    text = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def call(connection: socket.socket, sent: bytes) -> bytes:
    """The body of the answer to a request."""
    connection.sendall(sent)
    came = connection.recv(1 << 16)
    while b"\r\n\r\n" not in came:
        came += connection.recv(1 << 16)
    head, _, body = came.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(None, 1)[0])
    while len(body) < length:
        body += connection.recv(1 << 16)
    if not head.startswith(b"HTTP/1.1 2"):
        raise RuntimeError(f"{head[:40]!r}: {body[:300]!r}")
    return body


def play(address: tuple[str, int], requests: Sequence[bytes], first: int, until: float) -> list[float]:
    """Make calls until a moment, beginning with the first one of a list; how long each took."""
    took = list[float]()
    with socket.create_connection(address, timeout=120.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (began := time.monotonic()) < until:
            call(connection, requests[(first + len(took)) % len(requests)])
            took.append(time.monotonic() - began)
    return took


def calls(address: tuple[str, int], sandbox: Sandbox) -> dict[str, list[list[bytes]]]:
    """For each kind of call what each client sends."""
    graph = sandbox.graph
    asks = [request("POST", f"{_BASE}/rounds", {"product": name, "k": 10}) for name in sandbox.names]
    tells: list[list[bytes]] = [[] for _ in range(CLIENTS)]
    with socket.create_connection(address) as connection:
        for number in range(CLIENTS * _ROUNDS):
            asked = json.loads(call(connection, asks[0]))
            for edge in np.sort(graph.out_edges(graph.rows(asked["seeds"]))).tolist():
                ends = graph.ids[graph.sources[edge]].item(), graph.ids[graph.targets[edge]].item()
                row = {"source": ends[0], "target": ends[1], "outcome": edge % 2}
                tells[number % CLIENTS].append(request("POST", f"{_BASE}/rounds/{asked['id']}/responses", [row]))
    return {
        "alive": [[request("GET", "/healthz")]] * CLIENTS,
        "status": [[request("GET", _BASE)]] * CLIENTS,
        "tell": tells,
        "ask": [asks[at:] + asks[:at] for at in range(CLIENTS)],
    }


def main() -> None:
    """Call and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of call")
    parser.add_argument("--storage", help="an empty store, by default a new SQLite file")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    sandbox = make_sandbox(1_000, 12_000, 20, rng=0)
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(CLIENTS) as clients:
        storage = given.storage or f"sqlite:///{folder}/calls.db"
        make_campaign(storage, sandbox)
        with serving(storage, "--workers", str(given.workers)) as server:
            address = ("127.0.0.1", int(urlsplit(server.url).port or 0))
            for kind, requests in calls(address, sandbox).items():

                def run(firsts: Sequence[int], seconds: float, requests: list[list[bytes]] = requests) -> Any:
                    until = time.monotonic() + seconds
                    plays = [(address, *each, until) for each in zip(requests, firsts, strict=True)]
                    return clients.starmap(play, plays)

                warmed = run([0] * CLIENTS, _WARM)
                before = cpu_seconds(server.pid)
                began = time.monotonic()
                took = run([len(each) for each in warmed], given.seconds)
                passed = time.monotonic() - began
                spent = cpu_seconds(server.pid) - before
                number = sum(map(len, took))
                p50, p99 = np.percentile(np.concatenate(took), [50, 99]) * 1e3
                print(
                    f"{kind:<8} {number / passed:7.1f} per s {1e3 * spent / number:7.2f} ms CPU "
                    f"p50 {p50:6.1f} ms p99 {p99:6.1f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
