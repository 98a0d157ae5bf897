"""The store in memory: every write makes a new version that shares with the old one all it did not touch."""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from tensorucb.store._address import masked
from tensorucb.store._memory_session import CampaignData, MemorySession
from tensorucb.store._turn import Turn

__all__ = ["MemoryStore"]

_open: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()


class MemoryStore:
    """Campaigns in this process alone, gone with the last reference; the same behaviour as on disk.

    Its ``url`` opens the same store as long as it lives.
    """

    def __init__(self, timeout: float = 60.0) -> None:
        self._name = uuid.uuid4().hex
        self._version: tuple[dict[int, CampaignData], int] = ({}, 1)
        self._turn = Turn(timeout)
        _open[self._name] = self

    @classmethod
    def named(cls, name: str, timeout: float = 60.0) -> MemoryStore:
        """The living store of that name, or a new one."""
        store = _open.get(name) if name else None
        if store is None:
            store = cls(timeout)
            if name:
                store._name = name
                _open[name] = store
        return store

    @property
    def url(self) -> str:
        """The address that opens this store again."""
        return f"memory://{self._name}"

    @property
    def masked_url(self) -> str:
        """The address as it may be shown."""
        return masked(self.url)

    @contextmanager
    def write(self) -> Iterator[MemorySession]:
        """A write transaction: waits for its turn; kept at the end of the block, or nothing of it."""
        with self._turn.taken():
            session = MemorySession(*self._version, writable=True)
            try:
                yield session
            finally:
                session.end()
            self._version = session.version

    @contextmanager
    def read(self) -> Iterator[MemorySession]:
        """A read-only view of one moment; never blocks a writer."""
        session = MemorySession(*self._version, writable=False)
        try:
            yield session
        finally:
            session.end()

    def purge(self, timeout: float | None = None) -> None:
        """Nothing to do: what is deleted is gone with the last view of it."""

    def close(self) -> None:
        """Nothing to do: there are no files."""

    def __enter__(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"MemoryStore({self.masked_url!r})"

    def __exit__(self, *_: object) -> None:
        self.close()
