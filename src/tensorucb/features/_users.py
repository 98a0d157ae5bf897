"""What a network and a log tell about users: degrees, taste, and how they influenced and followed others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tensorucb._columns import standardised
from tensorucb.arrays import F64, I64
from tensorucb.checks import check_array, check_choice, check_rows, check_sequence, refusal
from tensorucb.errors import ShapeError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._items import actions_on, item_numbers
from tensorucb.features._profile import UserProfile
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_times

if TYPE_CHECKING:
    from tensorucb.data import ActionLog

FeatureKind = Literal["eigenmap", "degree"]
"""The columns that `user_profile` can make of the network."""
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
        places = all_places[piece]
        users = all_users[piece]
        times = all_times[piece]
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
        ``eigenmap``: `laplacian_eigenmap` of ``dim`` columns, as the profile's coordinates. ``degree``:
        `degree_features` with standard deviation ½. How often users followed an in-neighbour is a feature in any case.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> from tensorucb.features import TopicModel, held_out_items, user_profile
    >>> data = generate_dataset("sandbox", scale=0.1)
    >>> held = held_out_items(data.log, share=0.5)
    >>> mixtures = TopicModel.fit(data.log, held, n_topics=3).transform(data.log)
    >>> user_profile(data.graph, data.log, held, mixtures, kinds=("degree",)).taste.shape[1]
    3
    """
    numbers = item_numbers(log, held_out)
    check_graph(graph)
    if not hasattr(log, "times"):
        raise refusal("log", "an action log with times, such as tensorucb.data.ActionLog", log)
    shares = check_array("mixtures", mixtures, (log.n_items, "k"), hint="One row for each item of the log.")
    for kind in check_sequence("kinds", kinds, "a list of kinds such as ('eigenmap', 'degree')"):
        check_choice("kinds", kind, get_args(FeatureKind))
    credit, exposure, response = _count_past(graph, log, shares, numbers)
    columns = [0.5 * standardised(response[:, None])]
    if "degree" in kinds:
        columns.insert(0, 0.5 * degree_features(graph))
    users, places = actions_on(log, numbers, graph.n_nodes)
    mixes = shares[numbers[places]]
    taste = np.column_stack([np.bincount(users, column, graph.n_nodes).astype(np.float64) for column in mixes.T])
    coordinates = laplacian_eigenmap(graph, dim) if "eigenmap" in kinds else None
    chances = np.tile(shares[numbers].sum(axis=0), (graph.n_nodes, 1))
    return UserProfile(np.hstack(columns), taste, credit, exposure, coordinates, chances)
