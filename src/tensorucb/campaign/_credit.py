"""Who gets the credit when a user acts: the rules ``any``, ``last`` and ``shared``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice
from tensorucb.graph import Graph

CreditRule = Literal["any", "last", "shared"]


def check_credit(rule: str) -> str:
    """Refuse any other rule than those of `CreditRule`."""
    return check_choice("credit", rule, get_args(CreditRule))


def credits(
    rule: str,
    graph: Graph,
    edges: I64,
    users: I64,
    times: F64,
    opened: float,
    window: float | None,
    probabilities: Callable[[], F64],
) -> F64:
    """The outcome of each of ``edges`` as far as node events tell.

    An edge i → j is eligible if i was contacted (``edges`` are the out-edges of those) and j acted between ``opened``
    and ``opened + window``; a user's first action in the window counts.

    Parameters
    ----------
    rule
        ``any``: 1 for every eligible edge. ``last``: 1 for the one whose source was the last to act before j (a source
        that did not act counts from when it was contacted), ties to the first edge. ``shared``:
        ``p_ij / (1 − Π(1 − p))`` over j's eligible edges.
    graph
        The network.
    edges
        Edge numbers, ascending.
    users, times
        Rows and moments of those who acted.
    opened, window
        When the seeds were contacted, and how long an action counts; None: for ever.
    probabilities
        Believed probability of every edge of the graph, called only for ``shared``.
    """
    credit = np.zeros(edges.size)
    last_moment = np.inf if window is None else opened + window
    inside = (times >= opened) & (times <= last_moment)
    if not inside.any():
        return credit
    users, times = users[inside], times[inside]
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
    count = np.bincount(targets, minlength=n)
    reached = 1.0 - survive[targets]
    # Where nothing was believed possible, all share alike.
    equal = 1.0 / count[targets]
    shares = np.divide(p, reached, out=equal, where=reached > 0.0)
    return np.asarray(np.minimum(shares, 1.0))


def _last(graph: Graph, edges: I64, hit: I64, first: F64, users: I64, times: F64, opened: float) -> NDArray[np.int64]:
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
    lead = np.ones(hit.size, dtype=np.bool_)
    lead[1:] = targets[ranked][1:] != targets[ranked][:-1]
    return hit[ranked[lead]]
