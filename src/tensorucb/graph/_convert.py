"""To and from other libraries' graphs and tables; each is imported only by whoever hands one in or asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_sequence, check_text, shown
from tensorucb.errors import InputError, MissingExtraError, ShapeError
from tensorucb.graph._build import node_ids
from tensorucb.graph._ids import distinct_ids, id_column
from tensorucb.tables import table_columns

if TYPE_CHECKING:
    import polars as pl


def column_names(source: Any, target: Any, attributes: Any) -> list[str]:
    """The names of the columns that hold the ids and the attributes, checked."""
    names = [check_text("source", source), check_text("target", target), *attribute_names(attributes)]
    if len(set(names)) < len(names):
        raise InputError(f"source, target and attributes must be different columns; got {shown(names)}.")
    return names


def attribute_names(attributes: Any) -> list[str]:
    """The names of the edge attributes to keep, checked."""
    names = check_sequence("attributes", attributes, "a list of names of columns")
    return [check_text(f"attributes[{i}]", name) for i, name in enumerate(names)]


def frame_columns(frame: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named columns of a polars, pandas or Arrow table, as `Graph.from_edges` takes them."""
    columns = table_columns("frame", frame)
    check_columns(list(columns), names)
    return {name: columns[name] for name in names}


def check_columns(present: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse names of columns that are not there."""
    missing = [name for name in names if name not in present]
    if missing:
        raise InputError(f"no column {shown(missing[0])}; the columns are {shown(list(present))}.")


def networkx_columns(network: Any, attributes: Sequence[str]) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from a networkx graph."""
    if not (hasattr(network, "nodes") and hasattr(network, "edges") and hasattr(network, "is_directed")):
        raise InputError(f"network must be a networkx graph; got {shown(network)}.")
    nodes = list(network.nodes)
    edges = list(network.edges(data=True))
    values = {name: _edge_values((data for _, _, data in edges), name) for name in attributes}
    return _columns(
        nodes, [edge[0] for edge in edges], [edge[1] for edge in edges], values, directed=network.is_directed()
    )


def igraph_columns(network: Any, attributes: Sequence[str]) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from an igraph graph."""
    if not (hasattr(network, "vs") and hasattr(network, "es") and hasattr(network, "get_edgelist")):
        raise InputError(f"network must be an igraph graph; got {shown(network)}.")
    names = network.vs["name"] if "name" in network.vs.attributes() else list(range(network.vcount()))
    pairs = network.get_edgelist()
    missing = [name for name in attributes if name not in network.es.attributes()]
    if missing:
        raise InputError(f"no edge attribute {shown(missing[0])}; the edges have {shown(network.es.attributes())}.")
    values = {name: network.es[name] for name in attributes}
    sources, targets = [names[i] for i, _ in pairs], [names[j] for _, j in pairs]
    return _columns(names, sources, targets, values, directed=network.is_directed())


def _edge_values(edges: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    values = []
    for row, data in enumerate(edges):
        if name not in data:
            raise InputError(f"edge {row} (counting from 0) has no attribute {shown(name)}.")
        values.append(data[name])
    return values


def _columns(
    nodes: list[Any], sources: list[Any], targets: list[Any], values: Mapping[str, list[Any]], *, directed: bool
) -> dict[str, Any]:
    if not nodes:
        raise InputError("a graph needs at least one edge; this one has no nodes.")
    ids = distinct_ids([id_column(node_ids(nodes), "nodes")])
    if not directed:
        # A loop is its own reverse: taken once, so that the count of loops is the caller's.
        back = [i for i, (a, b) in enumerate(zip(sources, targets, strict=True)) if a != b]
        sources, targets = sources + [targets[i] for i in back], targets + [sources[i] for i in back]
        values = {name: column + [column[i] for i in back] for name, column in values.items()}
    return {"sources": sources, "targets": targets, "nodes": ids, "attributes": values}


def scipy_columns(matrix: Any, attribute: str | None, nodes: Any) -> dict[str, Any]:
    """Arguments for `Graph.from_edges` from a sparse matrix."""
    if not hasattr(matrix, "tocoo"):
        raise InputError(f"matrix must be a scipy sparse array; got {shown(matrix)}.")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"matrix must be square; got shape {matrix.shape}.")
    ids = np.arange(matrix.shape[0], dtype=np.int64) if nodes is None else node_ids(nodes)
    if ids.size != matrix.shape[0]:
        raise ShapeError(f"nodes must name the {matrix.shape[0]} rows of the matrix; got {ids.size} ids.")
    entries = matrix.tocoo()
    values = {} if attribute is None else {check_text("attribute", attribute): entries.data}
    return {"sources": ids[entries.row], "targets": ids[entries.col], "nodes": ids, "attributes": values}


def to_frame(
    ids: NDArray[Any],
    sources: NDArray[np.int32],
    targets: NDArray[np.int32],
    attributes: Mapping[str, NDArray[Any]],
) -> pl.DataFrame:
    """A polars frame of edges."""
    import polars as pl

    names = pl.Series("id", ids)
    clash = {"source", "target"} & attributes.keys()
    if clash:
        raise InputError(f"an attribute is called {min(clash)!r}, which the frame needs for ids. Rename it.")
    return pl.DataFrame(
        {"source": names.gather(sources), "target": names.gather(targets), **attributes},
    )


def to_networkx(
    ids: NDArray[Any],
    sources: NDArray[np.int32],
    targets: NDArray[np.int32],
    attributes: Mapping[str, NDArray[Any]],
) -> Any:
    """A networkx graph."""
    try:
        import networkx as nx
    except ImportError as error:
        raise MissingExtraError("to_networkx needs networkx, which is not installed. Install networkx.") from error

    network = nx.DiGraph()
    names = ids.tolist()
    network.add_nodes_from(names)
    columns = [values.tolist() for values in attributes.values()]
    values = zip(*columns, strict=True) if columns else iter([()] * sources.size)
    network.add_edges_from(
        (names[s], names[t], dict(zip(attributes, row, strict=True)))
        for s, t, row in zip(sources.tolist(), targets.tolist(), values, strict=True)
    )
    return network


def to_scipy(
    offsets: NDArray[np.int64],
    targets: NDArray[np.int32],
    attributes: Mapping[str, NDArray[Any]],
    attribute: str | None,
) -> Any:
    """A sparse array in compressed rows."""
    from scipy.sparse import csr_array

    if attribute is not None and (not isinstance(attribute, str) or attribute not in attributes):
        raise InputError(f"no attribute {shown(attribute)}; the graph has {shown(list(attributes))}.")
    data = np.ones(targets.size) if attribute is None else attributes[attribute].copy()
    n = offsets.size - 1
    return csr_array((data, targets.copy(), offsets.copy()), shape=(n, n))
