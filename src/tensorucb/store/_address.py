"""From a URL to a store, and addresses as they may be shown: the one place that keeps passwords out of messages.

Only what is certainly no secret is shown. An address that is not written as it should be may hold its password
anywhere, so that nothing of it is shown but the kind of the store.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from tensorucb.checks import check_flag, check_number, unstorable
from tensorucb.errors import InputError, MissingExtraError, StoreError

if TYPE_CHECKING:
    from tensorucb.store._sql import SQLStore

SCHEMES = "'sqlite:///file.db', 'postgresql://user@host/database' or 'memory://'"

_HIDDEN = "***"
_WORD = r"[A-Za-z][A-Za-z0-9+.-]*"
_SERVER = re.compile(
    rf"(?P<scheme>{_WORD})://(?:(?P<user>[\w.%+~-]*)(?P<password>:[^@/?#]*)?@)?"
    r"(?P<host>[\w.-]*|\[[0-9A-Fa-f:.]+\])(?P<port>:[0-9]*)?(?P<path>/[\w.%~-]*)?(?P<query>\?[^@#]*)?",
    re.ASCII,
)
# Options whose values tell nobody how to get in, and names that may be shown; all else counts as a secret, since a
# password with an unescaped "&" is cut into options.
_OPEN = frozenset({"dbname", "host", "hostaddr", "port", "user"})
_NAMES = _OPEN | {"application_name", "connect_timeout", "options", "passfile", "password", "sslmode", "sslpassword"}


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
    scheme = _scheme_of(url) if len(url) <= 4096 and not unstorable(url) else None
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
    if _SERVER.fullmatch(url) is None:  # then nobody can tell what of it is the password
        raise InputError(
            f"{masked(url)!r} is no PostgreSQL URL; write 'postgresql://user:password@host:port/database', and in the "
            "password %40 for '@', %2F for '/', %3A for ':', %3F for '?', %23 for '#' and %25 for '%'."
        )
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("PostgreSQL needs psycopg: install it with `pip install 'tensorucb[postgres]'`.")
    from tensorucb.store._postgres import PostgresBackend
    from tensorucb.store._sql import SQLStore

    return SQLStore(PostgresBackend(url, timeout, read_only))


def _scheme_of(url: str) -> str | None:
    """The kind of store that a URL names, in small letters; None if it has none."""
    match = re.match(rf"({_WORD})://", url)
    return match[1].lower() if match else None


def masked(url: object) -> str:
    """A storage URL, or whatever was given for one, without anything that could be a secret."""
    text = str(url)
    scheme = _scheme_of(text)
    if scheme is None:
        # A file's name without its scheme is the usual slip, and worth showing.
        return text if re.fullmatch(r"[\w./ -]{0,200}", text) else _HIDDEN
    if scheme == "sqlite":
        rest = text[len("sqlite://") :]
        shown = re.split(r"[?#]", _without_login(rest))[0] if rest.startswith("/") else _HIDDEN
        return f"{scheme}://{shown}"
    if scheme == "memory":
        return text if re.fullmatch(r"memory://\w*", text) else f"memory://{_HIDDEN}"
    match = _SERVER.fullmatch(text)
    if match is None:
        return f"{scheme}://{_HIDDEN}"
    user = f"{match['user']}@" if match["user"] else ""
    return f"{scheme}://{user}{match['host']}{match['port'] or ''}{match['path'] or ''}"


def shown_path(path: Path) -> str:
    """A file's path in quotes; somebody may have written a server's address where a file's name belongs."""
    return repr(_without_login(str(path)))


def _without_login(path: str) -> str:
    return re.sub(r":.*@", f":{_HIDDEN}@", path, flags=re.DOTALL)


def said(message: object, url: str) -> str:
    """A driver's own words on one line; only that it said something, if they quote a secret of the address."""
    words = " ".join(str(message).split())
    if any(secret in words for secret in _secrets(url)):
        return "(its message quotes the address and is not shown)"
    return words


def _secrets(url: str) -> set[str]:
    """A URL's password and options as written and as decoded, and their words: a driver may quote a piece of them."""
    match = _SERVER.fullmatch(url)
    if match is None:
        return {""}
    texts = [(match["password"] or "")[1:]]
    for name, _, value in (part.partition("=") for part in (match["query"] or "")[1:].split("&")):
        texts += [] if name.lower() in _OPEN else [value]
        texts += [] if name.lower() in _NAMES else [name]
    texts = [text for text in (*texts, *map(unquote, texts)) if text]
    return {*texts, *(word for text in texts for word in re.split(r"-c|\W+", text) if len(word) > 2)}
