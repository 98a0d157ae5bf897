"""``tensorucb delete``: remove a whole campaign."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say, shown
from tensorucb.errors import StateError

__all__ = ["delete"]


def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: it cannot be undone.")] = False,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Delete a campaign with its users, rounds, responses and log."""
    from tensorucb.campaign import delete_campaign

    if not yes:
        _confirm(name)
    delete_campaign(name, storage=storage)
    if json:
        emit_json({"deleted": name})
    else:
        say(f"Campaign {shown(name)} is deleted.")


def _confirm(name: str) -> None:
    """Somebody at a terminal types the campaign's name; nobody else deletes by accident."""
    if not sys.stdin.isatty():
        raise StateError(f"nothing was deleted. Without a terminal, say --yes to delete {shown(name)} for ever.")
    typed = typer.prompt("This cannot be undone. Type the campaign's name to delete it", err=True)
    if typed != name:
        raise StateError(f"nothing was deleted: the campaign is called {shown(name)}, not {shown(typed)}.")
