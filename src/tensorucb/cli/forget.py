"""``tensorucb forget``: remove a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, campaign_at, fields
from tensorucb.cli._options import Json, one_id
from tensorucb.cli._output import ask_yes, emit_json, say, shown
from tensorucb.errors import StateError

if TYPE_CHECKING:
    from tensorucb.campaign import ForgetReport

__all__ = ["forget"]


def forget(
    name: Name,
    user: Annotated[str, typer.Argument(help="The user's id.", metavar="USER", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it cannot be undone.")] = False,
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
        _print(user, report)
    if not report.proven:
        raise typer.Exit(1)


def _print(user: str, report: ForgetReport) -> None:
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
