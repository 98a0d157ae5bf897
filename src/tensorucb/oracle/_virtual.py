"""`Virtual`: a graph in which each (user, strategy) pair is a node, so that the seed oracle can choose pairs.

Direct objective. Nodes are the users and the pairs. Pair (i, s) has an edge to each follower j of i with the
probability ``p_s(i, j)`` of its strategy, and one to user i with probability 1. Users have no edges and carry the
values, pairs have none. So a set of pairs activates what the contacted users activate directly, and themselves.

Cascade. Users keep their edges with the probabilities ``spread``, so that whoever is reached passes it on. Pair (i, s)
has an edge to each follower with its strategy's probability, but none to user i, who would pass it on a second time
with ``spread``. For user i to count as active all the same there is a third kind of node: a counter of i, reached for
certain from user i and from every pair (i, s). The counters carry the values. What is left: a contacted user who is
*also* reached by others does pass it on once more, as user i, with ``spread``.

If seeds do not count, the edge from a pair to its own user (or counter) has probability 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.graph import Graph
from tensorucb.graph._ids import frozen
from tensorucb.oracle._kernels import source_edges


@dataclass(frozen=True)
class Virtual:
    """The graph, the probabilities of its edges, and where the pairs of ``users`` are: ``first + u * strategies + s``.

    ``counters`` is the row of the node that carries the value of the first user.
    """

    graph: Graph
    p: NDArray[np.float64]
    users: I64
    strategies: int
    first: int
    counters: int

    def pairs(self, positions: I64) -> I64:
        """Rows of all pairs of ``users[positions]``, as an array (positions, strategies)."""
        return self.first + positions[:, None] * self.strategies + np.arange(self.strategies)

    def split(self, rows: I64) -> tuple[I64, I64]:
        """The users and the strategies of these pairs."""
        position, strategy = np.divmod(rows - self.first, self.strategies)
        return self.users[position], strategy


def make_virtual(
    graph: Graph, p: NDArray[np.float64], users: I64, spread: NDArray[np.float64] | None, count_seeds: bool
) -> Virtual:
    """Pairs of ``users`` and the rows of ``p``: with ``spread`` for the cascade, without it for direct activations."""
    n, strategies = graph.n_nodes, p.shape[0]
    counters = 0 if spread is None else n
    first = counters + n
    size = strategies * (users.size + int(graph.out_degree[users].sum()))
    size += 0 if spread is None else n + graph.n_edges
    s, t, q = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32), np.empty(size)
    at = 0
    if spread is not None:
        everyone = np.arange(n, dtype=np.int64)
        at = source_edges(
            everyone, graph.out_offsets, graph.targets, frozen(spread[None, :]), counters, 1.0, 0, at, s, t, q
        )
    certain = float(count_seeds)
    source_edges(users, graph.out_offsets, graph.targets, frozen(p), counters, certain, first, at, s, t, q)
    nodes = first + users.size * strategies
    # Edges of one source are not sorted by target: the oracle never looks an edge up.
    virtual = Graph(nodes, s, t, np.arange(nodes, dtype=np.int64))
    return Virtual(virtual, frozen(q), users, strategies, first, counters)
