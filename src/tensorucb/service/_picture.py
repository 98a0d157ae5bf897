"""The picture of a network: which users and edges it shows, and what is marked."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.campaign import Campaign
from tensorucb.campaign._handle import View
from tensorucb.campaign._told import responded
from tensorucb.service._learned import Id, expected_of, offered

_DIGITS = 4  # of a position: finer than a screen
_STRONGEST = 600  # edges for a product; more would hide each other


def picture(
    campaign: Campaign, positions: F64, *, product: Id | None = None, round_id: str | None = None, limit: int = 2_000
) -> dict[str, Any]:
    """Users with their places, the marks of a round, and edges, as columns; edges and marks name users by place.

    Shown are at most ``limit`` users: those of the round first, then the best connected. Edges are the strongest ones
    for ``product``; without one, those from contacted users of the round to users who responded. Without a round the
    newest one is taken.
    """
    handle = campaign._handle
    with handle.read() as view:
        graph, rounds = view.network.graph, view.rounds()
        record = view.round(round_id) if round_id is not None else rounds[-1] if rounds else None
        marks = {name: np.empty(0, dtype=np.int64) for name in ("seeds", "held_out", "reached")}
        if record is not None:
            marks["seeds"] = view.network.rows(record.payload["contacted"])
            marks["held_out"] = view.network.rows(record.payload["holdout"])
            marks["reached"] = np.flatnonzero(responded(view.network, record, view.told(record.number)))
        shown = _shown(graph.out_degree + graph.in_degree, list(marks.values()), limit)
        place = np.full(graph.n_nodes, -1, dtype=np.int64)
        place[shown] = np.arange(shown.size)
        strengths: F64 | None = None
        if product is not None:
            handle.model.sync(view)
            strengths = expected_of(handle, view, product, offered(view)).max(axis=0)
        edges = _edges(view, place, marks, strengths, limit if strengths is None else min(limit, _STRONGEST))
        return {
            "revision": view.network.revision,
            "users_in_all": graph.n_nodes,
            "round": None if record is None else record.number,
            "product": product if product is not None or record is None else record.payload["product"]["id"],
            "users": graph.ids[shown].tolist(),
            "x": positions[shown, 0].round(_DIGITS).tolist(),
            "y": positions[shown, 1].round(_DIGITS).tolist(),
            "followers": graph.out_degree[shown].tolist(),
            **{name: place[rows][place[rows] >= 0].tolist() for name, rows in marks.items()},
            "edges": {
                "source": place[graph.sources[edges]].tolist(),
                "target": place[graph.targets[edges]].tolist(),
                "probability": None if strengths is None else strengths[edges].round(_DIGITS).tolist(),
            },
        }


def _shown(degree: I64, marked: list[I64], limit: int) -> I64:
    """Rows of the users to show: the marked ones, then the best connected."""
    first = np.unique(np.concatenate(marked))[:limit]
    rest = np.argsort(-degree, kind="stable")
    return np.sort(np.concatenate([first, rest[~np.isin(rest, first)][: limit - first.size]]))


def _edges(view: View, place: I64, marks: dict[str, I64], strengths: F64 | None, limit: int) -> I64:
    graph = view.network.graph
    if strengths is None:
        found = graph.out_edges(np.sort(marks["seeds"]))
        reached = np.zeros(graph.n_nodes, dtype=np.bool_)
        reached[marks["reached"]] = True
        found = found[reached[graph.targets[found]]]
    else:
        found = np.argsort(-strengths, kind="stable")
    seen = (place[graph.sources[found]] >= 0) & (place[graph.targets[found]] >= 0)
    return np.asarray(found[seen][:limit], dtype=np.int64)
