"""``tensorucb import-history``: past campaigns as a warm start."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tensorucb.cli._campaign import STORAGE, Json, Name, Storage, campaign_at, fields
from tensorucb.cli._output import emit_json, say

__all__ = ["import_history"]


def import_history(
    name: Name,
    responses: Annotated[
        Path,
        typer.Argument(
            help="A .csv, .ndjson or .parquet file: source, target, outcome, product; optionally round.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Learn from past campaigns; importing the same file again changes nothing."""
    with campaign_at(storage, name, "import-history") as campaign:
        report = campaign.import_history(responses)
    if json:
        emit_json(fields(report))
        return
    say(f"{report.rounds} rounds with {report.responses:,} responses imported, {report.known_rounds} known before.")
