"""What commands print: JSON for machines on stdout, tables for people, progress on a terminal's stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorucb.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["check_output_directory", "check_output_file", "emit_json", "error_text", "print_to", "progress_bar"]


def emit_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def error_text(error: Exception) -> str:
    """One sentence for a person, without the operating system's error number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {str(error.filename)!r}." if error.filename is not None else f"{error.strerror}."
    return str(error)


def check_output_directory(directory: Path, option: str = "--out") -> None:
    """Refuse a directory that could not be written to, before anything is computed; nothing is created."""
    existing = directory
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise InputError(f"{option} {str(directory)!r} cannot be a directory: {str(existing)!r} is a file.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{option} {str(directory)!r} cannot be written to: no permission in {str(existing)!r}.")


def check_output_file(path: Path, option: str = "--out") -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path.is_dir():
        raise InputError(f"{option} {str(path)!r} is a directory; name a file.")
    check_output_directory(path.parent, option)


def print_to(*, err: bool = False) -> Console:
    """A console for people on stdout, or on stderr."""
    from rich.console import Console

    return Console(stderr=err, highlight=False)


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar with the time left; yields ``report(done, total, what)``. Silent unless stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, what: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[what]}"),
    )
    with Progress(*columns, console=print_to(err=True), transient=True) as bar:
        task = bar.add_task(description, total=None, what="")

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, what=what)

        yield report
