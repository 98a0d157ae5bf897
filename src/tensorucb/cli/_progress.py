"""How far a long command is: rich's bar in a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from typing import Any, Self

from tensorucb.cli._output import on_terminal, one_line, say, terminal

_PATIENCE = 0.5  # seconds: what is done sooner draws nothing, and does not load rich
_PRINTED = 10.0  # seconds between two plain lines


class Progress:
    """``with Progress("tune") as progress``: the work; ``progress(done, total, what)`` says how far it is.

    Everything goes to stderr. A thread draws, so that the clock also runs while nothing is reported; leave the block
    before printing or reading anything. A work that reports nothing is named with the time it has taken.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = on_terminal(sys.stderr)
        self._start = time.monotonic()
        self._state: tuple[int, int, str] | None = None
        self._bar: Any = None
        self._lines = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._show_warning = warnings.showwarning
        self._thread = threading.Thread(target=self._draw if self._terminal else self._repeat, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._show_warning, warnings.showwarning = warnings.showwarning, self._warn
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        warnings.showwarning = self._show_warning
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            elif self._lines and kind is None:
                self._print(f"done after {_clock(time.monotonic() - self._start)}.")

    def __call__(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` steps are done, and ``what`` was the last one."""
        with self._lock:
            before, self._state = self._state, (done, total, what)
            if self._bar is not None:
                if before is not None and (total != before[1] or done < before[0]):
                    self._bar.reset(self._bar.task_ids[0])  # the time left counts for this stage alone
                self._update()
            elif not self._terminal and not self._lines:
                self._print(self._plain())

    def _warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """A warning as a line that stays, in place of Python's two with a file and its source."""
        self.note(f"tensorucb {self._name}: {message}", end="")

    def note(self, line: str, end: str = " ...") -> None:
        """A line about what begins now, which stays."""
        with self._lock:
            line = one_line(f"{line}{end}")
            if self._bar is None:
                say(line, err=True)
            else:
                self._bar.console.print(line)

    # -- in a terminal --

    def _draw(self) -> None:
        if self._stop.wait(_PATIENCE):
            return
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        rest = Column(ratio=1, no_wrap=True, overflow="crop")
        bar = Bar(
            TextColumn(self._name, markup=False),
            BarColumn(30, style="dim", complete_style="bold", finished_style="bold", pulse_style="dim"),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False, table_column=rest),
            console=terminal(sys.stderr),
            transient=True,
            expand=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        bar.add_task("working", total=None)
        with self._lock:
            if self._stop.is_set():
                return
            self._bar = bar
            if self._state is not None:
                self._update()
            bar.start()

    def _update(self) -> None:
        assert self._state is not None
        done, total, what = self._state
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=one_line(what))

    # -- elsewhere --

    def _repeat(self) -> None:
        while not self._stop.wait(_PRINTED):
            with self._lock:
                if not self._stop.is_set():
                    self._print(self._plain())

    def _print(self, text: str) -> None:
        self._lines += 1
        try:
            say(f"tensorucb {self._name}: {text}", err=True)
            sys.stderr.flush()
        except (OSError, ValueError):  # nobody reads it any more; the work goes on
            return

    def _plain(self) -> str:
        spent = _clock(time.monotonic() - self._start)
        if self._state is None:
            return f"still working, {spent}."
        done, total, what = self._state
        return one_line(f"{done:,} of {total:,}, {spent}: {what}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
