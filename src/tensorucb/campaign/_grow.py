"""How raw columns become features, kept from the creation on; and what joins later: products, strategies, users, edges.

A campaign whose features came as numbers keeps nothing of columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.campaign._catalogue import PLURAL, check_fits
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._network import Users, grown_network, seal, unseal
from tensorucb.campaign._segments import UserColumns, no_columns, put_user_columns, texts_of
from tensorucb.campaign._tables import consent_column, consent_of, in_order, is_table, name_column, without_column
from tensorucb.checks import check_mapping, check_number, shown
from tensorucb.errors import InputError, call
from tensorucb.features import ProductFeatures, TableFeatures, UserProfile
from tensorucb.graph._ids import id_array

if TYPE_CHECKING:
    import polars as pl

    from tensorucb.store._session import Session


_PRODUCTS, _USERS = "product_features", "user_features"


@dataclass(frozen=True, eq=False)
class UserFeatures:
    """How users that come later get their features.

    ``own`` is the number of features that come first and are not columns (degrees, past response): a new user has
    those of an average one. ``table`` makes the others from columns; None if there are none.
    """

    own: int
    table: TableFeatures | None = None

    def describe(self, users: Users | None, table: Any, count: int) -> F64:
        """``(count, d)`` features of new users: the average of ``users``, then their columns.

        ``table`` has one row for each of them; None if nothing is known of them.
        """
        present = users.features if isinstance(users, UserProfile) else users
        assert present is not None
        average = np.tile(present.mean(axis=0), (count, 1))
        if table is None or self.table is None:
            return average
        return np.hstack([average[:, : self.own], self.table.transform(table)])


def put_features(session: Session, number: int, products: ProductFeatures | None, users: UserFeatures | None) -> None:
    """Store both with a campaign."""
    if products is not None:
        session.put_blob(number, _PRODUCTS, seal(_PRODUCTS, *products.to_arrays()))
    if users is not None:
        settings, arrays = (None, {}) if users.table is None else users.table.to_arrays()
        session.put_blob(number, _USERS, seal(_USERS, {"own": users.own, "table": settings}, arrays))


def product_features(session: Session, number: int) -> ProductFeatures | None:
    """What the campaign keeps of its products' columns."""
    data = session.blob(number, _PRODUCTS)
    if data is None:
        return None
    return ProductFeatures.from_arrays(*unseal(data, _PRODUCTS, "what the campaign knows of its products' columns"))


def user_features(session: Session, number: int) -> UserFeatures | None:
    """What the campaign keeps of its users' columns."""
    data = session.blob(number, _USERS)
    if data is None:
        return None
    settings, arrays = unseal(data, _USERS, "what the campaign knows of its users' columns")
    table = None if settings["table"] is None else TableFeatures.from_arrays(settings["table"], arrays)
    return UserFeatures(int(settings["own"]), table)


def user_matrix(known: UserFeatures | None, users: Users | None, features: Any, ids: NDArray[Any]) -> Any:
    """Features of new users as numbers: from raw columns, of an average user, or as they are."""
    if is_table(features):
        features = in_order("user", features, ids, None if known is None else known.table)
        return numbers_of_table("users", features) if known is None else known.describe(users, features, ids.size)
    return features if known is None or features is not None else known.describe(users, None, ids.size)


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
    names: Mapping[int | str, str] = {}
    if is_table(features):
        with handle.read() as view:
            known, catalogue = product_features(view.session, view.number), view.catalogue("product")
        named = id_array(ids, "ids")
        frame = in_order("product", features, named, None if known is None else known.table)
        title = name_column(handle.record.settings, "products")
        if title in frame.columns:
            texts = texts_of(frame[title].to_list())
            names = {entry: text for entry, text in zip(named.tolist(), texts, strict=True) if text is not None}
        if known is None:
            features = numbers_of_table("products", frame.drop(title, strict=False))
        else:
            features = known.describe(frame)
        if known is not None:
            held = [row for row, entry in enumerate(named.tolist()) if entry in catalogue.places]
            if len(held) == len(named) and values is None:
                return
            for row in held:  # a product keeps the features that it has
                features[row] = catalogue.vector(named[row].item())
    extend(handle, "product", ids, features, None, values, names)


def extend(
    handle: Handle,
    kind: str,
    ids: ArrayLike,
    features: ArrayLike,
    costs: ArrayLike | None,
    values: ArrayLike | None = None,
    names: Mapping[int | str, str] | None = None,
) -> None:
    """Add products or strategies to their catalogue."""
    now, many = handle.clock(), PLURAL[kind]
    with handle.change(now) as view:
        grown = view.catalogue(kind).extended(ids, features, costs, values).with_names(names or {})
        if grown.features is not None:
            check_fits(view.ledger, kind, grown.features.shape[1])
        view.session.put_blob(view.number, many, grown.to_blob())
        view.append(f"{many}_added", None, {many: len(grown.ids)}, now)


def set_costs(handle: Handle, costs: Mapping[int | str, float]) -> None:
    """Change what strategies cost from now on; see `Campaign.set_costs`."""
    now = handle.clock()
    named = check_mapping("costs", costs, "a mapping of strategy ids to costs")
    prices = {entry: check_number(f"the cost of {shown(entry)}", cost) for entry, cost in named.items()}
    with handle.change(now) as view:
        known = view.catalogue("strategy")
        new = known.with_costs(prices)
        changes = {
            str(entry): {"before": float(before), "after": float(after)}
            for entry, before, after in zip(known.ids, known.costs, new.costs, strict=True)
            if before != after
        }
        if changes:
            view.session.put_blob(view.number, PLURAL["strategy"], new.to_blob())
            view.append("costs_set", None, {"strategies": changes}, now)


def _grown_columns(view: View, table: Any, names: pl.Series | None, ids: NDArray[Any]) -> UserColumns | None:
    """What the campaign keeps for people to look at, with new users; None if it keeps nothing and nothing came."""
    kept = view.user_columns
    if kept is None and names is None:
        return None
    known = user_features(view.session, view.number)
    frame = in_order("user", table, ids, None if known is None else known.table) if is_table(table) else None
    return (kept or no_columns(view.network.graph.n_nodes)).grown(ids.size, names, frame)


def add_users(
    handle: Handle,
    ids: ArrayLike,
    features: Any,
    edges: tuple[ArrayLike, ArrayLike],
    costs: ArrayLike | None,
    groups: ArrayLike | None,
    values: ArrayLike | None,
    consent: ArrayLike | None,
) -> None:
    """Add users and edges; see `Campaign.add_users`."""
    now = handle.clock()
    column = consent_column(handle.record.settings)
    with handle.change(now) as view:
        network, fresh = view.network, id_array(ids, "ids")
        names = None
        if is_table(features):
            features, names = without_column(features, name_column(handle.record.settings, "users"), fresh)
            if names is not None and not set(features.columns) - {"user", "id"}:
                features = None
            if features is not None and consent is None and column is not None:
                features, told = without_column(features, column, fresh)
                consent = None if told is None else consent_of("the table of users", told)
        if fresh.size:
            put_user_columns(view.session, view.number, _grown_columns(view, features, names, fresh))
            known = user_features(view.session, view.number)
            features = user_matrix(known, network.users, features, fresh)
        columns = costs, groups, values, consent
        grown = grown_network(network, fresh, features, edges, *columns, view.ledger.next_number())
        if fresh.size:
            view.session.add_users(view.number, fresh.tolist())
        view.put_network(grown)
        counts = {"users": int(fresh.size), "edges": grown.graph.n_edges - network.graph.n_edges}
        view.append("users_added", None, {**counts, "world": grown.revision}, now)
