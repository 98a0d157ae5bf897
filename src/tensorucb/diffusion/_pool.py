"""Frozen live-edge worlds: common random numbers for comparing seed sets."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_choice, check_count
from tensorucb.diffusion._cascades import MOST_RUNS, chunk_bounds, worth
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import map_chunks, thread_count

_MOST_BITS = 1 << 37


class LiveEdgePool:
    """Live-edge worlds drawn once, on which any number of seed sets are compared.

    Differences between seed sets are then free of most of the sampling noise, and the spread is a monotone
    submodular function of the seeds. An edge is live when its coin, a hash of ``(key, world, edge)``, is below its
    probability; two pools with the same ``rng`` share their coins, so larger probabilities only add live edges.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        Activation probability of each edge, in graph order.
    worlds
        Number of worlds.
    rng
        Seed or generator.
    storage
        ``"packed"`` keeps one bit per edge and world (``n_edges * worlds / 8`` bytes), the choice when a pool is
        asked often. ``"hashed"`` keeps nothing and computes the coins that it meets. Both give the same answers.
    threads
        Threads to use; the results do not depend on it.

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
        storage: Literal["packed", "hashed"] = "packed",
        threads: int | None = None,
    ) -> None:
        check_choice("storage", storage, ("packed", "hashed"))
        self.graph = check_graph(graph)
        self.worlds = check_count("worlds", worlds, 1, MOST_RUNS)
        if storage == "packed" and self.worlds * graph.n_edges > _MOST_BITS:
            raise InputError(
                f"{worlds} worlds of {graph.n_edges} edges do not fit in memory. Take fewer, or storage='hashed'."
            )
        self.storage = storage
        self._threads = thread_count(threads)
        self._probabilities = check_probabilities(graph, probabilities).copy()
        self._key = stream_key(as_generator(rng))
        self._bits = self._pack() if storage == "packed" else None

    def _pack(self) -> NDArray[np.uint64]:
        from tensorucb.diffusion import _kernels

        bits = np.empty((self.worlds, -(-self.graph.n_edges // 64)), dtype=np.uint64)

        def work(start: int, stop: int) -> None:
            _kernels.pack_worlds(self._probabilities, self._key, start, stop, bits)

        map_chunks(work, chunk_bounds(self.worlds, self._threads), self._threads)
        return bits

    def reach(self, rows: ArrayLike, values: ArrayLike | None = None) -> NDArray[np.float64]:
        """Number (or value) of the nodes that the seeds reach in each world, the seeds included.

        Parameters
        ----------
        rows
            Distinct node rows of the seeds.
        values
            Value of each node; 1 each by default.

        Returns
        -------
        numpy.ndarray
            One entry a world.
        """
        from tensorucb.diffusion import _kernels

        seeds, val = check_seeds(self.graph, "rows", rows), worth(self.graph, values)
        offsets, targets = self.graph.out_offsets, self.graph.targets
        reached = np.empty(self.worlds)

        def work(start: int, stop: int) -> None:
            if self._bits is not None:
                _kernels.reach_packed(offsets, targets, self._bits, seeds, start, stop, val, reached)
            else:
                p, key = self._probabilities, self._key
                _kernels.reach_hashed(offsets, targets, p, seeds, key, start, stop, val, reached)

        map_chunks(work, chunk_bounds(self.worlds, self._threads), self._threads)
        return reached

    def spread(self, rows: ArrayLike, values: ArrayLike | None = None) -> float:
        """Average of :meth:`reach` over the worlds.

        Parameters
        ----------
        rows
            Distinct node rows of the seeds.
        values
            Value of each node; 1 each by default.
        """
        return float(self.reach(rows, values).mean())
