"""How far a long command is: rich's bar in a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from contextlib import ExitStack
from datetime import timedelta
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
        self._compiles = False
        self._bar: Any = None
        self._lines = 0
        self._warned = set[str]()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._block = ExitStack()

    def __enter__(self) -> Self:
        threading.Thread(target=self._draw if self._terminal else self._repeat, daemon=True).start()
        from tensorucb._kernels import telling_of_compilation  # here, since --help loads this file

        self._block.enter_context(telling_of_compilation(self._compile))
        self._block.enter_context(warnings.catch_warnings())
        warnings.showwarning = self._warn
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._block.close()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
            elif self._lines and kind is None:
                self._print(f"done after {self._spent()}.")

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

    def _compile(self, compiles: bool) -> None:
        with self._lock:
            self._compiles = compiles
            if self._bar is not None:
                self._update()

    def _warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """A warning as a line that stays, once, in place of Python's two with a file and its source."""
        line = one_line(f"tensorucb {self._name}: {message}")
        with self._lock:
            if line in self._warned:
                return
            self._warned.add(line)
            if self._bar is None:
                say(line, err=True)
            else:
                self._bar.console.print(line)

    def _what(self) -> str:
        """What is being done; a kernel is compiled only once, and its next user finds it in a file."""
        what = "working" if self._state is None else self._state[2]
        return one_line(f"compiling, once ({what})" if self._compiles else what)

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
        bar.add_task("", total=None)
        with self._lock:
            if self._stop.is_set():
                return
            self._bar = bar
            self._update()
            bar.start()

    def _update(self) -> None:
        done, total, _ = self._state or (0, None, "")
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, description=self._what())

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
        except (OSError, ValueError):  # nobody reads it any more; the work goes on
            return

    def _spent(self) -> timedelta:
        return timedelta(seconds=round(time.monotonic() - self._start))

    def _plain(self) -> str:
        spent = self._spent()
        if self._state is None:
            return f"still {self._what()}, {spent}."
        done, total, _ = self._state
        return f"{done:,} of {total:,}, {spent}: {self._what()}"
