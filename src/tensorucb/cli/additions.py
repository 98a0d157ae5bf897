"""``tensorucb add-products`` and ``tensorucb add-users``: what joins a campaign after its creation, from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tensorucb.cli._campaign import STORAGE, Name, Storage, campaign_at
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say

if TYPE_CHECKING:
    from tensorucb.campaign import Campaign
    from tensorucb.campaign._tables import Rows


def add_products(
    name: Name,
    products: Annotated[
        Path, Argument(help="A table with the columns of the product table.", metavar="FILE", show_default=False)
    ],
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Add products to the catalogue, described by the columns of a file; known ones stay as they are."""
    with campaign_at(storage, name, "add-products") as campaign:
        found = products_from(campaign, products)
    if json:
        emit_json(found)
        return
    say(f"{found['added']:,} products added, {found['known']:,} known before; the catalogue has {found['products']:,}.")


def products_from(campaign: Campaign, path: Path) -> dict[str, int]:
    """Add the products of a file; how many were added, how many were known, and how many there are now."""
    from tensorucb.campaign._catalogue import by_text

    rows, known = _rows(campaign, path, "products"), by_text(campaign.products())
    # The catalogue may have text for ids where this file alone would make numbers of them.
    text = any(isinstance(entry, str) for entry in known.values())
    campaign.add_products([known.get(str(e), str(e) if text else e) for e in rows.ids], rows.table)
    total = len(campaign.products())
    added = total - len(known)
    return {"added": added, "known": len(rows.ids) - added, "products": total}


def add_users(
    name: Name,
    users: Annotated[Path, Option(help="New users: a table with the columns of the table of users.")],
    edges: Annotated[Path | None, Option(help="New edges between any users: columns `source`, `target`.")] = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Add users, described by the columns of a file, and edges between any users; known ones stay as they are."""
    with campaign_at(storage, name, "add-users") as campaign:
        found = users_from(campaign, users, edges)
    if json:
        emit_json(found)
        return
    say(
        "{users_added:,} users and {edges_added:,} edges added; "
        "the network has {users:,} users, {edges:,} edges.".format(**found)
    )


def users_from(campaign: Campaign, users: Path, edges: Path | None) -> dict[str, int]:
    """Add the users and edges of files; how many were added, and how many there are now."""
    before = campaign.graph
    _add(campaign, users, edges)
    after = campaign.graph
    added, linked = after.n_nodes - before.n_nodes, after.n_edges - before.n_edges
    return {"users_added": added, "edges_added": linked, "users": after.n_nodes, "edges": after.n_edges}


def _rows(campaign: Campaign, path: Path, table: str) -> Rows:
    """A file by the names of columns that the campaign was created with."""
    from tensorucb.campaign._tables import read_rows

    text = table != "users" or campaign.graph.ids.dtype.kind == "U"
    return read_rows(path, table, campaign.settings.get("columns", {}).get(table, {}), text_ids=text)


def _add(campaign: Campaign, users: Path, edges: Path | None) -> None:
    from tensorucb.campaign._tables import costs_of, groups_of, user_rows

    rows, links = _rows(campaign, users, "users"), {} if edges is None else _links(campaign, edges)
    fresh = user_rows(campaign.graph, rows.ids) < 0
    if not fresh.any() and not links:
        return
    campaign.add_users(
        [user for user, new in zip(rows.ids, fresh.tolist(), strict=True) if new],
        rows.table.filter(fresh) if rows.table.width else None,
        **links,
        costs=None if rows.cost is None else costs_of(users.name, rows.cost)[fresh],
        groups=None if rows.group is None else groups_of(rows.group)[fresh],
    )


def _links(campaign: Campaign, edges: Path) -> dict[str, Any]:
    """Sources and targets of a file of edges."""
    from tensorucb.data._plain import read_links

    text = campaign.graph.ids.dtype.kind == "U"
    frame = read_links(edges, campaign.settings.get("columns", {}).get("edges", {}), "str" if text else "int").frame
    return {"sources": frame["source"], "targets": frame["target"]}
