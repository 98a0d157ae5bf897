"""How far a long command is: one line that is drawn over in a terminal, else a plain line now and then."""

from __future__ import annotations

import sys
import textwrap
import threading
import time
import warnings
from typing import Any, Self

from tensorucb.cli._output import on_terminal, one_line, say, terminal_width

_DRAWN, _PRINTED = 0.2, 10.0  # seconds between two lines in a terminal, and elsewhere
_PATIENCE = 0.5  # what is done sooner draws nothing
_BAR = 30


class Progress:
    """``with Progress("tune") as progress``: the work; ``progress(done, total, what)`` says how far it is.

    Everything goes to stderr. A thread draws, so that the clock also runs while nothing is reported; leave the block
    before printing or reading anything. A work that reports nothing is named with the time it has taken.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._terminal = on_terminal(sys.stderr)
        self._start = self._stage = time.monotonic()
        self._state: tuple[int, int, str] | None = None
        self._first = 0
        self._drawn = ""
        self._lines = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._show_warning = warnings.showwarning
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._show_warning, warnings.showwarning = warnings.showwarning, self._warn
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        warnings.showwarning = self._show_warning
        with self._lock:
            if self._terminal:
                self._draw("")
            elif self._lines and kind is None:
                self._print(f"done after {_clock(time.monotonic() - self._start)}.")

    def __call__(self, done: int, total: int, what: str) -> None:
        """``done`` of ``total`` steps are done, and ``what`` was the last one."""
        before, self._state = self._state, (done, total, what)
        if before is None or total != before[1] or done < before[0]:
            self._stage, self._first = time.monotonic(), done
        with self._lock:
            # The first report is shown at once: a short work may be over before the thread's turn.
            if (before is None) if self._terminal else (not self._lines):
                self._show()

    def _warn(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """A warning as a line that stays, in place of Python's two with a file and its source."""
        self.note(f"tensorucb {self._name}: {message}", end="")

    def note(self, line: str, end: str = " ...") -> None:
        """A line about what begins now, which stays."""
        with self._lock:
            line = one_line(f"{line}{end}")
            if self._terminal:
                self._draw("")
                line = textwrap.fill(line, terminal_width(sys.stderr))
            say(line, err=True)

    def _run(self) -> None:
        interval = _DRAWN if self._terminal else _PRINTED
        while not self._stop.wait(interval):
            with self._lock:
                if self._stop.is_set():
                    return
                try:
                    self._show()
                except (OSError, ValueError):  # the terminal is gone; the work goes on
                    return

    def _show(self) -> None:
        if not self._terminal:
            self._print(self._plain())
        elif time.monotonic() - self._start >= _PATIENCE:
            self._draw(self._bar(terminal_width(sys.stderr) - 1))

    def _print(self, text: str) -> None:
        self._lines += 1
        say(f"tensorucb {self._name}: {text}", err=True)
        sys.stderr.flush()

    def _draw(self, line: str) -> None:
        if line != self._drawn:
            # Over the old line and then what is left of it away, so that nothing flickers.
            sys.stderr.write(f"\r{line}\x1b[K")
            sys.stderr.flush()
            self._drawn = line

    def _times(self) -> str:
        now = time.monotonic()
        told = _clock(now - self._start)
        if self._state is None:
            return told
        done, total, _ = self._state
        steps = done - self._first
        return f"{told}, {_clock((now - self._stage) * (total - done) / steps)} left" if steps > 0 else told

    def _plain(self) -> str:
        if self._state is None:
            return f"still working, {self._times()}."
        done, total, what = self._state
        return one_line(f"{done:,} of {total:,}, {self._times()}: {what}")

    def _bar(self, width: int) -> str:
        if self._state is None:
            return f"{self._name}: working, {self._times()}"[:width]
        done, total, what = self._state
        share = min(1.0, done / max(1, total))
        numbers = f" {share:4.0%} {self._times()}  "
        label = one_line(what)
        room = max(6, min(_BAR, width - len(self._name) - 1 - len(numbers) - len(label)))
        drawn = (sys.stderr.encoding or "").lower().replace("-", "") in ("utf8", "utf16")
        full, empty = ("━", "─") if drawn else ("#", ".")
        bar = full * round(share * room) + empty * (room - round(share * room))
        return f"{self._name} {bar}{numbers}{label}"[:width].rstrip()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
