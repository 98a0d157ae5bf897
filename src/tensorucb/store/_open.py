"""From a URL to a store."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tensorucb.checks import check_flag, check_number, check_text, shown
from tensorucb.errors import InputError, MissingExtraError, StoreError
from tensorucb.store._memory import MemoryStore

if TYPE_CHECKING:
    from tensorucb.store._sql import SQLStore

__all__ = ["open_store"]

_SCHEMES = "'sqlite:///file.db', 'postgresql://user@host/database' or 'memory://'"


def open_store(url: str, *, create: bool = True, timeout: float = 60.0) -> MemoryStore | SQLStore:
    """Open the store at ``url``, creating or upgrading its tables where needed.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute/file.db``, ``postgresql://user:password@host/database``, or
        ``memory://`` for a new store in this process (its ``url`` opens the same one as long as it lives).
    create
        Whether a SQLite file that does not exist is made; if not, it is a :class:`~tensorucb.errors.StoreError`.
    timeout
        Seconds that a writer waits for its turn before it gives up.

    Examples
    --------
    >>> with open_store("memory://").write() as session:
    ...     session.insert_campaign("spring", {}, created=0.0).campaign
    1
    """
    url = check_text("url", url, longest=4096)
    if "://" not in url:
        raise InputError(f"a storage URL looks like {_SCHEMES}; got {shown(url)}.")
    create, timeout = check_flag("create", create), check_number("timeout", timeout, strict=True, high=1e6)
    scheme = url.partition("://")[0]
    if scheme == "memory":
        return MemoryStore.named(url.removeprefix("memory://"), timeout)
    if scheme == "sqlite":
        return _open_sqlite(url, create, timeout)
    if scheme in ("postgresql", "postgresql+psycopg"):
        return _open_postgres(url, timeout)
    raise InputError(f"unknown kind of store {scheme + '://'!r}; use {_SCHEMES}.")


def _open_sqlite(url: str, create: bool, timeout: float) -> SQLStore:
    name = url.removeprefix("sqlite:///")
    if name == url or name in ("", ":memory:"):
        raise InputError(f"{url!r} names no file; use 'sqlite:///file.db', or 'memory://' for a store in memory.")
    if "?" in name or "#" in name:
        raise InputError(f"{url!r}: a file name with '?' or '#' is not supported, nor are options in the URL.")
    path = Path(name).absolute()
    if path.is_dir():
        raise StoreError(f"{str(path)!r} is a directory; give the name of a file in it.")
    if not path.parent.is_dir():
        raise StoreError(f"the directory {str(path.parent)!r} does not exist; create it, or use another file.")
    if not create and not path.exists():
        raise StoreError(f"there is no store at {str(path)!r}; check the name, or create a campaign there first.")
    from tensorucb.store._sql import SQLStore
    from tensorucb.store._sqlite import SQLiteBackend

    return SQLStore(SQLiteBackend(path, timeout))


def _open_postgres(url: str, timeout: float) -> SQLStore:
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("PostgreSQL needs psycopg: install it with `pip install 'tensorucb[postgres]'`.")
    from tensorucb.store._postgres import PostgresBackend
    from tensorucb.store._sql import SQLStore

    return SQLStore(PostgresBackend(url, timeout))
