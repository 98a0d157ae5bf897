"""Products, users and edges that join a campaign from files, read by the columns that it was created with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._grow import extend
from tensorucb.campaign._tables import (
    Rows,
    consent_of,
    costs_of,
    features_of_strategies,
    groups_of,
    order_of,
    places_of,
    read_rows,
)
from tensorucb.data._plain import read_links
from tensorucb.errors import FileFormatError

if TYPE_CHECKING:
    import polars as pl


def products_from(campaign: Campaign, path: Path) -> dict[str, Any]:
    """Add the products of a file; how many were added, were known and are there now, and what was read."""
    rows, known = _rows(campaign, path, "products"), by_text(campaign.products())
    # The catalogue may have text for ids where this file alone would make numbers of them.
    text = any(isinstance(entry, str) for entry in known.values())
    values = None if rows.value is None else costs_of(path.name, rows.value)
    campaign.add_products([known.get(str(e), str(e) if text else e) for e in rows.ids], rows.table, values)
    total = len(campaign.products())
    added = total - len(known)
    return {"added": added, "known": len(rows.ids) - added, "products": total, "report": rows.lines}


def users_from(campaign: Campaign, users: Path, edges: Path | None) -> dict[str, Any]:
    """Add the users and edges of files; how many were added, how many there are now, and what was read."""
    before, rows = campaign.graph, _rows(campaign, users, "users")
    report = rows.lines
    links: dict[str, Any] = {}
    if edges is not None:
        followers = read_links(edges, _columns(campaign, "edges"), "str" if _text_ids(campaign) else "int")
        links = {"sources": followers.frame["source"], "targets": followers.frame["target"]}
        report += str(followers.report).split("\n")
    fresh = places_of(before.ids, rows.ids) < 0
    table = _described(campaign, rows)
    if fresh.any() or links:
        campaign.add_users(
            [user for user, new in zip(rows.ids, fresh.tolist(), strict=True) if new],
            table.filter(fresh) if table.width else None,
            **links,
            costs=None if rows.cost is None else costs_of(users.name, rows.cost)[fresh],
            groups=None if rows.group is None else groups_of(rows.group)[fresh],
            values=None if rows.value is None else costs_of(users.name, rows.value)[fresh],
            consent=_consent(campaign, users.name, rows, fresh),
        )
    after = campaign.graph
    added, linked = after.n_nodes - before.n_nodes, after.n_edges - before.n_edges
    grown = {"users_added": added, "edges_added": linked, "users": after.n_nodes, "edges": after.n_edges}
    return {**grown, "report": report}


def _described(campaign: Campaign, rows: Rows) -> pl.DataFrame:
    """What a file says of its users; with their names, and their groups where these split users."""
    import polars as pl

    beside = [] if rows.name is None else [rows.name]
    if rows.group is not None and rows.group.name in campaign.segments():
        beside.append(rows.group)
    return pl.DataFrame([*rows.table.get_columns(), *beside])


def _consent(campaign: Campaign, file: str, rows: Rows, fresh: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    """Who of the new users consented; None if the campaign does not ask for consent, or the file does not tell."""
    if rows.consent is None or not campaign.settings.get("consent"):
        return None
    return consent_of(file, rows.consent)[fresh]


def strategies_from(campaign: Campaign, path: Path) -> dict[str, Any]:
    """Add the strategies of a file; how many were added, were known and are there now, and what was read."""
    rows, known = _rows(campaign, path, "strategies"), by_text(campaign.strategies())
    features, _ = features_of_strategies(rows, path.name)
    ids = [known.get(str(entry), entry) for entry in rows.ids]
    names = {known.get(str(entry), entry): name for entry, name in rows.names.items()}
    costs = None if rows.cost is None else costs_of(path.name, rows.cost)
    extend(campaign._handle, "strategy", ids, features, costs, names=names)
    total = len(campaign.strategies())
    added = total - len(known)
    return {"added": added, "known": len(ids) - added, "strategies": total, "report": rows.lines}


def column_from(campaign: Campaign, path: Path, meaning: str) -> NDArray[Any]:
    """The ``cost`` or ``group`` of every user from a file, in the order of the network's users."""
    import polars as pl

    rows = _rows(campaign, path, "users")
    column = rows.cost if meaning == "cost" else rows.group
    if column is None:
        raise FileFormatError(f"{path.name} has no column {meaning!r}. Give it a column user and a column {meaning}.")
    values = costs_of(path.name, column) if meaning == "cost" else groups_of(column)
    return values[order_of("user", pl.Series("user", rows.ids), campaign.graph.ids)]


def _columns(campaign: Campaign, table: str) -> dict[str, str]:
    names: dict[str, str] = campaign.settings.get("columns", {}).get(table, {})
    return names


def _text_ids(campaign: Campaign) -> bool:
    return campaign.graph.ids.dtype.kind == "U"


def _rows(campaign: Campaign, path: Path, table: str) -> Rows:
    text = table != "users" or _text_ids(campaign)
    return read_rows(path, table, usually=_columns(campaign, table), text_ids=text)
