"""What a round was told, by edge number; and what that teaches about the edges of those contacted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._credit import credits
from tensorucb.campaign._world import World
from tensorucb.store._protocol import EdgeResponses, NodeEvents, RoundRecord, Session


class Told:
    """What a round has been told so far. Numbers and rows are of one revision of the network.

    Attributes
    ----------
    edges, outcomes
        Numbers of the edges of which an outcome was told, each once, and the outcomes.
    users, times
        I64 of the users who acted, and when.
    """

    def __init__(self, edges: I64, outcomes: F64, users: I64, times: F64, n_edges: int) -> None:
        self.edges, self.outcomes, self.users, self.times = edges, outcomes, users, times
        self._n_edges = n_edges

    @classmethod
    def read(cls, session: Session, campaign: int, number: int, world: World) -> Told:
        """As the store has it; responses of users who are gone are left out."""
        told, acted = session.edge_responses(campaign, number), session.node_events(campaign, number)
        edges, outcomes = _numbered(world, told)
        return cls(edges, outcomes, world.rows(acted.users), _times(world, acted), world.graph.n_edges)

    @cached_property
    def standing(self) -> NDArray[np.int8]:
        """For each edge of the graph the outcome told, or -1."""
        standing = np.full(self._n_edges, -1, dtype=np.int8)
        standing[self.edges] = self.outcomes.astype(np.int8)
        return standing

    @cached_property
    def actions(self) -> set[tuple[int, float]]:
        """Who (by row) acted when."""
        return set(zip(self.users.tolist(), self.times.tolist(), strict=True))

    def add_edges(self, edges: I64, outcomes: F64) -> None:
        """Take in more outcomes, once they are durable."""
        self.standing[edges] = outcomes.astype(np.int8)
        self.edges, self.outcomes = np.concatenate([self.edges, edges]), np.concatenate([self.outcomes, outcomes])

    def add_actions(self, users: I64, times: F64) -> None:
        """Take in more actions, once they are durable."""
        self.actions.update(zip(users.tolist(), times.tolist(), strict=True))
        self.users, self.times = np.concatenate([self.users, users]), np.concatenate([self.times, times])

    def in_window(self, record: RoundRecord) -> NDArray[np.bool_]:
        """Which actions lie between the contact and the end of the round's window."""
        window = record.payload["window"]
        end = np.inf if window is None else record.opened + window
        return np.asarray((self.times >= record.opened) & (self.times <= end))


def _numbered(world: World, told: EdgeResponses) -> tuple[I64, F64]:
    if told.sources.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0)
    known = np.isin(told.sources, world.keys) & np.isin(told.targets, world.keys)
    edges = world.graph.edge_between(world.rows(told.sources[known]), world.rows(told.targets[known]))
    return edges[edges >= 0], told.outcomes[known][edges >= 0]


def _times(world: World, acted: NodeEvents) -> F64:
    return acted.times[np.isin(acted.users, world.keys)] if acted.users.size else acted.times


def learned(world: World, record: RoundRecord, told: Told, probabilities: Callable[[], F64]) -> tuple[I64, F64]:
    """Edges and outcomes that a closed round teaches, in graph order.

    All out-edges of the contacted users, silence being 0; of an imported round only the edges that were told. What
    was told of an edge and the credit from node events combine by maximum.
    """
    graph, payload = world.graph, record.payload
    order = np.argsort(told.edges, kind="stable")
    told_edges, told_outcomes = told.edges[order], told.outcomes[order]
    if payload["learn"] == "told":
        return told_edges, told_outcomes
    edges = graph.out_edges(np.sort(world.rows(payload["contacted"])))
    # An edge that joined later was not silent in this round, but may have been told.
    edges = edges[(world.born[edges] <= record.number) | np.isin(edges, told_edges)]
    outcomes = np.zeros(edges.size)
    if told.users.size:
        rule, window = payload["credit"], payload["window"]
        outcomes = credits(rule, graph, edges, told.users, told.times, record.opened, window, probabilities)
    held = told_edges[np.isin(told_edges, edges)]
    at = np.searchsorted(edges, held)
    outcomes[at] = np.maximum(outcomes[at], told_outcomes[np.isin(told_edges, edges)])
    return edges, outcomes


def responders(world: World, record: RoundRecord, told: Told) -> int:
    """How many users responded to a round: the number that `Reach` forecasts.

    Distinct followers of the contacted users, not contacted themselves, who acted within the window or have an edge
    with an outcome of 1.
    """
    graph = world.graph
    contacted = world.rows(record.payload["contacted"])
    responded = np.zeros(graph.n_nodes, dtype=np.bool_)
    responded[graph.targets[told.edges[told.outcomes > 0.0]]] = True
    if told.users.size:
        edges = graph.out_edges(np.sort(contacted))
        follows = np.zeros(graph.n_nodes, dtype=np.bool_)
        follows[graph.targets[edges[world.born[edges] <= record.number]]] = True
        rows = told.users[told.in_window(record)]
        responded[rows[follows[rows]]] = True
    responded[contacted] = False
    return int(np.count_nonzero(responded))
