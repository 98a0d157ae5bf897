"""The ``tensorucb`` command: files of commands, each loaded only when it is called, in the frame of ``_app``."""

from __future__ import annotations

import gc
from contextlib import nullcontext

from tensorucb.cli._interrupt import end_process, ending_at_once

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted.

    Without ``args`` it is the command itself, which ends the process.
    """
    # A command begins with the import of thousands of objects that stay: Python need not look so often which can go.
    gc.set_threshold(100_000, 50, 100)
    try:
        with ending_at_once() if args is None else nullcontext():
            from tensorucb.cli._app import run

            run(args)
    except SystemExit as end:
        if args is not None:
            raise
        end_process(end.code)
