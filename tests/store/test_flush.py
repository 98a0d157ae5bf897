"""What is written to SQLite is on the disk before anybody can read it."""

import pytest

from store.content import fill
from tensorucb.store import open_store


@pytest.mark.parametrize(("url", "level"), [("sqlite:///store.db", 2), ("memory://", 0)])
def test_sqlite_flushes_every_commit_and_a_store_in_memory_none(url, level, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store(url) as store, store.write() as session:
        fill(session)
        # 2 is FULL: SQLite flushes its log before a commit can be seen, and undoes it if that fails.
        assert session._connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == level
