"""``python -m benchmarks.database_size [--rounds N]``: how large the database of a long campaign is, and what fills it.

A campaign on 15,000 users and 63,000 edges asks for ten users, is told a response for each edge of theirs, and closes
the round, again and again. At the end the bytes of the file are counted by table and index, and those of the blobs by
their kind.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from tensorucb.campaign import create_campaign
from tensorucb.data import make_sandbox
from tensorucb.diffusion import observe

USERS = 15_000
EDGES = 63_000
PRODUCTS = 20
K = 10


def play(storage: str, rounds: int) -> None:
    """The campaign: every round is asked, told and closed."""
    sandbox = make_sandbox(USERS, EDGES, PRODUCTS, rng=0)
    graph, rng = sandbox.graph, np.random.default_rng(0)
    products = dict(zip(sandbox.names, sandbox.products.tolist(), strict=True))
    with create_campaign("long", graph=graph, users=sandbox.users, products=products, storage=storage) as campaign:
        for number in range(rounds):
            at = number % PRODUCTS
            ask = campaign.ask(sandbox.names[at], K)
            edges, outcomes = observe(graph, sandbox.probabilities(at), graph.rows(list(ask.seeds)), rng=rng)
            sources = graph.ids[graph.sources[edges]]
            targets = graph.ids[graph.targets[edges]]
            campaign.tell(ask.id, {"source": sources, "target": targets, "outcome": outcomes})
            campaign.close(ask.id)


def sizes(path: Path) -> dict[str, int]:
    """Bytes by table and index, and of blobs by kind."""
    connection = sqlite3.connect(path)
    pages = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING sum(pgsize) > 10000 ORDER BY 2 DESC"
    try:
        found = dict(connection.execute(pages))
    except sqlite3.OperationalError:  # this SQLite counts no pages
        found = {}
    kinds = connection.execute(
        "SELECT substr(name, 1, instr(name || '-', '-') - 1), sum(length(data)) FROM tensorucb_blob GROUP BY 1"
    )
    found |= {f"blobs: {kind}": size for kind, size in kinds if size > 1000}
    connection.close()
    return found


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, began = Path(folder) / "long.db", time.process_time()
        play(f"sqlite:///{path}", given.rounds)
        seconds = time.process_time() - began
        print(f"{given.rounds:,} rounds, {path.stat().st_size / 1e6:.1f} MB, {seconds:.0f} s of CPU")
        for name, size in sizes(path).items():
            print(f"{size / 1e6:>8.2f} MB  {name}")


if __name__ == "__main__":
    main()
