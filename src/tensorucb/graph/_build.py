"""From columns of ids to sorted, checked edges in row numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import array_of, check_choice, check_mapping, check_text, is_missing, shown
from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph._ids import (
    IdIndex,
    describe_rows,
    distinct_ids,
    frozen,
    id_column,
    kind_of,
    string_array,
)

if TYPE_CHECKING:
    from tensorucb.graph._ids import Column

SelfLoops = Literal["error", "drop"]


@dataclass(frozen=True)
class EdgeTable:
    """What a `Graph` is made of: edges sorted by source, then target, without repeats or self-loops."""

    sources: NDArray[np.int32]
    targets: NDArray[np.int32]
    ids: NDArray[Any]
    attributes: dict[str, NDArray[Any]]
    merged_edges: int
    dropped_self_loops: int


def build_edges(
    sources: Any,
    targets: Any,
    *,
    nodes: Any = None,
    self_loops: SelfLoops = "error",
    attributes: Mapping[str, Any] | None = None,
) -> EdgeTable:
    """Check, translate to rows, drop self-loops if asked, sort and merge. Parameters as in `Graph.from_edges`."""
    check_self_loops(self_loops)
    source, target = id_column(sources, "sources"), id_column(targets, "targets")
    if len(source) != len(target):
        raise ShapeError(f"sources and targets must be of one length; got {len(source)} and {len(target)}.")
    if len(source) == 0:
        raise InputError("a graph needs at least one edge; the edge list is empty.")
    if len(source) >= np.iinfo(np.int32).max:
        raise InputError(f"a graph holds fewer than 2^31 edges; got {len(source)}.")
    if kind_of(source) != kind_of(target):
        raise InputError(
            f"ids must be all integers or all strings; sources are {kind_of(source)} and targets "
            f"{kind_of(target)}. Convert one of them."
        )
    given = {} if attributes is None else check_mapping("attributes", attributes, "a mapping of names to columns")
    columns = {name: attribute_column(values, name, len(source)) for name, values in given.items()}
    ids = distinct_ids([source, target]) if nodes is None else node_ids(nodes)
    s, t = _edge_rows(IdIndex(ids, lookups=2 * len(source)), source, target)
    s, t, kept = _without_loops(s, t, ids, self_loops)
    dropped = len(source) - s.size
    s, t, columns, merged = _sort_and_merge(s, t, ids, columns, kept)
    return EdgeTable(s, t, ids, columns, merged, dropped)


def check_self_loops(self_loops: str) -> None:
    """Refuse any other rule than those of `SelfLoops`."""
    check_choice("self_loops", self_loops, get_args(SelfLoops))


def node_ids(nodes: Any) -> NDArray[Any]:
    """The caller's node universe in the caller's order."""
    column = id_column(nodes, "nodes")
    if len(column) == 0:
        raise InputError("nodes is empty; leave it out to take the ids that the edges name.")
    values = column if isinstance(column, np.ndarray) else string_array(column)
    order = np.argsort(values, kind="stable")
    repeated = np.sort(order[1:][values[order[1:]] == values[order[:-1]]])
    if repeated.size:
        raise InputError(f"nodes must be distinct; repeated: {describe_rows(values[repeated[:5]].tolist(), repeated)}.")
    return values.copy()


def known_rows(index: IdIndex, column: Column, name: str, holder: str) -> NDArray[np.int32]:
    """Rows of the column's ids; an error that names the first ids which ``holder`` does not hold."""
    if kind_of(column) != index.kind:
        raise UnknownIdError(
            f"{name} are {kind_of(column)}, but the ids of {holder} are {index.kind}. Convert them first."
        )
    rows = index.rows(column)
    unknown = np.flatnonzero(rows < 0)
    if unknown.size:
        first = [column[int(i)] for i in unknown[:5]]
        raise UnknownIdError(f"{name} not in {holder}: {describe_rows(first, unknown)}.")
    return rows


def _edge_rows(index: IdIndex, source: Column, target: Column) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    return known_rows(index, source, "sources", "nodes"), known_rows(index, target, "targets", "nodes")


