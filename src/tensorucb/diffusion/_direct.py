"""The direct objective: users activated by the seeds themselves."""

from __future__ import annotations

from numpy.typing import ArrayLike

from tensorucb.diffusion._cascades import worth
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds


def direct_spread(graph: Graph, probabilities: ArrayLike, rows: ArrayLike, values: ArrayLike | None = None) -> float:
    """Exact expected value of the seeds and of those they activate themselves.

    ``Σ_{i∈S} v_i + Σ_{j∉S} v_j·(1 − Π_{i∈S}(1 − p_ij))``: what the out-edges of the seeds, the feedback of the
    paper's Algorithm 1, can show.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        Activation probability of each edge, in graph order.
    rows
        Distinct node rows of the seeds, which count as active.
    values
        Value of each node; 1 each by default.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> direct_spread(Graph.from_edges([0, 1], [2, 2]), [0.5, 0.5], [0, 1])
    2.75
    """
    from tensorucb.diffusion import _kernels

    check_graph(graph)
    p, seeds, val = check_probabilities(graph, probabilities), check_seeds(graph, "rows", rows), worth(graph, values)
    return float(_kernels.direct(graph.out_offsets, graph.targets, p, seeds, val))
