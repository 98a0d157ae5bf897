"""Addresses of stores as they may be shown: the one place that keeps passwords out of messages.

Only what is certainly no secret is shown. An address that is not written as it should be may hold its password
anywhere, so that nothing of it is shown but the kind of the store.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

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


def scheme_of(url: str) -> str | None:
    """The kind of store that a URL names, in small letters; None if it has none."""
    match = re.match(rf"({_WORD})://", url)
    return match[1].lower() if match else None


def is_server(url: str) -> bool:
    """Whether a URL names a server and is written as it should be, so that it is clear what is the password."""
    return _SERVER.fullmatch(url) is not None


def masked(url: object) -> str:
    """A storage URL, or whatever was given for one, without anything that could be a secret."""
    text = str(url)
    scheme = scheme_of(text)
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
