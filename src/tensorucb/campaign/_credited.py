"""What the model learned from each response: the edges that got credit, and how much."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._catalogue import strategy_names
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._told import in_window
from tensorucb.store._protocol import RoundRecord

Columns = dict[str, Any]


def credited_edges(handle: Handle, view: View) -> Iterator[Columns]:
    """For each round that the model learns, its edges with a response: columns of one length.

    An edge is there if it got credit, or if its outcome was told: then a credit of 0 is a "no". Silence, which the
    model takes for a "no" as well, is not listed.
    """
    for record, edges, credit in _lessons(handle, view):
        told = view.told(record.number)
        kept = (credit > 0.0) | np.isin(edges, told.edges)
        if kept.any():
            yield _columns(view, record, edges[kept], credit[kept])


def _lessons(handle: Handle, view: View) -> Iterator[tuple[RoundRecord, I64, F64]]:
    """Edges and outcomes of each learned round; the past is learned again only as far as credit depends on it."""
    records = view.ledger.to_learn()
    shared = [i for i, record in enumerate(records) if record.payload["credit"] == "shared"]
    last = max((i for i in shared if view.told(records[i].number).users.size), default=-1)
    fold = handle.fresh_fold()
    if last >= 0:
        fold.begin(view.network, "")
    for i, record in enumerate(records):
        yield record, *fold.lesson(view, record)
        if i < last:
            fold.learn(view, [record])


def _columns(view: View, record: RoundRecord, edges: I64, credit: F64) -> Columns:
    network, payload = view.network, record.payload
    sources, targets = network.graph.sources[edges], network.graph.targets[edges]
    names = strategy_names(payload, "contacted") or {}
    return {
        "round": [record.id] * edges.size,
        "source": network.graph.ids[sources].tolist(),
        "target": network.graph.ids[targets].tolist(),
        "product": [payload["product"]["id"]] * edges.size,
        "strategy": [names.get(key) for key in network.keys[sources].tolist()],
        "credit": credit,
        "time": _times(view, record, edges),
    }


def _times(view: View, record: RoundRecord, edges: I64) -> F64:
    """When each edge's response happened: the time told with the edge, else the target's first action in the window."""
    network, graph = view.network, view.network.graph
    first = np.full(graph.n_nodes, np.inf)
    told = view.told(record.number)
    inside = in_window(told.times, record.opened, record.payload["window"])
    np.minimum.at(first, told.users[inside], told.times[inside])
    times = first[graph.targets[edges]]
    rows = view.session.edge_responses(view.number, record.number)
    known = np.isin(rows.sources, network.keys) & np.isin(rows.targets, network.keys) & np.isfinite(rows.times)
    numbers = graph.edge_between(network.rows(rows.sources[known]), network.rows(rows.targets[known]))
    at, held = _places(edges, numbers)
    times[at] = rows.times[known][held]
    return np.where(np.isfinite(times), times, np.nan)


def _places(edges: I64, numbers: I64) -> tuple[I64, NDArray[np.bool_]]:
    """Where ``numbers`` stand among ``edges`` (ascending), and which of them do."""
    held = np.isin(numbers, edges)
    return np.searchsorted(edges, numbers[held]).astype(np.int64), held
