"""The picture of a network: which users and edges it shows, what is marked, and where each user stands.

Users who are connected stand close to each other. The start is spectral: the first coordinates of the Laplacian
eigenmap, by rank, so that communities lie apart from the beginning. Force steps then pull each user to the middle of
their neighbours and push all users apart. To push costs users × cells, not users²: users of one cell of a grid act as
one from their centre. Networks beyond `_PLACED` users are drawn around their best connected ones, so that time and
memory stay bounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from tensorucb.arrays import F64, I64
from tensorucb.campaign._handle import View
from tensorucb.campaign._told import responded
from tensorucb.errors import TensorUCBError
from tensorucb.features._eigenmap import eigenmap
from tensorucb.graph import Graph
from tensorucb.service._bodies import Id
from tensorucb.service._learned import expected_of, offered
from tensorucb.service._shared import At

_PLACED = 12_000
_STEPS = 35
_GRID = 16
_CHUNK = 4_096
_SPECTRAL = 3  # users; fewer have no two coordinates
_DIGITS = 4  # of a position: finer than a screen
_STRONGEST = 600  # edges for a product; more would hide each other


class Edges(BaseModel):
    """Edges of the picture: places of users in its columns."""

    source: list[int]
    target: list[int]
    probability: list[float] | None = Field(description="For a product: the expected probability of a response.")


class Picture(BaseModel):
    """The picture of a network, as columns with one entry for each user; marks and edges name users by place."""

    revision: int = Field(description="Changes with the network; users keep their places until then.")
    users_in_all: int
    round: int | None = Field(description="The number of the round whose users are marked.")
    product: Id | None
    users: list[Id]
    names: list[str | None] | None = Field(description="What users are called; null if no names are known, or for you.")
    x: list[float]
    y: list[float]
    followers: list[int]
    seeds: list[int]
    held_out: list[int]
    reached: list[int]
    edges: Edges


def picture(at: At, product: Id | None, round_id: str | None, limit: int) -> Picture:
    """Users with their places, the marks of a round, and edges.

    Shown are at most ``limit`` users: those of the round first, then the best connected. Edges are the strongest ones
    for ``product``; without one, those from contacted users of the round to users who responded. Without a round the
    newest one is taken.
    """
    handle = at.campaign._handle
    with handle.read() as view:
        graph, rounds = view.network.graph, view.rounds()
        # Users keep their places as long as the network stays the same.
        positions = view.memory.cached("layout", view.network.revision, lambda: layout(graph))
        record = view.round(round_id) if round_id is not None else rounds[-1] if rounds else None
        marks = {name: np.empty(0, dtype=np.int64) for name in ("seeds", "held_out", "reached")}
        if record is not None:
            marks["seeds"] = record.contacted
            marks["held_out"] = record.held_out
            marks["reached"] = np.flatnonzero(responded(view.network, record, view.told(record.number)))
        shown = _shown(graph.out_degree + graph.in_degree, list(marks.values()), limit)
        place = np.full(graph.n_nodes, -1, dtype=np.int64)
        place[shown] = np.arange(shown.size)
        names = at.names(shown.tolist())
        strengths: F64 | None = None
        if product is not None:
            strengths = expected_of(handle, view, product, offered(view)).max(axis=0)
        edges = _edges(view, place, marks, strengths, limit if strengths is None else min(limit, _STRONGEST))
        return Picture(
            revision=view.network.revision,
            users_in_all=graph.n_nodes,
            round=None if record is None else record.number,
            product=product if product is not None or record is None else record.product,
            users=list(map(at.mask, graph.ids[shown].tolist())),
            names=names if any(names) else None,
            x=positions[shown, 0].round(_DIGITS).tolist(),
            y=positions[shown, 1].round(_DIGITS).tolist(),
            followers=graph.out_degree[shown].tolist(),
            **{name: place[rows][place[rows] >= 0].tolist() for name, rows in marks.items()},
            edges=Edges(
                source=place[graph.sources[edges]].tolist(),
                target=place[graph.targets[edges]].tolist(),
                probability=None if strengths is None else strengths[edges].round(_DIGITS).tolist(),
            ),
        )


def _shown(degree: I64, marked: list[I64], limit: int) -> I64:
    """Rows of the users to show: the marked ones, then the best connected."""
    first = np.unique(np.concatenate(marked))[:limit]
    rest = np.argsort(-degree, kind="stable")
    return np.sort(np.concatenate([first, rest[~np.isin(rest, first)][: limit - first.size]]))


def _edges(view: View, place: I64, marks: dict[str, I64], strengths: F64 | None, limit: int) -> I64:
    graph = view.network.graph
    if strengths is None:
        edges = graph.out_edges(np.sort(marks["seeds"]))
        reached = np.zeros(graph.n_nodes, dtype=np.bool_)
        reached[marks["reached"]] = True
        edges = edges[reached[graph.targets[edges]]]
    else:
        edges = np.argsort(-strengths, kind="stable")
    seen = (place[graph.sources[edges]] >= 0) & (place[graph.targets[edges]] >= 0)
    return np.asarray(edges[seen][:limit], dtype=np.int64)


def layout(graph: Graph) -> F64:
    """(users, 2) positions in the unit square; the same network gives the same picture.

    Examples
    --------
    >>> positions = layout(Graph.from_edges(["ann", "bob"], ["bob", "cid"]))
    >>> positions.shape, bool((positions >= 0).all() and (positions <= 1).all())
    ((3, 2), True)
    """
    n, rng = graph.n_nodes, np.random.default_rng(0)
    degree = graph.out_degree + graph.in_degree
    inner = np.sort(np.argsort(-degree, kind="stable")[:_PLACED])
    place = np.full(n, -1, dtype=np.int64)
    place[inner] = np.arange(inner.size)
    sources, targets = place[graph.sources], place[graph.targets]
    both = (sources >= 0) & (targets >= 0)
    points = _start(graph, rng)[inner]
    points = _forces(points, sources[both], targets[both])
    positions = np.zeros((n, 2))
    positions[inner] = points
    if inner.size < n:
        _around(positions, graph, place < 0, rng)
    return _framed(positions)


def _start(graph: Graph, rng: np.random.Generator) -> F64:
    """Spectral coordinates by rank; random ones where the network has none."""
    n = graph.n_nodes
    points = rng.random((n, 2))
    if n > _SPECTRAL and n <= 4 * _PLACED:
        try:
            vectors = eigenmap(graph, 2, tolerance=1e-2).vectors
        except TensorUCBError:
            return points
        for axis in range(vectors.shape[1]):
            points[np.argsort(vectors[:, axis], kind="stable"), axis] = (np.arange(n) + 0.5) / n
    return points


def _forces(points: F64, sources: I64, targets: I64) -> F64:
    n = len(points)
    ends, others = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    neighbours = np.bincount(ends, minlength=n)
    alone = neighbours == 0
    ideal = 1.0 / np.sqrt(n)
    for step in range(_STEPS):
        pulls = np.stack([np.bincount(ends, weights=points[others, axis], minlength=n) for axis in (0, 1)], axis=1)
        pull = pulls / np.maximum(neighbours, 1)[:, None] - points
        pull[alone] = 0.5 * (points.mean(axis=0) - points[alone])
        move = 0.6 * pull + _push(points, ideal)
        # Smaller and smaller steps, so that the picture comes to rest.
        most = 0.12 * (1.0 - step / _STEPS) + 0.1 * ideal
        length = np.linalg.norm(move, axis=1, keepdims=True)
        points = points + move * np.minimum(1.0, most / np.maximum(length, 1e-12))
    return points


def _push(points: F64, ideal: float) -> F64:
    """The push of all others on each user, with each cell of the grid taken as one body."""
    low, high = points.min(axis=0), points.max(axis=0)
    cells = np.minimum(((points - low) / np.maximum(high - low, 1e-12) * _GRID).astype(np.int64), _GRID - 1)
    numbers = cells[:, 0] * _GRID + cells[:, 1]
    weights = np.bincount(numbers, minlength=_GRID * _GRID).astype(np.float64)
    used = np.flatnonzero(weights)
    sums = [np.bincount(numbers, weights=points[:, axis], minlength=weights.size)[used] for axis in (0, 1)]
    weights = weights[used]
    centres = np.stack(sums, axis=1) / weights[:, None]
    push = np.empty_like(points)
    for begin in range(0, len(points), _CHUNK):
        part = points[begin : begin + _CHUNK]
        across, along = (part[:, axis, None] - centres[None, :, axis] for axis in (0, 1))
        strength = weights / (across * across + along * along + ideal)
        push[begin : begin + _CHUNK, 0] = (across * strength).sum(axis=1)
        push[begin : begin + _CHUNK, 1] = (along * strength).sum(axis=1)
    return push * (0.12 / len(points))


def _around(positions: F64, graph: Graph, outer: NDArray[np.bool_], rng: np.random.Generator) -> None:
    """Put the remaining users beside the neighbours who have a place."""
    ends = np.concatenate([graph.sources, graph.targets])
    others = np.concatenate([graph.targets, graph.sources])
    placed = ~outer[others]
    ends, others = ends[placed], others[placed]
    count = np.maximum(np.bincount(ends, minlength=len(positions)), 1)
    for axis in (0, 1):
        sums = np.bincount(ends, weights=positions[others, axis], minlength=len(positions))
        positions[outer, axis] = sums[outer] / count[outer]
    spread = 0.03 * positions[~outer].std()
    positions[outer] += rng.normal(scale=spread, size=(int(outer.sum()), 2))


def _framed(positions: F64) -> F64:
    """Into the unit square, by the same factor on both axes."""
    low, high = positions.min(axis=0), positions.max(axis=0)
    return np.asarray(np.clip(0.5 + (positions - (low + high) / 2.0) / max(float((high - low).max()), 1e-12), 0.0, 1.0))
