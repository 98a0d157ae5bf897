"""The commands of a whole campaign: ``import-history``, ``forget``, ``delete``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from tensorucb.cli._campaign import (
    STORAGE,
    Columns,
    Name,
    Storage,
    Unknown,
    Window,
    Yes,
    campaign_at,
    column_names,
    count,
    fields,
    left_out,
)
from tensorucb.cli._options import Json, one_id
from tensorucb.cli._output import ask_yes, emit_json, say, shown
from tensorucb.errors import StateError

if TYPE_CHECKING:
    from tensorucb.campaign import ForgetReport


def import_history(
    name: Name,
    responses: Annotated[Path, Argument(help="A .csv, .ndjson or .parquet file.", metavar="FILE", show_default=False)],
    window: Window = None,
    unknown: Unknown = "refuse",
    columns: Columns = None,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Learn from past campaigns or a log of purchases before the first round; again changes nothing.

    Fields: source, target, outcome, product, optionally strategy and round. Or a log of purchases: user, product (or
    item), time. A follower who bought a product after somebody they follow, within --window (by default the
    campaign's), responded to them.
    """
    named = column_names(columns)
    with campaign_at(storage, name, "import-history") as campaign:
        options: Any = {"window": window, "unknown": unknown, "columns": named}
        report = campaign.import_history(responses, **options)
    if json:
        emit_json(fields(report))
        return
    say(
        f"{count(report.rounds, 'round')} with {count(report.responses, 'response')} imported, "
        f"{report.known_rounds:,} known before."
    )
    if report.other:
        say(f"  {count(report.other, 'row')} left out: the product is not in the catalogue.")
    if report.unknown:
        say(f"  {left_out(report.unknown)}")


def forget(
    name: Name,
    user: Annotated[str, Argument(help="The user's id.", metavar="USER", show_default=False)],
    yes: Yes = False,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Remove a person from the log and the model, and prove it by replay."""
    if not yes and not ask_yes(f"Remove {shown(user)} from {shown(name)} for ever?"):
        raise StateError("nothing was removed, since the question was not answered with yes.")
    with campaign_at(storage, name, "forget") as campaign:
        report = campaign.forget(one_id(campaign.graph, user, "USER"))
    if json:
        emit_json(fields(report))
    else:
        _print_forgotten(user, report)
    if not report.proven:
        raise typer.Exit(1)


def _print_forgotten(user: str, report: ForgetReport) -> None:
    if report.completed:
        say(f"{shown(user)} was gone already; the files of an earlier forget are now rewritten.")
    say(f"{report.responses} responses and {report.rounds} rounds no longer name the user.")
    say(f"Model learned again: {report.model_after[:16]}, by a second replay: {report.replay[:16]}.")
    searched = {
        True: "hold the id no more",
        False: "STILL HOLD THE ID; perhaps another campaign there does",
        None: "were not searched for it",
    }
    say(f"The store's files {searched[report.bytes_absent]}.")
    if report.elsewhere:
        names = ", ".join(map(shown, report.elsewhere))
        say(f"A user of this id is also in: {names}. Forget them there as well.")


def delete(name: Name, yes: Yes = False, storage: Storage = STORAGE, json: Json = False) -> None:
    """Delete a campaign with its users, rounds, responses and log."""
    from tensorucb.campaign import delete_campaign

    if not yes:
        # Somebody at a terminal types the campaign's name; nobody else deletes by accident.
        if sys.stdin is None or not sys.stdin.isatty():
            raise StateError(f"nothing was deleted. Without a terminal, say --yes to delete {shown(name)} for ever.")
        answer = typer.prompt("This cannot be undone. Type the campaign's name to delete it", err=True)
        if answer != name:
            raise StateError(f"nothing was deleted: the campaign is called {shown(name)}, not {shown(answer)}.")
    delete_campaign(name, storage=storage)
    if json:
        emit_json({"deleted": name})
    else:
        say(f"Campaign {shown(name)} is deleted.")
