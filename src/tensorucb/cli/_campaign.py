"""What the campaign commands share: options, opening a campaign, ids of a catalogue, and reports as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from tensorucb.cli._options import SPAN, span, typed
from tensorucb.cli._output import shown
from tensorucb.cli._progress import Progress

if TYPE_CHECKING:
    from tensorucb.campaign import Ask, Campaign

Name = Annotated[str, Argument(help="The campaign's name.", metavar="NAME", show_default=False, callback=typed)]
Round = Annotated[
    str, Argument(help="The round: its id, from ask, or its number.", metavar="ROUND", show_default=False)
]
Storage = Annotated[
    str, Option(help="Where campaigns live: sqlite:///file.db or postgresql://...", envvar="TENSORUCB_STORAGE")
]
STORAGE = "sqlite:///campaigns.db"
Window = Annotated[
    float | None, Option(help="How long a response counts, such as 7d or 12h.", parser=span, metavar=SPAN)
]
Unknown = Annotated[
    str,
    Option(help="Rows with users or edges that are not in the network: refuse the file, or skip them and count."),
]
Columns = Annotated[
    list[str] | None,
    Option("--column", help="Which column of the file is which field, such as user=buyer. Repeatable."),
]
Yes = Annotated[bool, Option("--yes", help="Do not ask: it cannot be undone.")]


@contextmanager
def campaign_at(storage: str, name: str, doing: str) -> Iterator[Campaign]:
    """The campaign, closed again at the end; print what was found after the block, where nothing is open any more."""
    from tensorucb.campaign import load_campaign

    with Progress(doing), load_campaign(name, storage=storage) as campaign:
        yield campaign


def column_names(given: list[str] | None) -> dict[str, str] | None:
    """Names of columns by field, from FIELD=COLUMN as it was typed."""
    if not given:
        return None
    parts = [typed(text).partition("=") for text in given]
    wrong = [text for text, (field, _, name) in zip(given, parts, strict=True) if not field or not name]
    if wrong:
        raise BadParameter(f"--column must look like user=buyer; got {wrong[0]!r}.")
    if len({field for field, _, _ in parts}) < len(parts):
        raise BadParameter(f"--column names a field twice; got {', '.join(map(repr, given))}.")
    return {field: name for field, _, name in parts}


def count(number: int, what: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def left_out(unknown: int) -> str:
    """Say that rows with strangers were left out."""
    return f"{count(unknown, 'row')} left out: a user or an edge is not in the network."


def settings_text(settings: Mapping[str, Any]) -> str:
    """What a campaign does unless it is told something else, in one sentence or two; empty if there is nothing."""
    from tensorucb.moments import duration_text

    def said(name: str, value: Any) -> str:
        if name in ("exclude", "candidates", "must_include"):
            return count(len(value), "user")
        return duration_text(value) if name in ("cooldown", "window") and value else shown(value)

    window, defaults = settings["window"], settings.get("ask", {})
    terms = ", ".join(f"{name} = {said(name, value)}" for name, value in defaults.items())
    counts = "" if window is None else f"Responses count for {duration_text(window)}. "
    return (counts + (f"Defaults of ask: {terms}." if terms else "")).rstrip()


def fields(value: Any) -> Any:
    """A report as JSON; what refers to the running program stays behind."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if not field.name.startswith("_")]
        return {name: fields(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {name: fields(entry) for name, entry in value.items()}
    return [fields(entry) for entry in value] if isinstance(value, list | tuple) else value


def ask_document(ask: Ask) -> dict[str, Any]:
    """A round as JSON."""
    document = fields(ask)
    return {"round": document.pop("id"), **document}
