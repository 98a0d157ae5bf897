"""Users: `UserProfile`, what is known of them before a campaign; and the profile that a network and a log give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb._columns import expected_credit, log_ratio, standardised, taste_beyond_activity
from tensorucb.arrays import F64, I64
from tensorucb.checks import LARGEST, check_array, check_choice, check_rows, check_sequence, refusal
from tensorucb.errors import InputError, ShapeError
from tensorucb.features._eigenmap import laplacian_eigenmap
from tensorucb.features._items import actions_on, item_numbers
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.graph._ids import frozen
from tensorucb.moments import check_times

if TYPE_CHECKING:
    from tensorucb.data import ActionLog

FeatureKind = Literal["eigenmap", "degree"]
"""The columns that `user_profile` can make of the network."""
# Items a user must have been exposed to before the rate of following counts by half.
_RESPONSE_SMOOTHING = 3.0
# Out-edges of users who acted that are looked at together, so that memory stays bounded.
_PIECE = 1_000_000
_PARTS = ("features", "taste", "credit", "exposure", "coordinates", "chances")


@dataclass(frozen=True, eq=False)
class UserProfile:
    """Users by row: features, and optionally their past actions and influence on items with topics.

    Pass it to `Policy.bind` or an environment in place of an (n, d) array. `TensorUCB` takes the parts; the linear and
    logistic baselines take :meth:`totals` and, for the product of each round, :meth:`matched`; other policies see
    :meth:`matrix`, all of it as one flat array. It counts as an array-like, so NumPy functions take it as well.

    Parameters
    ----------
    features
        ``(n, d)``, any scale; at least one column.
    taste
        ``(n, k)`` number of past actions by topic. k must be the dimension of products.
    credit, exposure
        ``(n, k)`` responses credited to a user as a source, and chances to earn them, by topic: both or neither.
    coordinates
        ``(n, c)`` position in the network, such as an eigenmap: part of :meth:`matrix`. `TensorUCB` leaves it out: it
        learns every source by itself, and such coordinates explain next to nothing of what is left.
    chances
        ``(n, k)`` past items by topic on which each user could have acted. With taste it says how often users act at
        all: the base rate that `TensorUCB` starts from.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorucb.features import UserProfile
    >>> profile = UserProfile(features=[[0.1], [0.5], [0.9]], taste=[[4, 0], [1, 1], [0, 6]])
    >>> profile.n, profile.k
    (3, 2)
    >>> liking = profile.matched([1.0, 0.0])[:, 0]  # for a product that is all about the first topic
    >>> int(np.argmax(liking))
    0
    """

    features: F64
    taste: F64 | None = None
    credit: F64 | None = None
    exposure: F64 | None = None
    coordinates: F64 | None = None
    chances: F64 | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit together."""
        for name in _PARTS:
            value = getattr(self, name)
            if value is not None or name == "features":
                low = 0.0 if name in ("taste", "credit", "exposure", "chances") else -LARGEST
                matrix = check_array(name, value, ("n?", "d"), low=low, hint="One row per user.")
                # Past the frozen dataclass: what came in any form is kept as a read-only array.
                object.__setattr__(self, name, frozen(matrix.copy()))
        if (self.credit is None) != (self.exposure is None):
            raise InputError("credit and exposure belong together: pass both or neither.")
        if self.chances is not None and self.taste is None:
            raise InputError("chances say how often users could have acted, and taste how often they did: pass both.")
        shapes = {p.shape for p in (self.taste, self.credit, self.exposure, self.chances) if p is not None}
        if self.coordinates is not None and len(self.coordinates) != self.n:
            raise ShapeError(
                f"must have one row for each of the {self.n} users; got {len(self.coordinates)}.",
                argument="coordinates",
            )
        if len(shapes) > 1 or any(shape[0] != self.n for shape in shapes):
            raise ShapeError(
                f"taste, credit, exposure and chances must be of one shape ({self.n}, k), one row per user; "
                f"got {sorted(shapes)}."
            )

    def __repr__(self) -> str:
        sizes = [f"{part} {matrix.shape[1]}" for part, matrix in self.parts().items()]
        return f"UserProfile({self.n:,} users, {', '.join(sizes)})"

    @property
    def n(self) -> int:
        """Number of users."""
        return int(self.features.shape[0])

    @property
    def k(self) -> int | None:
        """Number of topics; None without a past."""
        part = self.taste if self.taste is not None else self.credit
        return None if part is None else int(part.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Of :meth:`matrix`."""
        return self.n, int(self._flat.shape[1])

    def parts(self) -> dict[str, F64]:
        """The arrays that are there, by name."""
        named = {name: getattr(self, name) for name in _PARTS}
        return {name: array for name, array in named.items() if array is not None}

    def select(self, rows: ArrayLike) -> UserProfile:
        """The profile of some rows, by number or mask."""
        index = np.asarray(rows)
        return UserProfile(**{name: array[index] for name, array in self.parts().items()})

    def matrix(self) -> F64:
        """Everything side by side, ``(n, D)``, read-only.

        Coordinates and features as they are; then, if they are given, log(1 + actions), log(1 + actions) by
        topic, the log ratio of credit to what was expected, and the same by topic. Single columns have standard
        deviation ½, columns by topic 1/√k.
        """
        return self._flat

    def totals(self) -> F64:
        """What is known of users whatever the product, ``(n, d)``, read-only.

        Features as they are, then log(1 + actions) and the log ratio of credit to what was expected, over all topics.
        Coordinates are left out.
        """
        return self._totals

    def matched(self, product: ArrayLike) -> F64:
        """The users' past on items like one product: influence and taste, if they are given, ``(n, m)``.

        Influence is the log ratio of credit to what was expected, both weighted by the product's topics. Taste is
        log(1 + actions) by topic, beyond what the user's activity predicts, weighted in the same way. A feature below 0
        counts as 0, and the weights are scaled to sum to 1. Columns have standard deviation ½ over products of one
        topic, so that a column means the same for every product. Without a past there is no column.

        Parameters
        ----------
        product
            ``(k,)`` features of the product: its share of each topic.
        """
        weights = self.topic_weights(product)
        columns = []
        if self.credit is not None:
            mean, deviation = self._influence_scale
            ratio = log_ratio(self.credit @ weights, self._expected @ weights)
            columns.append(0.5 * (ratio - mean) / deviation)
        if self.taste is not None:
            columns.append(self._beyond_activity @ weights)
        return np.column_stack(columns) if columns else np.zeros((self.n, 0))

    def topic_weights(self, product: ArrayLike) -> F64:
        """A product's features as weights of topics, which sum to 1; an error if it has another number of topics."""
        shares = np.maximum(check_array("product", product, ("k",)), 0.0)
        if self.k is not None and shares.shape != (self.k,):
            raise ShapeError(
                f"the users' profile knows {self.k} topics, so a product (or its first vector) must have {self.k} "
                f"features; got shape {shares.shape}. Describe past items and products alike."
            )
        total = float(shares.sum())
        return shares / total if total > 0.0 else np.full(shares.size, 1.0 / max(shares.size, 1))

    def rates(self) -> F64 | None:
        """How often each user acted when they could, ``(n,)``; None if the profile does not say."""
        if self.taste is None or self.chances is None:
            return None
        return np.asarray(self.taste.sum(axis=1) / np.maximum(self.chances.sum(axis=1), 1.0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """:meth:`matrix`, for functions that take arrays."""
        flat: NDArray[Any] = self._flat.astype(dtype or np.float64, copy=bool(copy))
        return flat

    @cached_property
    def _expected(self) -> F64:
        """Credit that a user of average influence would have earned, by topic."""
        assert self.credit is not None
        assert self.exposure is not None
        return expected_credit(self.credit, self.exposure)

    @cached_property
    def _influence_scale(self) -> tuple[float, float]:
        """Mean and deviation of the log ratio over users and topics."""
        assert self.credit is not None
        ratio = log_ratio(self.credit, self._expected)
        return float(ratio.mean()), float(ratio.std()) or 1.0

    @cached_property
    def _beyond_activity(self) -> F64:
        """Log actions by topic beyond what activity predicts, with mean 0 and deviation ½ over users and topics."""
        assert self.taste is not None
        beyond = taste_beyond_activity(self.taste)
        return np.asarray(0.5 * (beyond - beyond.mean()) / (float(beyond.std()) or 1.0))

    @cached_property
    def _columns(self) -> dict[str, F64]:
        """Features, and the past overall and by topic, in the order of :meth:`matrix`."""
        columns = {"features": self.features}
        if self.taste is not None:
            by_topic = standardised(np.log1p(self.taste)) * float(self.taste.shape[1] ** -0.5)
            activity = standardised(np.log1p(self.taste.sum(axis=1, keepdims=True)))
            columns |= {"activity": 0.5 * activity, "activity by topic": by_topic}
        if self.credit is not None:
            by_topic = standardised(log_ratio(self.credit, self._expected)) * float(self.credit.shape[1] ** -0.5)
            totals = (part.sum(axis=1, keepdims=True) for part in (self.credit, self._expected))
            columns |= {"influence": 0.5 * standardised(log_ratio(*totals)), "influence by topic": by_topic}
        return columns

    @cached_property
    def _totals(self) -> F64:
        return frozen(np.hstack([block for name, block in self._columns.items() if not name.endswith("by topic")]))

    @cached_property
    def _flat(self) -> F64:
        first = [] if self.coordinates is None else [self.coordinates]
        return frozen(np.hstack([*first, *self._columns.values()]))


# -- from a network and a log --


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
