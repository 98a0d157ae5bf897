"""Commands in a real pseudo-terminal, and in a pipe, as a person and a script would run them."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COMMAND = [sys.executable, "-m", "tensorucb"]
# The terminal becomes the one that controls the command, so that Ctrl-C reaches it.
_ADOPT = "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, what stood on the terminal, and on stdout if that was a pipe."""

    code: int
    text: str
    stdout: str = ""

    @property
    def plain(self) -> str:
        """The text without bold and dim, and without hiding the cursor."""
        return re.sub(r"\x1b\[(?:[012]m|\?25[lh])", "", self.text).replace("\r\n", "\n")

    @property
    def drawn(self) -> list[str]:
        """The states of the bar, in order."""
        return re.findall(r"(?:\x1b\[2K|\A|\n)([^\r\n\x1b]*━[^\r\n\x1b]*)", self.plain)

    @property
    def lines(self) -> list[str]:
        """The lines that stayed: the bar is drawn over, and goes away at the end."""
        lines: list[str] = []
        for line in self.plain.split("\n"):
            if "\x1b[1A" in line:
                lines.pop()
            lines.append(line.split("\x1b[2K")[-1].strip("\r"))
        return lines


def in_terminal(
    *args: str,
    columns: int = 80,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    keys: Sequence[tuple[str, str]] = (),
    delay: float = 0.0,
    pipe: bool = False,
    timeout: float = 120.0,
    command: Sequence[str] = COMMAND,
) -> Ended:
    """Run a command line in a pseudo-terminal.

    Parameters
    ----------
    keys
        Pairs of a text to wait for and what is then typed; for an empty text, after ``delay`` seconds.
    pipe
        Let stdout be a pipe, so that only stderr is the terminal.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _ADOPT, *command, *args],
        stdin=theirs,
        stdout=subprocess.PIPE if pipe else theirs,
        stderr=theirs,
        cwd=cwd,
        # The size is the terminal's own, whatever that of the terminal is in which the tests run.
        env={
            **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
            "TERM": "xterm-256color",
            **(env or {}),
        },
        start_new_session=True,
    )
    os.close(theirs)
    told, waiting, start = bytearray(), list(keys), time.monotonic()
    try:
        while True:
            passed = time.monotonic() - start
            if passed > timeout:
                raise TimeoutError(f"{args} went on for {timeout} s; so far: {told.decode(errors='replace')}")
            if waiting and waiting[0][0].encode() in told and passed >= delay:
                os.write(ours, waiting.pop(0)[1].encode())
            if select.select([ours], [], [], 0.02)[0]:
                try:
                    told += os.read(ours, 65536)
                except OSError:  # the last one who held the other end is gone
                    break
        out = process.stdout.read() if process.stdout else b""
        return Ended(process.wait(30), told.decode(errors="replace"), out.decode(errors="replace"))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
        os.close(ours)


def in_pipe(
    *args: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, given: str = "", timeout: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a command line with pipes for stdin, stdout and stderr."""
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        input=given.encode(),
        capture_output=True,
        timeout=timeout,
    )  # type: ignore[return-value]


def without_progress(text: str) -> str:
    """What a command said apart from the lines that it prints when a machine is busy."""
    return re.sub(r"^tensorucb [a-z -]+: (?:still working|done after|[\d,]+ of ).*\n", "", text, flags=re.MULTILINE)
