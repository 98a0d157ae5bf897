"""Small campaigns for the tests."""

from __future__ import annotations

import numpy as np

from tensorucb.campaign import create_campaign
from tensorucb.graph import Graph
from tensorucb.policies import LinUCB


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def small_graph(n: int = 30, edges: int = 150, seed: int = 0, strings: bool = True) -> Graph:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n, (4 * edges, 2))
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    pairs = pairs[np.sort(rng.choice(len(pairs), edges, replace=False))]
    names = np.array([f"person-{i:03d}" for i in range(n)]) if strings else np.arange(n)
    return Graph.from_edges(names[pairs[:, 0]], names[pairs[:, 1]], nodes=names)


def small_campaign(storage="memory://", *, name="spring", policy=None, clock=None, graph=None, **settings):
    graph = small_graph() if graph is None else graph
    users = np.random.default_rng(1).normal(size=(graph.n_nodes, 3))
    defaults = {
        "users": users,
        "objective": "direct",
        "products": {"tea": [1.0, 0.0], "soap": [0.0, 1.0]},
        "snapshot_every": 3,
    }
    return create_campaign(
        name,
        graph=graph,
        policy=LinUCB() if policy is None else policy,
        storage=storage,
        clock=clock or Clock(),
        **{**defaults, **settings},
    )


def out_pairs(campaign, users):
    """(source, target) ids of all out-edges of these users, in graph order."""
    graph = campaign.graph
    edges = graph.out_edges(np.sort(graph.rows(list(users))))
    return [(graph.ids[graph.sources[e]].item(), graph.ids[graph.targets[e]].item()) for e in edges.tolist()]


def answers(campaign, ask, every: int = 2):
    """Edge responses to an ask: every so-manieth edge says yes, the one after it no, the others are silent."""
    pairs = out_pairs(campaign, ask.contacted)
    return [{"source": s, "target": t, "outcome": int(i % every == 0)} for i, (s, t) in enumerate(pairs) if i % 3 < 2]
