"""User features beside the eigenmap: degrees, activity and taste, and all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice, check_count, check_instance, check_sequence
from tensorucb.errors import InputError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._scaling import standardise
from tensorucb.features._topics import TopicModel
from tensorucb.features._votes import VoteLog, check_log, item_numbers
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.rng import RngLike

FeatureKind = Literal["eigenmap", "degree", "activity", "taste", "constant"]
_FROM_LOG = ("activity", "taste")
_HALF = 0.5


def degree_features(graph: Graph) -> NDArray[np.float64]:
    """``log(1 + out-degree)`` and ``log(1 + in-degree)``, standardised: ``(n_nodes, 2)``."""
    check_graph(graph)
    return standardise(np.log1p(np.column_stack([graph.out_degree, graph.in_degree]).astype(np.float64)))


def _counts(log: VoteLog, items: ArrayLike | None, n_nodes: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which actions fall on the items, and how many each user has there."""
    check_log(log)
    n_nodes = check_count("n_nodes", n_nodes, 1, 2**31 - 1)
    wanted = np.zeros(log.n_items, dtype=bool)
    wanted[item_numbers(log, items)] = True
    inside = wanted[log.items]
    users = np.asarray(log.users)[inside]
    if users.size and users.max() >= n_nodes:
        raise InputError(f"the log names user {int(users.max())}, but there are {n_nodes} users. Pass graph.n_nodes.")
    return inside, np.bincount(users, minlength=n_nodes).astype(np.int64)


def activity_features(log: VoteLog, items: ArrayLike | None, n_nodes: int) -> NDArray[np.float64]:
    """``log(1 + actions)`` of each user on some items, standardised: ``(n_nodes, 1)``.

    Parameters
    ----------
    log
        The action log.
    items
        The held-out items (`held_out_items`); counting those of the rounds would tell the policy the outcome.
    n_nodes
        Number of users.
    """
    _, counts = _counts(log, items, n_nodes)
    return standardise(np.log1p(counts.astype(np.float64))[:, None])


def taste_features(model: TopicModel, log: VoteLog, items: ArrayLike | None, n_nodes: int) -> NDArray[np.float64]:
    """Topic profile of each user: the mean mixture of the held-out items acted on, and one average item.

    Parameters
    ----------
    model
        Topics, fitted on held-out items.
    log
        The action log.
    items
        The held-out items.
    n_nodes
        Number of users.

    Returns
    -------
    ndarray
        ``(n_nodes, n_topics)``; rows sum to 1, and users without an action there have the average profile.
    """
    check_instance("model", model, TopicModel, "a TopicModel")
    numbers = item_numbers(log, items)
    inside, counts = _counts(log, numbers, n_nodes)
    mixtures = np.zeros((log.n_items, model.n_topics))
    mixtures[numbers] = model.transform(log, numbers)
    chosen, users = mixtures[np.asarray(log.items)[inside]], np.asarray(log.users)[inside]
    sums = np.column_stack([np.bincount(users, column, minlength=n_nodes) for column in chosen.T])
    average = mixtures[numbers].mean(axis=0)
    profile: NDArray[np.float64] = (sums + average) / (counts[:, None] + 1.0)
    return profile


def user_features(
    graph: Graph,
    log: VoteLog | None = None,
    held_out: ArrayLike | None = None,
    *,
    kinds: Sequence[FeatureKind] = ("eigenmap", "degree"),
    dim: int | None = 10,
    n_topics: int = 10,
    rng: RngLike = 0,
) -> NDArray[np.float64]:
    """User features of several kinds side by side, in the order of ``kinds``.

    Parameters
    ----------
    graph
        The network.
    log
        The action log; needed for ``activity`` and ``taste``.
    held_out
        Items whose actions may be used (`held_out_items`); rounds must draw from the others.
    kinds
        ``eigenmap``: ``dim`` columns, rows of length 1. ``degree``: 2 columns with standard deviation ½.
        ``activity``: 1 column with standard deviation ½. ``taste``: ``n_topics`` columns, standardised and divided by
        ``sqrt(n_topics)``, so that rows have a length of about 1. ``constant``: 1 column of ones.
    dim
        Columns of the eigenmap; ``None`` lets the spectrum choose.
    n_topics, rng
        Of the topic model behind ``taste``.

    Returns
    -------
    ndarray
        ``(n_nodes, columns)``.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.features import user_features
    >>> user_features(make_sandbox(100, 800, 5, rng=0).graph, kinds=("eigenmap", "degree"), dim=4).shape
    (100, 6)
    """
    check_graph(graph)
    kinds = check_sequence("kinds", kinds, "a list of kinds such as ('eigenmap', 'degree')")
    for kind in kinds:
        check_choice("kinds", kind, ("eigenmap", "degree", "activity", "taste", "constant"))
    if not kinds:
        raise InputError("kinds must name at least one kind of feature; got an empty list.")
    if any(kind in _FROM_LOG for kind in kinds) and (log is None or held_out is None):
        raise InputError(
            "activity and taste need log= and held_out=: the items set aside for features, "
            "e.g. held_out_items(log). Rounds must draw from the other items."
        )
    blocks = [_block(kind, graph, log, held_out, dim, n_topics, rng) for kind in kinds]
    return np.column_stack(blocks)


def _block(
    kind: FeatureKind,
    graph: Graph,
    log: VoteLog | None,
    held_out: ArrayLike | None,
    dim: int | None,
    n_topics: int,
    rng: RngLike,
) -> NDArray[np.float64]:
    if kind == "eigenmap":
        return laplacian_eigenmap(graph, dim)
    if kind == "degree":
        return _HALF * degree_features(graph)
    if kind == "constant" or log is None:
        return np.ones((graph.n_nodes, 1))
    if kind == "activity":
        return _HALF * activity_features(log, held_out, graph.n_nodes)
    model = TopicModel.fit(log, held_out, n_topics=n_topics, n_nodes=graph.n_nodes, rng=rng)
    taste = standardise(taste_features(model, log, held_out, graph.n_nodes))
    return taste * float(n_topics**-0.5)
