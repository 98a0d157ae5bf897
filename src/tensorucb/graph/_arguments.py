"""Checks of a graph, and of arrays that go with it: node rows, a number per edge, a number per node."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_array, check_choice, check_instance, check_rows, check_share
from tensorucb.choices import Model
from tensorucb.errors import InputError, Text
from tensorucb.graph._graph import Graph
from tensorucb.graph._ids import frozen

_ROUNDED_SUM = 1e-9


def check_graph(graph: Any) -> Graph:
    """A `Graph`."""
    return check_instance(
        "graph", graph, Graph, "a tensorucb Graph", "Make one with Graph.from_edges(sources, targets)."
    )


def check_probabilities(graph: Graph, probabilities: Any) -> NDArray[np.float64]:
    """One probability per edge, in graph order: a contiguous float64 array that nobody may write to."""
    hint = "One number per edge, in the graph's edge order (graph.sources, graph.targets)."
    p = check_array("probabilities", probabilities, (graph.n_edges,), hint=hint, ranged=False)
    # Written so that NaN fails as well.
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        edge = int(np.flatnonzero(~((p >= 0.0) & (p <= 1.0)))[0])
        source = graph.ids[graph.sources[edge]]
        target = graph.ids[graph.targets[edge]]
        raise InputError(
            f"must be in [0, 1]; edge {edge} ({source} -> {target}) has {float(p[edge])}. Clip or drop such values.",
            argument="probabilities",
        )
    return frozen(p)  # one array type, one compiled kernel


def check_seeds(graph: Graph, name: str, rows: Any) -> NDArray[np.int64]:
    """Distinct node rows, in the order given."""
    return check_rows(name, rows, graph.n_nodes, hint="Use graph.rows(ids) to turn ids into rows.", distinct=True)


def check_values(
    graph: Graph, values: Any, name: str = "values", hint: Text = "One entry per node, in the order of graph.ids."
) -> NDArray[np.float64]:
    """One number of at least 0 per node, in the order of graph.ids."""
    return check_array(name, values, (graph.n_nodes,), low=0.0, hint=hint)


def check_redundancy(redundancy: float, model: Model) -> float:
    """The redundancy of a model; linear thresholds have none."""
    check_choice("model", model, get_args(Model))
    rho = check_share("redundancy", redundancy)
    if rho > 0.0 and model == "lt":
        raise InputError("redundancy is for model='ic'; with linear thresholds leave it out.")
    return rho


def check_model(graph: Graph, p: NDArray[np.float64], redundancy: float, model: Model) -> float:
    """The redundancy of a model whose probabilities may be those of its edges; an error where they may not.

    With linear thresholds the probabilities into a node are weights, which add up to 1 at most.
    """
    rho = check_redundancy(redundancy, model)
    if model == "ic":
        return rho
    sums = np.bincount(graph.targets, weights=p, minlength=graph.n_nodes)
    top = int(np.argmax(sums))
    if not sums[top] <= 1.0 + _ROUNDED_SUM:
        raise InputError(
            f"with model='lt' the probabilities into a node must add up to at most 1; those into {graph.ids[top]} "
            f"add up to {sums[top]:.6g}. Divide them by the largest such sum, or use 1 / in-degree."
        )
    return rho
