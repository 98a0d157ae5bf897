"""How raw columns become features, kept from the creation on; and what joins later: products, strategies, users, edges.

A campaign whose features came as numbers keeps nothing of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.campaign._catalogue import PLURAL, by_text, check_fits
from tensorucb.campaign._documents import put_kept
from tensorucb.campaign._handle import Handle
from tensorucb.campaign._network import Users, grown_network
from tensorucb.campaign._segments import no_columns
from tensorucb.campaign._tables import (
    Rows,
    columns_named,
    features_of_strategies,
    is_table,
    no_rows,
    order_of,
    places_of,
    read_rows,
    rows_of_frame,
)
from tensorucb.checks import check_mapping, check_number, shown
from tensorucb.errors import InputError, TableError, call
from tensorucb.features import ProductFeatures, TableFeatures, UserProfile
from tensorucb.graph._ids import id_array

if TYPE_CHECKING:
    import polars as pl

    from tensorucb.campaign._campaign import Campaign


def described_users(fitted: TableFeatures, users: Users | None, table: pl.DataFrame | None, count: int) -> F64:
    """``(count, d)`` features of new users: the average of ``users``, and at their end the columns of their table.

    What is no column (degrees, past response) is for a new user what it is for an average one.
    """
    present = users.features if isinstance(users, UserProfile) else users
    assert present is not None
    features = np.tile(present.mean(axis=0), (count, 1))
    if table is not None:
        features[:, features.shape[1] - len(fitted.labels) :] = fitted.transform(table)
    return features


def numbers_of_table(what: str, frame: pl.DataFrame) -> F64:
    """A table in a campaign that knows no raw columns: its numbers are the features."""
    words = [name for name in frame.columns if not frame[name].dtype.is_numeric()]
    if words:
        raise InputError(
            f"the features of this campaign's {what} are numbers, but column {shown(words[0])} holds something else.",
            advice=("Give numbers, or create a campaign from files with ", call("create_campaign"), "."),
        )
    return frame.to_numpy().astype(np.float64)


def add_products(handle: Handle, ids: ArrayLike, features: Any, values: ArrayLike | None = None) -> None:
    """Add products by numbers, or by a table of raw columns; see `Campaign.add_products`."""
    if not is_table(features):
        extend(handle, "product", ids, features, values=values)
        return
    with handle.read() as view:
        described_by = view.kept("product_features", ProductFeatures)
    named = columns_named(handle.record.settings, "products")
    fitted = None if described_by is None else described_by.table
    rows = rows_of_frame("product", features, id_array(ids, "ids"), named, fitted)
    _add_described(handle, rows, described_by, values)


def _add_described(handle: Handle, rows: Rows, described_by: ProductFeatures | None, values: ArrayLike | None) -> None:
    """Add products of a table, of which those that are there keep the features that they have."""
    if described_by is None:
        titles = [rows.meant["name"].name] if "name" in rows.meant else []
        numbers = numbers_of_table("products", rows.table.drop(titles))
    else:
        with handle.read() as view:
            catalogue = view.catalogue("product")
        numbers = described_by.describe(rows.table)
        held = [(row, entry) for row, entry in enumerate(rows.ids) if entry in catalogue.places]
        if len(held) == len(rows.ids) and values is None:
            return
        for row, entry in held:
            numbers[row] = catalogue.vector(entry)
    extend(handle, "product", rows.ids, numbers, values=values, names=rows.names)


def extend(handle: Handle, kind: str, ids: ArrayLike, features: ArrayLike, **columns: Any) -> None:
    """Add products or strategies to their catalogue; ``columns`` are as `Catalogue.extended` takes them."""
    now = handle.clock()
    many = PLURAL[kind]
    with handle.change(now) as view:
        grown = view.catalogue(kind).extended(ids, features, **columns)
        if grown.ids:
            check_fits(view.ledger, kind, grown.features.shape[1])
        put_kept(view.session, view.number, many, grown)
        view.append(f"{many}_added", None, {many: len(grown.ids)}, now)


def set_costs(handle: Handle, costs: Mapping[int | str, float]) -> None:
    """Change what strategies cost from now on; see `Campaign.set_costs`."""
    now = handle.clock()
    named = check_mapping("costs", costs, "a mapping of strategy ids to costs")
    prices = {entry: check_number(f"the cost of {shown(entry)}", cost) for entry, cost in named.items()}
    with handle.change(now) as view:
        catalogue = view.catalogue("strategy")
        after = catalogue.costs.copy()
        for entry, cost in prices.items():
            after[catalogue.index(entry)] = cost
        changes = {
            str(catalogue.ids[place]): {"before": float(catalogue.costs[place]), "after": float(after[place])}
            for place in np.flatnonzero(after != catalogue.costs).tolist()
        }
        if changes:
            put_kept(view.session, view.number, PLURAL["strategy"], replace(catalogue, costs=after))
            view.append("costs_set", None, {"strategies": changes}, now)


def add_users(
    handle: Handle,
    ids: ArrayLike,
    features: Any,
    edges: tuple[ArrayLike, ArrayLike],
    columns: Mapping[str, ArrayLike | None],
) -> None:
    """Add users and edges; see `Campaign.add_users`. ``columns`` are those of `BY_USER`."""
    fresh = id_array(ids, "ids")
    given = {name: column for name, column in columns.items() if column is not None}
    rows = no_rows()
    if is_table(features):
        with handle.read() as view:
            fitted = view.kept("user_features", TableFeatures)
        rows = rows_of_frame("user", features, fresh, columns_named(handle.record.settings, "users"), fitted)
        features = None
        given = {**rows.columns(consent="consent" in handle.record.settings and "consent" not in given), **given}
    _join(handle, fresh, rows, features, edges, given)


def _join(
    handle: Handle,
    fresh: NDArray[Any],
    rows: Rows,
    features: ArrayLike | UserProfile | None,
    edges: tuple[Any, Any],
    columns: Mapping[str, ArrayLike],
) -> None:
    """Add users of the ids ``fresh``, described by ``features`` or by the ``rows`` of a table, and edges."""
    names = rows.meant.get("name")
    described = rows.table if rows.table.width else None
    now = handle.clock()
    with handle.change(now) as view:
        network = view.network
        if fresh.size:
            fitted = view.kept("user_features", TableFeatures)
            if features is None and fitted is not None:
                features = described_users(fitted, network.users, described, fresh.size)
            elif described is not None:
                features = numbers_of_table("users", described)
            kept = view.user_columns
            if kept is None and names is not None:
                kept = no_columns(network.graph.n_nodes)
            if kept is not None:
                kept = kept.grown(fresh.size, names, rows.split_columns)
            put_kept(view.session, view.number, "user_columns", kept)
        grown = grown_network(network, fresh, features, edges, columns, view.ledger.next_number())
        if fresh.size:
            view.session.add_users(view.number, fresh.tolist())
        view.put_network(grown)
        counts = {"users": int(fresh.size), "edges": grown.graph.n_edges - network.graph.n_edges}
        view.append("users_added", None, {**counts, "world": grown.revision}, now)


# -- from files, read by the columns that the campaign was created with --


def entries_from(campaign: Campaign, kind: str, path: Path) -> dict[str, Any]:
    """Add the products or strategies of a file; how many were added, were known and are there now, and what was read.

    ``kind`` is ``product`` or ``strategy``.
    """
    many = PLURAL[kind]
    handle = campaign._handle
    rows = _rows(campaign, path, many)
    with handle.read() as view:
        known = by_text(view.catalogue(kind).ids)
        described_by = view.kept("product_features", ProductFeatures)
    # The catalogue may have text for ids where this file alone would make numbers of them.
    text = kind == "product" and any(isinstance(entry, str) for entry in known.values())
    rows = replace(rows, ids=[known.get(str(entry), str(entry) if text else entry) for entry in rows.ids])
    if kind == "product":
        _add_described(handle, rows, described_by, rows.columns().get("values"))
    else:
        features, _ = features_of_strategies(rows)
        extend(handle, kind, rows.ids, features, costs=rows.columns().get("costs"), names=rows.names)
    total = len(getattr(campaign, many)())
    added = total - len(known)
    return {"added": added, "known": len(rows.ids) - added, many: total, "report": rows.lines}


def users_from(campaign: Campaign, users: Path, edges: Path | None) -> dict[str, Any]:
    """Add the users and edges of files; how many were added, how many there are now, and what was read."""
    from tensorucb.data._plain import read_links

    before = campaign.graph
    text = before.ids.dtype.kind == "U"
    rows = _rows(campaign, users, "users")
    report = [*rows.lines]
    links: tuple[Any, Any] = ((), ())
    if edges is not None:
        followers = read_links(edges, columns_named(campaign.settings, "edges"), "str" if text else "int")
        links = followers.frame["source"], followers.frame["target"]
        report += str(followers.report).split("\n")
    fresh = np.flatnonzero(places_of(before.ids, rows.ids) < 0)
    if fresh.size or edges is not None:
        # In a file of a few users all ids may look like numbers.
        new = [str(rows.ids[place]) if text else rows.ids[place] for place in fresh.tolist()]
        columns = rows.columns(consent="consent" in campaign.settings)
        own = {name: column[fresh] for name, column in columns.items()}
        _join(campaign._handle, id_array(new, "ids"), rows.take(new, fresh), None, links, own)
    after = campaign.graph
    return {
        "users_added": after.n_nodes - before.n_nodes,
        "edges_added": after.n_edges - before.n_edges,
        "users": after.n_nodes,
        "edges": after.n_edges,
        "report": report,
    }


def column_from(campaign: Campaign, path: Path, meaning: str) -> NDArray[Any]:
    """The ``cost`` or ``group`` of every user from a file, in the order of the network's users."""
    import polars as pl

    rows = _rows(campaign, path, "users")
    column = rows.columns().get(f"{meaning}s")
    if column is None:
        raise TableError(f"{path.name} has no column {meaning!r}. Give it a column user and a column {meaning}.")
    return column[order_of("user", pl.Series("user", rows.ids), campaign.graph.ids)]


def _rows(campaign: Campaign, path: Path, table: str) -> Rows:
    return read_rows(path, table, usually=columns_named(campaign.settings, table))
