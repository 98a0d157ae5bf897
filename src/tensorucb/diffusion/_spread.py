"""Expected spread with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_array, check_choice, check_share
from tensorucb.diffusion._cascades import simulate_cascades
from tensorucb.graph import Graph
from tensorucb.rng import RngLike, as_generator

Interval = Literal["normal", "bootstrap"]
_RESAMPLES = 1000


@dataclass(frozen=True)
class Spread:
    """An estimate of the expected spread.

    Attributes
    ----------
    mean
        Average over the runs.
    low, high
        Ends of the interval of the *mean* at ``level``.
    runs
        Number of cascades behind it.
    level
        Nominal coverage of the interval.
    interval
        ``"normal"`` or ``"bootstrap"``.
    """

    mean: float
    low: float
    high: float
    runs: int
    level: float = 0.95
    interval: Interval = "normal"


def summarise(
    reached: NDArray[np.float64], *, level: float = 0.95, interval: Interval = "normal", rng: RngLike = None
) -> Spread:
    """Mean of per-run spreads with an interval.

    Parameters
    ----------
    reached
        Spread of each run, as from :func:`simulate_cascades` or :meth:`LiveEdgePool.reach`.
    level
        Nominal coverage, between 0 and 1.
    interval
        ``"normal"``: mean ± z·s/√runs. ``"bootstrap"``: percentiles of 1,000 resampled means, which follows a skewed
        distribution of cascades better when runs are few.
    rng
        Seed or generator of the bootstrap.

    Returns
    -------
    Spread
        Mean and interval. A single run has no spread of its own: its interval is infinitely wide.
    """
    level = check_share("level", level, zero=False, one=False)
    check_choice("interval", interval, ("normal", "bootstrap"))
    reached = check_array("reached", reached, ("runs",))
    runs, mean = int(reached.size), float(reached.mean())
    if runs == 1:
        return Spread(mean, -np.inf, np.inf, runs, level, interval)
    if interval == "bootstrap":
        generator = as_generator(rng)
        means = [reached[generator.integers(0, runs, runs)].mean() for _ in range(_RESAMPLES)]
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
        return Spread(mean, float(low), float(high), runs, level, interval)
    half = NormalDist().inv_cdf((1 + level) / 2) * float(reached.std(ddof=1)) / runs**0.5
    return Spread(mean, mean - half, mean + half, runs, level, interval)


def spread(
    graph: Graph,
    probabilities: ArrayLike,
    seeds_rows: ArrayLike,
    *,
    runs: int = 1000,
    rng: RngLike = None,
    level: float = 0.95,
    interval: Interval = "normal",
    values: ArrayLike | None = None,
    threads: int | None = None,
) -> Spread:
    """Estimate the expected spread of independent cascades from the seeds.

    Parameters
    ----------
    graph
        The social network.
    probabilities
        Activation probability of each edge, in graph order.
    seeds_rows
        Distinct node rows that are active from the start.
    runs
        Number of cascades.
    rng
        Seed or generator.
    level, interval
        Coverage and kind of the interval, see :func:`summarise`.
    values
        Value of each node; 1 each by default.
    threads
        Threads to use; the result does not depend on it.

    Returns
    -------
    Spread
        Mean, interval and number of runs.

    Examples
    --------
    >>> from tensorucb import Graph
    >>> from tensorucb.diffusion import spread
    >>> graph = Graph.from_edges([0, 1], [1, 2])
    >>> spread(graph, [1.0, 1.0], [0], rng=0).mean
    3.0
    """
    level = check_share("level", level, zero=False, one=False)
    check_choice("interval", interval, ("normal", "bootstrap"))
    generator = as_generator(rng)
    reached = simulate_cascades(graph, probabilities, seeds_rows, runs, generator, threads, values=values)
    return summarise(reached, level=level, interval=interval, rng=generator)
