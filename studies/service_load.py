"""A service under load: many clients ask, tell and read at once, and afterwards the store is compared with the answers.

``python -m studies.service_load`` starts a server of its own on loopback with a campaign of 29,384 users and 371,722
edges, plays 50 clients for a minute and prints how long each kind of call took. Three planners open rounds and close
them, 27 systems tell what happened, 20 people read. Between two calls a client waits up to ``--think`` seconds. With
``--kills`` the server is ended by ``kill -9`` so many times and started again; clients notice nothing but a delay.

Whatever was acknowledged must be in the store, and nothing may be there twice: that is checked at the end.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tensorucb.campaign import create_campaign, load_campaign
from tensorucb.client import Client, RemoteCampaign
from tensorucb.data import Sandbox, flixster_like, make_sandbox

NAME, K = "load", 10
PLANNERS, TELLERS = 0.06, 0.54  # of the clients; the others read
_LONGEST = 600.0  # seconds, whatever is still missing
_KEPT_OPEN = 4  # rounds of a planner that take responses at a time


class Server:
    """``tensorucb serve`` in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, storage: str, *options: str) -> None:
        self._command = [sys.executable, "-m", "tensorucb", "serve", storage, "--log-level", "error", *options]
        self._port = "0"
        self.url = ""
        self.start()

    def start(self) -> None:
        """Start it, and wait until it says where it is."""
        command = [*self._command, "--port", self._port]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"http://[0-9.]+:([0-9]+)$", line.strip()):
                self.url, self._port = found[0], found[1]
                return
        raise RuntimeError(f"the server ended with code {self._process.wait()}")

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._ended()

    def stop(self) -> int:
        """End it as Ctrl-C does; returns its code."""
        self._process.terminate()
        return self._ended()

    def _ended(self) -> int:
        code = self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


@contextmanager
def serving(storage: str, *options: str) -> Iterator[Server]:
    """A server, stopped at the end."""
    server = Server(storage, *options)
    try:
        yield server
    finally:
        server.stop()


def make_campaign(storage: str, sandbox: Sandbox) -> None:
    """The campaign that is played."""
    products = dict(zip(sandbox.names, sandbox.products.tolist(), strict=True))
    create_campaign(NAME, graph=sandbox.graph, users=sandbox.users, products=products, storage=storage).disconnect()


@dataclass
class Acknowledged:
    """What clients were told that was done."""

    rounds: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # seeds by id
    closed: set[str] = field(default_factory=set)
    responses: dict[str, set[tuple[Any, Any]]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)


class Load:
    """Clients in threads; each has a connection of its own."""

    def __init__(self, url: str, sandbox: Sandbox, clients: int, think: float) -> None:
        self._url, self._sandbox, self._think = url, sandbox, think
        self.done = Acknowledged()
        self._open: list[str] = []
        self._lock, self._over = threading.Lock(), threading.Event()
        planners, tellers = max(1, round(PLANNERS * clients)), round(TELLERS * clients)
        plays = [*[self._plan] * planners, *[self._tell] * tellers, *[self._look] * (clients - planners - tellers)]
        self._threads = [threading.Thread(target=self._client, args=(play, i)) for i, play in enumerate(plays)]

    def run(self, server: Server, seconds: float, kills: int = 0, tells: int = 0) -> float:
        """Play so long, and on until so many tells were answered; the server is killed and started again meanwhile."""
        began = time.monotonic()
        for thread in self._threads:
            thread.start()
        for part in range(1, kills + 2):
            share = part / (kills + 1)
            self._wait(began, share * seconds, share * tells)
            if part <= kills:
                server.kill()
                server.start()
        self._over.set()
        for thread in self._threads:
            thread.join()
        return time.monotonic() - began

    def _wait(self, began: float, seconds: float, tells: float) -> None:
        while (passed := time.monotonic() - began) < _LONGEST:
            if passed >= seconds and len(self.done.seconds["tell"]) >= tells:
                return
            self._over.wait(0.05)

    def _client(self, play: Any, number: int) -> None:
        rng, mine = random.Random(number), list[str]()
        campaign = None
        with Client(self._url) as client:
            while not self._over.wait(rng.uniform(0.0, self._think)):
                try:
                    campaign = campaign or client.campaign(NAME)
                    play(campaign, rng, mine)
                except Exception as error:
                    with self._lock:
                        self.done.errors[f"{type(error).__name__}: {error}"] += 1

    def _timed(self, what: str, call: Any, *args: Any, **more: Any) -> Any:
        began = time.perf_counter()
        answer = call(*args, **more)
        with self._lock:
            self.done.seconds[what].append(time.perf_counter() - began)
        return answer

    def _plan(self, campaign: RemoteCampaign, rng: random.Random, mine: list[str]) -> None:
        ask = self._timed("ask", campaign.ask, rng.choice(self._sandbox.names), K)
        with self._lock:
            self.done.rounds[ask.id] = ask.seeds
            self._open.append(ask.id)
        mine.append(ask.id)
        if len(mine) > _KEPT_OPEN:
            old = mine.pop(0)
            with self._lock:
                self._open.remove(old)
            self._timed("close", campaign.close, old)
            with self._lock:
                self.done.closed.add(old)

    def _tell(self, campaign: RemoteCampaign, rng: random.Random, mine: list[str]) -> None:
        with self._lock:
            known = rng.choice(self._open) if self._open else None
            seeds = self.done.rounds[known] if known else ()
        if known is None:
            return
        graph, seed = self._sandbox.graph, rng.choice(seeds)
        edges = graph.out_edges(graph.rows([seed]))
        chosen = rng.sample(edges.tolist(), min(len(edges), rng.randint(1, 5)))
        targets = graph.ids[graph.targets[np.array(chosen)]].tolist()
        # The same edge has the same outcome whoever tells it, so that no row contradicts another.
        rows = [
            {"source": seed, "target": t, "outcome": (e * 7919) % 10 == 0} for e, t in zip(chosen, targets, strict=True)
        ]
        report = self._timed("tell", campaign.tell, known, rows)
        assert report.accepted + report.duplicates == len(rows), report
        with self._lock:
            self.done.responses[known].update((seed, target) for target in targets)

    def _look(self, campaign: RemoteCampaign, rng: random.Random, mine: list[str]) -> None:
        with self._lock:
            known = rng.choice(list(self.done.rounds)) if self.done.rounds else None
        what = rng.choice(("status", "progress", "round", "explain") if known else ("status",))
        calls = {"status": campaign.status, "progress": campaign.progress}
        if what in calls:
            self._timed(what, calls[what])
        else:
            self._timed(what, getattr(campaign, what), known)


