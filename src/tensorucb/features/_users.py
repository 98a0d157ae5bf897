"""User features beside the eigenmap: degrees, activity and taste, and all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb._columns import standardised
from tensorucb.arrays import F64
from tensorucb.checks import check_choice, check_count, check_instance, check_sequence
from tensorucb.errors import InputError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._items import TopicModel, actions_on, item_numbers
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.rng import RngLike

if TYPE_CHECKING:
    from tensorucb.data import ActionLog

FeatureKind = Literal["eigenmap", "degree", "activity", "taste", "constant"]
"""The kinds of columns that `user_features` and `user_profile` can make."""


def degree_features(graph: Graph) -> F64:
    """``log(1 + out-degree)`` and ``log(1 + in-degree)``, standardised: ``(n_nodes, 2)``.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.features import degree_features
    >>> degree_features(Graph.from_edges([0, 0, 1], [1, 2, 2])).shape
    (3, 2)
    """
    check_graph(graph)
    return standardised(np.log1p(np.column_stack([graph.out_degree, graph.in_degree]).astype(np.float64)))


def activity_features(log: ActionLog, items: ArrayLike | None, n_nodes: int) -> F64:
    """``log(1 + actions)`` of each of ``n_nodes`` users on some items, standardised: ``(n_nodes, 1)``.

    Pass the held-out items (`held_out_items`): counting those of the rounds would tell the policy the outcome.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> from tensorucb.features import activity_features
    >>> data = generate_dataset("sandbox", scale=0.05)
    >>> activity_features(data.log, None, data.graph.n_nodes).shape == (data.graph.n_nodes, 1)
    True
    """
    n_nodes = check_count("n_nodes", n_nodes, 1, 2**31 - 1)
    users, _ = actions_on(log, item_numbers(log, items), n_nodes)
    return standardised(np.log1p(np.bincount(users, minlength=n_nodes).astype(np.float64))[:, None])


def taste_features(model: TopicModel, log: ActionLog, items: ArrayLike | None, n_nodes: int) -> F64:
    """Topic profile of each user: the mean mixture of the held-out items acted on, and one average item.

    Rows of the ``(n_nodes, n_topics)`` array sum to 1, and users without an action have the average profile. ``model``
    is fitted on held-out items, and ``items`` are these items.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> from tensorucb.features import TopicModel, held_out_items, taste_features
    >>> data = generate_dataset("sandbox", scale=0.1)
    >>> held = held_out_items(data.log, share=0.5)
    >>> model = TopicModel.fit(data.log, held, n_topics=2, n_nodes=data.graph.n_nodes)
    >>> taste_features(model, data.log, held, data.graph.n_nodes).sum(axis=1).round(6).max().item()
    1.0
    """
    check_instance("model", model, TopicModel, "a TopicModel")
    numbers = item_numbers(log, items)
    n_nodes = check_count("n_nodes", n_nodes, 1, 2**31 - 1)
    users, places = actions_on(log, numbers, n_nodes)
    mixtures = model.transform(log, numbers)
    sums = np.column_stack([np.bincount(users, column, minlength=n_nodes) for column in mixtures[places].T])
    counts = np.bincount(users, minlength=n_nodes)
    return np.asarray((sums + mixtures.mean(axis=0)) / (counts[:, None] + 1.0))


def user_features(
    graph: Graph,
    log: ActionLog | None = None,
    held_out: ArrayLike | None = None,
    *,
    kinds: Sequence[FeatureKind] = ("eigenmap", "degree"),
    dim: int | None = 10,
    n_topics: int = 10,
    rng: RngLike = 0,
) -> F64:
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
        check_choice("kinds", kind, get_args(FeatureKind))
    if not kinds:
        raise InputError("kinds must name at least one kind of feature; got an empty list.")
    blocks = []
    for kind in kinds:
        if kind == "eigenmap":
            blocks.append(laplacian_eigenmap(graph, dim))
        elif kind == "degree":
            blocks.append(0.5 * degree_features(graph))
        elif kind == "constant":
            blocks.append(np.ones((graph.n_nodes, 1)))
        elif log is None or held_out is None:
            raise InputError(
                "activity and taste need log= and held_out=: the items set aside for features, "
                "e.g. held_out_items(log). Rounds must draw from the other items."
            )
        elif kind == "activity":
            blocks.append(0.5 * activity_features(log, held_out, graph.n_nodes))
        else:
            model = TopicModel.fit(log, held_out, n_topics=n_topics, n_nodes=graph.n_nodes, rng=rng)
            taste = standardised(taste_features(model, log, held_out, graph.n_nodes))
            blocks.append(taste * float(n_topics**-0.5))
    return np.column_stack(blocks)