def _without_loops(
    s: NDArray[np.int32], t: NDArray[np.int32], ids: NDArray[Any], self_loops: SelfLoops
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.intp] | None]:
    loops = s == t
    count = int(np.count_nonzero(loops))
    if not count:
        return s, t, None
    if self_loops == "error":
        first = int(loops.argmax())
        raise InputError(
            f"{count} self-loop{'s' if count > 1 else ''}, the first in row {first} (counting from 0): "
            f"{shown(ids[s[first]].item())} points at itself. Pass self_loops='drop' to leave them out."
        )
    kept = np.flatnonzero(~loops)
    if not kept.size:
        raise InputError("a graph needs at least one edge; all of these are self-loops.")
    return s[kept], t[kept], kept


def _sort_and_merge(
    s: NDArray[np.int32],
    t: NDArray[np.int32],
    ids: NDArray[Any],
    columns: dict[str, NDArray[Any]],
    kept: NDArray[np.intp] | None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], dict[str, NDArray[Any]], int]:
    from tensorucb.graph._kernels import count_descents, sort_edges

    if kept is not None:
        columns = {name: values[kept] for name, values in columns.items()}
    if count_descents(frozen(s), frozen(t)) == 0:
        return s, t, columns, 0
    s, t, order = sort_edges(frozen(s), frozen(t), ids.size, bool(columns))
    columns = {name: values[order] for name, values in columns.items()}
    fresh = np.ones(s.size, dtype=np.bool_)
    np.not_equal(t[1:], t[:-1], out=fresh[1:])
    np.logical_or(fresh[1:], s[1:] != s[:-1], out=fresh[1:])
    merged = s.size - int(np.count_nonzero(fresh))
    if not merged:
        return s, t, columns, 0
    repeats = np.flatnonzero(~fresh)
    for name, values in columns.items():
        differ = repeats[values[repeats] != values[repeats - 1]]
        if differ.size:
            _raise_conflict(name, values, differ, s, t, ids, order if kept is None else kept[order])
    return s[fresh], t[fresh], {name: values[fresh] for name, values in columns.items()}, merged


def _raise_conflict(
    name: str,
    values: NDArray[Any],
    differ: NDArray[np.intp],
    s: NDArray[np.int32],
    t: NDArray[np.int32],
    ids: NDArray[Any],
    order: NDArray[Any],
) -> None:
    e = int(differ[0])
    raise InputError(
        f"edge {shown(ids[s[e]].item())} -> {shown(ids[t[e]].item())} comes in rows {order[e - 1]} and {order[e]} with "
        f"different values of {shown(name)}: {values[e - 1]} and {values[e]}; {differ.size} such repeats in all. "
        "Aggregate the rows of each edge first."
    )


def attribute_column(values: Any, name: str, length: int) -> NDArray[Any]:
    """One attribute as a fresh bool, int64, float64 or datetime64 array, complete and finite."""
    check_text("the name of an attribute", name)
    array = array_of(f"attribute {shown(name)}", values, "one number, boolean or time per edge")
    if array.dtype.kind == "O":
        array = _from_object_values(array, name)
    if array.shape != (length,):
        raise ShapeError(
            f"attribute {shown(name)} must hold one value an edge, of shape ({length},); got shape {array.shape}."
        )
    if array.dtype.kind in "mM":
        _raise_missing(name, np.isnat(array))
        return array.copy()
    if array.dtype.kind == "f":
        _raise_missing(name, np.isnan(array))
        infinite = np.flatnonzero(np.isinf(array))
        if infinite.size:
            raise InputError(
                f"attribute {shown(name)} must be finite; got {describe_rows(array[infinite[:5]].tolist(), infinite)}."
            )
        return array.astype(np.float64)
    if array.dtype.kind == "b":
        return array.copy()
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64)
    raise InputError(f"attribute {shown(name)} must hold numbers, booleans or times; got values of type {array.dtype}.")


def _from_object_values(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.ndim == 1:
        _raise_missing(name, np.array([is_missing(value) for value in array.tolist()], dtype=np.bool_))
    # NumPy finds the type again, now that nothing is missing; it must not read numbers out of strings.
    again = array_of(f"attribute {shown(name)}", array.tolist(), "one number, boolean or time per edge")
    if again.dtype.kind not in "biufmM":
        raise InputError(
            f"attribute {shown(name)} must hold numbers, booleans or times; got values such as {shown(array.flat[0])}."
        )
    return again


def _raise_missing(name: str, missing: NDArray[np.bool_]) -> None:
    count = int(np.count_nonzero(missing))
    if count:
        raise InputError(
            f"attribute {shown(name)} has {count} missing value{'s' if count > 1 else ''}, the first in row "
            f"{int(missing.argmax())} (counting from 0). Remove or fill these rows."
        )
