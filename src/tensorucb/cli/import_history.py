"""``tensorucb import-history``: past campaigns as a warm start."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, campaign_at, fields, read_table
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say

if TYPE_CHECKING:
    from tensorucb.campaign import Campaign

__all__ = ["import_history"]


def import_history(
    name: Name,
    responses: Annotated[
        Path,
        typer.Argument(
            help="A .csv, .ndjson or .parquet file: source, target, outcome, product; optionally strategy, round.",
            metavar="FILE",
            show_default=False,
        ),
    ],
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Learn from past campaigns; importing the same file again changes nothing."""
    with campaign_at(storage, name, "import-history") as campaign:
        report = campaign.import_history(_columns(responses, campaign))
    if json:
        emit_json(fields(report))
        return
    say(f"{report.rounds} rounds with {report.responses:,} responses imported, {report.known_rounds} known before.")


def _columns(path: Path, campaign: Campaign) -> dict[str, Any]:
    """The columns of a file, with ids as the catalogues have them: 007 of a text file is never 7."""
    people = ("source", "target", "user") if campaign.graph.ids.dtype.kind == "U" else ()
    products, columns = read_table(path, "product", text=("product", "strategy", *people))
    found = {**columns, "product": products}
    for name, ids in (("product", campaign.products()), ("strategy", campaign.strategies())):
        known = {str(entry): entry for entry in ids}
        if name in found:
            found[name] = [known.get(str(entry), entry) for entry in found[name]]
    return found
