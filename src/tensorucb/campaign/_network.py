"""The campaign's network: its edges, features, costs, groups.

A user is their graph row everywhere, in memory and in the store: new users come behind the others, and nothing is ever
translated. Only forgetting somebody moves rows: everybody behind that user moves up by one, in one transaction, in all
that the store holds (`tensorucb.campaign._forget`). Ids live in the store's list of users alone, so that these blobs
name nobody. In stores, blobs and events call the network "world", the name that it had in the first release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import array_of, check_array, is_missing, plain, shown
from tensorucb.errors import FileFormatError, InputError, ShapeError, UnknownIdError, call
from tensorucb.features import UserProfile
from tensorucb.files import pack_state, unpack_state
from tensorucb.graph import Graph
from tensorucb.graph._ids import IdIndex, describe_rows, id_array, id_column, kind_of
from tensorucb.memory import check_memory

Users = F64 | UserProfile

# In front of the names of arrays that are stored: parts of what is known of users, and users of defaults.
_PART, _DEFAULT = "users_", "default_"

BY_USER = ("costs", "groups", "values", "consent")
"""What a campaign may know of each user beside features: fields of `Network`, checked by `user_columns`."""


@dataclass(frozen=True)
class Network:
    """Everything about users that a campaign knows; arrays have one entry for each graph row.

    ``revision`` grows with every change; rows of users are those of one revision. ``users`` are features, one row each,
    or a profile whose parts policies may use. ``born`` holds for each edge the number of the first round that could see
    it: earlier rounds never learn from its silence. ``defaults`` are the users whom the campaign's own defaults name,
    by argument of `Campaign.ask`. ``values`` is what a response of each user is worth, and ``consent`` says who may be
    contacted; None where it was not given.
    """

    revision: int
    graph: Graph
    users: Users | None
    born: I64
    defaults: Mapping[str, I64] = field(default_factory=dict)
    costs: F64 | None = None
    groups: NDArray[Any] | None = None
    values: F64 | None = None
    consent: NDArray[np.bool_] | None = None

    @property
    def columns(self) -> dict[str, NDArray[Any] | None]:
        """What is known of each user beside features."""
        return {name: getattr(self, name) for name in BY_USER}

    @property
    def strings(self) -> bool:
        """Whether ids are strings."""
        return self.graph.ids.dtype.kind == "U"

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.graph.ids)

    def rows(self, name: str, users: ArrayLike) -> I64:
        """Graph rows of the users whom an argument names; an error that says who is none."""
        column = id_column(users, name)
        rows = self.find(column, np.arange(1, len(column) + 1), name)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size:
            first = [column[int(row)] for row in unknown[:5]]
            said = shown(first[0]) if len(column) == 1 else describe_rows(first, unknown)
            advice = call("users"), " lists them."
            raise UnknownIdError(f"names {said}, and the campaign has no such user.", argument=name, advice=advice)
        return rows

    def find(self, column: Any, lines: I64, name: str, *, text: bool = False) -> I64:
        """Graph rows of a column of ids, -1 for those who are no users.

        ``lines`` say where they stood in what the caller sent, counted from 1. With ``text`` they come from a file of
        text, where a single guest among whole numbers makes a column text.
        """
        if lines.size == 0:
            return np.empty(0, dtype=np.int64)
        if kind_of(column) == self._index.kind:
            return self._index.rows(column).astype(np.int64)
        if not text or self.strings:
            raise UnknownIdError(
                f"in row {lines[0]} is {column[0]!r}, but ids of users are {self._index.kind}. Convert them.",
                argument=name,
            )
        return self._index.places(column).astype(np.int64)

    def edges_in_round(self, rows: I64, number: int, told: I64 | None = None) -> I64:
        """Out-edges of users that were there in a round, or of which it was ``told`` something; ascending."""
        edges = self.graph.out_edges(np.sort(rows))
        there = self.born[edges] <= number
        return edges[there if told is None else there | np.isin(edges, told)]

    def ids(self, rows: I64) -> list[int | str]:
        """The caller's ids of rows."""
        return list(self.graph.ids[rows].tolist())


def without_row(rows: I64, gone: int) -> I64:
    """Rows of users once one of them is forgotten: theirs is left out, and those behind it move up by one."""
    kept: I64 = rows[rows != gone]
    return np.where(kept > gone, kept - 1, kept)


def user_columns(raw_columns: Mapping[str, ArrayLike | None], n: int) -> dict[str, NDArray[Any]]:
    """The columns of `BY_USER` that came for ``n`` users, checked."""
    columns: dict[str, NDArray[Any]] = {}
    for name, values in raw_columns.items():
        if values is None:
            continue
        if name in ("costs", "values"):
            hint = f"One number for each of the {n} users."
            columns[name] = check_array(name, values, (n,), low=0.0, hint=hint)
            continue
        column = as_consent(name, values) if name == "consent" else id_array(values, name)
        if column.shape != (n,):
            message = f"must hold one value for each of the {n} users; got shape {column.shape}."
            raise ShapeError(message, argument=name)
        columns[name] = column
    return columns


