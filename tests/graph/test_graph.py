from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.graph import DictGraph
from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph import Graph

SMALL = st.integers(-9, 9)
SCATTERED = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=4)


def edge_lists(ids):
    edge = st.tuples(ids, ids).filter(lambda pair: pair[0] != pair[1])
    return st.lists(edge, min_size=1, max_size=40)


EDGES = st.one_of(edge_lists(SMALL), edge_lists(SCATTERED), edge_lists(TEXT))


def small() -> Graph:
    #  rows: ann 0, bob 1, cid 2, dee 3
    return Graph.from_edges(
        ["ann", "ann", "bob", "cid"],
        ["bob", "cid", "cid", "ann"],
        nodes=["ann", "bob", "cid", "dee"],
        attributes={"p": [0.1, 0.2, 0.3, 0.4]},
    )


@settings(deadline=None)
@given(EDGES)
def test_compressed_rows_match_a_dictionary_of_sets(edges):
    sources, targets = zip(*edges, strict=True)
    graph, reference = Graph.from_edges(sources, targets), DictGraph(sources, targets)
    assert graph.ids.tolist() == reference.ids
    assert graph.n_nodes == len(reference.ids)
    assert list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)) == reference.edges
    assert graph.merged_edges == len(edges) - len(reference.edges)
    incoming = zip(graph.in_sources.tolist(), graph.targets[graph.in_edges].tolist(), strict=True)
    assert list(incoming) == reference.incoming
    assert np.array_equal(graph.sources[graph.in_edges], graph.in_sources)
    for row in range(graph.n_nodes):
        out = graph.targets[graph.out_offsets[row] : graph.out_offsets[row + 1]]
        into = graph.in_sources[graph.in_offsets[row] : graph.in_offsets[row + 1]]
        assert set(out.tolist()) == reference.successors[row]
        assert set(into.tolist()) == reference.predecessors[row]
        assert graph.out_degree[row] == len(reference.successors[row])
        assert graph.in_degree[row] == len(reference.predecessors[row])
    assert graph.rows(sources).tolist() == [reference.row[s] for s in sources]
    found = graph.edge_rows(sources, targets)
    assert [reference.edges[e] for e in found] == [(reference.row[s], reference.row[t]) for s, t in edges]


