"""The figures of a data set: the paper's Table 2, and what its log says about activations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tensorucb.checks import check_instance
from tensorucb.data._dataset import Dataset
from tensorucb.data._log import ActionLog
from tensorucb.graph import Graph
from tensorucb.graph._arguments import check_graph
from tensorucb.moments import check_seconds

_CHEAP = 50_000_000


@dataclass(frozen=True)
class Description:
    """Figures of a data set (Table 2 of the paper: the first five).

    ``exposures`` counts pairs of an edge and an item where the source acted, ``trials`` those where the target had
    not acted before, and ``activations`` those where the target then acted, within the window if there is one. The
    last two are ``None`` where counting would take long.
    """

    n_users: int
    n_edges: int
    out_degree_50: float
    out_degree_90: float
    out_degree_99: float
    out_degree_max: int
    n_products: int
    n_actions: int
    n_acting_users: int
    window: float | None
    exposures: int
    trials: int | None
    activations: int | None

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON-ready values."""
        return asdict(self)


def count_activations(graph: Graph, log: ActionLog, window: float | None = None) -> tuple[int, int]:
    """Activations and trials over all edges and items (see `Description`)."""
    check_graph(graph)
    check_instance("log", log, ActionLog, "an ActionLog")
    log.interactions(graph.n_nodes)  # refuses a log with more users than the graph
    when = np.full(graph.n_nodes, np.inf)
    offsets, degree = graph.out_offsets, graph.out_degree
    horizon = np.inf if window is None else check_seconds("window", window)
    activations = trials = 0
    for start, stop in zip(log.item_offsets[:-1], log.item_offsets[1:], strict=True):
        users, times = log.users[start:stop], log.times[start:stop].astype(np.float64)
        when[users] = times
        sizes = degree[users]
        edges = np.repeat(offsets[users] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(sizes.sum())
        lag = when[graph.targets[edges]] - np.repeat(times, sizes)
        trials += int((lag >= 0).sum())
        activations += int(((lag > 0) & (lag <= horizon) & np.isfinite(lag)).sum())
        when[users] = np.inf
    return activations, trials


def describe(dataset: Dataset) -> Description:
    """The figures of a data set: users, edges, out-degree percentiles, products, actions, activations.

    Parameters
    ----------
    dataset
        The data set.

    Returns
    -------
    Description
        Percentiles are over all users, interpolated.
    """
    check_instance("dataset", dataset, Dataset, "a Dataset")
    graph, log = dataset.graph, dataset.log
    degree = graph.out_degree
    p50, p90, p99 = (float(value) for value in np.percentile(degree, [50, 90, 99]))
    activations = trials = None
    exposures = int(degree[log.users].sum())
    if exposures <= _CHEAP:
        activations, trials = count_activations(graph, log, dataset.window)
    return Description(
        n_users=graph.n_nodes,
        n_edges=graph.n_edges,
        out_degree_50=p50,
        out_degree_90=p90,
        out_degree_99=p99,
        out_degree_max=int(degree.max()),
        n_products=log.n_items,
        n_actions=log.n_actions,
        n_acting_users=int(np.unique(log.users).size),
        window=dataset.window,
        exposures=exposures,
        trials=trials,
        activations=activations,
    )
