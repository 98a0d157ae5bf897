"""The ``tensorucb`` command: files of commands, each loaded only when it is called, in the frame of ``_app``."""

from __future__ import annotations

import os
import sys

from tensorucb.cli._interrupt import listening

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        with listening(last=args is None):
            from tensorucb.cli._app import run

            run(args)
    except KeyboardInterrupt:
        sys.stderr.write("\ntensorucb: stopped before anything was done. Run the same command again.\n")
    except SystemExit as end:
        if end.code != 130:
            raise
    if args is None:
        # All is unwound; Python's own way out would wait for threads, and may end by the signal after all.
        sys.stderr.flush()
        os._exit(130)
    sys.exit(130)
