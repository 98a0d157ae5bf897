"""What a round was told, by edge number; and what that teaches: outcomes by edge, and credit for node events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._responses import Resolved
from tensorucb.campaign._round import Round
from tensorucb.graph import Graph
from tensorucb.store._protocol import EdgeResponses, NodeEvents

if TYPE_CHECKING:
    from tensorucb.store._session import Session


@dataclass(eq=False)
class Told:
    """What a round has been told so far; it never changes. Numbers and rows are of one revision of the network.

    ``edges`` and ``outcomes`` hold each edge of which an outcome was told, once; ``users`` and ``times`` say who acted
    (by graph row) and when. ``edge_amounts`` and ``amounts`` are what these responses were worth, NaN if not told.
    """

    n_edges: int
    edges: I64
    outcomes: F64
    edge_amounts: F64
    users: I64
    times: F64
    amounts: F64

    @classmethod
    def read(cls, session: Session, campaign: int, first: int, last: int, network: Network) -> dict[int, Told]:
        """What rounds ``first`` to ``last`` were told, from the store."""
        rounds = session.told(campaign, first, last)
        return {number: cls.of(told, acted, network) for number, (told, acted) in rounds.items()}

    @classmethod
    def of(cls, told: EdgeResponses, acted: NodeEvents, network: Network) -> Told:
        """The same of stored rows."""
        graph = network.graph
        edges = graph.edge_between(told.sources, told.targets)
        return cls(graph.n_edges, edges, told.outcomes, told.amounts, acted.users, acted.times, acted.amounts)

    @cached_property
    def standing(self) -> NDArray[np.int8]:
        """For each edge of the graph the outcome told, or -1."""
        standing = np.full(self.n_edges, -1, dtype=np.int8)
        standing[self.edges] = self.outcomes.astype(np.int8)
        return standing

    @cached_property
    def actions(self) -> dict[tuple[int, float], float]:
        """Who (by row) acted when, and what that was worth."""
        moments = zip(self.users.tolist(), self.times.tolist(), strict=True)
        return dict(zip(moments, self.amounts.tolist(), strict=True))

    def plus(self, new: Resolved) -> Told:
        """The same with more outcomes and actions, once they are durable."""
        edges, nodes = new.edges, new.nodes
        rows = Told(0, new.numbers, edges.outcomes, edges.amounts, new.users, nodes.times, nodes.amounts)
        told = Told(
            self.n_edges,
            np.concatenate([self.edges, rows.edges]),
            np.concatenate([self.outcomes, rows.outcomes]),
            np.concatenate([self.edge_amounts, rows.edge_amounts]),
            np.concatenate([self.users, rows.users]),
            np.concatenate([self.times, rows.times]),
            np.concatenate([self.amounts, rows.amounts]),
        )
        told.standing = self.standing.copy()
        told.standing[rows.edges] = rows.outcomes.astype(np.int8)
        told.actions = {**self.actions, **rows.actions}
        return told


def learned(network: Network, record: Round, told: Told, probabilities: Callable[[], F64]) -> tuple[I64, F64]:
    """Edges and outcomes that a closed round teaches, in graph order.

    All out-edges of the contacted users, silence being 0; of an imported round only the edges that were told. What
    was told of an edge and the credit from node events combine by maximum.
    """
    order = np.argsort(told.edges, kind="stable")
    told_edges, told_outcomes = told.edges[order], told.outcomes[order]
    if record.kind == "history":
        return told_edges, told_outcomes
    # An edge that joined later was not silent in this round, but may have been told.
    edges = network.edges_in_round(record.contacted, record.number, told_edges)
    outcomes = np.zeros(edges.size)
    if told.users.size:
        inside = record.in_window(told.times)
        acted = told.users[inside], told.times[inside]
        outcomes = credits(record.credit, network.graph, edges, *acted, record.opened, probabilities)
    held = np.isin(told_edges, edges)
    at = np.searchsorted(edges, told_edges[held])
    outcomes[at] = np.maximum(outcomes[at], told_outcomes[held])
    return edges, outcomes


def responded(network: Network, record: Round, told: Told) -> NDArray[np.bool_]:
    """Which users responded to a round, by graph row: the users whose number `Reach` forecasts.

    Followers of the contacted users, not contacted themselves, who acted within the window or have an edge with an
    outcome of 1.
    """
    graph, contacted = network.graph, record.contacted
    responders = np.zeros(graph.n_nodes, dtype=np.bool_)
    responders[graph.targets[told.edges[told.outcomes > 0.0]]] = True
    if told.users.size:
        follows = np.zeros(graph.n_nodes, dtype=np.bool_)
        follows[graph.targets[network.edges_in_round(contacted, record.number)]] = True
        rows = told.users[record.in_window(told.times)]
        responders[rows[follows[rows]]] = True
    responders[contacted] = False
    return responders


def amounts_of(network: Network, record: Round, told: Told) -> F64:
    """For each user what was told that their response to a round brought, NaN where nothing was told.

    Purchases within the window are added up. Several edges tell of the same response, so the largest of them counts.
    """
    graph = network.graph
    purchases = np.isfinite(told.amounts) & record.in_window(told.times)
    bought = np.bincount(told.users[purchases], weights=told.amounts[purchases], minlength=graph.n_nodes)
    amounts = np.full(graph.n_nodes, np.nan)
    amounts[told.users[purchases]] = bought[told.users[purchases]]
    by_edge = np.isfinite(told.edge_amounts) & (told.outcomes > 0.0)
    np.fmax.at(amounts, graph.targets[told.edges[by_edge]], told.edge_amounts[by_edge])
    return amounts


def base_values(network: Network, product_value: float | None) -> F64 | None:
    """What a response of each user is worth by the values of users and of the product; None if neither is given."""
    if product_value is None and network.values is None:
        return None
    users = np.ones(network.graph.n_nodes) if network.values is None else network.values
    return users * (1.0 if product_value is None else product_value)


def revenue_of(network: Network, record: Round, told: Told) -> F64:
    """For each user what a response to a round is worth: the amount told, or else what values say; NaN without both."""
    worth = amounts_of(network, record, told) if record.priced else np.full(network.graph.n_nodes, np.nan)
    base = base_values(network, record.value)
    return worth if base is None else np.where(np.isnan(worth), base, worth)


def credits(
    rule: str,
    graph: Graph,
    edges: I64,
    users: I64,
    times: F64,
    opened: float,
    probabilities: Callable[[], F64],
) -> F64:
    """The outcome of each of ``edges`` (ascending) as far as node events tell: ``users`` acted at ``times``.

    An edge i → j is eligible if i was contacted (``edges`` are the out-edges of those) and j acted; a user's first
    action counts. The rule ``any`` gives 1 to every eligible edge; ``last`` to the one whose source
    was the last to act before j (a source that did not act counts from when it was contacted), ties to the first edge;
    ``shared`` gives ``p_ij / (1 − Π(1 − p))`` over j's eligible edges, and only then asks for the probabilities.
    """
    credit = np.zeros(edges.size)
    if not users.size:
        return credit
    first = np.full(graph.n_nodes, np.inf)
    np.minimum.at(first, users, times)
    hit = np.flatnonzero(np.isfinite(first[graph.targets[edges]]))
    if rule == "any":
        credit[hit] = 1.0
    elif rule == "shared":
        credit[hit] = _shares(graph.targets[edges[hit]], probabilities()[edges[hit]], graph.n_nodes)
    else:
        credit[_last(graph, edges, hit, first, users, times, opened)] = 1.0
    return credit


def _shares(targets: NDArray[np.int32], p: F64, n: int) -> F64:
    survive = np.ones(n)
    np.multiply.at(survive, targets, 1.0 - p)
    reached = 1.0 - survive[targets]
    # Where nothing was believed possible, all share alike.
    equal = 1.0 / np.bincount(targets, minlength=n)[targets]
    shares = np.divide(p, reached, out=equal, where=reached > 0.0)
    return np.asarray(np.minimum(shares, 1.0))


def _last(graph: Graph, edges: I64, hit: I64, first: F64, users: I64, times: F64, opened: float) -> I64:
    """Positions in ``edges`` of the one edge of each acting user whose source acted last."""
    sources, targets = graph.sources[edges[hit]], graph.targets[edges[hit]]
    order = np.lexsort((times, users))
    acted_users, acted_times = users[order], times[order]
    moment = np.full(hit.size, opened)
    starts = np.searchsorted(acted_users, sources, side="left")
    stops = np.searchsorted(acted_users, sources, side="right")
    for i in np.flatnonzero(stops > starts).tolist():
        before = int(np.searchsorted(acted_times[starts[i] : stops[i]], first[targets[i]], side="right"))
        if before:
            moment[i] = acted_times[starts[i] + before - 1]
    ranked = np.lexsort((np.arange(hit.size), -moment, targets))
    lead = np.diff(targets[ranked], prepend=-1) != 0
    positions: I64 = hit[ranked[lead]]
    return positions
