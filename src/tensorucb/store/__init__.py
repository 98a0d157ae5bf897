"""Where campaigns live: in memory, in a SQLite file, or in PostgreSQL.

:func:`open_store` makes the :class:`SQLStore` that a URL names. A store keeps rows and bytes; what they mean is the
business of `tensorucb.campaign`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorucb._lazy import lazy_names
from tensorucb.store._address import open_store

if TYPE_CHECKING:
    from tensorucb.store._sql import MemoryStore, SQLStore

__all__ = ["MemoryStore", "SQLStore", "open_store"]

# SQLAlchemy loads on first use.
__getattr__, __dir__ = lazy_names(__name__, {"MemoryStore": "._sql", "SQLStore": "._sql"})