def lost(storage: str, done: Acknowledged) -> list[str]:
    """What was acknowledged and is not in the store, or is there twice."""
    missing: list[str] = []
    with load_campaign(NAME, storage=storage) as campaign:
        known = {ask.id: ask for ask in campaign.rounds()}
        graph = campaign.graph
        with campaign.store.read() as session:
            number = session.campaign(NAME).campaign  # type: ignore[union-attr]
            name = session.users(number)
            for record in session.rounds(number):
                told = session.responses(number, record.number, record.number)[record.number].by_edge
                pairs = Counter(
                    (name[s], name[t]) for s, t in zip(told.sources.tolist(), told.targets.tolist(), strict=True)
                )
                missing += [
                    f"{record.id}: {pair} is lost" for pair in done.responses.get(record.id, set()) - set(pairs)
                ]
                missing += [f"{record.id}: {pair} is there {count} times" for pair, count in pairs.items() if count > 1]
        assert graph.n_nodes == len(name)
    missing += [f"round {each} is lost" for each in done.rounds if each not in known]
    missing += [
        f"round {each} has other seeds"
        for each, seeds in done.rounds.items()
        if each in known and known[each].seeds != seeds
    ]
    missing += [f"round {each} is {known[each].status}" for each in done.closed if known[each].status != "closed"]
    if not done.errors and len(known) != len(done.rounds):
        missing.append(f"{len(known)} rounds where {len(done.rounds)} were asked")
    return missing


def table(done: Acknowledged, seconds: float) -> list[str]:
    """A line per kind of call."""
    lines = [f"{'call':<10} {'number':>7} {'per s':>7} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}"]
    for what, times in sorted(done.seconds.items()):
        p50, p99 = np.percentile(times, [50, 99]) * 1e3
        lines.append(
            f"{what:<10} {len(times):>7,} {len(times) / seconds:>7.1f} {p50:>8.0f} {p99:>8.0f} {max(times) * 1e3:>8.0f}"
        )
    return lines


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--think", type=float, default=1.0)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a network of 300 users")
    parser.add_argument("--storage", help="an empty store, by default a new SQLite file")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    sandbox = make_sandbox(300, 3_000, 20, rng=0) if given.quick else flixster_like()
    with tempfile.TemporaryDirectory() as folder:
        storage = given.storage or f"sqlite:///{folder}/load.db"
        make_campaign(storage, sandbox)
        with serving(storage, "--workers", str(given.workers)) as server:
            load = Load(server.url, sandbox, given.clients, given.think)
            seconds = load.run(server, given.seconds, given.kills)
        done, size = load.done, sandbox.graph
        print(f"{size.n_nodes:,} users, {size.n_edges:,} edges; {given.clients} clients, {seconds:.0f} s")
        print("\n".join(table(done, seconds)))
        print(
            f"errors: {sum(done.errors.values())}",
            *(f"  {count} x {text}" for text, count in done.errors.items()),
            sep="\n",
        )
        gone = lost(storage, done)
        told = sum(map(len, done.responses.values()))
        print(
            f"acknowledged: {len(done.rounds)} rounds, {told:,} responses, {len(done.closed)} closed; lost: {len(gone)}"
        )
        print("\n".join(gone[:20]))


if __name__ == "__main__":
    main()
