"""Checks of a graph, and of arrays that go with it: node rows, a number per edge, a number per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_array, check_instance, check_rows
from tensorucb.graph._graph import Graph


def check_graph(graph: Any) -> Graph:
    """A `Graph`."""
    return check_instance(
        "graph", graph, Graph, "a tensorucb Graph", "Make one with Graph.from_edges(sources, targets)."
    )


def check_probabilities(graph: Graph, probabilities: Any) -> NDArray[np.float64]:
    """One probability per edge, in graph order."""
    shape, hint = (graph.n_edges,), "One entry per edge, in the order of the graph's edges."
    return check_array("probabilities", probabilities, shape, low=0.0, high=1.0, hint=hint)


def check_seeds(graph: Graph, name: str, rows: Any) -> NDArray[np.int64]:
    """Distinct node rows, in the order given."""
    return check_rows(name, rows, graph.n_nodes, hint="Use graph.rows(ids) to turn ids into rows.", distinct=True)


def check_values(graph: Graph, values: Any, name: str = "values") -> NDArray[np.float64]:
    """One number of at least 0 per node, in the order of graph.ids."""
    return check_array(name, values, (graph.n_nodes,), low=0.0, hint="One entry per node, in the order of graph.ids.")
