"""Past influence: what users achieved as sources on items of an earlier log, and how they responded as targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_rows, check_sequence, shown
from tensorucb.errors import InputError, ShapeError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._profile import UserProfile
from tensorucb.features._scaling import standardise
from tensorucb.features._users import FeatureKind, user_features
from tensorucb.features._votes import VoteLog, item_numbers
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_times

_HALF = 0.5
# Items a user must have been exposed to before the rate of following counts by half.
_SMOOTHING = 3.0


def past_influence(
    graph: Graph,
    users: ArrayLike,
    items: ArrayLike,
    times: ArrayLike,
    mixtures: ArrayLike,
    held_out: ArrayLike,
) -> tuple[F64, F64]:
    """Credit and exposure of every user as a source, by topic.

    A source that acted on an item is exposed to each follower that had not acted yet. A follower that acts later gives
    one credit, shared equally by its in-neighbours that acted before it. Both count for topics by the item's mixture.

    Parameters
    ----------
    graph
        The network.
    users, items, times
        Row, item number and time of each action.
    mixtures
        ``(items, k)`` topic mixture of every item.
    held_out
        Items to count, those set aside for features.

    Returns
    -------
    tuple
        ``(credit, exposure)``, each ``(n_nodes, k)``.
    """
    check_graph(graph)
    shares = check_array("mixtures", mixtures, ("items", "k"))
    wanted = check_rows("held_out", held_out, len(shares), hint="mixtures must have one row for each item.")
    credit, exposure = np.zeros((2, graph.n_nodes, shares.shape[1]))
    for item, edges, followed in _trials(graph, users, items, times, wanted):
        sources, targets = graph.sources[edges], graph.targets[edges]
        rivals = np.bincount(targets[followed], minlength=graph.n_nodes)
        seen = np.bincount(sources, minlength=graph.n_nodes)
        earned = np.bincount(sources[followed], 1.0 / rivals[targets[followed]], graph.n_nodes)
        exposure += seen[:, None] * shares[item]
        credit += earned[:, None] * shares[item]
    return credit, exposure


def past_response(graph: Graph, users: ArrayLike, items: ArrayLike, times: ArrayLike, held_out: ArrayLike) -> F64:
    """Log of how often each user followed an in-neighbour, relative to the mean rate, ``(n_nodes,)``.

    The parameters are those of :func:`past_influence`.
    """
    check_graph(graph)
    wanted = check_rows("held_out", held_out, 2**31)
    followed_items, exposed_items = np.zeros(graph.n_nodes), np.zeros(graph.n_nodes)
    for _, edges, followed in _trials(graph, users, items, times, wanted):
        targets = graph.targets[edges]
        exposed_items[np.unique(targets)] += 1.0
        followed_items[np.unique(targets[followed])] += 1.0
    rate = float(followed_items.sum()) / max(float(exposed_items.sum()), 1.0)
    ratio: F64 = np.log((followed_items + _SMOOTHING) / (exposed_items * rate + _SMOOTHING))
    return ratio


def _trials(
    graph: Graph, users: ArrayLike, items: ArrayLike, times: ArrayLike, held_out: I64
) -> Iterator[tuple[int, I64, NDArray[np.bool_]]]:
    """For each held-out item the edges whose source acted while the target had not, and which targets did later."""
    rows, what, when = (
        check_rows("users", users, graph.n_nodes),
        check_rows("items", items, 2**31),
        check_times("times", times),
    )
    if not rows.shape == what.shape == when.shape:
        raise ShapeError(f"users, items and times must be of one length; got {rows.shape}, {what.shape}, {when.shape}.")
    order = np.lexsort((when, what))
    rows, what, moments = rows[order], what[order], when[order].astype(np.float64)
    acted = np.full(graph.n_nodes, np.inf)
    for item in held_out.tolist():
        span = slice(*np.searchsorted(what, [item, item + 1]).tolist())
        # Backwards, so that the first of a user's repeated actions stays.
        acted[rows[span][::-1]] = moments[span][::-1]
        edges = _out_edges(graph, np.unique(rows[span]))
        then, later = acted[graph.sources[edges]], acted[graph.targets[edges]]
        edges, later = edges[later > then], later[later > then]
        yield item, edges, np.isfinite(later)
        acted[rows[span]] = np.inf


def _out_edges(graph: Graph, rows: I64) -> I64:
    counts = graph.out_degree[rows].astype(np.int64)
    begins = np.repeat(graph.out_offsets[rows] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return begins.astype(np.int64) + np.arange(int(counts.sum()))


class TimedLog(VoteLog, Protocol):
    """A log that knows when: `tensorucb.data.ActionLog`, or anything with these arrays."""

    @property
    def times(self) -> NDArray[Any]:
        """When each action happened, in any unit."""


def user_profile(
    graph: Graph,
    log: TimedLog,
    held_out: ArrayLike,
    mixtures: ArrayLike,
    *,
    kinds: Sequence[FeatureKind] = ("eigenmap", "degree"),
    dim: int | None = 10,
) -> UserProfile:
    """Features and past of all users, from held-out items alone.

    Parameters
    ----------
    graph
        The network.
    log
        The action log, with ``users``, ``items`` and ``times``.
    held_out
        Items whose actions may be used (`held_out_items`); rounds must draw from the others.
    mixtures
        ``(items, k)`` mixture of every item: the features that products will have.
    kinds, dim
        See `user_features`. The eigenmap becomes the profile's coordinates. The past response (`past_response`) is one
        feature more; activity and taste are parts of the profile anyhow.

    Returns
    -------
    UserProfile
        With taste, credit and exposure by topic.
    """
    numbers = item_numbers(log, held_out)
    check_graph(graph)
    if not hasattr(log, "times"):
        raise InputError(f"log must be an action log with times, such as tensorucb.data.ActionLog; got {shown(log)}.")
    shares = check_array("mixtures", mixtures, (log.n_items, "k"), hint="One row for each item of the log.")
    kinds = check_sequence("kinds", kinds, "a list of kinds such as ('eigenmap', 'degree')")
    response = past_response(graph, log.users, log.items, log.times, numbers)
    columns = [_HALF * standardise(response[:, None])]
    plain = [kind for kind in kinds if kind != "eigenmap"]
    if plain:
        columns.insert(0, user_features(graph, log, numbers, kinds=plain, dim=dim))
    inside = np.isin(log.items, numbers)
    rows, mixes = np.asarray(log.users)[inside], shares[np.asarray(log.items)[inside]]
    taste: F64 = np.column_stack([np.bincount(rows, column, graph.n_nodes).astype(np.float64) for column in mixes.T])
    credit, exposure = past_influence(graph, log.users, log.items, log.times, shares, numbers)
    coordinates = laplacian_eigenmap(graph, dim) if "eigenmap" in kinds else None
    return UserProfile(np.hstack(columns), taste, credit, exposure, coordinates)
