"""Frozen live-edge worlds: common random numbers for comparing seed sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.checks import check_count
from tensorucb.choices import Model
from tensorucb.diffusion import _kernels
from tensorucb.diffusion._cascades import MOST_RUNS, chunk_bounds, reach_runs, triggering
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds
from tensorucb.graph._ids import frozen
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import map_chunks, thread_count
from tensorucb.work import Engine, check_engine

_MOST_BITS = 1 << 37


class LiveEdgePool:
    """Live-edge worlds drawn once, on which any number of seed sets are compared.

    Differences between seed sets are then free of most of the sampling noise, and the spread is a monotone
    submodular function of the seeds. An edge is live when its coin, a hash of ``(key, world, edge)``, is below its
    probability; two pools with the same ``rng`` share their coins, so larger probabilities only add live edges.

    Parameters
    ----------
    graph, probabilities
        The social network, and the activation probability of each edge in graph order.
    worlds, rng, threads
        Number of worlds, of which one bit per edge is kept; seed or generator; and threads to use.
    redundancy, model
        As in :func:`simulate_cascades`.
    engine
        Where worlds are looked at: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`), which
        keeps no bits and tosses the same coins again.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> pool = LiveEdgePool(Graph.from_edges([0, 1], [1, 2]), [1.0, 0.0], worlds=5, rng=0)
    >>> pool.spread([0])
    2.0
    """

    def __init__(
        self,
        graph: Graph,
        probabilities: ArrayLike,
        worlds: int = 1000,
        rng: RngLike = None,
        *,
        redundancy: float = 0.0,
        model: Model = "ic",
        threads: int | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.graph = check_graph(graph)
        self.worlds = check_count("worlds", worlds, 1, MOST_RUNS)
        self._engine = check_engine(engine)
        if self._engine is None and self.worlds * graph.n_edges > _MOST_BITS:
            raise InputError(f"{worlds} worlds of {graph.n_edges} edges do not fit in memory. Take fewer.")
        self._threads = thread_count(threads)
        p = check_probabilities(graph, probabilities)
        key = stream_key(as_generator(rng))
        law = triggering(graph, p, redundancy, model)
        self._worlds = (graph.out_offsets, graph.targets, p, *law, key)
        if self._engine is not None:
            return
        bits: NDArray[np.uint64] = np.empty((self.worlds, -(-graph.n_edges // 64)), dtype=np.uint64)
        self._bits = bits

        def work(start: int, stop: int) -> None:
            _kernels.pack_worlds(graph.targets, p, *law, key, start, stop, bits)

        map_chunks(work, chunk_bounds(self.worlds, self._threads), self._threads)

    def reach(self, rows: ArrayLike) -> F64:
        """Number of nodes that the seeds (distinct node rows) reach in each world, the seeds included."""
        seeds, reached = check_seeds(self.graph, "rows", rows), np.empty(self.worlds)
        if self._engine is not None:
            *network, key = self._worlds
            shared, bounds = (*network, frozen(seeds), key, frozen(np.empty(0))), self._engine.pieces(self.worlds)
            return np.concatenate(self._engine.map(reach_runs, shared, bounds))

        def work(start: int, stop: int) -> None:
            _kernels.reach_packed(self.graph.out_offsets, self.graph.targets, self._bits, seeds, start, stop, reached)

        map_chunks(work, chunk_bounds(self.worlds, self._threads), self._threads)
        return reached

    def spread(self, rows: ArrayLike) -> float:
        """Average of :meth:`reach` over the worlds."""
        return float(self.reach(rows).mean())
