"""What a network and a log tell about users: degrees, activity, taste, and how they influenced and followed others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb._columns import standardised
from tensorucb.arrays import F64, I64
from tensorucb.checks import (
    check_array,
    check_choice,
    check_count,
    check_instance,
    check_rows,
    check_sequence,
    refusal,
)
from tensorucb.errors import InputError, ShapeError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._items import TopicModel, actions_on, item_numbers
from tensorucb.features._profile import UserProfile
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_times
from tensorucb.rng import RngLike

if TYPE_CHECKING:
    from tensorucb.data import ActionLog

FeatureKind = Literal["eigenmap", "degree", "activity", "taste", "constant"]
"""The kinds of columns that `user_features` and `user_profile` can make."""
# Items a user must have been exposed to before the rate of following counts by half.
_RESPONSE_SMOOTHING = 3.0
# Out-edges of users who acted that are looked at together, so that memory stays bounded.
_PIECE = 1_000_000


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
        raise InputError("must name at least one kind of feature; got an empty list.", argument="kinds")
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


def _first_actions(graph: Graph, log: ActionLog, items: I64) -> tuple[I64, I64, F64]:
    """Each user's first action on each item: the item's place among ``items``, the user and the time, sorted so."""
    users, numbers = check_rows("users", log.users, graph.n_nodes), check_rows("items", log.items, 2**31)
    times = check_times("times", log.times)
    if not users.shape == numbers.shape == times.shape:
        raise ShapeError(
            f"users, items and times must be of one length; got {users.shape}, {numbers.shape}, {times.shape}."
        )
    place = np.full(max(log.n_items, int(numbers.max(initial=-1)) + 1), -1, dtype=np.int64)
    place[items] = np.arange(items.size)
    asked = place[numbers] >= 0
    key, moments = place[numbers[asked]] * graph.n_nodes + users[asked], times[asked].astype(np.float64)
    order = np.lexsort((moments, key))
    key = key[order]
    first = np.diff(key, prepend=-1) > 0
    return *np.divmod(key[first], graph.n_nodes), moments[order][first]


def _pieces(places: I64, out_edges: I64) -> list[slice]:
    """Pieces of whole items, each with about a million out-edges of the users who acted on them."""
    ends = np.flatnonzero(np.diff(places, append=-1)) + 1
    number = np.cumsum(out_edges)[ends - 1] // _PIECE
    cuts = ends[np.diff(number, append=-1) != 0]
    return [slice(a, b) for a, b in pairwise([0, *cuts.tolist()])]


def _count_past(graph: Graph, log: ActionLog, mixtures: F64, held_out: I64) -> tuple[F64, F64, F64]:
    """Credit and exposure of every user as a source, by topic, and the log rate of following as a target.

    A source that acted on an item is exposed to each follower that had not acted yet. A follower that acts later gives
    one credit, shared equally by its in-neighbours that acted before it. Both count for topics by the item's mixture.
    The rate of following is relative to the mean rate over all users.
    """
    from scipy.sparse import csr_array

    n, degree = graph.n_nodes, graph.out_degree
    all_places, all_users, all_times = _first_actions(graph, log, held_out)
    chances, earned = np.zeros((2, all_users.size))
    followed_items, exposed_items = np.zeros((2, n))
    for piece in _pieces(all_places, degree[all_users]):
        places, users, times = all_places[piece], all_users[piece], all_times[piece]
        key = places * n + users
        # Every out-edge of those who acted, by the number of its source's action and, if its target acted on the same
        # item, of the target's.
        source = np.repeat(np.arange(users.size), degree[users])
        wanted = places[source] * n + graph.targets[graph.out_edges(users)]
        reply = np.minimum(np.searchsorted(key, wanted), key.size - 1)
        acted = key[reply] == wanted
        trial = ~acted | (times[reply] > times[source])
        followed = trial & acted
        rivals = np.bincount(reply[followed], minlength=users.size)
        chances[piece] = np.bincount(source[trial], minlength=users.size)
        earned[piece] = np.bincount(source[followed], 1.0 / rivals[reply[followed]], users.size)
        exposed_items += np.bincount(np.unique(wanted[trial]) % n, minlength=n)
        followed_items += np.bincount(users[rivals > 0], minlength=n)
    rate = float(followed_items.sum()) / max(float(exposed_items.sum()), 1.0)
    response: F64 = np.log((followed_items + _RESPONSE_SMOOTHING) / (exposed_items * rate + _RESPONSE_SMOOTHING))
    shape, where = (n, held_out.size), (all_users, all_places)
    credit, exposure = (csr_array((part, where), shape=shape) @ mixtures[held_out] for part in (earned, chances))
    return credit, exposure, response


def user_profile(
    graph: Graph,
    log: ActionLog,
    held_out: ArrayLike,
    mixtures: ArrayLike,
    *,
    kinds: Sequence[FeatureKind] = ("eigenmap", "degree"),
    dim: int | None = 10,
) -> UserProfile:
    """Features of all users, and their taste, credit, exposure and chances by topic, from held-out items alone.

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
        See `user_features`. The eigenmap becomes the profile's coordinates. How often users followed an in-neighbour
        is one more feature; activity and taste are parts of the profile in any case.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> from tensorucb.features import held_out_items, topic_mixtures, user_profile
    >>> data = generate_dataset("sandbox", scale=0.1)
    >>> held, mixtures = held_out_items(data.log, share=0.5), topic_mixtures(data.log, 3)
    >>> user_profile(data.graph, data.log, held, mixtures, kinds=("degree",)).taste.shape[1]
    3
    """
    numbers = item_numbers(log, held_out)
    check_graph(graph)
    if not hasattr(log, "times"):
        raise refusal("log", "an action log with times, such as tensorucb.data.ActionLog", log)
    shares = check_array("mixtures", mixtures, (log.n_items, "k"), hint="One row for each item of the log.")
    kinds = check_sequence("kinds", kinds, "a list of kinds such as ('eigenmap', 'degree')")
    credit, exposure, response = _count_past(graph, log, shares, numbers)
    columns = [0.5 * standardised(response[:, None])]
    plain = [kind for kind in kinds if kind != "eigenmap"]
    if plain:
        columns.insert(0, user_features(graph, log, numbers, kinds=plain, dim=dim))
    users, places = actions_on(log, numbers, graph.n_nodes)
    mixes = shares[numbers[places]]
    taste = np.column_stack([np.bincount(users, column, graph.n_nodes).astype(np.float64) for column in mixes.T])
    coordinates = laplacian_eigenmap(graph, dim) if "eigenmap" in kinds else None
    chances = np.tile(shares[numbers].sum(axis=0), (graph.n_nodes, 1))
    return UserProfile(np.hstack(columns), taste, credit, exposure, coordinates, chances)
