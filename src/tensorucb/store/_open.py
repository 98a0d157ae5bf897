"""From a URL to a store."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tensorucb.checks import check_flag, check_number, unstorable
from tensorucb.errors import InputError, MissingExtraError, StoreError
from tensorucb.store._address import SCHEMES, is_server, masked, scheme_of, shown_path

if TYPE_CHECKING:
    from tensorucb.store._sql import SQLStore


def open_store(url: str, *, create: bool = True, read_only: bool = False, timeout: float = 60.0) -> SQLStore:
    """Open the store at ``url``; the tables of a new one are made, and one of another layout is refused.

    Parameters
    ----------
    url
        ``sqlite:///relative.db``, ``sqlite:////absolute/file.db``, ``postgresql://user:password@host/database``, or
        ``memory://`` for a new store in this process (its ``url`` opens the same one as long as it lives). A store's
        ``url`` opens it again, with the password where there is one; messages show its ``masked_url``.
    create
        Whether a SQLite file that does not exist is made; if not, it is a :class:`~tensorucb.errors.StoreError`.
    read_only
        Open it with connections that cannot write, whatever is asked of them. Its tables must be there.
    timeout
        Seconds that a writer waits for its turn before it gives up; a PostgreSQL server that does not answer a
        statement for two seconds more than that is given up too.

    Examples
    --------
    >>> with open_store("memory://").write() as session:
    ...     session.insert_campaign("spring", {}, created=0.0).campaign
    1
    """
    # An address is never echoed as it came: it may hold a password.
    if not isinstance(url, str):
        raise InputError(f"a storage URL is text, such as {SCHEMES}; got a {type(url).__name__}.")
    scheme = scheme_of(url) if len(url) <= 4096 and not unstorable(url) else None
    if scheme is None:
        raise InputError(f"a storage URL looks like {SCHEMES}; got {masked(url)!r}.")
    create, read_only = check_flag("create", create), check_flag("read_only", read_only)
    timeout = check_number("timeout", timeout, strict=True, high=1e6)
    rest = url.partition("://")[2]
    if scheme == "memory":
        from tensorucb.store._sql import MemoryStore

        if read_only:
            raise InputError("a store in memory cannot be opened with read_only=True; use a SQLite file or PostgreSQL.")
        return MemoryStore.named(rest, timeout)
    if scheme == "sqlite":
        return _open_sqlite(f"sqlite://{rest}", create, read_only, timeout)
    if scheme in ("postgresql", "postgresql+psycopg"):
        return _open_postgres(f"postgresql://{rest}", read_only, timeout)
    raise InputError(f"unknown kind of store {scheme + '://'!r}; use {SCHEMES}.")


def _open_sqlite(url: str, create: bool, read_only: bool, timeout: float) -> SQLStore:
    name = url.removeprefix("sqlite:///")
    if name == url or name in ("", ":memory:"):
        raise InputError(
            f"{masked(url)!r} names no file; use 'sqlite:///file.db', or 'memory://' for a store in memory."
        )
    if "?" in name or "#" in name:
        raise InputError(f"{masked(url)!r}: a file name with '?' or '#' is not supported, nor are options in the URL.")
    path = Path(name).absolute()
    if path.is_dir():
        raise StoreError(f"{shown_path(path)} is a directory; give the name of a file in it.")
    if not path.parent.is_dir():
        raise StoreError(f"the directory of {shown_path(path)} does not exist; create it, or use another file.")
    if (read_only or not create) and not path.exists():
        raise StoreError(f"there is no store at {shown_path(path)}; check the name, or create a campaign there first.")
    from tensorucb.store._sql import SQLStore
    from tensorucb.store._sqlite import SQLiteBackend

    return SQLStore(SQLiteBackend(path, timeout, read_only))


def _open_postgres(url: str, read_only: bool, timeout: float) -> SQLStore:
    if not is_server(url):
        raise InputError(
            f"{masked(url)!r} is no PostgreSQL URL; write 'postgresql://user:password@host:port/database', and in the "
            "password %40 for '@', %2F for '/', %3A for ':', %3F for '?', %23 for '#' and %25 for '%'."
        )
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("PostgreSQL needs psycopg: install it with `pip install 'tensorucb[postgres]'`.")
    from tensorucb.store._postgres import PostgresBackend
    from tensorucb.store._sql import SQLStore

    return SQLStore(PostgresBackend(url, timeout, read_only))
