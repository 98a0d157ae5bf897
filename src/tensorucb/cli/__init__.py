"""The ``tensorucb`` command: one file per command, each loaded only when it is called."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main(args: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted."""
    try:
        from tensorucb.cli._app import run
    except KeyboardInterrupt:
        sys.stderr.write("\ntensorucb: stopped before anything was done; run the same command again.\n")
        sys.exit(130)
    run(args)
