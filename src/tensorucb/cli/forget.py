"""``tensorucb forget``: remove a person."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Json, Name, Storage, as_id, campaign_at, fields
from tensorucb.cli._output import emit_json

__all__ = ["forget"]


def forget(
    name: Name,
    user: Annotated[str, typer.Argument(help="The user's id.", metavar="USER", show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it cannot be undone.")] = False,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Remove a person from the log and the model, and prove it by replay."""
    if not yes:
        typer.confirm(f"Remove {user} from {name} for ever?", abort=True, err=True)
    with campaign_at(storage, name) as campaign:
        report = campaign.forget(as_id(campaign.graph, user))
        if json:
            emit_json(fields(report))
        else:
            if report.completed:
                typer.echo(f"{user} was gone already; the files of an earlier forget are now rewritten.")
            typer.echo(f"{report.responses} responses and {report.rounds} rounds no longer name the user.")
            typer.echo(f"Model learned again: {report.model_after[:16]}, by a second replay: {report.replay[:16]}.")
            searched = {
                True: "hold the id no more",
                False: "STILL HOLD THE ID; perhaps another campaign there does",
                None: "were not searched for it",
            }
            typer.echo(f"The store's files {searched[report.bytes_absent]}.")
            if report.elsewhere:
                typer.echo(f"A user of this id is also in: {', '.join(report.elsewhere)}. Forget them there as well.")
    if not report.proven:
        raise typer.Exit(1)
