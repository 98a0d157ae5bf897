"""Where campaigns live: in memory, in a SQLite file, or in PostgreSQL.

Every store implements :class:`~tensorucb.store._protocol.Store`; :func:`open_store` picks the one that a URL names.
A store keeps rows and bytes; what they mean is the business of `tensorucb.campaign`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tensorucb.store._open import open_store

if TYPE_CHECKING:
    from tensorucb.store._memory import MemoryStore
    from tensorucb.store._sql import SQLStore

__all__ = ["MemoryStore", "SQLStore", "open_store"]


def __getattr__(name: str) -> Any:
    # SQLAlchemy loads on first use.
    if name in ("MemoryStore", "SQLStore"):
        module = importlib.import_module(f"tensorucb.store.{'_memory' if name == 'MemoryStore' else '_sql'}")
        return getattr(module, name)
    raise AttributeError(f"module 'tensorucb.store' has no attribute {name!r}")
