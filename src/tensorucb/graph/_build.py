"""From columns of ids to sorted, checked edges in row numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import I32, I64
from tensorucb.checks import array_of, check_choice, check_mapping, check_text, is_missing, shown
from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph._ids import (
    IdIndex,
    describe_rows,
    distinct_ids,
    frozen,
    id_array,
    id_column,
    kind_of,
    refuse_missing,
)
from tensorucb.memory import building, check_memory

if TYPE_CHECKING:
    from tensorucb.graph._ids import Column

SelfLoops = Literal["error", "drop"]
_Attributes = dict[str, NDArray[Any]]


def build_edges(
    sources: Any, targets: Any, nodes: Any, self_loops: SelfLoops, attributes: Mapping[str, Any] | None
) -> tuple[int, I32, I32, NDArray[Any], _Attributes, int, int]:
    """The fields of a `Graph`, in its order, from the arguments of `Graph.from_edges`."""
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
    by_name = {} if attributes is None else check_mapping("attributes", attributes, "a mapping of names to columns")
    needed = building(len(source), len(by_name), strings=kind_of(source) == "strings")
    check_memory(f"a network of {len(source):,} edges", needed)
    columns = {name: attribute_column(values, name, len(source)) for name, values in by_name.items()}
    ids = distinct_ids([source, target]) if nodes is None else node_ids(nodes)
    index = IdIndex(ids, lookups=2 * len(source))
    s, t = known_rows(index, source, "sources", "nodes"), known_rows(index, target, "targets", "nodes")
    loops = s == t
    _check_loops(loops, ids, s, self_loops)
    # An edge as one number, by source and then by target; in place, since edges come by the ten millions.
    keys = s.astype(np.int64)
    keys *= ids.size
    keys += t
    # Where the edges stood in what came, which only attributes need.
    rows = np.arange(keys.size if columns else 0)
    if loops.any():
        keys = keys[~loops]
        rows = rows[~loops] if columns else rows
    if columns:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        rows = rows[order]
    elif not (keys[1:] > keys[:-1]).all():
        keys.sort()
    repeats = np.flatnonzero(keys[1:] == keys[:-1]) + 1
    if repeats.size:
        _check_agreement(columns, rows, repeats, ids, keys)
        keys = np.delete(keys, repeats)
        rows = np.delete(rows, repeats) if columns else rows
    s, t = (keys // ids.size).astype(np.int32), (keys % ids.size).astype(np.int32)
    held = {name: frozen(values[rows]) for name, values in columns.items()}
    return int(ids.size), s, t, ids, held, int(repeats.size), int(np.count_nonzero(loops))


def check_self_loops(self_loops: str) -> None:
    """Refuse any other rule than those of `SelfLoops`."""
    check_choice("self_loops", self_loops, get_args(SelfLoops))


def node_ids(nodes: Any) -> NDArray[Any]:
    """The caller's node ids in the caller's order."""
    values = id_array(nodes, "nodes")
    if values.size == 0:
        raise InputError("is empty; leave it out to take the ids that the edges name.", argument="nodes")
    order = np.argsort(values, kind="stable")
    repeated = np.sort(order[1:][values[order[1:]] == values[order[:-1]]])
    if repeated.size:
        raise InputError(
            f"must be distinct; repeated: {describe_rows(values[repeated[:5]].tolist(), repeated)}.", argument="nodes"
        )
    return values.copy()


def known_rows(index: IdIndex, column: Column, name: str, holder: str) -> I32:
    """Rows of the column's ids; an error that names the first ids which ``holder`` does not hold."""
    if kind_of(column) != index.kind:
        raise UnknownIdError(
            f"are {kind_of(column)}, but the ids of {holder} are {index.kind}. Convert them first.", argument=name
        )
    rows = index.rows(column)
    unknown = np.flatnonzero(rows < 0)
    if unknown.size:
        first = [column[int(i)] for i in unknown[:5]]
        raise UnknownIdError(f"not in {holder}: {describe_rows(first, unknown)}.", argument=name)
    return rows


def rows_by_id(index: IdIndex, ids: ArrayLike) -> I64:
    """Rows of the caller's ids in a graph."""
    column = id_column(ids, "ids")
    if len(column) == 0:
        return np.empty(0, dtype=np.int64)
    return known_rows(index, column, "ids", "the graph").astype(np.int64)


def _check_loops(loops: NDArray[np.bool_], ids: NDArray[Any], s: I32, self_loops: SelfLoops) -> None:
    """Refuse self-loops, unless they are to be left out and something else is left."""
    count = int(np.count_nonzero(loops))
    if count and self_loops == "error":
        first = int(loops.argmax())
        raise InputError(
            f"{count} self-loop{'s' if count > 1 else ''}, the first in row {first + 1}: "
            f"{shown(ids[s[first]].item())} points at itself. Pass self_loops='drop' to leave them out."
        )
    if count == loops.size:
        raise InputError("a graph needs at least one edge; all of these are self-loops.")


def _check_agreement(columns: _Attributes, rows: I64, repeats: I64, ids: NDArray[Any], keys: I64) -> None:
    """Refuse edges that come again with other values; ``repeats`` are their places behind equal ones."""
    for name, values in columns.items():
        differ = repeats[values[rows[repeats]] != values[rows[repeats - 1]]]
        if differ.size:
            source, target = (shown(ids[row].item()) for row in divmod(int(keys[differ[0]]), ids.size))
            former, again = rows[differ[0] - 1], rows[differ[0]]
            raise InputError(
                f"edge {source} -> {target} comes in rows {former + 1} and {again + 1} with different values of "
                f"{shown(name)}: {values[former]} and {values[again]}; {differ.size} such repeats in all. "
                "Aggregate the rows of each edge first."
            )


def attribute_column(values: Any, name: str, length: int) -> NDArray[Any]:
    """One attribute as a bool, int64, float64 or datetime64 array, complete and finite; a copy only where needed."""
    check_text("the name of an attribute", name)
    label, wanted = f"attribute {shown(name)}", "one number, boolean or time per edge"
    array = array_of(label, values, wanted)
    if array.dtype.kind == "O":
        if array.ndim == 1:
            refuse_missing(label, [is_missing(value) for value in array.tolist()])
        # NumPy finds the type again, now that nothing is missing; it must not read numbers out of strings.
        first, array = array.flat[:1], array_of(label, array.tolist(), wanted)
        if array.dtype.kind not in "biufmM":
            raise InputError(f"{label} must hold numbers, booleans or times; got values such as {shown(first[0])}.")
    if array.shape != (length,):
        raise ShapeError(f"{label} must hold one value per edge, of shape ({length},); got shape {array.shape}.")
    if array.dtype.kind in "mM":
        refuse_missing(label, np.isnat(array))
        return array
    if array.dtype.kind == "f":
        refuse_missing(label, np.isnan(array))
        infinite = np.flatnonzero(np.isinf(array))
        if infinite.size:
            raise InputError(f"{label} must be finite; got {describe_rows(array[infinite[:5]].tolist(), infinite)}.")
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind in "iu" and array.dtype != np.uint64:
        return array.astype(np.int64, copy=False)
    raise InputError(f"{label} must hold numbers, booleans or times; got values of type {array.dtype}.")
