"""What joins a campaign after its creation: products, strategies, users and edges."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from tensorucb.campaign._catalogue import PLURAL, check_fits
from tensorucb.campaign._columns import is_table, product_features, product_rows, user_features, user_matrix
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._network import as_id_array, grown_network


def add_products(handle: Handle, ids: ArrayLike, features: Any) -> None:
    """Add products by numbers, or by a table of raw columns; see `Campaign.add_products`."""
    if is_table(features):
        with handle.read() as view:
            known, places = product_features(view.session, view.number), view.catalogue("product").places
        features, named = product_rows(known, features), as_id_array(ids, "ids").tolist()
        if known is not None and len(named) == len(features):
            fresh = [row for row, entry in enumerate(named) if entry not in places]
            if not fresh:
                return
            ids, features = [named[row] for row in fresh], features[fresh]
    extend(handle, "product", ids, features, None)


def extend(handle: Handle, kind: str, ids: ArrayLike, features: ArrayLike, costs: ArrayLike | None) -> None:
    """Add products or strategies to their catalogue."""
    now, many = handle.clock(), PLURAL[kind]
    with handle.change(now) as view:
        grown = view.catalogue(kind).extended(ids, features, costs)
        if grown.features is not None:
            check_fits(view.ledger, kind, grown.features.shape[1])
        view.session.put_blob(view.number, many, grown.to_blob())
        view.append(f"{many}_added", None, {many: len(grown.ids)}, now)


def add_users(
    handle: Handle,
    ids: ArrayLike,
    features: Any,
    edges: tuple[ArrayLike, ArrayLike],
    costs: ArrayLike | None,
    groups: ArrayLike | None,
) -> None:
    """Add users and edges; see `Campaign.add_users`."""
    now = handle.clock()
    with handle.change(now) as view:
        network, fresh = view.network, as_id_array(ids, "ids")
        if fresh.size:
            known = user_features(view.session, view.number)
            features = user_matrix(known, network.users, features, fresh.size)
        grown = grown_network(network, fresh, features, edges, costs, groups, view.ledger.next_number())
        if fresh.size:
            view.session.add_users(view.number, grown.keys[network.keys.size :], fresh.tolist())
        view.put_network(grown)
        counts = {"users": int(fresh.size), "edges": grown.graph.n_edges - network.graph.n_edges}
        view.append("users_added", None, {**counts, "world": grown.revision}, now)
