"""Trials and successes of edges, from an action log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import I64
from tensorucb.checks import check_rows
from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import Duration, check_times, duration
from tensorucb.threads import map_chunks, thread_count
from tensorucb.truth import _kernels


@dataclass(frozen=True)
class Activations:
    """Every trial of every edge, sorted by edge, then item.

    Attributes
    ----------
    items, edges
        Item and edge of each trial: the edge's source acted on the item while its target had not.
    successes
        Whether the target then acted, inside the window if there is one.
    exposures
        Number of pairs of an edge and an item on which its source acted at all: the trials, and those whose target
        had acted before or at the same time, which say nothing about the edge.
    """

    items: I64
    edges: I64
    successes: NDArray[np.bool_]
    exposures: int


def even_bounds(count: int, threads: int) -> list[int]:
    """Bounds of a few even chunks per thread."""
    chunks = 1 if threads == 1 else max(1, min(8 * threads, count))
    return [count * i // chunks for i in range(chunks + 1)]


def offsets_of(keys: I64, count: int) -> I64:
    """Where the entries of each key 0..count-1 begin in an array that is sorted by key."""
    return np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])


def activations(
    graph: Graph,
    users: ArrayLike,
    items: ArrayLike,
    times: ArrayLike,
    window: Duration | None = None,
    *,
    threads: int | None = None,
) -> Activations:
    """List the trials of each edge and whether they succeeded.

    A trial of edge ``i → j`` is an item on which ``i`` acted while ``j`` had not: ``j`` acted strictly later or never.
    It succeeded when ``j`` acted at most ``window`` later. Actions at the same time are no trial of either. A user's
    repeated actions on an item count once, at the first.

    Parameters
    ----------
    graph, users, items
        The social network, and the node row and the item of each action; items are whole numbers from 0.
    times, window
        Time of each action, as seconds or as datetimes; and the longest delay of a success (``"7d"`` or a timedelta),
        unlimited by default.
    threads
        Threads to use; the result does not depend on them.

    Examples
    --------
    >>> trials = activations(Graph.from_edges([0, 0], [1, 2]), users=[0, 1], items=[0, 0], times=[5, 7])
    >>> trials.edges.tolist(), trials.successes.tolist()
    ([0, 1], [True, False])
    """
    check_graph(graph)
    limit = np.inf if window is None else duration("window", window)
    hint = "Use graph.rows(ids), and leave out users who are not in the graph."
    rows, item = check_rows("users", users, graph.n_nodes, hint=hint), check_rows("items", items, 2**31)
    when = check_times("times", times)
    if when.ndim != 1 or not rows.size == item.size == when.size:
        raise ShapeError(f"users, items and times must be of one length; got {rows.size}, {item.size}, {when.shape}.")
    if rows.size == 0:
        raise InputError("the action log is empty; an edge without trials teaches nothing.")
    # Each user's first action on each item, sorted by user, then item.
    order = np.lexsort((when, item, rows))
    rows = rows[order]
    item = item[order]
    when = when[order]
    first = np.ones(rows.size, dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (item[1:] != item[:-1])
    log = (graph.sources, graph.targets, offsets_of(rows[first], graph.n_nodes), item[first], when[first])
    # Counted first, so that every edge knows where its trials go, whichever thread lists them.
    workers = thread_count(threads)
    bounds = even_bounds(graph.n_edges, workers)
    counts = np.empty(graph.n_edges, dtype=np.int64)
    map_chunks(lambda a, b: _kernels.count_trials(*log, a, b, counts), bounds, workers)
    place = np.concatenate([[0], np.cumsum(counts)])
    trials = Activations(
        items=np.empty(place[-1], dtype=np.int64),
        edges=np.empty(place[-1], dtype=np.int64),
        successes=np.empty(place[-1], dtype=np.bool_),
        exposures=int((np.diff(log[2]) * graph.out_degree).sum()),
    )
    out = (trials.items, trials.edges, trials.successes)
    map_chunks(lambda a, b: _kernels.list_trials(*log, limit, place, a, b, *out), bounds, workers)
    return trials
