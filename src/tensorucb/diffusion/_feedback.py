"""What a round shows: the coins of the edges that were tried."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds
from tensorucb.rng import RngLike, as_generator, stream_key


def observe(
    graph: Graph,
    probabilities: ArrayLike,
    rows: ArrayLike,
    feedback: Literal["one_hop", "cascade"] = "one_hop",
    rng: RngLike = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Run one round and return the edges observed with their outcomes.

    The outcome is the edge's own coin, also when the target is already active: counting such an edge as a failure
    would bias its probability down. Each edge is tried at most once, and the same ``rng`` gives the same coins under
    both kinds of feedback.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        True activation probability of each edge, in graph order.
    rows
        Distinct node rows of the seeds.
    feedback
        ``"one_hop"`` shows the out-edges of the seeds, in the order of the seeds (the paper's Algorithm 1);
        ``"cascade"`` the out-edges of every activated node, in order of activation.
    rng
        Seed or generator.

    Returns
    -------
    edges : numpy.ndarray
        Edge numbers in the order observed.
    outcomes : numpy.ndarray
        1.0 where the edge fired, 0.0 where it did not.
    """
    from tensorucb.diffusion import _kernels

    check_graph(graph)
    check_choice("feedback", feedback, ("one_hop", "cascade"))
    p, nodes = check_probabilities(graph, probabilities), check_seeds(graph, "rows", rows)
    key = stream_key(as_generator(rng))
    if feedback == "cascade":
        reached, steps, parents = (np.empty(graph.n_nodes, dtype=np.int64) for _ in range(3))
        count = _kernels.trace(graph.out_offsets, graph.targets, p, nodes, key, 0, reached, steps, parents)
        nodes = reached[:count]
    tried = int((graph.out_offsets[nodes + 1] - graph.out_offsets[nodes]).sum())
    edges, outcomes = np.empty(tried, dtype=np.int64), np.empty(tried)
    _kernels.coins(graph.out_offsets, p, nodes, key, 0, edges, outcomes)
    return edges, outcomes
