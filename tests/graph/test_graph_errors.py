from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tensorucb.errors import InputError, ShapeError, UnknownIdError
from tensorucb.graph import Graph

NAN, INF = float("nan"), float("inf")

BAD_EDGES = {
    "empty": ([], [], InputError, "the edge list is empty"),
    "lengths": ([1, 2], [1], ShapeError, "one length; got 2 and 1"),
    "two-dimensional": (np.ones((2, 2), int), [1, 2], ShapeError, r"sources must be one-dimensional; .*\(2, 2\)"),
    "nested lists": ([1, 2], [[1], [2]], ShapeError, "targets must be one-dimensional"),
    "scalar": (1, 2, InputError, "sources must be a column"),
    "mixed in a column": ([1, "a"], [2, 3], InputError, r"1 of type int \(row 1\) and 'a' of type str \(row 2\)"),
    "mixed columns": ([1, 2], ["a", "b"], InputError, "sources are integers and targets strings"),
    "NaN": ([1.0, NAN], [2, 3], InputError, "sources has 1 missing value, the first in row 2"),
    "None": ([1, 2, 3], ["a", None, None], InputError, "targets has 2 missing values, the first in row 2"),
    "null": (pl.Series([1, None]), [2, 3], InputError, "sources has 1 missing value, the first in row 2"),
    "NaN among strings": (["a", NAN], ["b", "c"], InputError, "missing value, the first in row 2"),
    "fraction": ([1.0, 2.5], [2, 3], InputError, r"must be whole numbers .* got 2.5 \(row 2\)"),
    "infinite": ([1.0, INF], [2, 3], InputError, r"got inf \(row 2\)"),
    "imprecise": ([1.0, 2.0**60], [2, 3], InputError, r"up to 2\^53"),
    "boolean": ([True, False], [1, 2], InputError, "whole numbers"),
    "duration": ([np.timedelta64(1, "s")], [np.timedelta64(2, "s")], InputError, "whole numbers"),
    "boolean array": (np.array([True]), [2], InputError, "type bool"),
    "times": (np.array(["2024-01-01"], "M8[D]"), [2], InputError, "datetime64"),
    "polars times": (pl.Series([1], dtype=pl.Date), [2], InputError, "type Date"),
    "polars frame": (pl.DataFrame({"a": [1]}), [2], InputError, "Use Graph.from_frame"),
    "too large": ([2**70], [1], InputError, "64 bits"),
    "too large, unsigned": (np.array([2**63], np.uint64), [1], InputError, r"9223372036854775808 \(row 1\)"),
    "NUL": (["a\0"], ["b"], InputError, "character NUL"),
    "surrogate": (["\ud800"], ["b"], InputError, "not valid Unicode"),
    "loops": ([1, 2, 2], [2, 2, 2], InputError, "2 self-loops, the first in row 2: 2 points .*self_loops='drop'"),
    "one loop": (["a"], ["a"], InputError, "1 self-loop, the first in row 1"),
}


@pytest.mark.parametrize(("sources", "targets", "error", "message"), BAD_EDGES.values(), ids=BAD_EDGES)
def test_bad_edges(sources, targets, error, message):
    with pytest.raises(error, match=message):
        Graph.from_edges(sources, targets)


BAD_ATTRIBUTES = {
    "length": ([1.0], ShapeError, r"'w' must hold one value per edge, of shape \(2,\); got shape \(1,\)"),
    "two-dimensional": ([[1.0], [2.0]], ShapeError, r"got shape \(2, 1\)"),
    "NaN": ([1.0, NAN], InputError, "'w' has 1 missing value, the first in row 2"),
    "None": ([None, None], InputError, "2 missing values, the first in row 1"),
    "null": (pl.Series([1, None]), InputError, "1 missing value, the first in row 2"),
    "NaT": (np.array(["2024-01-01", "NaT"], "M8[D]"), InputError, "missing value, the first in row 2"),
    "infinite": ([INF, 1.0], InputError, r"must be finite; got inf \(row 1\)"),
    "strings": (["a", "b"], InputError, "numbers, booleans or times; got values of type <U1"),
    "numbers in strings": (np.array(["1", "2"], object), InputError, "got values such as '1'"),
    "unsigned": (np.array([1, 2], np.uint64), InputError, "uint64"),
}


@pytest.mark.parametrize(("values", "error", "message"), BAD_ATTRIBUTES.values(), ids=BAD_ATTRIBUTES)
def test_bad_attributes(values, error, message):
    with pytest.raises(error, match=message):
        Graph.from_edges([1, 2], [2, 3], attributes={"w": values})


def test_attribute_names_are_strings():
    with pytest.raises(InputError, match="name of an attribute must be text; got 3"):
        Graph.from_edges([1], [2], attributes={3: [1.0]})


def test_repeats_that_disagree_name_their_rows():
    with pytest.raises(InputError, match=r"edge 2 -> 3 comes in rows 2 and 4 .*'w': 0.5 and 0.75; 1 such"):
        Graph.from_edges([1, 2, 1, 2], [2, 3, 2, 3], attributes={"w": [0.1, 0.5, 0.1, 0.75]})


def test_rows_in_messages_are_the_callers_also_behind_dropped_loops():
    with pytest.raises(InputError, match="rows 2 and 4 "):
        Graph.from_edges([9, 2, 9, 2], [9, 3, 9, 3], self_loops="drop", attributes={"w": [0, 1, 0, 2]})


def test_repeats_that_agree_are_merged():
    graph = Graph.from_edges([1, 2, 1], [2, 3, 2], attributes={"w": [0.1, 0.5, 0.1]})
    assert graph.merged_edges == 1
    assert graph.attributes["w"].tolist() == [0.1, 0.5]


def test_bad_nodes():
    with pytest.raises(UnknownIdError, match=r"targets not in nodes: 3 \(row 2\)\."):
        Graph.from_edges([1, 2], [2, 3], nodes=[1, 2])
    with pytest.raises(InputError, match=r"nodes must be distinct; repeated: 'a' \(row 3\)"):
        Graph.from_edges(["a"], ["b"], nodes=["a", "b", "a"])
    with pytest.raises(InputError, match="nodes is empty"):
        Graph.from_edges([1], [2], nodes=[])
    with pytest.raises(InputError, match="sources are integers, but the ids of nodes are strings"):
        Graph.from_edges([1], [2], nodes=["1", "2"])


def test_bad_rule_for_self_loops():
    with pytest.raises(InputError, match="'error' or 'drop'; got 'keep'"):
        Graph.from_edges([1], [2], self_loops="keep")
    with pytest.raises(InputError, match="all of these are self-loops"):
        Graph.from_edges([1], [1], self_loops="drop")