_YES = frozenset({"yes", "y", "true", "t", "1", "1.0", "on", "ja", "oui", "si", "sí", "granted", "opt-in", "opted in"})
_NO = frozenset(
    {"no", "n", "false", "f", "0", "0.0", "off", "nein", "non", "denied", "opt-out", "opted out", "", "none"}
)


def as_consent(name: str, values: Any) -> NDArray[np.bool_]:
    """Who consented: booleans, 0 and 1, or words such as yes and no; what is missing is a no."""
    answers = array_of(name, values, "yes or no for each user")
    if answers.dtype.kind == "b":
        return np.ascontiguousarray(answers)
    words = ["" if is_missing(value) else str(value).strip().lower() for value in answers.ravel().tolist()]
    strange = next((at for at, word in enumerate(words) if word not in _YES and word not in _NO), None)
    if strange is not None:
        came = f"{shown(plain(answers.ravel()[strange]))} in row {strange + 1}"
        raise InputError(argument=name, wanted="yes or no (also true, 1, on …) for each user", got=came)
    return np.array([word in _YES for word in words], dtype=np.bool_).reshape(answers.shape)


def make_network(graph: Graph, users: ArrayLike | None, columns: Mapping[str, ArrayLike | None]) -> Network:
    """The network at the start; ``columns`` are those of `BY_USER`."""
    n = graph.n_nodes
    bare = Graph(n, graph.sources, graph.targets, graph.ids)
    born = np.zeros(graph.n_edges, dtype=np.int64)
    return Network(1, bare, _as_users(users, n), born, {}, **user_columns(columns, n))


def network_to_blob(network: Network) -> bytes:
    """The network as bytes, without ids."""
    graph = network.graph
    arrays: dict[str, NDArray[Any] | None] = {
        "sources": graph.sources,
        "targets": graph.targets,
        "born": network.born,
        **{_PART + part: array for part, array in _parts(network.users).items()},
        **network.columns,
        **{_DEFAULT + name: rows for name, rows in network.defaults.items()},
    }
    held = {name: array for name, array in arrays.items() if array is not None}
    profile = isinstance(network.users, UserProfile)
    return pack_state("world", {"revision": network.revision, "users": graph.n_nodes, "profile": profile}, held)


