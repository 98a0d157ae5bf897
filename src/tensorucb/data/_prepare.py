"""The paper's preparation of a data set (Section "Datasets")."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tensorucb.checks import check_count, check_flag, check_instance, shown
from tensorucb.data._dataset import Dataset
from tensorucb.data._log import ActionLog
from tensorucb.errors import InputError
from tensorucb.graph import Graph
from tensorucb.moments import check_seconds
from tensorucb.rng import RngLike, as_generator


def _subgraph(graph: Graph, keep: NDArray[np.bool_], drop_isolated: bool) -> tuple[Graph, NDArray[np.int64]]:
    """The graph among the users kept, and each old row's new one (-1 for those gone)."""
    smaller, old_rows = graph.subgraph(graph.ids[keep]), np.flatnonzero(keep)
    if drop_isolated:
        old_rows = old_rows[(smaller.out_degree > 0) | (smaller.in_degree > 0)]
        smaller = smaller.without_isolated()
    rows = np.full(graph.n_nodes, -1, dtype=np.int64)
    rows[old_rows] = np.arange(old_rows.size)
    return smaller, rows


def _sample_products(log: ActionLog, n_products: int | None, rng: RngLike) -> ActionLog:
    acted = np.unique(log.items).astype(np.int64)
    if n_products is not None:
        n_products = check_count("n_products", n_products, 1, acted.size)
        acted = np.sort(as_generator(rng).choice(acted, n_products, replace=False))
    return log.select(np.ones(log.n_actions, dtype=bool), items=acted)


def prepare(
    dataset: Dataset,
    *,
    min_interactions: int = 50,
    drop_isolated: bool = True,
    window: float | Literal["keep"] | None = "keep",
    n_products: int | None = None,
    rng: RngLike = None,
) -> Dataset:
    """Drop users with few interactions and isolated users, and sample products, as the paper does.

    Parameters
    ----------
    dataset
        The data as read.
    min_interactions
        Users with fewer actions in the whole log are dropped, with their edges. 0 keeps everyone.
    drop_isolated
        Drop users that no edge joins to another user that is left.
    window
        The activation window in seconds, ``None`` for none, ``"keep"`` for the data set's own.
    n_products
        Keep that many products, drawn at random from those with an action; ``None`` keeps all.
    rng
        Seed or generator of that draw.

    Returns
    -------
    Dataset
        New, with the steps added to its report. Users are judged on the whole log, before products are drawn.
    """
    check_instance("dataset", dataset, Dataset, "a Dataset", "read_dataset and generate_dataset make one.")
    min_interactions = check_count("min_interactions", min_interactions, 0)
    drop_isolated = check_flag("drop_isolated", drop_isolated)
    chosen = dataset.window
    if not (isinstance(window, str) and window == "keep"):
        chosen = None if window is None else check_seconds("window", window)
    graph, log = dataset.graph, dataset.log
    keep = log.interactions(graph.n_nodes) >= min_interactions
    inside = keep[graph.sources] & keep[graph.targets]
    if not inside.any():
        raise InputError(
            f"no edge of {shown(dataset.name)} joins two users with {min_interactions} interactions or more. "
            "Lower min_interactions."
        )
    smaller, rows = _subgraph(graph, keep, drop_isolated)
    new_users = rows[log.users]
    kept_log = log.select(new_users >= 0)
    kept_log = ActionLog(new_users[new_users >= 0].astype(np.int32), kept_log.items, kept_log.times, log.item_ids)
    final_log = _sample_products(kept_log, n_products, rng)
    few = int((~keep).sum())
    report = dataset.report.then(
        f"{few:,} users dropped: fewer than {min_interactions} interactions",
        f"{graph.n_nodes - few - smaller.n_nodes:,} users dropped: isolated",
        f"{graph.n_edges - smaller.n_edges:,} edges dropped with them",
        f"{log.n_items - final_log.n_items:,} items dropped: "
        + ("no action left" if n_products is None else f"no action left, or not among the {n_products} drawn"),
        f"{log.n_actions - final_log.n_actions:,} actions dropped with these users and items",
    )
    return Dataset(smaller, final_log, dataset.name, chosen, report)
