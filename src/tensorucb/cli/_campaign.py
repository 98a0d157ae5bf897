"""What the campaign commands share: options, opening a campaign, ids and tables from files, errors in one line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorucb.cli._output import error_text
from tensorucb.errors import FileFormatError, InputError, TensorUCBError

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign
    from tensorucb.graph import Graph

__all__ = [
    "Json",
    "Name",
    "Storage",
    "as_id",
    "as_ids",
    "ask_document",
    "campaign_at",
    "failing",
    "fields",
    "read_table",
]

Name = Annotated[str, typer.Argument(help="The campaign's name.", metavar="NAME", show_default=False)]
Storage = Annotated[
    str,
    typer.Option(help="Where campaigns live: sqlite:///file.db or postgresql://…", envvar="TENSORUCB_STORAGE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
STORAGE = "sqlite:///campaigns.db"


@contextmanager
def failing() -> Iterator[None]:
    """Errors of the package and of files in one line on stderr, and exit code 1."""
    try:
        yield
    except (TensorUCBError, OSError) as error:
        typer.echo(f"tensorucb: {error_text(error)}", err=True)
        raise typer.Exit(1) from None


@contextmanager
def campaign_at(storage: str, name: str) -> Iterator[Campaign]:
    """The campaign, closed again at the end."""
    from tensorucb.store.campaigns import load_campaign

    with failing(), load_campaign(name, storage=storage) as campaign:
        yield campaign


def as_id(graph: Graph, text: str) -> int | str:
    """One id from the command line, in the type of the campaign's ids."""
    if graph.ids.dtype.kind == "U":
        return text
    try:
        return int(text)
    except ValueError:
        raise InputError(f"ids of this campaign are integers; got {text!r}.") from None


def as_ids(graph: Graph, given: Sequence[str] | None) -> list[int | str] | None:
    """Ids from the command line: each an id, or ``@`` and a file with one a line."""
    if not given:
        return None
    texts: list[str] = []
    for value in given:
        texts += _lines(Path(value[1:])) if value.startswith("@") else [value]
    return [as_id(graph, text.strip()) for text in texts if text.strip()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise FileFormatError(f"{str(path)!r} is not UTF-8 text; save it as UTF-8 with one id a line.") from None


def read_table(path: Path, key: str, *, strings: bool) -> tuple[list[Any], dict[str, Any]]:
    """The column of ids and the other columns of a CSV, NDJSON or Parquet file."""
    import polars as pl

    from tensorucb.tables import read_table as read_file

    frame = read_file(path, types={key: pl.String} if strings else None)
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
