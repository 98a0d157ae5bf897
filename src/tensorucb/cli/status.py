"""``tensorucb status``: campaigns of a store, or the rounds of one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Storage, ask_document, campaign_at, fields
from tensorucb.cli._options import Json, one_id
from tensorucb.cli._output import emit_json, print_table, say, shown

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, CampaignStatus

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
    if explain is not None:
        _explain(storage, name, explain, user, json)
        return
    with campaign_at(storage, name, "status") as campaign:
        numbers, rounds = campaign.status(), campaign.rounds()
    if json:
        emit_json({**fields(numbers), "rounds": [ask_document(entry) for entry in rounds]})
        return
    _print(numbers, rounds)


def _explain(storage: str, name: str, round_id: str, user: str | None, json: bool) -> None:
    with campaign_at(storage, name, "status") as campaign:
        known = None if user is None else one_id(campaign.graph, user, "--user")
        explanation = campaign.explain(round_id, known)
    if json:
        emit_json(fields(explanation))
        return
    say(getattr(explanation, "text", None) or str(explanation))


def _all(storage: str, json: bool) -> None:
    from tensorucb.campaign import list_campaigns

    lines = list_campaigns(storage)
    if json:
        emit_json({"campaigns": [fields(line) for line in lines]})
        return
    for line in lines:
        since = _moment(line.created)
        say(f"{shown(line.name)}: {line.policy}, {line.rounds} rounds, {line.open} open, since {since}")
    if not lines:
        say("No campaigns yet. Create one with `tensorucb create`.")


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def _print(numbers: CampaignStatus, rounds: tuple[Ask, ...]) -> None:
    say(
        f"{shown(numbers.name)}: {numbers.policy}, {numbers.users:,} users, {numbers.edges:,} edges, "
        f"{numbers.products} products, {numbers.strategies} strategies, {numbers.rounds} rounds ({numbers.open} open)"
    )
    for line in _troubles(numbers):
        say(line)
    rows = []
    for entry in rounds[-_SHOWN:]:
        expected = entry.reach
        reach = "" if expected is None else f"{expected.mean:.0f} ({expected.low:.0f} to {expected.high:.0f})"
        product = "" if entry.product is None else shown(entry.product)
        rows.append((entry.id, entry.status, _moment(entry.opened), product, len(entry.contacted), reach))
    columns = ("Round", "Status", "Opened (UTC)", "Product", "Users", "Expected reach")
    print_table(columns, rows, words=("Status", "Opened (UTC)", "Product"))


def _troubles(numbers: CampaignStatus) -> list[str]:
    """What somebody should know or do."""
    lines = [
        f"Round {round_id} could not be learned and is left out of the model: {shown(reason or 'see the log')}. "
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
