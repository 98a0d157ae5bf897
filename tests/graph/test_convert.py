from __future__ import annotations

import igraph
import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb.errors import InputError, ShapeError
from tensorucb.graph import Graph

COLUMNS = {"source": ["b", "a", "c"], "target": ["c", "b", "a"], "p": [0.2, 0.1, 0.3], "n": [2, 1, 3]}
EXPECTED = Graph.from_edges(["a", "b", "c"], ["b", "c", "a"], attributes={"p": [0.1, 0.2, 0.3], "n": [1, 2, 3]})
TABLES = {
    "polars": pl.DataFrame(COLUMNS),
    "lazy": pl.LazyFrame(COLUMNS),
    "pandas": pd.DataFrame(COLUMNS),
    "pandas with an index": pd.DataFrame(COLUMNS, index=[7, 8, 7]),
    "arrow": pa.table(COLUMNS),
    "categories": pl.DataFrame(COLUMNS).with_columns(pl.col("source", "target").cast(pl.Categorical)),
    "pandas nullable": pd.DataFrame(COLUMNS).convert_dtypes(),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_from_frame(table):
    assert Graph.from_frame(table, attributes=["p", "n"]) == EXPECTED
    plain = Graph.from_frame(table)
    assert not plain.attributes
    assert plain.n_edges == 3


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table])
def test_from_frame_with_integers_and_other_names(make):
    table = make({"follower": [30, 10], "leader": [10, 20]})
    graph = Graph.from_frame(table, source="leader", target="follower", nodes=[30, 20, 10])
    assert graph == Graph.from_edges([10, 20], [30, 10], nodes=[30, 20, 10])


def test_from_frame_errors():
    with pytest.raises(InputError, match=r"no column 'weight'; the columns are \['source', 'target', 'p', 'n'\]"):
        Graph.from_frame(TABLES["arrow"], attributes=["weight"])
    with pytest.raises(InputError, match="different columns"):
        Graph.from_frame(TABLES["polars"], target="source")
    with pytest.raises(InputError, match=r"frame must be a frame, a mapping.*; got 3"):
        Graph.from_frame(3)
    holed = pd.DataFrame({"source": [1, None, 3], "target": [2, 3, 4]})
    with pytest.raises(InputError, match="sources has 1 missing value, the first in row 2"):
        Graph.from_frame(holed)
    with pytest.raises(InputError, match="sources has 1 missing value, the first in row 2"):
        Graph.from_frame(pa.table({"source": [1, None], "target": [2, 3]}))


def test_pandas_columns_as_arrays():
    table = TABLES["pandas"]
    assert (
        Graph.from_edges(table["source"], table["target"], attributes=table[["p", "n"]].to_dict("series")) == EXPECTED
    )


def test_networkx_round_trip():
    network = EXPECTED.to_networkx()
    assert network.edges["a", "b"] == {"p": 0.1, "n": 1}
    assert Graph.from_networkx(network, attributes=["p", "n"]) == EXPECTED
    alone = Graph.from_edges([1], [2], nodes=[1, 2, 3])
    assert Graph.from_networkx(alone.to_networkx()) == alone


def test_undirected_networkx_goes_both_ways():
    network = nx.Graph()
    network.add_node(9)
    network.add_edge(2, 1, w=5)
    network.add_edge(2, 2, w=6)
    graph = Graph.from_networkx(network, attributes=["w"], self_loops="drop")
    assert graph == Graph.from_edges([1, 2], [2, 1], nodes=[1, 2, 9], attributes={"w": [5, 5]})
    assert graph.dropped_self_loops == 1


def test_networkx_multigraph_is_merged():
    network = nx.MultiDiGraph([(1, 2), (1, 2), (2, 3)])
    assert Graph.from_networkx(network).merged_edges == 1


def test_networkx_errors():
    with pytest.raises(InputError, match=r"edge 2 has no attribute 'w'"):
        Graph.from_networkx(nx.DiGraph([(1, 2, {"w": 1}), (2, 3)]), attributes=["w"])
    with pytest.raises(InputError, match="no nodes"):
        Graph.from_networkx(nx.DiGraph())
    with pytest.raises(InputError, match="nodes must be all whole numbers or all strings"):
        Graph.from_networkx(nx.DiGraph([(1, "a")]))