@settings(deadline=None)
@given(EDGES, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_graph(edges, random):
    weights = {edge: float(i) for i, edge in enumerate(sorted(set(edges)))}
    graphs = []
    for _ in range(2):
        sources, targets = zip(*edges, strict=True)
        graphs.append(Graph.from_edges(sources, targets, attributes={"w": [weights[e] for e in edges]}))
        random.shuffle(edges)
    assert graphs[0] == graphs[1]
    assert hash(graphs[0]) == hash(graphs[1])
    # Sorted by id, so the weights, which follow the sorted edges, come out counted up.
    assert graphs[0].attributes["w"].tolist() == sorted(weights.values())


@settings(deadline=None)
@given(EDGES, st.data())
def test_rows_in_and_out_of_the_graph(edges, data):
    sources, targets = zip(*edges, strict=True)
    graph, reference = Graph.from_edges(sources, targets), DictGraph(sources, targets)
    row = st.integers(0, graph.n_nodes - 1)
    pairs = data.draw(st.lists(st.tuples(row, row), min_size=1, max_size=20))
    numbers = {edge: e for e, edge in enumerate(reference.edges)}
    starts, ends = zip(*pairs, strict=True)
    assert graph.edge_between(starts, ends).tolist() == [numbers.get(pair, -1) for pair in pairs]
    expected = [numbers[s, t] for s in starts for t in sorted(reference.successors[s])]
    assert graph.out_edges(starts).tolist() == expected


@settings(deadline=None)
@given(EDGES, st.data())
def test_subgraph_keeps_the_edges_among_its_nodes(edges, data):
    sources, targets = zip(*edges, strict=True)
    extra = data.draw(st.lists(st.sampled_from(sorted({*sources, *targets})), max_size=6))
    keep = {*extra, *edges[0]}
    inside = [edge for edge in edges if keep.issuperset(edge)]
    weight = [float(hash(edge) % 97) for edge in edges]
    graph = Graph.from_edges(sources, targets, attributes={"w": weight}).subgraph(list(keep))
    s, t = zip(*inside, strict=True)
    w = [float(hash(edge) % 97) for edge in inside]
    assert graph == Graph.from_edges(s, t, nodes=sorted(keep), attributes={"w": w})


def test_large_random_graph_matches_numpy():
    rng = np.random.default_rng(3)
    s, t = rng.integers(0, 500, 20_000), rng.integers(0, 500, 20_000)
    w = np.arange(250_000.0)[s * 500 + t]
    graph = Graph.from_edges(s, t, self_loops="drop", attributes={"w": w})
    keys = np.unique((s * 500 + t)[s != t])
    assert np.array_equal(graph.sources * 500 + graph.targets, keys)
    assert np.array_equal(graph.attributes["w"], keys)
    assert graph.dropped_self_loops == (s == t).sum()
    assert graph.merged_edges == (s != t).sum() - keys.size
    assert np.array_equal(graph.in_edges, np.argsort(graph.targets, kind="stable"))


def test_types_of_the_arrays_and_that_they_are_read_only():
    graph = small()
    types = {
        "sources": np.int32,
        "targets": np.int32,
        "in_sources": np.int32,
        "out_offsets": np.int64,
        "in_offsets": np.int64,
        "in_edges": np.int64,
        "out_degree": np.int64,
        "in_degree": np.int64,
    }
    for name, dtype in types.items():
        array = getattr(graph, name)
        assert array.dtype == dtype, name
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        graph.ids[0] = "x"
    with pytest.raises(ValueError, match="read-only"):
        graph.attributes["p"][0] = 1
    with pytest.raises(TypeError):
        graph.attributes["q"] = graph.attributes["p"]
    with pytest.raises(AttributeError):
        graph.n_nodes = 7
    assert graph.rows(["ann"]).dtype == graph.out_edges([0]).dtype == graph.edge_rows(["ann"], ["bob"]).dtype
    assert graph.rows(["ann"]).dtype == np.int64


def test_the_callers_arrays_stay_writable_and_apart():
    s, t, w = np.array([0, 1]), np.array([1, 2]), np.array([0.5, 0.6])
    nodes = np.array([0, 1, 2])
    graph = Graph.from_edges(s, t, nodes=nodes, attributes={"w": w})
    s[0] = 9
    t[0] = 9
    w[0] = 9
    nodes[0] = 9
    assert (graph.sources[0], graph.targets[0], graph.attributes["w"][0], graph.ids[0]) == (0, 1, 0.5, 0)


def test_given_nodes_set_the_order_and_bring_isolated_ones():
    graph = Graph.from_edges([7, 5], [5, 6], nodes=[7, 5, 9, 6])
    assert graph.ids.tolist() == [7, 5, 9, 6]
    assert graph.sources.tolist() == [0, 1]
    assert graph.targets.tolist() == [1, 3]
    assert graph.out_degree.tolist() == [1, 1, 0, 0]
    assert graph.subgraph([6, 5]).ids.tolist() == [5, 6]


def test_self_loops_dropped_keep_their_node():
    graph = Graph.from_edges([1, 2, 3], [1, 3, 3], self_loops="drop", attributes={"w": [1.0, 2.0, 3.0]})
    assert graph.ids.tolist() == [1, 2, 3]
    assert graph.dropped_self_loops == 2
    assert graph.attributes["w"].tolist() == [2.0]


def test_equality():
    assert small() == small()
    assert small() != Graph.from_edges(["ann"], ["bob"])
    assert small() != small().subgraph(["ann", "bob", "cid"])
    assert Graph.from_edges([1], [2]) != Graph.from_edges([1], [2], attributes={"w": [1]})
    assert Graph.from_edges([1], [2], attributes={"w": [2]}) != Graph.from_edges([1], [2], attributes={"w": [1]})
    assert small() != "a graph"


def test_repr():
    assert repr(small()) == "Graph(n_nodes=4, n_edges=4, ids=strings, attributes=['p'])"
    assert repr(Graph.from_edges([1], [2])) == "Graph(n_nodes=2, n_edges=1, ids=integers)"


def test_kinds_of_attributes():
    held = Graph.from_edges(
        [1, 2],
        [2, 3],
        attributes={
            "flag": [True, False],
            "count": np.array([1, 2], dtype=np.uint8),
            "small": np.array([1, 2], dtype=np.float32),
            "time": np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[s]"),
            "objects": np.array([1, 2], dtype=object),
        },
    ).attributes
    assert {name: values.dtype.str for name, values in held.items()} == {
        "flag": "|b1",
        "count": "<i8",
        "small": "<f8",
        "time": "<M8[s]",
        "objects": "<i8",
    }


def test_unknown_ids_and_edges_are_named():
    graph = small()
    with pytest.raises(UnknownIdError, match=r"ids not in the graph: 'zoe' \(row 2\)\."):
        graph.rows(["ann", "zoe"])
    with pytest.raises(UnknownIdError, match=r"\('bob', 'ann'\) \(row 2\)"):
        graph.edge_rows(["ann", "bob"], ["bob", "ann"])
    with pytest.raises(UnknownIdError, match="ids are integers, but the ids of the graph are strings"):
        graph.rows([1])
    with pytest.raises(UnknownIdError, match="and 2 more"):
        graph.rows(list("abcdefg"))
    with pytest.raises(UnknownIdError, match=r"8 \(row 1\), -99 \(row 2\)"):
        Graph.from_edges([1], [2]).rows([8, -99])
    with pytest.raises(UnknownIdError, match=r"3 \(row 2\)"):
        Graph.from_edges([-(2**62)], [2**62]).rows([2**62, 3])
    assert graph.rows([]).tolist() == graph.out_edges([]).tolist() == graph.edge_rows([], []).tolist() == []


def test_wrong_rows():
    graph = small()
    with pytest.raises(InputError, match=r"0..3; got 4 at \[1\]"):
        graph.edge_between([0, 4], [0, 1])
    with pytest.raises(InputError, match=r"got -1 at \[0\]"):
        graph.out_edges([-1])
    with pytest.raises(InputError, match="rows must be whole numbers"):
        graph.out_edges([0.5])
    with pytest.raises(ShapeError, match="one-dimensional"):
        graph.out_edges([[0]])
    with pytest.raises(ShapeError, match="2 and 1"):
        graph.edge_between([0, 1], [0])
    with pytest.raises(InputError, match="none among these nodes"):
        graph.subgraph(["ann", "dee"])


def test_import_is_light():
    code = (
        "import sys, tensorucb.graph; "
        "print([name for name in ('polars', 'numba', 'scipy', 'pandas', 'networkx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ids_at_the_ends_of_64_bits():
    for first, last in ((2**63 - 2**20, 2**63 - 1), (-(2**63), -(2**63) + 2**20)):
        graph = Graph.from_edges([first], [last])
        assert graph.rows([last, first]).tolist() == [1, 0]
