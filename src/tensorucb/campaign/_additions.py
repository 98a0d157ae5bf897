"""Products, users and edges that join a campaign from files, read by the columns that it was created with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tensorucb.campaign._campaign import Campaign
from tensorucb.campaign._catalogue import by_text
from tensorucb.campaign._tables import Rows, costs_of, groups_of, order_of, places_of, read_rows
from tensorucb.data._plain import read_links
from tensorucb.errors import FileFormatError


def products_from(campaign: Campaign, path: Path) -> dict[str, int]:
    """Add the products of a file; how many were added, how many were known, and how many there are now."""
    rows, known = _rows(campaign, path, "products"), by_text(campaign.products())
    # The catalogue may have text for ids where this file alone would make numbers of them.
    text = any(isinstance(entry, str) for entry in known.values())
    campaign.add_products([known.get(str(e), str(e) if text else e) for e in rows.ids], rows.table)
    total = len(campaign.products())
    added = total - len(known)
    return {"added": added, "known": len(rows.ids) - added, "products": total}


def users_from(campaign: Campaign, users: Path, edges: Path | None) -> dict[str, int]:
    """Add the users and edges of files; how many were added, and how many there are now."""
    before, rows = campaign.graph, _rows(campaign, users, "users")
    links = {} if edges is None else _links(campaign, edges)
    fresh = places_of(before.ids, rows.ids) < 0
    if fresh.any() or links:
        campaign.add_users(
            [user for user, new in zip(rows.ids, fresh.tolist(), strict=True) if new],
            rows.table.filter(fresh) if rows.table.width else None,
            **links,
            costs=None if rows.cost is None else costs_of(users.name, rows.cost)[fresh],
            groups=None if rows.group is None else groups_of(rows.group)[fresh],
        )
    after = campaign.graph
    added, linked = after.n_nodes - before.n_nodes, after.n_edges - before.n_edges
    return {"users_added": added, "edges_added": linked, "users": after.n_nodes, "edges": after.n_edges}


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
    return read_rows(path, table, _columns(campaign, table), text_ids=text)


def _links(campaign: Campaign, edges: Path) -> dict[str, Any]:
    kind = "str" if _text_ids(campaign) else "int"
    frame = read_links(edges, _columns(campaign, "edges"), kind).frame
    return {"sources": frame["source"], "targets": frame["target"]}
