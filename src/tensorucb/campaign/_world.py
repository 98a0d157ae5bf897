"""The campaign's world: the network by user keys, features, costs, groups.

A user's *key* stays theirs for the life of the campaign; their graph row is the rank of the key among the users who
are still there. Ids live in the store's table of users alone, so that these blobs name nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.campaign._users import (
    Users,
    as_users,
    grown_users,
    joined,
    some_users,
    users_from_arrays,
    users_to_arrays,
)
from tensorucb.checks import check_array, shown
from tensorucb.errors import FileFormatError, InputError, ShapeError, UnknownIdError
from tensorucb.files import pack_state, unpack_state
from tensorucb.graph import Graph
from tensorucb.graph._ids import IdIndex, describe_rows, id_column, kind_of

_DIGEST = 32


def seal(kind: str, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """A blob that begins with the SHA-256 of the rest, so that no change of a bit goes unnoticed."""
    data = pack_state(kind, settings, arrays)
    return hashlib.sha256(data).digest() + data


def unseal(data: bytes, kind: str, origin: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Settings and arrays of :func:`seal`'s bytes; one clear error if they are damaged."""
    if len(data) < _DIGEST or hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        raise FileFormatError(f"{origin} is damaged: its checksum does not match its content.")
    return unpack_state(data[_DIGEST:], kind, origin)


