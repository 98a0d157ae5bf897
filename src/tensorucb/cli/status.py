"""``tensorucb status``: campaigns of a store, or the rounds of one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Json, Storage, ask_document, campaign_at, failing, fields
from tensorucb.cli._output import emit_json, print_to

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, CampaignStatus

__all__ = ["status"]

_SHOWN = 20


def status(
    name: Annotated[str | None, typer.Argument(help="The campaign's name; without, all.", metavar="[NAME]")] = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """List the campaigns of a store, or the rounds of one campaign."""
    if name is None:
        _all(storage, json)
        return
    with campaign_at(storage, name) as campaign:
        numbers, rounds = campaign.status(), campaign.rounds()
        if json:
            emit_json({**fields(numbers), "rounds": [ask_document(entry) for entry in rounds]})
            return
        _print(numbers, rounds)


def _all(storage: str, json: bool) -> None:
    from tensorucb.store.campaigns import list_campaigns

    with failing():
        lines = list_campaigns(storage)
    if json:
        emit_json({"campaigns": [fields(line) for line in lines]})
        return
    for line in lines:
        typer.echo(f"{line.name}: {line.policy}, {line.rounds} rounds, {line.open} open, since {_moment(line.created)}")
    if not lines:
        typer.echo("No campaigns yet. Create one with `tensorucb create`.")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _print(numbers: CampaignStatus, rounds: tuple[Ask, ...]) -> None:
    from rich.table import Table

    console = print_to()
    console.print(
        f"{numbers.name}: {numbers.policy}, {numbers.users:,} users, {numbers.edges:,} edges, {numbers.products} "
        f"products, {numbers.rounds} rounds ({numbers.open} open)",
        soft_wrap=True,
    )
    table = Table(box=None)
    for column in ("Round", "Status", "Opened (UTC)", "Product", "Contacted", "Expected reach"):
        table.add_column(column)
    for entry in rounds[-_SHOWN:]:
        reach = "" if entry.reach is None else f"{entry.reach.mean:.1f} ({entry.reach.low:.0f}–{entry.reach.high:.0f})"
        product = "" if entry.product is None else str(entry.product)
        cells = (entry.id, entry.status, _moment(entry.opened), product, str(len(entry.contacted)), reach)
        table.add_row(*cells)
    console.print(table)
