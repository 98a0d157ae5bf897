"""What the campaign commands share: options, opening a campaign, tables from files."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._options import typed
from tensorucb.cli._progress import Progress
from tensorucb.errors import FileFormatError

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign

Name = Annotated[str, typer.Argument(help="The campaign's name.", metavar="NAME", show_default=False)]
Storage = Annotated[
    str,
    typer.Option(help="Where campaigns live: sqlite:///file.db or postgresql://...", envvar="TENSORUCB_STORAGE"),
]
STORAGE = "sqlite:///campaigns.db"


@contextmanager
def campaign_at(storage: str, name: str, doing: str = "campaign") -> Iterator[Campaign]:
    """The campaign, closed again at the end; print what was found after the block, where nothing is open any more."""
    from tensorucb.campaign import load_campaign

    with Progress(doing), load_campaign(typed(name), storage=storage) as campaign:
        yield campaign


def read_table(path: Path, key: str, *, text: Collection[str] = ()) -> tuple[list[Any], dict[str, Any]]:
    """The column of ids and the other columns of a CSV, NDJSON or Parquet file; ``text``: columns to leave unparsed."""
    import polars as pl

    from tensorucb.tables import read_table as read_file

    frame = read_file(path, types=dict.fromkeys(text, pl.String))
    if key not in frame.columns:
        raise FileFormatError(f"{str(path)!r} has no column {key!r}; its columns are {frame.columns}.")
    return frame[key].to_list(), {name: frame[name] for name in frame.columns if name != key}


def fields(value: Any) -> dict[str, Any]:
    """A report as JSON; what refers to the running program stays behind."""
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: _plain(entry) for name, entry in held.items() if not name.startswith("_")}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return fields(value)
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def ask_document(ask: Ask) -> dict[str, Any]:
    """A round as JSON."""
    document = fields(ask)
    return {"round": document.pop("id"), **document}