@pytest.mark.parametrize("directed", [True, False])
def test_from_igraph(directed):
    network = igraph.Graph(n=4, edges=[(1, 0), (1, 2)], directed=directed)
    network.es["p"] = [0.1, 0.2]
    s, t, p = ([1, 1], [0, 2], [0.1, 0.2]) if directed else ([1, 1, 0, 2], [0, 2, 1, 1], [0.1, 0.2, 0.1, 0.2])
    assert Graph.from_igraph(network, attributes=["p"]) == Graph.from_edges(s, t, nodes=range(4), attributes={"p": p})
    network.vs["name"] = list("dcba")
    names = np.array(list("dcba"))
    expected = Graph.from_edges(names[s], names[t], nodes=list("abcd"), attributes={"p": p})
    assert Graph.from_igraph(network, attributes=["p"]) == expected
    with pytest.raises(InputError, match="no edge attribute 'q'"):
        Graph.from_igraph(network, attributes=["q"])


@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix, sp.csc_array])
def test_from_scipy(form):
    matrix = form(np.array([[0, 0.5, 0], [0, 0, 0.25], [0, 0, 0]]))
    expected = Graph.from_edges([0, 1], [1, 2], attributes={"p": [0.5, 0.25]})
    assert Graph.from_scipy(matrix, attribute="p") == expected
    assert not Graph.from_scipy(matrix).attributes
    assert np.array_equal(expected.to_scipy("p").toarray(), matrix.toarray())
    assert np.array_equal(expected.to_scipy().toarray(), matrix.toarray() != 0)
    named = Graph.from_scipy(matrix, nodes=["z", "y", "x"])
    assert named == Graph.from_edges(["z", "y"], ["y", "x"], nodes=["z", "y", "x"])


def test_scipy_keeps_stored_zeros_and_isolated_nodes():
    graph = Graph.from_edges([3, 4], [4, 5], nodes=[3, 4, 5, 6], attributes={"w": [0.0, 1.0]})
    assert Graph.from_scipy(graph.to_scipy("w"), attribute="w", nodes=graph.ids) == graph


def test_scipy_errors():
    with pytest.raises(ShapeError, match=r"square; got shape \(2, 3\)"):
        Graph.from_scipy(sp.csr_array((2, 3)))
    with pytest.raises(InputError, match="sparse array; got array"):
        Graph.from_scipy(np.eye(2))
    with pytest.raises(ShapeError, match="the 2 rows of the matrix; got 3 ids"):
        Graph.from_scipy(sp.csr_array((2, 2)), nodes=[1, 2, 3])
    with pytest.raises(InputError, match="3 self-loops"):
        Graph.from_scipy(sp.eye_array(3))
    with pytest.raises(InputError, match=r"no attribute 'w'; the graph has \['p', 'n'\]"):
        EXPECTED.to_scipy("w")


def test_to_frame():
    frame = EXPECTED.to_frame()
    assert frame.to_dict(as_series=False) == {
        "source": ["a", "b", "c"],
        "target": ["b", "c", "a"],
        "p": [0.1, 0.2, 0.3],
        "n": [1, 2, 3],
    }
    with pytest.raises(InputError, match="an attribute is called 'target'"):
        Graph.from_edges([1], [2], attributes={"target": [1]}).to_frame()


@settings(deadline=None)
@given(st.sets(st.tuples(st.integers(-5, 5), st.integers(-5, 5)).filter(lambda e: e[0] != e[1]), min_size=1))
def test_there_and_back(edges):
    s, t = zip(*edges, strict=True)
    graph = Graph.from_edges(s, t, nodes=range(-5, 6), attributes={"w": np.arange(float(len(s)))})
    assert Graph.from_frame(graph.to_frame(), nodes=graph.ids, attributes=["w"]) == graph
    assert Graph.from_networkx(graph.to_networkx(), attributes=["w"]) == graph
    assert Graph.from_scipy(graph.to_scipy("w"), nodes=graph.ids, attribute="w") == graph


@pytest.mark.parametrize("ids", [["ann", "bob", "cid", "dan"], [3, 7, 9, 11]])
def test_igraph_round_trip(ids):
    graph = Graph.from_edges(ids[:3], [ids[1], ids[2], ids[0]], nodes=ids, attributes={"p": [0.1, 0.2, 0.3]})
    assert Graph.from_igraph(graph.to_igraph(), attributes=["p"]) == graph


def test_frames_make_the_round_trip_in_all_three_libraries():
    graph = Graph.from_edges(["ann", "bob"], ["bob", "cid"], attributes={"p": [0.1, 0.2]})
    frame = graph.to_frame()
    for form in (frame, frame.to_pandas(), frame.to_arrow()):
        assert Graph.from_frame(form, attributes=["p"]) == graph
