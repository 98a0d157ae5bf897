"""What commands print: JSON for machines on stdout, tables for people, progress on a terminal's stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

__all__ = ["emit_json", "print_to", "progress_bar"]


def emit_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


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
