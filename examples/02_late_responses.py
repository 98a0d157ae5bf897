"""Responses that come late, twice, in part, out of order and as "who bought" only: the model ends up the same."""

from __future__ import annotations

import tempfile

import numpy as np

import tensorucb as tu
from tensorucb.data import make_sandbox
from tensorucb.diffusion import observe
from tensorucb.policies import LinUCB

DAY = 86_400.0


def new_campaign(sandbox, name: str, storage: str, clock):
    return tu.create_campaign(
        name,
        graph=sandbox.graph,
        users=sandbox.users,
        policy=LinUCB(),
        products=dict(zip(sandbox.names, sandbox.products.tolist(), strict=True)),
        objective="direct",
        credit="shared",
        window=7 * DAY,
        storage=storage,
        clock=clock,
    )


def main() -> None:
    sandbox = make_sandbox(n_users=200, n_edges=2000, n_products=10, rng=0)
    storage = f"sqlite:///{tempfile.mkdtemp()}/campaigns.db"
    now = [1_800_000_000.0]
    orderly = new_campaign(sandbox, "orderly", storage, lambda: now[0])
    messy = new_campaign(sandbox, "messy", storage, lambda: now[0])
    graph = sandbox.graph

    # The same three rounds in both, all open at once.
    asks = [(orderly.ask(name, 4), messy.ask(name, 4)) for name in sandbox.names[:3]]
    events = []
    for number, (ask, _) in enumerate(asks):
        rng = np.random.default_rng([7, number])
        edges, outcomes = observe(graph, sandbox.probabilities(number), graph.rows(list(ask.seeds)), rng=rng)
        buyers = np.unique(graph.targets[edges[outcomes > 0]])
        times = now[0] + rng.uniform(0, 6 * DAY, buyers.size)
        ids = graph.ids[buyers].tolist()
        # Node events: only who bought and when. Who persuaded them is shared by believed probability.
        events.append(
            [
                {"user": user, "time": time, "event_id": f"{number}-{user}"}
                for user, time in zip(ids, times.tolist(), strict=True)
            ]
        )

    for (ask, _), told in zip(asks, events, strict=True):
        orderly.tell(ask.id, told)
        orderly.close(ask.id)

    # The messy one: half of it, in reverse, twice; then the week ends and rounds close by themselves.
    for (_, ask), told in zip(reversed(asks), reversed(events), strict=True):
        half = told[::2]
        messy.tell(ask.id, half)
        print(f"again: {messy.tell(ask.id, list(reversed(half)))}")
    now[0] += 8 * DAY
    print(f"closed by their deadline: {messy.expire()}")
    print(f"the same model? {messy.model_hash() == orderly.model_hash()} (half of the responses are missing)")
    for (_, ask), told in zip(asks, events, strict=True):
        print(f"late: {messy.tell(ask.id, told)}")
    print(f"the same model? {messy.model_hash() == orderly.model_hash()}")

    # A contradiction is reported with both values; the first stands.
    source = asks[0][1].seeds[0]
    target = graph.ids[graph.targets[graph.out_edges(graph.rows([source]))[0]]].item()
    messy.tell(asks[0][1].id, [{"source": source, "target": target, "outcome": 1}])
    report = messy.tell(asks[0][1].id, [{"source": source, "target": target, "outcome": 0}])
    print(f"contradiction: {report.contradictions[0]}")
    # A row that names somebody unknown refuses its whole batch.
    try:
        messy.tell(asks[0][1].id, [{"source": source, "target": 123456, "outcome": 1}])
    except ValueError as error:
        print(f"refused: {error}")


if __name__ == "__main__":
    main()
