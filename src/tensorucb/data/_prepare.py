"""The paper's preparation of a data set (Section "Datasets")."""

from __future__ import annotations

import numpy as np

from tensorucb.checks import check_count, check_flag, shown
from tensorucb.data._dataset import ActionLog, Dataset, check_dataset
from tensorucb.errors import InputError
from tensorucb.moments import Duration, duration
from tensorucb.rng import RngLike, as_generator


def prepare(
    dataset: Dataset,
    *,
    min_interactions: int = 50,
    drop_isolated: bool = True,
    window: Duration | None = "keep",
    n_products: int | None = None,
    rng: RngLike = None,
) -> Dataset:
    """Drop users with few interactions and isolated users, and sample products, as the paper does.

    Users are judged on the whole log, before products are drawn. The steps are added to the report.

    Parameters
    ----------
    min_interactions
        Users with fewer actions in the whole log are dropped, with their edges. 0 keeps everyone.
    drop_isolated
        Drop users that no edge joins to another user that is left.
    window
        The activation window (``"7d"`` or a timedelta), ``None`` for none, ``"keep"`` for the data set's own.
    n_products, rng
        Keep that many products, drawn at random from those with an action; ``None`` keeps all.

    Examples
    --------
    >>> from tensorucb.data import generate_dataset
    >>> data = generate_dataset("sandbox", scale=0.2)
    >>> prepare(data, min_interactions=0, n_products=4, rng=0).log.n_items
    4
    """
    graph, log = check_dataset(dataset).graph, dataset.log
    min_interactions = check_count("min_interactions", min_interactions, 0)
    drop_isolated = check_flag("drop_isolated", drop_isolated)
    chosen_window = dataset.window
    if not (isinstance(window, str) and window == "keep"):
        if window is not None:
            duration("window", window)
        chosen_window = window
    active = log.interactions(graph.n_nodes) >= min_interactions
    edges = active[graph.sources] & active[graph.targets]
    if not edges.any():
        raise InputError(
            f"no edge of {shown(dataset.name)} joins two users with {min_interactions} interactions or more. "
            "Lower min_interactions."
        )
    keep = active
    if drop_isolated:
        keep = np.zeros(graph.n_nodes, dtype=bool)
        keep[graph.sources[edges]] = keep[graph.targets[edges]] = True
    smaller = graph.subgraph(graph.ids[keep])
    items = np.unique(log.items[keep[log.users]])
    if n_products is not None:
        n_products = check_count("n_products", n_products, 1, items.size)
        items = np.sort(as_generator(rng).choice(items, n_products, replace=False))
    actions = keep[log.users] & np.isin(log.items, items)
    new_users = (np.cumsum(keep) - 1)[log.users[actions]].astype(np.int32)
    new_items = np.searchsorted(items, log.items[actions]).astype(np.int32)
    final_log = ActionLog(new_users, new_items, log.times[actions], log.item_ids[items])
    few = int((~active).sum())
    report = dataset.report.then(
        f"{few:,} users dropped: fewer than {min_interactions} interactions",
        f"{graph.n_nodes - few - smaller.n_nodes:,} users dropped: isolated",
        f"{graph.n_edges - smaller.n_edges:,} edges dropped with them",
        f"{log.n_items - final_log.n_items:,} items dropped: "
        + ("no action left" if n_products is None else f"no action left, or not among the {n_products} drawn"),
        f"{log.n_actions - final_log.n_actions:,} actions dropped with these users and items",
    )
    return Dataset(smaller, final_log, dataset.name, chosen_window, report)
