"""Trials and successes of edges, from an action log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_rows
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_seconds, check_times
from tensorucb.threads import map_chunks, thread_count


@dataclass(frozen=True)
class Activations:
    """Every trial of every edge, sorted by edge, then item.

    Attributes
    ----------
    items
        Item of each trial.
    edges
        Edge of each trial: its source acted on the item while its target had not.
    successes
        Whether the target then acted, inside the window if there is one.
    exposures
        Number of pairs of an edge and an item on which its source acted at all: the trials, and those whose target
        had acted before or at the same time, which say nothing about the edge.
    """

    items: NDArray[np.int64]
    edges: NDArray[np.int64]
    successes: NDArray[np.bool_]
    exposures: int


def even_bounds(count: int, threads: int) -> list[int]:
    """Bounds of a few even chunks a thread."""
    chunks = 1 if threads == 1 else max(1, min(8 * threads, count))
    return [count * i // chunks for i in range(chunks + 1)]


def activations(
    graph: Graph,
    users: ArrayLike,
    items: ArrayLike,
    times: ArrayLike,
    window: float | None = None,
    *,
    threads: int | None = None,
) -> Activations:
    """List the trials of each edge and whether they succeeded.

    A trial of edge ``i → j`` is an item on which ``i`` acted while ``j`` had not: ``j`` acted strictly later or never.
    It succeeded when ``j`` acted at most ``window`` later. Actions at the same time are no trial of either. A user's
    repeated actions on an item count once, at the first.

    Parameters
    ----------
    graph
        The social network.
    users
        Node row of each action.
    items
        Item of each action, whole numbers from 0.
    times
        Time of each action: numbers in any unit, or datetimes, which count in seconds.
    window
        Longest delay of a success, in the unit of ``times``; unlimited by default.
    threads
        Threads to use; the result does not depend on it.

    Returns
    -------
    Activations
        Items, edges and successes of all trials.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> trials = activations(Graph.from_edges([0, 0], [1, 2]), [0, 1], [0, 0], [5, 7])
    >>> trials.edges.tolist(), trials.successes.tolist()
    ([0, 1], [True, False])
    """
    from tensorucb.truth import _kernels

    check_graph(graph)
    limit = np.inf if window is None else check_seconds("window", window)
    offsets, item, when = _by_user(graph, *_checked_log(graph, users, items, times))
    workers = thread_count(threads)
    bounds = even_bounds(graph.n_edges, workers)
    src, dst = graph.sources, graph.targets
    counts = np.empty(graph.n_edges, dtype=np.int64)
    map_chunks(lambda a, b: _kernels.count_trials(src, dst, offsets, item, when, a, b, counts), bounds, workers)
    place = np.concatenate([[0], np.cumsum(counts)])
    total, exposures = int(place[-1]), int((np.diff(offsets) * graph.out_degree).sum())
    found = Activations(
        items=np.empty(total, dtype=np.int64),
        edges=np.empty(total, dtype=np.int64),
        successes=np.empty(total, dtype=np.bool_),
        exposures=exposures,
    )
    log, out = (src, dst, offsets, item, when, limit, place), (found.items, found.edges, found.successes)
    map_chunks(lambda a, b: _kernels.list_trials(*log, a, b, *out), bounds, workers)
    return found


def _checked_log(
    graph: Graph, users: ArrayLike, items: ArrayLike, times: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    hint = "Use graph.rows(ids), and leave out users who are not in the graph."
    rows, what = check_rows("users", users, graph.n_nodes, hint=hint), check_rows("items", items, 2**31)
    when = check_times("times", times)
    if when.ndim != 1 or not rows.size == what.size == when.size:
        raise ShapeError(f"users, items and times must be of one length; got {rows.size}, {what.size}, {when.shape}.")
    if rows.size == 0:
        raise InputError("the action log is empty; an edge without trials teaches nothing.")
    return rows, what, when


def _by_user(
    graph: Graph, rows: NDArray[np.int64], items: NDArray[np.int64], times: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Offsets by user, and each user's first action on each item, sorted by item."""
    order = np.lexsort((times, items, rows))
    rows, items, times = rows[order], items[order], times[order]
    first = np.ones(rows.size, dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (items[1:] != items[:-1])
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[first], minlength=graph.n_nodes))])
    return offsets, items[first], times[first]
