"""Options that several commands share, and the checks of what was typed that typer does not make."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import BadParameter, CallbackParam, Context, Option

from tensorucb.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from tensorucb.engines import RayEngine
    from tensorucb.graph import Graph

HELP = {"help_option_names": ["-h", "--help"]}
MANY = 1_000_000_000  # more rounds, runs or dimensions than anybody can wait for
IDS = "ID|@FILE"
SPAN = "DURATION"


def finite(value: float | None) -> float | None:
    """The number; NaN and infinity, which pass every comparison of typer's, are refused."""
    if value is not None and not math.isfinite(value):
        raise BadParameter(f"{value} is not a finite number.")
    return value


def span(text: str) -> float:
    """Seconds of a duration as it is typed: 7d, 12h, 30m, or a number of seconds."""
    from tensorucb.moments import duration

    try:
        seconds: float | str = float(text)
    except ValueError:
        seconds = text
    try:
        return duration("it", seconds, zero=True)
    except InputError:
        raise BadParameter(f"{text!r} is no duration. Write 7d, 12h, 30m, or a number of seconds.") from None


def typed(text: str) -> str:
    """An argument as text: under an ASCII locale Python hands out its bytes, which are UTF-8 all the same."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return text


def _writable(directory: Path, option: str, path: Path) -> None:
    """Refuse a directory that could not be written to, before anything is computed."""
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise InputError(f"{option} {str(path)!r} cannot be a directory: {str(existing)!r} is a file.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{option} {str(path)!r} cannot be written to: no permission in {str(existing)!r}.")


def _file(path: Path | None, option: str) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{option} {str(path)!r} is a directory; name a file.")
    _writable(path.parent, option, path.parent)


def writable_directory(directory: Path) -> Path:
    """The directory of --out."""
    _writable(directory, "--out", directory)
    return directory


def writable_file(path: Path) -> Path:
    """The file of --out."""
    _file(path, "--out")
    return path


def _table_file(context: Context, parameter: CallbackParam, path: Path | None) -> Path | None:
    """The file of --csv or --latex, which must not be the same one."""
    _file(path, f"--{parameter.name}")
    other = context.params.get("latex" if parameter.name == "csv" else "csv")  # None if it is read after this one
    if path is not None and other is not None and path.absolute() == other.absolute():
        raise InputError(f"--csv and --latex both name {str(path)!r}; give each a file of its own.")
    return path


Json = Annotated[bool, Option("--json", help="Print one JSON object.")]
Seed = Annotated[int, Option(min=0, max=2**63 - 1, help="Sets everything random.")]
Directory = Annotated[
    Path, Option("--out", help="The directory to write to.", metavar="DIR", callback=writable_directory)
]
Rounds = Annotated[int, Option(min=1, max=MANY, help="Rounds per run.")]
Runs = Annotated[int, Option(min=1, max=MANY, help="Runs of each policy.")]
SeedsPerRound = Annotated[int, Option("--k", "-k", min=1, max=MANY, help="Seeds per round.")]
Jobs = Annotated[
    int, Option(min=1, max=1024, help="Processes that share the work; the numbers are the same for any number of them.")
]
EngineName = Annotated[
    Literal["local", "ray"],
    Option("--engine", help="Where heavy work runs: on this machine or on a Ray cluster; the numbers are the same."),
]
Address = Annotated[
    str | None, Option("--address", metavar="HOST:PORT", help="Head of the Ray cluster, for --engine ray.")
]
CsvTable = Annotated[
    Path | None, Option("--csv", metavar="FILE", help="Also write the results as a flat table.", callback=_table_file)
]
LatexTable = Annotated[
    Path | None, Option("--latex", metavar="FILE", help="Also write the table printed as LaTeX.", callback=_table_file)
]
QuickRuns = Annotated[int | None, Option(min=1, max=MANY, help="Runs of each policy.", show_default="5, quick: 2")]


@contextmanager
def opened_engine(name: str, address: str | None) -> Iterator[RayEngine | None]:
    """The engine that --engine and --address name; None is this machine."""
    if name == "local":
        if address is not None:
            raise BadParameter("--address is for --engine ray; give both or neither.")
        yield None
        return
    if address is None:
        raise BadParameter("--engine ray needs --address HOST:PORT, as `ray start --head` prints it.")
    from tensorucb.engines import RayEngine

    # Ray reports a lost node on the standard output, which is the answer's alone.
    with redirect_stdout(sys.stderr), RayEngine(address) as engine:
        yield engine


def one_id(graph: Graph, text: str, option: str) -> int | str:
    """An id as it was typed, in the type of the network's ids."""
    if graph.ids.dtype.kind == "U":
        return typed(text)
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise InputError(f"{option} {text!r} is not an id of this network, whose ids are whole numbers.")
    return int(text)


def listed_ids(
    graph: Graph, given: Sequence[str] | None, option: str, *, may_be_empty: bool = True
) -> list[int | str] | None:
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
    if not texts and not may_be_empty:
        raise InputError(f"{option} names nobody: the file is empty. Put one id on each line, or leave the option out.")
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
