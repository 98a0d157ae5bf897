"""What a round was told, each response once; and what that teaches: outcomes by edge, credit for those who acted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._network import Network
from tensorucb.campaign._round import Round
from tensorucb.graph import Graph
from tensorucb.store._protocol import NOBODY, Responses

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View

T = TypeVar("T")


def keys(rows: Responses) -> NDArray[np.complex128]:
    """What makes a row the same response again: its edge; or who acted, and when.

    Complex numbers are sorted by their real part, and then by the imaginary one.
    """
    acted = rows.sources == NOBODY
    made = np.zeros(rows.size, dtype=np.complex128)
    made.real = np.where(acted, -1 - rows.targets, rows.sources)
    made.imag = np.where(acted, rows.times, rows.targets)
    return made


def each_once(rows: Responses) -> Responses:
    """What a round was told, in the order of `keys`: of each response the first row, and the first amount that came."""
    first, order = first_of(keys(rows))
    amounts = rows.amounts.copy()
    priced = np.flatnonzero(np.isfinite(amounts))[::-1]  # so that the first is written last
    amounts[first[priced]] = amounts[priced]
    return replace(rows, amounts=amounts).take(order[first[order] == order])


def first_of(keys: NDArray[Any]) -> tuple[I64, I64]:
    """For each key the place of the first that is equal to it; and the places of all keys, sorted."""
    # Keys are nearly in order, and then this takes a hundredth of the time of np.unique.
    order = np.argsort(keys, kind="stable")
    leads = np.ones(order.size, dtype=np.bool_)
    leads[1:] = keys[order[1:]] != keys[order[:-1]]
    first = np.empty_like(order)
    first[order] = order[leads][np.cumsum(leads) - 1]
    return first, order


def told_edges(network: Network, told: Responses) -> I64:
    """The numbers of the edges that were told of."""
    return network.graph.edge_between(told.by_edge.sources, told.by_edge.targets)


def learned(network: Network, record: Round, told: Responses, probabilities: Callable[[], F64]) -> tuple[I64, F64]:
    """Edges and outcomes that a closed round teaches, in graph order.

    All out-edges of the contacted users, silence being 0; of an imported round only the edges that were told. What
    was told of an edge and the credit from node events combine by maximum.
    """
    named = told_edges(network, told)
    if record.kind == "history":
        return named, told.by_edge.outcomes
    # An edge that joined later was not silent in this round, but may have been told.
    edges = network.edges_in_round(record.contacted, record.number, named)
    acted = acted_in_window(record, told)
    outcomes = credits(record.credit, network.graph, edges, acted.targets, acted.times, record.opened, probabilities)
    held = np.isin(named, edges)
    at = np.searchsorted(edges, named[held])
    outcomes[at] = np.maximum(outcomes[at], told.by_edge.outcomes[held])
    return edges, outcomes


def acted_in_window(record: Round, told: Responses) -> Responses:
    """Those who acted between the contact and the end of the window; other actions count for nothing."""
    return told.actions.take(record.in_window(told.actions.times))


def of_rounds(view: View, kind: str, records: Iterable[Round], count: Callable[[View, Round], T]) -> list[T]:
    """What a function says of rounds by what they were told; it is called only for those that have changed."""
    held = view.memory.get(kind, None) or {}
    tag, revision = view.ledger.told_tag, view.network.revision
    keys = {(record.number, record.revision, tag(record.number), revision): record for record in records}
    counted = {key: held[key] if key in held else count(view, record) for key, record in keys.items()}
    view.memory.keep(kind, None, counted)
    return list(counted.values())


def responded(network: Network, record: Round, told: Responses) -> NDArray[np.bool_]:
    """Which users responded to a round, by graph row: the users whose number `Reach` forecasts.

    Followers of the contacted users, not contacted themselves, who acted within the window or have an edge with an
    outcome of 1.
    """
    graph, contacted = network.graph, record.contacted
    responders = np.zeros(graph.n_nodes, dtype=np.bool_)
    by_edge = told.by_edge
    responders[by_edge.targets[by_edge.outcomes > 0.0]] = True
    acted = acted_in_window(record, told).targets
    if acted.size:
        follows = np.zeros(graph.n_nodes, dtype=np.bool_)
        follows[graph.targets[network.edges_in_round(contacted, record.number)]] = True
        responders[acted[follows[acted]]] = True
    responders[contacted] = False
    return responders


def amounts_of(network: Network, record: Round, told: Responses) -> F64:
    """For each user what was told that their response to a round brought, NaN where nothing was told.

    Purchases within the window are added up. Several edges tell of the same response, so the largest of them counts.
    """
    n_users = network.graph.n_nodes
    acted = acted_in_window(record, told)
    purchases = acted.take(np.isfinite(acted.amounts))
    amounts = np.full(n_users, np.nan)
    amounts[purchases.targets] = np.bincount(purchases.targets, purchases.amounts, n_users)[purchases.targets]
    priced = told.by_edge.take(np.isfinite(told.by_edge.amounts) & (told.by_edge.outcomes > 0.0))
    np.fmax.at(amounts, priced.targets, priced.amounts)
    return amounts


def base_values(network: Network, product_value: float | None) -> F64 | None:
    """What a response of each user is worth by the values of users and of the product; None if neither is given."""
    if product_value is None and network.values is None:
        return None
    users = np.ones(network.graph.n_nodes) if network.values is None else network.values
    return users * (1.0 if product_value is None else product_value)


def revenue_of(network: Network, record: Round, told: Responses) -> F64:
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
    # Complex numbers are sorted by their real part, and then by the imaginary one: by user, then by time.
    acted = np.sort(users + 1j * times)
    latest = np.searchsorted(acted, sources + 1j * first[targets], side="right") - 1
    moment = np.where((latest >= 0) & (acted.real[latest] == sources), acted.imag[latest], opened)
    ranked = np.lexsort((np.arange(hit.size), -moment, targets))
    lead = np.diff(targets[ranked], prepend=-1) != 0
    positions: I64 = hit[ranked[lead]]
    return positions
