"""What a service holds in memory when it has 50 campaigns in use: ``python -m studies.service_memory``.

Each campaign has 5,000 users and 60,000 edges. Every one is asked, told, closed, and looked at in all the ways in which
the page does; then the memory of the server's process is read from the system.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from studies.service_load import Server, serving
from tensorucb.campaign import create_campaign
from tensorucb.client import Client
from tensorucb.data import make_sandbox


def resident(server: Server) -> float:
    """Memory of the server's process in MB."""
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return float(line.split()[1]) / 1024.0
    raise RuntimeError("the system does not tell the memory of a process")


def main() -> None:
    """Play and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--campaigns", type=int, default=50)
    campaigns = parser.parse_args().campaigns
    sandbox = make_sandbox(5_000, 60_000, 5, rng=0)
    products = dict(zip(sandbox.names, sandbox.products.tolist(), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        storage = f"sqlite:///{folder}/campaigns.db"
        for number in range(campaigns):
            made = create_campaign(
                f"campaign-{number}", graph=sandbox.graph, users=sandbox.users, products=products, storage=storage
            )
            made.disconnect()
        with serving(storage) as server, Client(server.url) as client:
            before = resident(server)
            for number in range(campaigns):
                campaign = client.campaign(f"campaign-{number}")
                ask = campaign.ask(sandbox.names[0], 10)
                follower = sandbox.graph.targets[sandbox.graph.out_edges(sandbox.graph.rows([ask.seeds[0]]))[0]]
                row = {"source": ask.seeds[0], "target": sandbox.graph.ids[follower].item(), "outcome": 1}
                campaign.tell(ask.id, [row])
                campaign.close(ask.id)
                campaign.progress()
                campaign.rounds()
                campaign.explain(ask.id)
            after = resident(server)
    print(f"{campaigns} campaigns: {before:,.0f} MB at the start, {after:,.0f} MB in use, ", end="")
    print(f"{(after - before) / campaigns:,.1f} MB per campaign")


if __name__ == "__main__":
    main()
