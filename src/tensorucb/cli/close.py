"""``tensorucb close``: end a round."""

from __future__ import annotations

from typing import Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, ask_document, campaign_at
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say, shown

__all__ = ["close"]


def close(
    name: Name,
    round_id: Annotated[str, typer.Argument(help="The round's id, from ask.", metavar="ROUND", show_default=False)],
    cancel: Annotated[bool, typer.Option("--cancel", help="Learn nothing, since nobody was contacted.")] = False,
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Close a round: silence becomes "no", and the model learns it."""
    with campaign_at(storage, name, "close") as campaign:
        ended = campaign.cancel(round_id) if cancel else campaign.close(round_id)
        model = campaign.model_hash() if json else None
    if json:
        emit_json({**ask_document(ended), "model": model})
        return
    say(f"Round {shown(ended.id)} is {ended.status}.")
