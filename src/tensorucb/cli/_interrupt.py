"""Ctrl-C ends a command at any moment: while it imports, compiles, computes or writes.

Python alone does not get there. A KeyboardInterrupt that is raised in a callback of the compiler is printed and
dropped, and one inside the compiler comes out as another error.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_pressed: float | None = None  # when
_AGAIN = 0.05  # seconds until a dropped KeyboardInterrupt is raised again
_PATIENCE = 1.0  # seconds in which a command may clean up before another Ctrl-C ends it at once


def was_pressed() -> bool:
    """Whether Ctrl-C was pressed: then any error is only what has become of it."""
    return _pressed is not None


def _press(number: int, frame: FrameType | None) -> None:
    global _pressed
    now = time.monotonic()
    if _pressed is not None and number == signal.SIGINT:
        if now - _pressed > _PATIENCE:
            if sys.stderr is not None and sys.stderr.isatty():
                os.write(sys.stderr.fileno(), b"\x1b[?25h")  # a bar hides the cursor
            os._exit(130)
        return
    _pressed = _pressed or now
    raise KeyboardInterrupt


def _again_in(seconds: float) -> None:
    """Raise it again after so long, or not if 0; Windows has no such alarm, and one presses again."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextmanager
def asking() -> Iterator[None]:
    """Around the reading of an answer: a Ctrl-C that comes just before it begins is noticed too.

    Python handles a signal between two steps, and waiting for a line is one step. So the waiting is interrupted ten
    times a second.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        yield
    finally:
        _again_in(0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def listening(*, last: bool) -> Iterator[None]:
    """Inside the block no Ctrl-C is lost; after it none counts, if it is the ``last`` thing that the process does."""
    global _pressed
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background
        yield
        return
    _pressed = None
    printed = sys.unraisablehook

    def dropped(what: Any) -> None:
        if not was_pressed():
            printed(what)
        elif what.exc_type is KeyboardInterrupt:
            _again_in(_AGAIN)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGALRM") if hasattr(signal, name)]
    before = {number: signal.signal(number, _press) for number in numbers}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        _again_in(0.0)
        sys.unraisablehook = printed
        for number, handler in before.items():
            # On the way out all is done: a Ctrl-C there would only make the exit code say that it was not.
            signal.signal(number, signal.SIG_IGN if last else handler)
