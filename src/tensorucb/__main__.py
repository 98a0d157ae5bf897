"""``python -m tensorucb``: the ``tensorucb`` command."""

from __future__ import annotations

from tensorucb.cli import main

if __name__ == "__main__":
    main()
