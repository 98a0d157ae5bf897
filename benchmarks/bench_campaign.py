"""Campaigns on SQLite: replay, durable tells in bulk and one by one, each beside the bare minimum in the same run.

The references: the policy alone fed from memory, and plain ``sqlite3`` with the same durability writing the same rows.
Wall time where the disk takes part.
"""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from tensorucb.campaign import Campaign
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB, Policy, TensorUCB
from tensorucb.store.campaigns import create_campaign

_DEGREE = 100
_CONTACTED = 50


def _network(users: int) -> Graph:
    rng = np.random.default_rng(0)
    targets = np.concatenate([rng.choice(users - 1, _DEGREE, replace=False) for _ in range(users)])
    sources = np.repeat(np.arange(users), _DEGREE)
    return Graph.from_edges(sources, np.where(targets >= sources, targets + 1, targets), nodes=np.arange(users))


def _campaign(folder: str, name: str, graph: Graph, policy: Policy) -> Campaign:
    rng = np.random.default_rng(1)
    return create_campaign(
        name,
        graph=graph,
        users=rng.normal(size=(graph.n_nodes, 10)) / 3,
        policy=policy,
        storage=f"sqlite:///{folder}/{name}.db",
        objective="direct",
    )


def _product(number: int) -> np.ndarray:
    return np.random.default_rng([2, number]).dirichlet(np.full(10, 0.3))


def _responses(graph: Graph, users: np.ndarray, number: int) -> pl.DataFrame:
    edges = graph.out_edges(np.sort(users))
    outcomes = (np.random.default_rng([3, number]).random(edges.size) < 0.05).astype(np.int64)
    return pl.DataFrame({"source": graph.sources[edges], "target": graph.targets[edges], "outcome": outcomes})


def _filled(campaign: Campaign, rounds: int) -> tuple[float, list[tuple[np.ndarray, pl.DataFrame]]]:
    """Rounds with every follower's answer; seconds spent in tell, and what was told."""
    graph, told, spent = campaign.graph, [], 0.0
    rng = np.random.default_rng(4)
    for number in range(rounds):
        users = rng.choice(graph.n_nodes, _CONTACTED, replace=False)
        ask = campaign.ask(_product(number), 1, shadow=users)
        frame = _responses(graph, users, number)
        started = time.perf_counter()
        campaign.tell(ask.id, frame)
        spent += time.perf_counter() - started
        told.append((_product(number), frame))
        _close_without_learning(campaign, ask.id)
    return spent, told


def _close_without_learning(campaign: Campaign, round_id: str) -> None:
    with campaign.store.write() as session:
        campaign._ledger.refresh(session)
        campaign._finish(session, campaign._found(session, round_id), "closed", time.time())


_TABLE = """CREATE TABLE r (c, n, s, t, y, time, e, q, PRIMARY KEY (c, n, s, t)) WITHOUT ROWID"""


def _plain(folder: str) -> sqlite3.Connection:
    connection = sqlite3.connect(Path(folder) / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)
    return connection


def _insert(connection: sqlite3.Connection, number: int, rows: list[tuple[int, int, int]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    lines = [(1, number, s, t, y, None, None, number) for s, t, y in rows]
    connection.executemany("INSERT INTO r VALUES (?, ?, ?, ?, ?, ?, ?, ?)", lines)
    connection.execute("COMMIT")


def _replay(name: str, policy: Policy, graph: Graph, rounds: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        with _campaign(folder, "replay", graph, LinUCB()) as writer:
            spent, told = _filled(writer, rounds)
            rows = sum(frame.height for _, frame in told)
            plain = _plain(folder)
            started = time.perf_counter()
            for number, (_, frame) in enumerate(told):
                _insert(plain, number, frame.rows())
            bare = time.perf_counter() - started
            plain.close()
        results: list[dict[str, object]] = [_row("tell in bulk, durable", rows / spent, rows / bare, "responses/s")]
        results[-1]["ratio"] = bare / spent
        results.append(_replayed(folder, name, policy, graph, told, rows))
    return results


def _replayed(
    folder: str, name: str, policy: Policy, graph: Graph, told: list[tuple[np.ndarray, pl.DataFrame]], rows: int
) -> dict[str, object]:
    from tensorucb.campaign._policy import policy_spec
    from tensorucb.store import open_store

    with open_store(f"sqlite:///{folder}/replay.db") as store:
        # The same log, learned by the policy in question.
        with store.write() as session:
            record = session.campaign("replay")
            assert record is not None
        campaign = Campaign(store, "replay")
        campaign._record = type(record)(
            record.campaign, record.name, {**record.settings, "policy": policy_spec(policy)}, record.created
        )
        campaign._model = campaign._fresh_model()
        started = time.process_time()
        campaign.replay_hash()
        ours = time.process_time() - started
        users = campaign._world.users if campaign._world is not None else None
    policy.bind(graph, users, np.random.default_rng([0, 0]))
    started = time.process_time()
    for product, frame in told:
        edges = graph.edge_between(frame["source"].to_numpy(), frame["target"].to_numpy())
        policy.update(product, edges, frame["outcome"].to_numpy())
    return _row(f"replay of {rows:,} responses, {name}", ours, time.process_time() - started, "s")


def _single(graph: Graph, tells: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, _campaign(folder, "single", graph, LinUCB()) as campaign:
        users = np.arange(_CONTACTED)
        ask = campaign.ask(_product(0), 1, shadow=users)
        campaign.tell(ask.id, _responses(graph, users, 0).tail(1))  # kernels are loaded on first use
        rows = _responses(graph, users, 0).head(tells).rows()
        ours = []
        for s, t, y in rows:
            started = time.perf_counter()
            campaign.tell(ask.id, [{"source": s, "target": t, "outcome": y}])
            ours.append(time.perf_counter() - started)
        plain, bare = _plain(folder), []
        for number, row in enumerate(rows):
            started = time.perf_counter()
            _insert(plain, number, [row])
            bare.append(time.perf_counter() - started)
        plain.close()
    return _row("one tell, 99th percentile", _percentile(ours), _percentile(bare), "ms")


def _percentile(seconds: list[float]) -> float:
    return 1000 * statistics.quantiles(seconds, n=100)[98]


def _row(what: str, ours: float, reference: float, unit: str) -> dict[str, object]:
    return {
        "room": "campaign",
        "what": what,
        "ours": ours,
        "reference": reference,
        "ratio": reference / ours,
        "unit": unit,
    }


def run(quick: bool = False) -> list[dict[str, object]]:
    """All measurements; ``quick``: a hundredth of the responses."""
    graph = _network(200 if quick else 2000)
    rounds = 2 if quick else 200
    rows = _replay("TensorUCB", TensorUCB(), graph, rounds)
    return [*rows, _single(graph, 50 if quick else 500)]
