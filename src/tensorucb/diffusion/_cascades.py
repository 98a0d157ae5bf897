"""Cascades: run by run, what a round shows of one, and what is expected of them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.checks import check_choice, check_count, check_share
from tensorucb.choices import Model
from tensorucb.diffusion import _kernels
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph, check_model, check_probabilities, check_seeds, check_values
from tensorucb.graph._ids import frozen
from tensorucb.rng import RngLike, as_generator, stream_key
from tensorucb.threads import thread_count
from tensorucb.work import Engine, check_engine, map_pieces

_SMALLEST_CHUNK = 16
MOST_RUNS = 10_000_000
_NO_INTERVALS = frozen(np.empty(0))


def _checked(graph: Graph, probabilities: ArrayLike, name: str, rows: ArrayLike) -> tuple[F64, I64]:
    """The probabilities of the edges and the rows of the seeds, checked; ``name`` is the argument of the rows."""
    check_graph(graph)
    return check_probabilities(graph, probabilities), check_seeds(graph, name, rows)


def _worth(graph: Graph, values: ArrayLike | None) -> F64:
    """The value of each node, as kernels take it; an empty array stands for 1 each."""
    return np.empty(0) if values is None else check_values(graph, values)


def triggering(graph: Graph, p: F64, redundancy: float, model: Model) -> tuple[float, F64]:
    """A model as kernels take it: the share of nodes with one coin, and where the interval of each edge begins."""
    rho = check_model(graph, p, redundancy, model)
    if model == "ic":
        return rho, _NO_INTERVALS
    sums = np.concatenate([[0.0], np.cumsum(p[graph.in_edges])])
    low = np.empty(graph.n_edges)
    low[graph.in_edges] = sums[:-1] - np.repeat(sums[graph.in_offsets[:-1]], graph.in_degree)
    return 1.0, frozen(low)


def chunk_bounds(count: int, threads: int) -> list[int]:
    """Bounds of a few even chunks per thread, none so small that starting it costs more than running it."""
    chunks = 1 if threads == 1 else max(1, min(4 * threads, count // _SMALLEST_CHUNK))
    return [count * i // chunks for i in range(chunks + 1)]


@dataclass(frozen=True)
class Cascade:
    """One cascade: the rows of the activated nodes in order of activation, the seeds first.

    Each has the step at which it became active (0 for the seeds) and the edge that activated it (-1 for the seeds).

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_cascade
    >>> cascade = simulate_cascade(Graph.from_edges([0, 1], [1, 2]), [1.0, 1.0], [0], rng=0)
    >>> cascade.nodes.tolist(), cascade.steps.tolist()
    ([0, 1, 2], [0, 1, 2])
    """

    nodes: I64
    steps: I64
    edges: I64


def _trace(graph: Graph, p: F64, law: tuple[float, F64], rows: I64, key: np.uint64) -> tuple[I64, I64, I64]:
    """Nodes, steps and edges of the first run."""
    nodes, steps, edges = (np.empty(graph.n_nodes, dtype=np.int64) for _ in range(3))
    count = _kernels.trace(graph.out_offsets, graph.targets, p, *law, rows, key, 0, nodes, steps, edges)
    return nodes[:count].copy(), steps[:count].copy(), edges[:count].copy()


def simulate_cascade(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    rng: RngLike = None,
    *,
    redundancy: float = 0.0,
    model: Model = "ic",
) -> Cascade:
    """Run one cascade and keep which edge activated each node, and when.

    With the same ``rng`` this is the first of :func:`simulate_cascades`' runs, which explains the arguments.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_cascade
    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> simulate_cascade(graph, [1.0, 1.0, 0.0], [0], rng=0).nodes.tolist()
    [0, 1, 2]
    """
    p, rows = _checked(graph, probabilities, "seeds_rows", seeds_rows)
    law = triggering(graph, p, redundancy, model)
    return Cascade(*_trace(graph, p, law, rows, stream_key(as_generator(rng))))


def simulate_cascades(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    runs: int = 1,
    rng: RngLike = None,
    threads: int | None = None,
    *,
    values: ArrayLike | None = None,
    redundancy: float = 0.0,
    model: Model = "ic",
    engine: Engine | None = None,
) -> F64:
    """Run cascades and count the nodes that each reaches, or add up their values.

    A newly active node tries each of its out-edges once; the edge's coin decides. Run ``r`` draws its coins from a
    stream of its own, so the result is the same on any number of threads.

    Parameters
    ----------
    graph, probabilities
        The social network, and the activation probability of each edge in graph order.
    seeds_rows
        Distinct node rows that are active from the start; they count as reached.
    runs, rng, threads
        Number of cascades, seed or generator, and threads to use; by default every usable core.
    values
        Value of each node; 1 each by default.
    redundancy
        The probability that a node has one coin for all its in-edges in a run, in place of one for each of them. An
        edge fires if the coin is below its probability, so with one coin only the strongest edge into a node counts.
        This is what :func:`tensorucb.select_seeds` means by it.
    model
        ``"ic"``: independent cascades, as above. ``"lt"``: linear thresholds, where a node joins once the weights of
        its active in-neighbours reach a threshold that is uniform in [0, 1]; the probabilities are these weights. It is
        simulated by an equal model: each node has at most one live in-edge, an edge with the probability of its weight
        (Kempe, Kleinberg, Tardos, 2003).
    engine
        Where cascades run: None for this machine, or a cluster (:class:`tensorucb.engines.RayEngine`).

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_cascades
    >>> graph = Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> simulate_cascades(graph, [1.0, 1.0, 0.0], [0], runs=3, rng=0).tolist()
    [3.0, 3.0, 3.0]
    """
    p, rows = _checked(graph, probabilities, "seeds_rows", seeds_rows)
    worth, key = _worth(graph, values), stream_key(as_generator(rng))
    law = triggering(graph, p, redundancy, model)
    shared = (graph.out_offsets, graph.targets, p, *law, frozen(rows), key, frozen(worth))
    runs, workers = check_count("runs", runs, 1, MOST_RUNS), thread_count(threads)
    return np.concatenate(map_pieces(check_engine(engine), reach_runs, shared, chunk_bounds(runs, workers), workers))


def reach_runs(shared: tuple[Any, ...], start: int, stop: int) -> F64:
    """The value that runs ``start .. stop`` reach, see :func:`simulate_cascades`."""
    *network, rows, key, values = shared
    reached = np.empty(stop)
    _kernels.reach_hashed(*network, rows, key, start, stop, values, reached)
    return reached[start:]


def simulate_gains(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    runs: int = 1,
    rng: RngLike = None,
    threads: int | None = None,
    *,
    redundancy: float = 0.0,
    model: Model = "ic",
    engine: Engine | None = None,
) -> F64:
    """Run cascades and count the nodes that each seed adds to those of the seeds before it.

    The arguments and the coins are those of :func:`simulate_cascades`; the result is ``(runs, seeds)``. Seeds are
    active from the start and count for nobody, so the gains of a run sum to the nodes that it reaches, less the seeds.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import simulate_gains
    >>> simulate_gains(Graph.from_edges([0, 0, 1], [2, 3, 3]), [1.0, 1.0, 1.0], [0, 1], rng=0).tolist()
    [[2.0, 0.0]]
    """
    p, rows = _checked(graph, probabilities, "seeds_rows", seeds_rows)
    law = triggering(graph, p, redundancy, model)
    shared = (graph.out_offsets, graph.targets, p, *law, frozen(rows), stream_key(as_generator(rng)))
    runs, workers = check_count("runs", runs, 1, max(1, MOST_RUNS // max(1, rows.size))), thread_count(threads)
    return np.concatenate(map_pieces(check_engine(engine), _gain_runs, shared, chunk_bounds(runs, workers), workers))


def _gain_runs(shared: tuple[Any, ...], start: int, stop: int) -> F64:
    *_, rows, _ = shared
    gains = np.empty((stop, rows.size))
    _kernels.gains_hashed(*shared, start, stop, gains)
    return gains[start:]


def observe(
    graph: Graph,
    probabilities: ArrayLike,
    rows: ArrayLike,
    feedback: Literal["one_hop", "cascade"] = "one_hop",
    rng: RngLike = None,
    *,
    redundancy: float = 0.0,
    model: Model = "ic",
) -> tuple[I64, F64]:
    """Play one round; return the numbers of the edges that were tried, and 1.0 for each that fired (0.0 if not).

    The outcome is the edge's own coin, also when the target is already active: counting such an edge as a failure
    would bias its probability down. Each edge is tried at most once, and the same ``rng`` gives the same coins under
    both kinds of feedback.

    Parameters
    ----------
    graph, probabilities, rows
        The social network, the true activation probability of each edge, and the distinct node rows of the seeds.
    feedback
        ``"one_hop"`` shows the out-edges of the seeds, in the order of the seeds (the paper's Algorithm 1);
        ``"cascade"`` the out-edges of every activated node, in order of activation.
    rng
        Seed or generator.
    redundancy, model
        As in :func:`simulate_cascades`. With one coin edges to a user fire together, those of probability above it;
        with linear thresholds at most one of them does.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import observe
    >>> edges, outcomes = observe(Graph.from_edges([0, 0, 1], [1, 2, 2]), [1.0, 0.0, 1.0], [0], rng=0)
    >>> edges.tolist(), outcomes.tolist()
    ([0, 1], [1.0, 0.0])
    """
    check_choice("feedback", feedback, ("one_hop", "cascade"))
    p, nodes = _checked(graph, probabilities, "rows", rows)
    law = triggering(graph, p, redundancy, model)
    key = stream_key(as_generator(rng))
    if feedback == "cascade":
        nodes = _trace(graph, p, law, nodes, key)[0]
    tried = int((graph.out_offsets[nodes + 1] - graph.out_offsets[nodes]).sum())
    edges, outcomes = np.empty(tried, dtype=np.int64), np.empty(tried)
    _kernels.coins(graph.out_offsets, graph.targets, p, *law, nodes, key, 0, edges, outcomes)
    return edges, outcomes


@dataclass(frozen=True)
class Spread:
    """An estimate of the expected spread from ``runs`` cascades; ``low`` and ``high`` bound the mean at ``level``.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import spread
    >>> estimate = spread(Graph.from_edges([0, 1], [1, 2]), [1.0, 1.0], [0], runs=100, rng=0)
    >>> estimate.mean, estimate.runs
    (3.0, 100)
    """

    mean: float
    low: float
    high: float
    runs: int
    level: float = 0.95


def spread(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    *,
    runs: int = 1000,
    rng: RngLike = None,
    level: float = 0.95,
    values: ArrayLike | None = None,
    redundancy: float = 0.0,
    model: Model = "ic",
    threads: int | None = None,
    engine: Engine | None = None,
) -> Spread:
    """Estimate the expected spread of cascades from the seeds, with an interval.

    A single run says nothing about its own error: its interval is infinitely wide.

    Parameters
    ----------
    graph, probabilities, seeds_rows, runs, rng, values, redundancy, model, threads, engine
        As in :func:`simulate_cascades`.
    level
        Nominal coverage of the interval mean ± z·s/√runs.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import spread
    >>> graph = Graph.from_edges([0, 1], [1, 2])
    >>> spread(graph, [1.0, 1.0], [0], rng=0).mean
    3.0
    """
    level = check_share("level", level, zero=False, one=False)
    reached = simulate_cascades(
        graph,
        probabilities,
        seeds_rows,
        runs,
        rng,
        threads,
        values=values,
        redundancy=redundancy,
        model=model,
        engine=engine,
    )
    mean, half = float(reached.mean()), np.inf
    if reached.size > 1:
        half = NormalDist().inv_cdf((1 + level) / 2) * float(reached.std(ddof=1)) / reached.size**0.5
    return Spread(mean, mean - half, mean + half, int(reached.size), level)


def direct_spread(
    graph: Graph,
    probabilities: ArrayLike,
    rows: ArrayLike,
    values: ArrayLike | None = None,
    *,
    redundancy: float = 0.0,
) -> float:
    """Exact expected number (or value) of the seeds and of those that they activate themselves.

    ``Σ_{i∈S} v_i + Σ_{j∉S} v_j·{(1 − ρ)[1 − Π_{i∈S}(1 − p_ij)] + ρ·max_{i∈S} p_ij}`` with the redundancy ρ: what the
    out-edges of the seeds, the feedback of the paper's Algorithm 1, can show.

    Parameters
    ----------
    graph, probabilities, rows
        The social network, the activation probability of each edge, and the distinct node rows of the seeds.
    values
        Value of each node; 1 each by default.
    redundancy
        How far a second contact of the same user brings nothing new, as in :func:`tensorucb.select_seeds`.

    Examples
    --------
    >>> from tensorucb.graph import Graph
    >>> direct_spread(Graph.from_edges([0, 1], [2, 2]), [0.5, 0.5], [0, 1])
    2.75
    >>> direct_spread(Graph.from_edges([0, 1], [2, 2]), [0.5, 0.5], [0, 1], redundancy=1.0)
    2.5
    """
    p, seeds = _checked(graph, probabilities, "rows", rows)
    rho = check_share("redundancy", redundancy)
    return float(_kernels.direct(graph.out_offsets, graph.targets, p, rho, seeds, _worth(graph, values)))