def network_from_blob(data: bytes, ids: Sequence[int | str]) -> Network:
    """The network of :func:`network_to_blob`'s bytes and the list of users."""
    n = len(ids)
    check_memory("loading the campaign's network", 4.0 * len(data) + 250.0 * n)
    settings, arrays = unpack_state(data, "world", "the campaign's network")
    if settings["users"] != n:
        raise FileFormatError("the campaign's network and its list of users do not fit each other. Use a backup.")
    # An explicit dtype: a list of ids could be empty, and strings must never become numbers.
    named = np.array(ids, dtype=np.str_ if ids and isinstance(ids[0], str) else np.int64)
    graph = Graph(n, arrays["sources"], arrays["targets"], named)
    parts, defaults = (
        {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        for prefix in (_PART, _DEFAULT)
    )
    users = UserProfile(**parts) if settings["profile"] else parts.get("features")
    columns = {name: arrays.get(name) for name in BY_USER}
    return Network(int(settings["revision"]), graph, users, arrays["born"], defaults, **columns)


def grown_network(
    network: Network,
    fresh: NDArray[Any],
    features: ArrayLike | None,
    edges: tuple[Any, Any],
    columns: Mapping[str, ArrayLike | None],
    born: int,
) -> Network:
    """The network with new users (possibly none) of the ids ``fresh``, and new edges between any users."""
    _check_fresh(network, fresh)
    m = fresh.size
    n = network.graph.n_nodes + m
    everyone = np.concatenate([network.graph.ids, fresh]) if m else network.graph.ids
    larger_graph = Graph(n, network.graph.sources, network.graph.targets, everyone)
    s, t = (larger_graph.rows(ids) for ids in edges)
    if s.size != t.size:
        raise ShapeError(f"sources and targets must be of one length; got {s.size} and {t.size}.")
    loops = np.flatnonzero(s == t)
    if loops.size:
        raise InputError(f"an edge leads from {everyone[s[loops[0]]].item()!r} to itself. Leave it out.")
    # An edge as one number, source · n + target: sorted, these are in graph order. What was there before stays.
    old = network.graph.sources.astype(np.int64) * n + network.graph.targets
    codes, first = np.unique(np.concatenate([old, s * n + t]), return_index=True)
    first_rounds = np.concatenate([network.born, np.full(s.size, born, dtype=np.int64)])
    came = user_columns(columns, m)
    if network.consent is not None:
        # Of whom nothing is known, there is no consent.
        came.setdefault("consent", np.zeros(m, dtype=np.bool_))
    return Network(
        network.revision + 1,
        Graph(n, (codes // n).astype(np.int32), (codes % n).astype(np.int32), everyone),
        _grown_users(network.users, _as_users(features, m), m),
        first_rounds[first],
        network.defaults,
        **{name: _joined(name, held, came.get(name), m) for name, held in network.columns.items()},
    )


def _check_fresh(network: Network, fresh: NDArray[Any]) -> None:
    if fresh.size and (fresh.dtype.kind == "U") != network.strings:
        raise InputError(f"ids of new users are {kind_of(id_column(fresh, 'ids'))}, unlike those of the campaign.")
    names, counts = np.unique(fresh, return_counts=True)
    repeated = names[counts > 1]
    taken = names[network.find(id_column(names, "ids"), np.arange(1, names.size + 1), "ids") >= 0]
    if repeated.size or taken.size:
        first = repeated[0] if repeated.size else taken[0]
        why = "comes twice" if repeated.size else "is in the campaign already"
        raise InputError(f"new user {shown(first.item())} {why}. Name each new user once.")


def _as_users(values: ArrayLike | UserProfile | None, n: int) -> Users | None:
    """What was given of ``n`` users, checked; a profile stays one."""
    if isinstance(values, UserProfile):
        if values.n != n:
            raise ShapeError(f"the user profile must have one row for each of the {n} users; got {values.n}.")
        return values
    hint = f"One row for each of the {n} users."
    return None if values is None else check_array("user features", values, (n, "d"), hint=hint)


def _parts(users: Users | None) -> dict[str, F64]:
    """Users by part of a profile; a plain matrix is its features alone."""
    if users is None:
        return {}
    return users.parts() if isinstance(users, UserProfile) else {"features": users}


def _grown_users(old: Users | None, new: Users | None, m: int) -> Users | None:
    """The users with ``m`` new ones; parts of a profile that do not come are zero: no past that we know of."""
    if m == 0:
        return old
    held = _parts(old)
    came = _parts(new)
    unknown = [name for name in came if name not in held]
    if held and not came:
        raise InputError("the campaign has users' features, so new users need them; got none.")
    if unknown and not held:
        raise InputError("the campaign has no users' features, so new users cannot have them.")
    if unknown and not isinstance(old, UserProfile):
        raise InputError(
            "the campaign was created with a plain matrix of user features, so new users cannot have a profile. "
            f"Pass an (m, {held['features'].shape[1]}) array."
        )
    if unknown:
        raise InputError(
            f"the campaign's user profile has no {' and no '.join(unknown)}, so new users cannot have any. "
            f"Leave it out; the campaign knows {', '.join(held)}."
        )
    for name, part in came.items():
        if part.shape[1] != held[name].shape[1]:
            raise ShapeError(
                f"of new users must have {held[name].shape[1]} columns; got {part.shape[1]}.", argument=name
            )
    fresh = {name: came.get(name, np.zeros((m, part.shape[1]))) for name, part in held.items()}
    grown = {name: np.concatenate([part, fresh[name]]) for name, part in held.items()}
    return UserProfile(**grown) if isinstance(old, UserProfile) else grown.get("features")


def _joined(name: str, old: NDArray[Any] | None, new: NDArray[Any] | None, m: int) -> NDArray[Any] | None:
    """A column by user with the rows of ``m`` new ones."""
    if m == 0:
        return old
    if old is None and new is not None:
        raise InputError(f"the campaign has no {name}, so new users cannot have them.")
    if old is not None and new is None:
        raise InputError(f"the campaign has {name}, so new users need them; got none.")
    return None if old is None or new is None else np.concatenate([old, new])


def drop_user(network: Network, row: int) -> Network:
    """The network without this user and all edges that touch them; the rows behind theirs move up by one."""
    keep = np.ones(network.graph.n_nodes, dtype=np.bool_)
    keep[row] = False
    if not keep.any():
        advice = "Delete the campaign instead, with ", call("delete_campaign"), "."
        raise InputError("this is the last user of the campaign.", advice=advice)
    graph = network.graph
    users = network.users
    edges = keep[graph.sources] & keep[graph.targets]
    shift = (np.cumsum(keep) - 1).astype(np.int32)
    return replace(
        network,
        revision=network.revision + 1,
        graph=Graph(int(keep.sum()), shift[graph.sources[edges]], shift[graph.targets[edges]], graph.ids[keep]),
        users=users.select(keep) if isinstance(users, UserProfile) else None if users is None else users[keep],
        born=network.born[edges],
        defaults={name: without_row(rows, row) for name, rows in network.defaults.items()},
        **{name: None if column is None else column[keep] for name, column in network.columns.items()},
    )
