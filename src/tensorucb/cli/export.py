"""``tensorucb export``: a campaign as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, campaign_at
from tensorucb.cli._options import Json
from tensorucb.cli._output import check_output_directory, emit_json, say, shown

__all__ = ["export"]


def export(
    name: Name,
    out: Annotated[Path, typer.Option("--out", help="The directory to write to.", metavar="DIR")],
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Write rounds, seeds, responses, node events, the log, users, edges and products as Parquet files."""
    check_output_directory(out)
    with campaign_at(storage, name, "export") as campaign:
        files = [str(path) for path in campaign.export(out)]
    if json:
        emit_json({"files": files})
        return
    for path in files:
        say(shown(path))
