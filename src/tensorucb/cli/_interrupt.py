"""How a process ends at once: by a Ctrl-C, or when its command is done.

A Ctrl-C ends a command at any moment: while it imports, compiles, computes or writes. A KeyboardInterrupt would get
lost in the compiler, which drops it or turns it into another error, so there is a signal handler of our own. There is
nothing to clean up: files appear whole or not at all (the next writer clears what was begun), a store keeps whole
transactions, and processes that the command has started end when nobody listens to them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

advice = "Nothing was done yet. Run the same command again."
"""What a person who has pressed Ctrl-C needs to know; each command has its own."""


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, lambda *_: None)  # a second Ctrl-C while the first one is answered
    text = f"tensorucb: stopped. {advice}"
    with suppress(OSError, ValueError, AttributeError):  # nobody may be there to read it
        if sys.stderr.isatty():
            # Over the bar, which hides the cursor.
            text = "\r\x1b[2K\x1b[?25h" + textwrap.fill(text, shutil.get_terminal_size().columns)
        os.write(sys.stderr.fileno(), f"{text}\n".encode(errors="backslashreplace"))
    os._exit(130)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Inside the block a Ctrl-C ends the process; after it none counts, since all is done."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background
        yield
        return
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside the block a Ctrl-C is a KeyboardInterrupt, which ends the block: for a server, which finishes requests."""
    before = signal.getsignal(signal.SIGINT)
    if before is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        if before is _stop:
            signal.signal(signal.SIGINT, before)


def end_process(code: object) -> None:
    """End the process as Python would, but do not take all its modules apart: a fifth of the time of a command."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads that are to be waited for
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)
