"""Models of an edge's main effects: ``x = (x_i, x_j, z, …, 1)`` of the source, the target and the round."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.threads import single_threaded_blas


def edge_rows(graph: Graph, nodes: F64, context: F64, edges: I64) -> F64:
    """``(len(edges), 2d + c)``: x of some edges, for (n, d) ``nodes`` and the (c,) part that all edges share."""
    shared = np.broadcast_to(context, (edges.size, context.size))
    return np.hstack([nodes[graph.sources[edges]], nodes[graph.targets[edges]], shared])


def moments(graph: Graph, nodes: F64, context: F64, theta: F64, P: F64) -> tuple[F64, F64]:
    """``x·θ`` and ``xᵀPx`` of every edge, from parts per node and one dot product per edge."""
    from tensorucb.policies.baselines._kernels import edge_dots

    d = nodes.shape[1]
    source, target, shared = slice(0, d), slice(d, 2 * d), slice(2 * d, None)
    with single_threaded_blas():
        variance_of = [_node_variance(nodes, P[block, block], P[block, shared] @ context) for block in (source, target)]
        mean_of = [nodes @ theta[block] for block in (source, target)]
        crossed = nodes @ (2.0 * P[source, target])
        common = context @ P[shared, shared] @ context
    variance = np.empty(graph.n_edges)
    edge_dots(graph.sources, graph.targets, crossed, nodes, variance)
    variance += variance_of[0][graph.sources] + variance_of[1][graph.targets] + common
    mean = mean_of[0][graph.sources] + mean_of[1][graph.targets] + context @ theta[shared]
    return mean, np.maximum(variance, 0.0)


def _node_variance(nodes: F64, own: F64, with_context: F64) -> F64:
    """What one end of an edge adds to xᵀPx, alone and with the context."""
    return np.asarray(((nodes @ own) * nodes).sum(axis=1) + nodes @ (2.0 * with_context))
