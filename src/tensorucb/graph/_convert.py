"""From files and from other libraries' graphs and tables to the arguments of `Graph.from_edges`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.checks import check_choice, check_sequence, check_text, refusal, shown, shown_path
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.graph._build import node_ids
from tensorucb.graph._ids import describe_rows
from tensorucb.reports import STRICT

if TYPE_CHECKING:
    import polars as pl


def column_names(source: Any, target: Any, attributes: Any) -> list[str]:
    """The names of the columns of ids, then those of attributes, checked."""
    names = [check_text("source", source), check_text("target", target), *_attribute_names(attributes)]
    if len(set(names)) < len(names):
        raise InputError(f"source, target and attributes must be different columns; got {shown(names)}.")
    return names


def _attribute_names(attributes: Any) -> list[str]:
    names = check_sequence("attributes", attributes, "a list of names of columns")
    return [check_text(f"attributes[{i}]", name) for i, name in enumerate(names)]


def check_format(file: Path, id_type: Any, separator: Any) -> None:
    """Refuse a file whose format nobody knows, and what `Graph.read` cannot do with its format."""
    from tensorucb._delimited import PARQUET, TEXT, suffix_of

    check_choice("id_type", id_type, ("auto", "int", "str"))
    suffix = suffix_of(file, (*TEXT, PARQUET))
    single = isinstance(separator, str) and len(separator) == 1 and (" " <= separator <= "~" or separator == "\t")
    if separator is not None and (suffix == PARQUET or not single):
        raise InputError(
            f"is one character, for text files only; got {shown(separator)} for {suffix}.", argument="separator"
        )


def read_columns(file: Path, names: list[str], id_type: str, separator: str | None) -> pl.DataFrame:
    """The named columns of an edge-list file, and no others; the first two hold ids. The rest as in `Graph.read`."""
    import polars as pl

    from tensorucb.tables import Field, is_text, read

    ends = names[:2]
    text = is_text(file)
    # All as text at first: a number may be written 007, and then one text makes all of them texts.
    kind = "text" if id_type == "str" or text else "id"
    fields = [Field(name, kind if name in ends else "any") for name in names]
    table = read("edges", file, fields, columns={name: name for name in names}, part_of="", separator=separator)
    table.report.check(STRICT)
    frame = table.frame.select(names)
    if id_type == "str" or (id_type == "auto" and not text):
        return frame
    numbers = frame.select(pl.col(ends).cast(pl.Int64, strict=False))
    if not any(numbers[name].null_count() for name in ends):
        return frame.with_columns(numbers)
    if id_type == "int":
        name = next(name for name in ends if numbers[name].null_count())
        bad = numbers[name].is_null().arg_true().to_numpy()
        came = describe_rows(frame[name].gather(bad[:5]).to_list(), bad)
        raise FileFormatError(f"{shown_path(file)}: column {name!r} must hold integers; got {came}.")
    return frame.with_columns(pl.col(ends).cast(pl.String))


def frame_columns(frame: Any, source: str, target: str, attributes: Sequence[str]) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from a polars, pandas or Arrow table."""
    from tensorucb.tables import as_frame

    names = column_names(source, target, attributes)
    columns = as_frame("frame", frame)
    missing = [name for name in names if name not in columns.columns]
    if missing:
        raise InputError(f"no column {shown(missing[0])}; the columns are {shown(columns.columns)}.")
    values = {name: columns[name] for name in names[2:]}
    return {"sources": columns[source], "targets": columns[target], "attributes": values}


def networkx_columns(network: Any, attributes: Sequence[str]) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from a networkx graph."""
    if not (hasattr(network, "nodes") and hasattr(network, "edges") and hasattr(network, "is_directed")):
        raise refusal("network", "a networkx graph", network)
    edges = list(network.edges(data=True))
    values: dict[str, list[Any]] = {}
    for name in _attribute_names(attributes):
        for row, (_, _, data) in enumerate(edges):
            if name not in data:
                raise InputError(f"edge {row + 1} has no attribute {shown(name)}.")
        values[name] = [data[name] for _, _, data in edges]
    sources, targets = [edge[0] for edge in edges], [edge[1] for edge in edges]
    return _columns(list(network.nodes), sources, targets, values, directed=network.is_directed())


def igraph_columns(network: Any, attributes: Sequence[str]) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from an igraph graph."""
    if not (hasattr(network, "vs") and hasattr(network, "es") and hasattr(network, "get_edgelist")):
        raise refusal("network", "an igraph graph", network)
    names = network.vs["name"] if "name" in network.vs.attributes() else list(range(network.vcount()))
    pairs = network.get_edgelist()
    wanted, present = _attribute_names(attributes), network.es.attributes()
    missing = [name for name in wanted if name not in present]
    if missing:
        raise InputError(f"no edge attribute {shown(missing[0])}; the edges have {shown(present)}.")
    values = {name: network.es[name] for name in wanted}
    sources, targets = [names[i] for i, _ in pairs], [names[j] for _, j in pairs]
    return _columns(names, sources, targets, values, directed=network.is_directed())


def _columns(
    nodes: list[Any], sources: list[Any], targets: list[Any], values: Mapping[str, list[Any]], *, directed: bool
) -> dict[str, Any]:
    if not nodes:
        raise InputError("a graph needs at least one edge; this one has no nodes.")
    ids = np.sort(node_ids(nodes))
    if not directed:
        # A loop is its own reverse: taken once, so that the count of loops is the caller's.
        back = [i for i, (a, b) in enumerate(zip(sources, targets, strict=True)) if a != b]
        sources, targets = sources + [targets[i] for i in back], targets + [sources[i] for i in back]
        values = {name: column + [column[i] for i in back] for name, column in values.items()}
    return {"sources": sources, "targets": targets, "nodes": ids, "attributes": values}


def scipy_columns(matrix: Any, attribute: str | None, nodes: Any) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from a sparse matrix."""
    if not hasattr(matrix, "tocoo"):
        raise refusal("matrix", "a scipy sparse array", matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"must be square; got shape {matrix.shape}.", argument="matrix")
    ids = np.arange(matrix.shape[0], dtype=np.int64) if nodes is None else node_ids(nodes)
    if ids.size != matrix.shape[0]:
        raise ShapeError(f"must name the {matrix.shape[0]} rows of the matrix; got {ids.size} ids.", argument="nodes")
    entries = matrix.tocoo()
    values = {} if attribute is None else {check_text("attribute", attribute): entries.data}
    return {"sources": ids[entries.row], "targets": ids[entries.col], "nodes": ids, "attributes": values}
