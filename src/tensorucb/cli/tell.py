"""``tensorucb tell``: responses of a round."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tensorucb.cli._campaign import STORAGE, Name, Storage, campaign_at, fields
from tensorucb.cli._options import Json
from tensorucb.cli._output import emit_json, say, shown
from tensorucb.errors import FileFormatError, InputError

__all__ = ["tell"]


def tell(
    name: Name,
    round_id: Annotated[str, typer.Argument(help="The round's id, from ask.", metavar="ROUND", show_default=False)],
    responses: Annotated[
        str,
        typer.Argument(help="A .csv, .ndjson or .parquet file, or - for NDJSON on stdin.", metavar="FILE"),
    ],
    storage: Storage = STORAGE,
    json: Json = False,
) -> None:
    """Store responses durably; sending them again changes nothing.

    Fields: source, target, outcome (0 or 1), or user, time; optionally time and event_id.
    """
    rows = _stdin() if responses == "-" else responses
    with campaign_at(storage, name, "tell") as campaign:
        report = campaign.tell(round_id, rows)
    if json:
        emit_json(fields(report))
        return
    say(
        f"{report.accepted} accepted ({report.late} late), {report.duplicates} told before, "
        f"{len(report.contradictions)} contradictions."
    )
    if report.outside_window:
        say(
            f"  {report.outside_window} before the contact or after the window count for nothing; "
            "check that times are unix seconds or ISO times in UTC.",
            err=True,
        )
    for clash in report.contradictions:
        edge = shown(clash.source) if clash.target is None else f"{shown(clash.source)} -> {shown(clash.target)}"
        say(f"  row {clash.row}: {edge}: {clash.told} came, {clash.kept} stands", err=True)


def _stdin() -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(_stdin_lines()):
        try:
            row = jsonlib.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"row {number} on stdin is not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise InputError(f"row {number} on stdin must be a JSON object; got {line.strip()[:60]!r}.")
        rows.append(row)
    return rows


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:
        raise InputError("nothing comes on stdin: it is closed. Name a file instead of -.")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(encoding="utf-8")
    try:
        yield from (line for line in sys.stdin if line.strip())
    except UnicodeDecodeError:
        raise FileFormatError("stdin is not UTF-8 text; send NDJSON in UTF-8.") from None
