"""The store of one process: a SQLite file of its own, deleted with the store."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import weakref
from pathlib import Path

from tensorucb.store._address import masked
from tensorucb.store._sql import SQLStore
from tensorucb.store._sqlite import SQLiteBackend

_open: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()


class MemoryStore(SQLStore):
    """Campaigns in this process alone, gone with the last reference; the same behaviour as on disk.

    They are in a SQLite file in the directory for temporary files, which nothing waits for and which is deleted with
    the store. Its ``url`` opens the same store as long as it lives.
    """

    def __init__(self, timeout: float = 60.0, name: str = "") -> None:
        self._name = name or uuid.uuid4().hex
        directory = tempfile.mkdtemp(prefix="tensorucb-")
        # At the end of the process too, but never by a forked child: the file is its parent's.
        weakref.finalize(self, _remove, directory, os.getpid())
        super().__init__(_TemporaryBackend(Path(directory) / "store.db", timeout, f"memory://{self._name}"))
        _open[self._name] = self

    @classmethod
    def named(cls, name: str, timeout: float = 60.0) -> MemoryStore:
        """The living store of that name, or a new one."""
        return _open.get(name) or cls(timeout, name)

    def close(self) -> None:
        """Nothing to do: the store lives as long as somebody holds it."""

    def __repr__(self) -> str:
        return f"MemoryStore({self.masked_url!r})"


class _TemporaryBackend(SQLiteBackend):
    """A file that need not survive the process, so that no commit waits for the disk."""

    synchronous = "OFF"

    def __init__(self, path: Path, timeout: float, url: str) -> None:
        super().__init__(path, timeout)
        self.url, self.shown = url, masked(url)


def _remove(directory: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(directory, ignore_errors=True)
