"""``tensorucb status``: campaigns of a store, or the rounds of one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Json, Storage, as_id, ask_document, campaign_at, failing, fields
from tensorucb.cli._output import emit_json, print_to

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign, CampaignStatus

__all__ = ["status"]

_SHOWN = 20


def status(
    name: Annotated[str | None, typer.Argument(help="The campaign's name; without, all.", metavar="[NAME]")] = None,
    explain: Annotated[
        str | None, typer.Option(help="Explain the choice of this round.", metavar="ROUND", show_default=False)
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="With --explain: why this user was chosen or not.", show_default=False)
    ] = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """List the campaigns of a store, or the rounds of one campaign, or explain a round."""
    if (explain is not None and name is None) or (user is not None and explain is None):
        raise typer.BadParameter("--explain needs a campaign's NAME, and --user needs --explain.")
    if name is None:
        _all(storage, json)
        return
    with campaign_at(storage, name) as campaign:
        if explain is not None:
            _explain(campaign, explain, user, json)
            return
        numbers, rounds = campaign.status(), campaign.rounds()
        if json:
            emit_json({**fields(numbers), "rounds": [ask_document(entry) for entry in rounds]})
            return
        _print(numbers, rounds)


def _explain(campaign: Campaign, round_id: str, user: str | None, json: bool) -> None:
    known = None if user is None else as_id(campaign.graph, user)
    explanation = campaign.explain(round_id, known)
    if json:
        emit_json(fields(explanation))
        return
    typer.echo(getattr(explanation, "text", None) or str(explanation))


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
    for line in _troubles(numbers):
        console.print(line, soft_wrap=True, markup=False)
    table = Table(box=None)
    for column in ("Round", "Status", "Opened (UTC)", "Product", "Contacted", "Expected reach"):
        table.add_column(column)
    for entry in rounds[-_SHOWN:]:
        reach = "" if entry.reach is None else f"{entry.reach.mean:.1f} ({entry.reach.low:.0f}–{entry.reach.high:.0f})"
        product = "" if entry.product is None else str(entry.product)
        cells = (entry.id, entry.status, _moment(entry.opened), product, str(len(entry.contacted)), reach)
        table.add_row(*cells)
    console.print(table)


def _troubles(numbers: CampaignStatus) -> list[str]:
    """What somebody should know or do."""
    lines = [
        f"Round {round_id} could not be learned and is left out of the model: {reason or 'see the log'}. "
        "`tensorucb close --cancel` drops it."
        for round_id, reason in numbers.quarantined.items()
    ]
    if numbers.behind:
        lines.append(
            f"Late responses are being learned: the next ask will not know the newest of {numbers.behind} rounds yet."
        )
    if numbers.erasing:
        lines.append(
            "Somebody was forgotten, but the store's files are not rewritten yet, because others read them. "
            "The next command that finds nobody reading finishes it."
        )
    return lines
