"""Independent cascades."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_count
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_probabilities, check_seeds, check_values
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import map_chunks, thread_count

_SMALLEST_CHUNK = 16
MOST_RUNS = 10_000_000


def worth(graph: Graph, values: ArrayLike | None) -> NDArray[np.float64]:
    """The value of each node, as kernels take it; an empty array stands for 1 each."""
    return np.empty(0) if values is None else check_values(graph, values)


def chunk_bounds(count: int, threads: int) -> list[int]:
    """Bounds of a few even chunks a thread, none so small that starting it costs more than running it."""
    chunks = 1 if threads == 1 else max(1, min(4 * threads, count // _SMALLEST_CHUNK))
    return [count * i // chunks for i in range(chunks + 1)]


@dataclass(frozen=True)
class Cascade:
    """One cascade, node by node.

    Attributes
    ----------
    nodes
        Rows of the activated nodes in order of activation, the seeds first.
    steps
        Step at which each became active; 0 for the seeds.
    edges
        Edge that activated each; -1 for the seeds.
    """

    nodes: NDArray[np.int64]
    steps: NDArray[np.int64]
    edges: NDArray[np.int64]


def simulate_cascade(graph: Graph, probabilities: ArrayLike, seeds_rows: ArrayLike, rng: RngLike = None) -> Cascade:
    """Run one independent cascade and keep its story.

    With the same ``rng`` this is the first of :func:`simulate_cascades`' runs.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        Activation probability of each edge, in graph order.
    seeds_rows
        Distinct node rows that are active from the start.
    rng
        Seed or generator.

    Returns
    -------
    Cascade
        Activated nodes in order, their steps, and the edges that fired.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_cascade
    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> simulate_cascade(graph, [1.0, 1.0, 0.0], [0], rng=0).nodes.tolist()
    [0, 1, 2]
    """
    from tensorucb.diffusion import _kernels

    check_graph(graph)
    p, rows = check_probabilities(graph, probabilities), check_seeds(graph, "seeds_rows", seeds_rows)
    nodes, steps, edges = (np.empty(graph.n_nodes, dtype=np.int64) for _ in range(3))
    key = stream_key(as_generator(rng))
    count = _kernels.trace(graph.out_offsets, graph.targets, p, rows, key, 0, nodes, steps, edges)
    return Cascade(nodes[:count].copy(), steps[:count].copy(), edges[:count].copy())


def simulate_cascades(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    runs: int = 1,
    rng: RngLike = None,
    threads: int | None = None,
    *,
    values: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Run independent cascades and count the nodes that each reaches.

    A newly active node tries each of its out-edges once; the edge's coin decides. Run ``r`` draws its coins from a
    stream of its own, so the result is the same on any number of threads.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        Activation probability of each edge, in graph order.
    seeds_rows
        Distinct node rows that are active from the start; they count as reached.
    runs
        Number of cascades.
    rng
        Seed or generator.
    threads
        Threads to use; by default every usable core.
    values
        Value of each node; 1 each by default.

    Returns
    -------
    numpy.ndarray
        Number (or value) of the nodes reached, one entry a run.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_cascades
    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> simulate_cascades(graph, [1.0, 1.0, 0.0], [0], runs=3, rng=0).tolist()
    [3.0, 3.0, 3.0]
    """
    from tensorucb.diffusion import _kernels

    check_graph(graph)
    p, rows = check_probabilities(graph, probabilities), check_seeds(graph, "seeds_rows", seeds_rows)
    val, reached = worth(graph, values), np.empty(check_count("runs", runs, 1, MOST_RUNS))
    key = stream_key(as_generator(rng))
    offsets, targets = graph.out_offsets, graph.targets

    def work(start: int, stop: int) -> None:
        _kernels.reach_hashed(offsets, targets, p, rows, key, start, stop, val, reached)

    workers = thread_count(threads)
    map_chunks(work, chunk_bounds(reached.size, workers), workers)
    return reached


def simulate_gains(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    runs: int = 1,
    rng: RngLike = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """Run independent cascades and count the nodes that each seed adds to those of the seeds before it.

    The coins are those of :func:`simulate_cascades`. Seeds are active from the start and count for nobody, so the
    gains of a run sum to the nodes that it reaches, less the seeds.

    Parameters
    ----------
    graph, probabilities, seeds_rows, runs, rng, threads
        As in :func:`simulate_cascades`.

    Returns
    -------
    numpy.ndarray
        ``(runs, seeds)``.
    """
    from tensorucb.diffusion import _kernels

    check_graph(graph)
    p, rows = check_probabilities(graph, probabilities), check_seeds(graph, "seeds_rows", seeds_rows)
    gains = np.empty((check_count("runs", runs, 1, max(1, MOST_RUNS // max(1, rows.size))), rows.size))
    key = stream_key(as_generator(rng))

    def work(start: int, stop: int) -> None:
        _kernels.gains_hashed(graph.out_offsets, graph.targets, p, rows, key, start, stop, gains)

    workers = thread_count(threads)
    map_chunks(work, chunk_bounds(gains.shape[0], workers), workers)
    return gains
