"""Options that several commands share, and the checks of what was typed that typer does not make."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tensorucb.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tensorucb.graph import Graph

HELP = {"help_option_names": ["-h", "--help"]}
MANY = 1_000_000_000  # more rounds, runs or dimensions than anybody can wait for
_THREADS = 1_024

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Sets everything random.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=_THREADS, help="Threads; the answer is the same.", show_default="all cores")
]


def finite(value: float | None) -> float | None:
    """The number; NaN and infinity, which pass every comparison of typer's, are refused."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def typed(text: str) -> str:
    """An argument as text: under an ASCII locale Python hands out its bytes, which are UTF-8 all the same."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return text


def one_id(graph: Graph, text: str, option: str) -> int | str:
    """An id as it was typed, in the type of the network's ids."""
    if graph.ids.dtype.kind == "U":
        return typed(text)
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise InputError(f"{option} {text!r} is not an id of this network, whose ids are whole numbers.")
    return int(text)


def listed_ids(graph: Graph, given: Sequence[str] | None, option: str) -> list[int | str] | None:
    """Ids from an option that may be repeated: exactly as typed, or the lines of a file.

    ``@FILE`` stands for the lines of a file, ``@@ann`` for the id ``@ann``.
    """
    if not given:
        return None
    texts: list[str] = []
    for value in given:
        if value.startswith("@@") or not value.startswith("@"):
            texts.append(value.removeprefix("@"))
        else:
            texts += _lines(value, option)
    return [one_id(graph, text, option) for text in texts]


def _lines(value: str, option: str) -> list[str]:
    """The lines of a file without their ends; empty ones are left out."""
    try:
        text = Path(value[1:]).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError(
            f"{option} {value!r} is not UTF-8 text; save the file as UTF-8 with one id on each line."
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(
            f"{option} {value!r} reads a file, but {value[1:]!r} cannot be read: {reason}. "
            f"For the user {value!r} write {'@' + value!r}."
        ) from None
    return [line for line in text.split("\n") if line]
