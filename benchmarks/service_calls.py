"""``python -m benchmarks.service_calls [--storage URL] [--workers N]``: what calls take with eight clients at once.

A server of its own on loopback, with a campaign of 1,000 users. Eight clients, each with a connection of its own, make
one kind of call after the other: they ask whether the process is alive, which is what the framework alone takes, read
the campaign, tell responses, and open rounds. Printed are calls per second, the server's CPU milliseconds per call, and
how long a client waits.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from studies.service_load import NAME, make_campaign, serving
from tensorucb.data import make_sandbox

CLIENTS, ROUNDS = 8, 8
_BASE = f"/api/v1/campaigns/{NAME}"
_JSON = {"Content-Type": "application/json"}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(map(cpu_seconds, map(int, children)))


class Caller:
    """Clients that make one kind of call as often as they can."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def call(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> Any:
        """The answer's JSON."""
        connection.request(method, path, None if body is None else json.dumps(body), _JSON)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{answer.status}: {text[:300]!r}")
        return json.loads(text)

    def connection(self) -> http.client.HTTPConnection:
        """A new connection, kept alive."""
        return http.client.HTTPConnection(self._address, timeout=120.0)

    def run(self, seconds: float, work: Any) -> list[float]:
        """Let all clients call ``work(connection, client, number)`` for so long; how long each call took."""
        over, took = time.monotonic() + seconds, list[float]()

        def client(number: int) -> None:
            connection = self.connection()
            for at in itertools.count():
                began = time.monotonic()
                if began > over:
                    return
                work(connection, number, at)
                took.append(time.monotonic() - began)

        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return took


def main() -> None:
    """Call and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of call")
    parser.add_argument("--storage", help="an empty store, by default a new SQLite file")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    sandbox = make_sandbox(1_000, 12_000, 20, rng=0)
    graph = sandbox.graph
    with tempfile.TemporaryDirectory() as folder:
        storage = given.storage or f"sqlite:///{folder}/calls.db"
        make_campaign(storage, sandbox)
        with serving(storage, "--workers", str(given.workers)) as server:
            caller = Caller(server.url)
            first = caller.connection()
            question = {"product": sandbox.names[0], "k": 10}
            rounds = [caller.call(first, "POST", f"{_BASE}/rounds", question) for _ in range(ROUNDS)]
            edges = [np.sort(graph.out_edges(graph.rows(each["seeds"]))) for each in rounds]

            def alive(connection: Any, client: int, at: int) -> None:
                caller.call(connection, "GET", "/healthz")

            def status(connection: Any, client: int, at: int) -> None:
                caller.call(connection, "GET", _BASE)

            def tell(connection: Any, client: int, at: int) -> None:
                mine = rounds[client]
                edge = int(edges[client][at % len(edges[client])])
                ends = graph.ids[graph.sources[edge]].item(), graph.ids[graph.targets[edge]].item()
                row = {"source": ends[0], "target": ends[1], "outcome": edge % 2}
                caller.call(connection, "POST", f"{_BASE}/rounds/{mine['id']}/responses", [row])

            def ask(connection: Any, client: int, at: int) -> None:
                product = sandbox.names[(client + at) % len(sandbox.names)]
                caller.call(connection, "POST", f"{_BASE}/rounds", {"product": product, "k": 10})

            for name, work in (("alive", alive), ("status", status), ("tell", tell), ("ask", ask)):
                caller.run(1.0, work)
                before, began = cpu_seconds(server.pid), time.monotonic()
                took = caller.run(given.seconds, work)
                passed, spent = time.monotonic() - began, cpu_seconds(server.pid) - before
                p50, p99 = np.percentile(took, [50, 99]) * 1e3
                print(
                    f"{name:<8} {len(took) / passed:7.1f} per s {1e3 * spent / len(took):7.2f} ms CPU "
                    f"p50 {p50:6.1f} ms p99 {p99:6.1f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
