"""How many users a choice is expected to reach, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tensorucb.diffusion import simulate_cascades
from tensorucb.graph import Graph

__all__ = ["Reach", "direct_gains", "expected_reach"]

_RUNS = 1000
_LEVEL = 0.9


@dataclass(frozen=True)
class Reach:
    """Expected number of active users, the contacted ones counted among them.

    The probabilities behind it are the policy's belief without exploration, where it can be asked for that; the
    interval is that of the outcome under this belief, not of the belief itself.

    Attributes
    ----------
    mean
        Expected number.
    low, high
        Ends of the interval of the outcome.
    level
        Its coverage.
    """

    mean: float
    low: float
    high: float
    level: float = _LEVEL


def expected_reach(
    graph: Graph, probabilities: NDArray[np.float64], rows: NDArray[np.int64], objective: str, rng: np.random.Generator
) -> Reach:
    """Reach of the seeds ``rows``.

    Direct objective: the exact mean and the variance of a Poisson-binomial count (followers decide independently),
    with a normal interval within the possible. Cascade: mean and quantiles of 1,000 simulated cascades.
    """
    if rows.size == 0:
        return Reach(0.0, 0.0, 0.0)
    if objective == "cascade":
        reached = simulate_cascades(graph, probabilities, rows, _RUNS, rng)
        low, high = np.quantile(reached, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
        return Reach(float(reached.mean()), float(low), float(high))
    survive = np.ones(graph.n_nodes)
    edges = graph.out_edges(rows)
    np.multiply.at(survive, graph.targets[edges], 1.0 - probabilities[edges])
    survive[rows] = 1.0
    q = 1.0 - survive
    mean = rows.size + float(q.sum())
    half = NormalDist().inv_cdf((1 + _LEVEL) / 2) * float(np.sqrt((q * survive).sum()))
    most = rows.size + int(np.count_nonzero(q))
    return Reach(mean, max(float(rows.size), mean - half), min(float(most), mean + half))


def direct_gains(graph: Graph, probabilities: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """What each seed adds to the direct objective, in the given order."""
    survive, gains = np.ones(graph.n_nodes), np.empty(rows.size)
    for i, row in enumerate(rows.tolist()):
        edges = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
        targets, p = graph.targets[edges], probabilities[edges]
        gains[i] = survive[row] + float((survive[targets] * p).sum())
        survive[row] = 0.0
        survive[targets] *= 1.0 - p
    return gains