@dataclass(frozen=True)
class World:
    """Everything about users that a campaign knows.

    Attributes
    ----------
    revision
        Grows with every change of the network.
    next_key
        The key of the next new user.
    keys
        Key of each graph row, ascending.
    graph
        The network with the caller's ids.
    users
        Features, one row per user; or a profile with the past by topic, whose parts policies may use.
    costs, groups
        What contacting each user costs, and a label for each.
    born
        For each edge the number of the first round that could see it: earlier rounds never learn from its silence.
    """

    revision: int
    next_key: int
    keys: NDArray[np.int64]
    graph: Graph
    users: Users | None
    costs: NDArray[np.float64] | None
    groups: NDArray[Any] | None
    born: NDArray[np.int64]

    @property
    def strings(self) -> bool:
        """Whether ids are strings."""
        return self.graph.ids.dtype.kind == "U"

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.graph.ids)

    def known(self, column: Any, rows: NDArray[np.int64], name: str) -> NDArray[np.int64]:
        """Graph rows of a column of ids which stood in ``rows`` of what the caller sent; errors name those."""
        if rows.size == 0:
            return np.empty(0, dtype=np.int64)
        if kind_of(column) != self._index.kind:
            raise UnknownIdError(
                f"{name} in row {rows[0]} is {column[0]!r}, but ids of users are {self._index.kind}. Convert them."
            )
        found = self._index.rows(column).astype(np.int64)
        unknown = np.flatnonzero(found < 0)
        if unknown.size:
            first = [column[int(i)] for i in unknown[:5]]
            raise UnknownIdError(f"{name} is no user of this campaign: {describe_rows(first, rows[unknown])}.")
        return found

    def edges(self, s: NDArray[np.int64], t: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the edges between graph rows that stood in ``rows`` of what the caller sent; errors name those."""
        numbers = self.graph.edge_between(s, t)
        missing = np.flatnonzero(numbers < 0)
        if missing.size:
            at, ids = int(missing[0]), self.graph.ids
            raise UnknownIdError(
                f"row {rows[at]}: there is no edge {shown(ids[s[at]].item())} -> {shown(ids[t[at]].item())} in the "
                f"network ({missing.size} such rows). Remove them, or add the edge with add_users first."
            )
        return numbers

    def rows(self, keys: ArrayLike) -> NDArray[np.int64]:
        """Graph rows of keys; those of users who are gone are left out."""
        wanted = np.asarray(keys, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.keys, wanted), max(self.keys.size - 1, 0))
        return rows[self.keys[rows] == wanted] if self.keys.size else rows[:0]

    def ids(self, keys: ArrayLike) -> list[int | str]:
        """The caller's ids of keys."""
        return list(self.graph.ids[self.rows(keys)].tolist())


def as_id_array(ids: Any, name: str) -> NDArray[Any]:
    """Ids as an int64 or a string array."""
    column = id_column(ids, name)
    return column if isinstance(column, np.ndarray) else np.array(column.to_list(), dtype=np.str_)


def _per_user(name: str, values: ArrayLike | None, n: int) -> NDArray[Any] | None:
    if values is None:
        return None
    array = as_id_array(values, name)
    if array.shape != (n,):
        raise ShapeError(f"{name} must hold one value for each of the {n} users; got shape {array.shape}.")
    return array


def _costs(values: ArrayLike | None, n: int) -> NDArray[np.float64] | None:
    if values is None:
        return None
    return check_array("costs", values, (n,), low=0.0, hint=f"One number for each of the {n} users.")


def make_world(graph: Graph, users: ArrayLike | None, costs: ArrayLike | None, groups: ArrayLike | None) -> World:
    """The world at the start: keys are graph rows."""
    n = graph.n_nodes
    plain = Graph(n, graph.sources, graph.targets, graph.ids)
    return World(
        1,
        n,
        np.arange(n, dtype=np.int64),
        plain,
        as_users(users, n),
        _costs(costs, n),
        _per_user("groups", groups, n),
        np.zeros(graph.n_edges, dtype=np.int64),
    )


def world_to_blob(world: World) -> bytes:
    """The world as bytes, without ids."""
    arrays: dict[str, NDArray[Any]] = {
        "keys": world.keys,
        "sources": world.graph.sources,
        "targets": world.graph.targets,
        "born": world.born,
        **users_to_arrays(world.users),
    }
    for name in ("costs", "groups"):
        value = getattr(world, name)
        if value is not None:
            arrays[name] = value
    return seal("world", {"revision": world.revision, "next_key": world.next_key}, arrays)


def world_from_blob(data: bytes, keys: NDArray[np.int64], ids: Sequence[int | str]) -> World:
    """The world of :func:`world_to_blob`'s bytes and the table of users."""
    settings, arrays = unseal(data, "world", "the campaign's network")
    if not np.array_equal(arrays["keys"], keys):
        raise FileFormatError("the campaign's network and its table of users do not fit each other. Use a backup.")
    # An explicit dtype: a list of ids could be empty, and strings must never become numbers.
    named = np.array(ids, dtype=np.str_ if ids and isinstance(ids[0], str) else np.int64)
    graph = Graph(int(keys.size), arrays["sources"], arrays["targets"], named)
    return World(
        int(settings["revision"]),
        int(settings["next_key"]),
        arrays["keys"],
        graph,
        users_from_arrays(arrays),
        arrays.get("costs"),
        arrays.get("groups"),
        arrays["born"],
    )


def add_users(
    world: World,
    ids: Any,
    features: ArrayLike | None,
    sources: Any,
    targets: Any,
    costs: ArrayLike | None,
    groups: ArrayLike | None,
    born: int,
) -> World:
    """The world with new users (possibly none) and new edges between any users."""
    fresh = as_id_array(ids, "ids")
    _check_fresh(world, fresh)
    n, m = world.keys.size, fresh.size
    everyone = np.concatenate([world.graph.ids, fresh]) if m else world.graph.ids
    held = Graph(n + m, world.graph.sources, world.graph.targets, everyone)
    s, t = held.rows(sources), held.rows(targets)
    _check_edges(held, s, t)
    keys = np.concatenate([world.keys, np.arange(world.next_key, world.next_key + m, dtype=np.int64)])
    graph, borns = _with_edges(world, held, s, t, born)
    return World(
        world.revision + 1,
        world.next_key + m,
        keys,
        graph,
        grown_users(world.users, features, m),
        joined("costs", world.costs, _costs(costs, m), m),
        joined("groups", world.groups, _per_user("groups", groups, m), m),
        borns,
    )


def _check_fresh(world: World, fresh: NDArray[Any]) -> None:
    if fresh.size and (fresh.dtype.kind == "U") != world.strings:
        raise InputError(f"ids of new users are {kind_of(id_column(fresh, 'ids'))}, unlike those of the campaign.")
    names, counts = np.unique(fresh, return_counts=True)
    repeated = names[counts > 1]
    known = np.intersect1d(names, world.graph.ids)
    if repeated.size or known.size:
        first = repeated[0] if repeated.size else known[0]
        why = "comes twice" if repeated.size else "is in the campaign already"
        raise InputError(f"new user {shown(first.item())} {why}. Name each new user once.")


def _check_edges(graph: Graph, s: NDArray[np.int64], t: NDArray[np.int64]) -> None:
    if s.size != t.size:
        raise ShapeError(f"sources and targets must be of one length; got {s.size} and {t.size}.")
    loops = np.flatnonzero(s == t)
    if loops.size:
        raise InputError(f"edge {loops[0]} leads from {graph.ids[s[loops[0]]].item()!r} to itself. Leave it out.")


def _with_edges(
    world: World, held: Graph, s: NDArray[np.int64], t: NDArray[np.int64], born: int
) -> tuple[Graph, NDArray[np.int64]]:
    n = held.n_nodes
    old = world.graph.sources.astype(np.int64) * n + world.graph.targets
    new = np.setdiff1d(s * n + t, old)
    codes = np.concatenate([old, new])
    borns = np.concatenate([world.born, np.full(new.size, born, dtype=np.int64)])
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    return Graph(n, (codes // n).astype(np.int32), (codes % n).astype(np.int32), held.ids), borns[order]


def drop_user(world: World, row: int) -> World:
    """The world without this user and all edges that touch them."""
    keep = np.ones(world.keys.size, dtype=np.bool_)
    keep[row] = False
    graph = world.graph
    edges = keep[graph.sources] & keep[graph.targets]
    if not keep.any():
        raise InputError("this is the last user of the campaign. Delete the campaign instead (delete_campaign).")
    shift = (np.cumsum(keep) - 1).astype(np.int32)
    return replace(
        world,
        revision=world.revision + 1,
        keys=world.keys[keep],
        graph=Graph(int(keep.sum()), shift[graph.sources[edges]], shift[graph.targets[edges]], graph.ids[keep]),
        users=some_users(world.users, keep),
        costs=None if world.costs is None else world.costs[keep],
        groups=None if world.groups is None else world.groups[keep],
        born=world.born[edges],
    )
