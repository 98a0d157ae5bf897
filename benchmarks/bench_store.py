"""The SQLite store, against plain ``sqlite3`` with the same durability: single writes, bulk, and reading all back."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.hot_paths import measurement
from tensorucb.store import SQLStore, open_store
from tensorucb.store._protocol import Responses

_TABLE = """
CREATE TABLE response (
    round INTEGER, source INTEGER, target INTEGER, outcome REAL, time REAL, event_id TEXT,
    PRIMARY KEY (round, source, target)
) WITHOUT ROWID
"""


def _batch(size: int, event_ids: bool, first: int = 0) -> Responses:
    rng = np.random.default_rng(first)
    targets = np.arange(first, first + size)
    names = [f"event-{i:09d}" if event_ids else None for i in rng.permutation(targets)]
    outcomes = (rng.random(size) < 0.1).astype(float)
    nothing = np.full(size, np.nan)
    return Responses(targets % 50, targets, outcomes, rng.random(size), nothing, np.array(names, dtype=object))


def _plain(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(_TABLE)
    connection.execute("CREATE UNIQUE INDEX event ON response (event_id) WHERE event_id IS NOT NULL")
    return connection


def _plain_write(connection: sqlite3.Connection, number: int, rows: Responses) -> None:
    columns = [column.tolist() for column in (rows.sources, rows.targets, rows.outcomes, rows.times)]
    lines = zip([number] * len(columns[0]), *columns, rows.event_ids, strict=True)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO response VALUES (?, ?, ?, ?, ?, ?)", lines)
    connection.execute("COMMIT")


def _plain_read(connection: sqlite3.Connection, number: int) -> list[NDArray[np.float64]]:
    query = "SELECT source, target, outcome, time, event_id FROM response WHERE round = ? ORDER BY source, target"
    rows = connection.execute(query, (number,)).fetchall()
    return [np.array([row[i] for row in rows]) for i in range(4)]


def _write(store: SQLStore, campaign: int, number: int, rows: Responses) -> None:
    """As a campaign tells: an event in the log, and its responses."""
    with store.write() as session:
        seq = session.append_event(campaign, "tell", number, {"rows": len(rows.event_ids)}, 0.0)
        session.add_responses(campaign, number, rows, seq)


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _single(store: SQLStore, campaign: int, plain: sqlite3.Connection, repeats: int) -> list[dict[str, object]]:
    """Wall time, since the disk is what one waits for; the two take turns."""
    ours, theirs = [], []
    for i in range(repeats):
        rows = _batch(10, event_ids=False, first=10 * i)
        ours.append(1000 * _seconds(lambda rows=rows: _write(store, campaign, 0, rows)))
        theirs.append(1000 * _seconds(lambda rows=rows: _plain_write(plain, 0, rows)))
    return [
        measurement("store", f"one durable write of 10 responses, p{q}", a, b, "ms")
        for q in (50, 99)
        for a, b in [(float(np.percentile(ours, q)), float(np.percentile(theirs, q)))]
    ]


def _bulk(
    store: SQLStore, campaign: int, plain: sqlite3.Connection, first_round: int, rounds: int, size: int, event_ids: bool
) -> dict[str, object]:
    ours = theirs = 0.0
    for i in range(rounds):
        number = first_round + i
        rows = _batch(size, event_ids, first=number * size)
        ours += _seconds(lambda number=number, rows=rows: _write(store, campaign, number, rows))
        theirs += _seconds(lambda number=number, rows=rows: _plain_write(plain, number, rows))
    total = rounds * size
    what = f"durable bulk writes of {size:,} responses{', each with an event id' if event_ids else ''}"
    return measurement("store", what, total / ours, total / theirs, "responses/s")


def _reading(store: SQLStore, campaign: int, plain: sqlite3.Connection, numbers: range, size: int) -> dict[str, object]:
    def ours() -> None:
        with store.read() as view:
            for number in numbers:
                assert view.responses(campaign, number, number, event_ids=True)[number].size == size

    def theirs() -> None:
        for number in numbers:
            assert _plain_read(plain, number)[0].size == size

    a, b = _seconds(ours), _seconds(theirs)
    return measurement(
        "store", f"read {len(numbers) * size:,} responses of {len(numbers)} rounds as columns", a, b, "s"
    )


def run(quick: bool = False) -> list[dict[str, object]]:
    """Single and bulk writes on disk, and reading; the reference is a bare table without a log."""
    repeats, rounds, size = (50, 5, 2_000) if quick else (500, 100, 10_000)
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain(Path(folder) / "plain.db")
        with open_store(f"sqlite:///{folder}/store.db") as store:
            assert isinstance(store, SQLStore)
            with store.write() as session:
                campaign = session.insert_campaign("benchmark", {}, 0.0).campaign
            result = _single(store, campaign, plain, repeats)
            result.append(_bulk(store, campaign, plain, 1, rounds, size, event_ids=False))
            result.append(_reading(store, campaign, plain, range(1, rounds + 1), size))
            few = max(1, rounds // 10)
            result.append(_bulk(store, campaign, plain, rounds + 1, few, size, event_ids=True))
        plain.close()
    return result
