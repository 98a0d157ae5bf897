"""`Graph`: a directed graph in compressed rows both ways, with the caller's ids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import I32, I64
from tensorucb.checks import array_of, check_count, check_mapping, check_path, check_rows, shown, shown_path
from tensorucb.errors import FileFormatError, InputError, MissingExtraError, ShapeError, UnknownIdError
from tensorucb.files import cache_directory
from tensorucb.graph import _convert
from tensorucb.graph._build import SelfLoops, attribute_column, build_edges, check_self_loops, node_ids, rows_by_id
from tensorucb.graph._ids import IdIndex, describe_rows, frozen
from tensorucb.memory import check_memory, transposing

if TYPE_CHECKING:
    import polars as pl

_AT_ONCE = 2**24  # rows that NumPy counts at once: it makes a copy of 8 bytes for each


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A directed graph: an edge goes from a user to one that they can influence.

    Build it with :meth:`from_edges`, :meth:`read` or one of the converters; the constructor takes arrays that are
    sorted and checked already. Nodes are *rows* 0 … n_nodes − 1 and carry the caller's ids; edges are numbered by
    source, then target, and every per-edge array of the package follows this order. All arrays are read-only.

    Parameters
    ----------
    n_nodes
        Number of nodes, those without edges included.
    sources, targets
        Row numbers of each edge's ends.
    ids
        The caller's ids, one per row: int64, or strings.
    edge_attributes
        Arrays of one value per edge.
    merged_edges, dropped_self_loops
        How many repeated edges were merged into an earlier one, and how many self-loops were left out.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> graph = Graph.from_edges(["ann", "ann", "bob"], ["bob", "cid", "cid"])
    >>> graph
    Graph(n_nodes=3, n_edges=3, ids=strings)
    >>> graph.ids[graph.targets[graph.out_edges(graph.rows(["ann"]))]].tolist()
    ['bob', 'cid']
    """

    n_nodes: int
    sources: I32
    targets: I32
    ids: NDArray[Any]
    edge_attributes: dict[str, NDArray[Any]] = field(default_factory=dict)
    merged_edges: int = 0
    dropped_self_loops: int = 0

    def __post_init__(self) -> None:
        n = check_count("n_nodes", self.n_nodes, 0, 2**31 - 1)
        object.__setattr__(self, "n_nodes", n)
        for name in ("sources", "targets"):
            rows = getattr(self, name)
            if not (isinstance(rows, np.ndarray) and rows.dtype == np.int32 and rows.ndim == 1):
                rows = check_rows(name, rows, n).astype(np.int32)
            if rows.size and (rows.min() < 0 or rows.max() >= n):
                raise InputError(f"must be rows in 0..{n - 1}; got {rows.min()}..{rows.max()}.", argument=name)
            object.__setattr__(self, name, frozen(rows))
        ids = array_of("ids", self.ids, "an array of whole numbers or strings")
        if ids.shape != (n,) or ids.dtype.kind not in "iuU":
            raise ShapeError(f"ids must be {n} whole numbers or strings; got {shown(self.ids)}.")
        object.__setattr__(self, "ids", frozen(ids.astype(np.int64, copy=False) if ids.dtype.kind in "iu" else ids))
        held = check_mapping("edge_attributes", self.edge_attributes, "a mapping of names to arrays")
        columns = {name: attribute_column(values, name, self.sources.size) for name, values in held.items()}
        # An array of the caller's may change later; one that nobody can write to, such as a mapped file, stays.
        own = {name: x is not held[name] and x.base is None for name, x in columns.items()}
        held = {name: frozen(x if own[name] or not x.flags.writeable else x.copy()) for name, x in columns.items()}
        object.__setattr__(self, "edge_attributes", held)
        if self.targets.shape != self.sources.shape:
            raise ShapeError(f"sources and targets must be of one length; got {self.n_edges} and {self.targets.size}.")
        check_count("merged_edges", self.merged_edges, 0)
        check_count("dropped_self_loops", self.dropped_self_loops, 0)

    @classmethod
    def from_edges(
        cls,
        sources: ArrayLike,
        targets: ArrayLike,
        *,
        nodes: ArrayLike | None = None,
        self_loops: SelfLoops = "error",
        attributes: Mapping[str, ArrayLike] | None = None,
    ) -> Graph:
        """A graph from two columns of ids, edge ``i`` going from ``sources[i]`` to ``targets[i]``.

        Parameters
        ----------
        sources, targets
            Ids, all whole numbers (negative ones too) or all strings. Repeated edges are merged and counted in
            ``merged_edges``.
        nodes
            All node ids in the order of the rows, those without edges included. Without it the rows are the
            sorted ids that the edges name.
        self_loops
            ``"error"`` refuses them; ``"drop"`` leaves them out and counts them in ``dropped_self_loops``. A node
            whose only edge was a self-loop stays.
        attributes
            Columns of one number, boolean or time per edge; rows that repeat an edge must agree.
        """
        return cls(*build_edges(sources, targets, nodes, self_loops, attributes))

    @classmethod
    def read(
        cls,
        path: str | os.PathLike[str],
        *,
        source: str = "source",
        target: str = "target",
        attributes: Sequence[str] = (),
        nodes: ArrayLike | None = None,
        self_loops: SelfLoops = "error",
        id_type: Literal["auto", "int", "str"] = "auto",
        separator: str | None = None,
        cache: str | os.PathLike[str] | None = None,
    ) -> Graph:
        r"""A graph from an edge-list file: ``.csv``, ``.tsv`` (with a header; also ``.gz``) or ``.parquet``.

        Parameters
        ----------
        path
            The file; its suffix tells the format.
        source, target, attributes
            Names of the columns that hold the ids, and of those to keep as edge attributes.
        nodes, self_loops
            As in :meth:`from_edges`.
        id_type
            ``"auto"`` takes ids for integers if all of them look so; ``"str"`` keeps codes such as ``007`` as
            they are; ``"int"`` refuses anything else than integers.
        separator
            The character between the columns of a text file, if not the suffix's own.
        cache
            A directory in which the finished graph is kept under the content of the file and the arguments above. It
            is read from there the next time: 70 million edges take two seconds, and the memory holds of them what is
            in use. By default the environment's ``TENSORUCB_CACHE``, if it is set. A damaged file is not used.

        Examples
        --------
        >>> from pathlib import Path
        >>> from tensorucb import Graph
        >>> _ = Path("follows.csv").write_text("leader,follower\nann,bob\nbob,eve\n")
        >>> Graph.read("follows.csv", source="leader", target="follower")
        Graph(n_nodes=3, n_edges=2, ids=strings)
        """
        from tensorucb.graph._kept import kept_graph

        file, names = check_path("path", path), _convert.column_names(source, target, attributes)
        _convert.check_format(file, id_type, separator)
        check_self_loops(self_loops)
        if nodes is not None:
            nodes = node_ids(nodes)

        def read() -> Graph:
            frame = _convert.read_columns(file, names, id_type, separator)
            columns: dict[str, Any] = {"source": source, "target": target, "attributes": names[2:]}
            try:
                return cls.from_frame(frame, **columns, nodes=nodes, self_loops=self_loops)
            except InputError as error:
                # The arguments are sound by now, so it is the file's content.
                raise FileFormatError(f"{shown_path(file)}: {error}") from error

        folder = cache_directory() if cache is None else check_path("cache", cache)
        if folder is None or nodes is not None:
            return read()
        return kept_graph(folder, file, [names, self_loops, id_type, separator], read)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        source: str = "source",
        target: str = "target",
        attributes: Sequence[str] = (),
        nodes: ArrayLike | None = None,
        self_loops: SelfLoops = "error",
    ) -> Graph:
        """A graph from two columns of a polars, pandas or Arrow table; ``attributes`` names further columns.

        Examples
        --------
        >>> import polars as pl
        >>> from tensorucb import Graph
        >>> table = pl.DataFrame({"leader": ["ann", "bob"], "follower": ["bob", "eve"], "p": [0.5, 0.25]})
        >>> Graph.from_frame(table, source="leader", target="follower", attributes=["p"])
        Graph(n_nodes=3, n_edges=2, ids=strings, attributes=['p'])
        """
        columns = _convert.frame_columns(frame, source, target, attributes)
        return cls.from_edges(**columns, nodes=nodes, self_loops=self_loops)

    @classmethod
    def from_networkx(cls, network: Any, *, attributes: Sequence[str] = (), self_loops: SelfLoops = "error") -> Graph:
        """A graph from a networkx one, isolated nodes included; an undirected edge becomes both directions.

        Examples
        --------
        >>> import networkx as nx
        >>> from tensorucb import Graph
        >>> Graph.from_networkx(nx.path_graph(4))
        Graph(n_nodes=4, n_edges=6, ids=integers)
        """
        return cls.from_edges(**_convert.networkx_columns(network, attributes), self_loops=self_loops)

    @classmethod
    def from_igraph(cls, network: Any, *, attributes: Sequence[str] = (), self_loops: SelfLoops = "error") -> Graph:
        """A graph from an igraph one, isolated nodes included; an undirected edge becomes both directions.

        Ids are the vertices' ``name`` if they have one, else their numbers.
        """
        return cls.from_edges(**_convert.igraph_columns(network, attributes), self_loops=self_loops)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        *,
        attribute: str | None = None,
        nodes: ArrayLike | None = None,
        self_loops: SelfLoops = "error",
    ) -> Graph:
        """A graph from a square sparse matrix: each stored entry (i, j), also a zero, is an edge i → j.

        The entries' values are kept as ``attribute``, if it is named; ``nodes`` are the ids of the matrix' rows.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> from tensorucb import Graph
        >>> graph = Graph.from_scipy(csr_array([[0.0, 0.5], [0.0, 0.0]]), attribute="p", nodes=["ann", "bob"])
        >>> graph.attributes["p"].tolist()
        [0.5]
        """
        return cls.from_edges(**_convert.scipy_columns(matrix, attribute, nodes), self_loops=self_loops)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(self.sources.size)

    @property
    def attributes(self) -> Mapping[str, NDArray[Any]]:
        """Edge attributes by name, in edge order."""
        return MappingProxyType(self.edge_attributes)

    @cached_property
    def out_offsets(self) -> I64:
        """Edges ``out_offsets[v]:out_offsets[v + 1]`` leave node ``v``."""
        return _row_offsets(self.sources, self.n_nodes)

    @cached_property
    def in_offsets(self) -> I64:
        """Positions ``in_offsets[v]:in_offsets[v + 1]`` of ``in_edges`` enter node ``v``."""
        return _row_offsets(self.targets, self.n_nodes)

    @cached_property
    def _transposed(self) -> tuple[I64, I32]:
        from scipy.sparse import csr_array

        check_memory(f"a network of {self.n_edges:,} edges by target", transposing(self.n_nodes, self.n_edges))
        numbers = np.arange(self.n_edges, dtype=np.int32)
        by_source = csr_array((numbers, self.targets, self.out_offsets.astype(np.int32)), (self.n_nodes,) * 2)
        by_target = by_source.tocsc()
        return frozen(by_target.data.astype(np.int64)), frozen(by_target.indices)

    @property
    def in_edges(self) -> I64:
        """Edge numbers sorted by target, then source."""
        return self._transposed[0]

    @property
    def in_sources(self) -> I32:
        """``sources[in_edges]``."""
        return self._transposed[1]

    @cached_property
    def out_degree(self) -> I64:
        """Number of edges out of each node."""
        return frozen(np.diff(self.out_offsets))

    @cached_property
    def in_degree(self) -> I64:
        """Number of edges into each node."""
        return frozen(np.diff(self.in_offsets))

    @cached_property
    def _index(self) -> IdIndex:
        return IdIndex(self.ids)

    def rows(self, ids: ArrayLike) -> I64:
        """Row numbers of the caller's ids; unknown ones raise `UnknownIdError`."""
        return rows_by_id(self._index, ids)

    def edge_rows(self, source_ids: ArrayLike, target_ids: ArrayLike) -> I64:
        """Edge numbers between the caller's ids; `UnknownIdError` names ids or edges that are not there."""
        source_rows, target_rows = self.rows(source_ids), self.rows(target_ids)
        edges = self.edge_between(source_rows, target_rows)
        missing = np.flatnonzero(edges < 0)
        if missing.size:
            pairs = [(self.ids[source_rows[i]].item(), self.ids[target_rows[i]].item()) for i in missing[:5].tolist()]
            raise UnknownIdError(f"edges not in the graph: {describe_rows(pairs, missing)}.")
        return edges

    def edge_between(self, source_rows: ArrayLike, target_rows: ArrayLike) -> I64:
        """Edge numbers between rows, -1 where there is no edge."""
        s, t = self._checked_rows(source_rows), self._checked_rows(target_rows)
        if s.size != t.size:
            raise ShapeError(f"source and target rows must be of one length; got {s.size} and {t.size}.")
        # All at once by binary search: the targets of a source are sorted.
        low, end = self.out_offsets[s], self.out_offsets[s + 1]
        high = end
        for _ in range(int((end - low).max(initial=0)).bit_length()):
            middle = (low + high) // 2
            before = (low < high) & (self.targets.take(middle, mode="clip") < t)
            low = np.where(before, middle + 1, low)
            high = np.where(before, high, middle)
        there = (low < end) & (self.targets.take(low, mode="clip") == t)
        return np.where(there, low, -1)

    def out_edges(self, rows: ArrayLike) -> I64:
        """Numbers of all edges out of these rows, in the order of the rows."""
        checked = self._checked_rows(rows)
        starts, counts = self.out_offsets[checked], self.out_degree[checked]
        shifts = starts - np.cumsum(counts) + counts
        return np.repeat(shifts, counts) + np.arange(int(counts.sum()), dtype=np.int64)

    def _checked_rows(self, rows: ArrayLike) -> I64:
        return check_rows("rows", rows, self.n_nodes, hint="Graph.rows translates ids into rows.")

    def subgraph(self, ids: ArrayLike) -> Graph:
        """The graph on these ids and the edges among them; rows keep their order, attributes come along."""
        keep = np.zeros(self.n_nodes, dtype=np.bool_)
        keep[self.rows(ids)] = True
        edges = keep[self.sources] & keep[self.targets]
        if not edges.any():
            raise InputError("a graph needs at least one edge; there is none among these nodes.")
        rows = (np.cumsum(keep) - 1).astype(np.int32)
        held = {name: values[edges] for name, values in self.edge_attributes.items()}
        return Graph(int(keep.sum()), rows[self.sources[edges]], rows[self.targets[edges]], self.ids[keep], held)

    def to_frame(self) -> pl.DataFrame:
        """A polars frame of the ids in ``source``, ``target`` and the attributes; isolated nodes are not in it.

        Examples
        --------
        >>> from tensorucb import Graph
        >>> Graph.from_edges(["bob", "ann"], ["eve", "bob"]).to_frame().rows()
        [('ann', 'bob'), ('bob', 'eve')]
        """
        import polars as pl

        clash = {"source", "target"} & self.edge_attributes.keys()
        if clash:
            raise InputError(f"an attribute is called {min(clash)!r}, which the frame needs for ids. Rename it.")
        ids = pl.Series(self.ids)
        ends = {"source": ids.gather(self.sources), "target": ids.gather(self.targets)}
        return pl.DataFrame({**ends, **self.edge_attributes})

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph`` with the caller's ids, all nodes and the edge attributes."""
        try:
            import networkx as nx
        except ImportError as error:
            raise MissingExtraError("to_networkx needs networkx, which is not installed. Install networkx.") from error

        network = nx.DiGraph()
        network.add_nodes_from(self.ids.tolist())
        network.add_edges_from(zip(self.ids[self.sources].tolist(), self.ids[self.targets].tolist(), strict=True))
        for name, values in self.edge_attributes.items():
            # Its edges come in our order: by source as the nodes were added, then as the edges were.
            nx.set_edge_attributes(network, dict(zip(network.edges, values.tolist(), strict=True)), name)
        return network

    def to_igraph(self) -> Any:
        """A directed ``igraph.Graph`` with all nodes and the edge attributes; the ids are the vertices' ``name``.

        igraph looks vertices up by a name that is text: whole-number ids are found by their row.
        """
        try:
            import igraph
        except ImportError as error:
            raise MissingExtraError("to_igraph needs igraph, which is not installed. Install igraph.") from error

        network = igraph.Graph(n=self.n_nodes, edges=np.column_stack([self.sources, self.targets]), directed=True)
        network.vs["name"] = self.ids.tolist()
        for name, values in self.edge_attributes.items():
            network.es[name] = values.tolist()
        return network

    def to_scipy(self, attribute: str | None = None) -> Any:
        """A ``scipy.sparse.csr_array`` of the named attribute's values, or of ones."""
        from scipy.sparse import csr_array

        held = self.edge_attributes
        if attribute is not None and (not isinstance(attribute, str) or attribute not in held):
            raise InputError(f"no attribute {shown(attribute)}; the graph has {shown(list(held))}.")
        data = np.ones(self.n_edges) if attribute is None else held[attribute].copy()
        # Copies, since scipy sorts in place and the graph's arrays are read-only.
        return csr_array((data, self.targets.copy(), self.out_offsets.copy()), shape=(self.n_nodes, self.n_nodes))

    def __repr__(self) -> str:
        kind = "strings" if self.ids.dtype.kind == "U" else "integers"
        more = f", attributes={list(self.edge_attributes)}" if self.edge_attributes else ""
        return f"Graph(n_nodes={self.n_nodes}, n_edges={self.n_edges}, ids={kind}{more})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            np.array_equal(self.ids, other.ids)
            and np.array_equal(self.sources, other.sources)
            and np.array_equal(self.targets, other.targets)
            and self.edge_attributes.keys() == other.edge_attributes.keys()
            and all(np.array_equal(v, other.edge_attributes[name]) for name, v in self.edge_attributes.items())
        )

    def __hash__(self) -> int:
        return hash((self.n_nodes, self.n_edges, self.targets[:64].tobytes(), self.sources[:64].tobytes()))


def _row_offsets(rows: I32, n: int) -> I64:
    """The n + 1 bounds of each row's run, were ``rows`` sorted."""
    offsets = np.zeros(n + 1, dtype=np.int64)
    for start in range(0, rows.size, _AT_ONCE):
        offsets[1:] += np.bincount(rows[start : start + _AT_ONCE], minlength=n)
    return frozen(np.cumsum(offsets, out=offsets))
