"""Whose turn it is to write, among the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tensorucb.errors import StateError, StoreError


class Turn:
    """A lock for writers that waits at most ``timeout`` seconds and refuses to wait for its own thread."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._holder: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold the turn for the length of the block."""
        thread = threading.get_ident()
        if self._holder == thread:
            raise StateError("this thread already writes to the store; finish that block before you begin another.")
        if not self._lock.acquire(timeout=self._timeout):
            raise StoreError(
                f"the store was locked by another writer of this process for {self._timeout:g} s; try again."
            )
        self._holder = thread
        try:
            yield
        finally:
            self._holder = None
            self._lock.release()
