"""Keep a released schema: ``python tests/store/released.py`` writes ``released/schema_N.sql`` for the current one.

Run it once when a schema is released, and never again for that schema: the files stand for databases in use.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

FOLDER = Path(__file__).with_name("released")


def plain(found):
    """What :func:`store.content.content` gives, as JSON would keep it."""
    return json.loads(
        json.dumps(found, default=lambda value: value.hex() if isinstance(value, bytes) else asdict(value))
    )


def main():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from store.content import content, fill
    from tensorucb.store import open_store
    from tensorucb.store._tables import SCHEMA

    target = FOLDER / f"schema_{int(SCHEMA)}.sql"
    if target.exists():
        sys.exit(f"{target.name} is kept already; a released schema does not change.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        with open_store(f"sqlite:///{path}") as store, store.write() as session:
            fill(session)
            fill(session, "autumn")
            found = content(session)
        connection = sqlite3.connect(path)
        target.write_text("\n".join(connection.iterdump()) + "\n", encoding="utf-8")
        connection.close()
    target.with_suffix(".json").write_text(json.dumps(plain(found), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
