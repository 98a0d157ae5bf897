"""Tokens: how they are made, kept as hashes, and recognised; free of the web framework."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from tensorucb.checks import check_choice, check_text
from tensorucb.errors import InputError
from tensorucb.store._protocol import TokenRecord

if TYPE_CHECKING:
    from tensorucb.store import SQLStore

Role = Literal["read", "operate", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may

_FRESH = 1.0  # seconds after which tokens are read again: as long as a revoked one may still work
SESSION = 12 * 3600  # seconds of a login


@dataclass(frozen=True)
class Principal:
    """Who asks: the name of a token, and its role."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether this role or a higher one is theirs."""
        return ROLES.index(self.role) >= ROLES.index(role)


LOCAL = Principal("local", "admin")
"""Everybody, on a machine's own address, as long as nobody has made a token."""


def add_token(store: SQLStore, name: str, role: str) -> str:
    """Make a token and keep its hash; the token itself is known to nobody else, and cannot be shown again."""
    check_text("name", name, longest=100)
    check_choice("role", role, ROLES)
    token = f"tucb_{secrets.token_urlsafe(32)}"
    with store.write() as session:
        if any(record.name == name for record in session.tokens()):
            raise InputError(f"there is a token called {name!r} already; revoke it first, or choose another name.")
        session.put_token(TokenRecord(name, role, hash_of(token), time.time()))
    return token


def token_count(store: SQLStore) -> int:
    """How many tokens there are."""
    with store.read() as session:
        return len(session.tokens())


def hash_of(token: str) -> str:
    """What is kept of a token. Its 256 random bits cannot be guessed, so a quick hash without salt is enough."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


class TokenBook:
    """The tokens of a store as the service checks them; made and revoked ones count within a second.

    ``demanded`` says whether a caller needs one.
    """

    def __init__(self, store: SQLStore, demanded: bool, clock: Callable[[], float] = time.time) -> None:
        self._store, self.demanded, self._clock = store, demanded, clock
        self._turn = threading.Lock()
        self._read_at = float("-inf")
        self._records: list[TokenRecord] = []
        with store.read() as session:
            self._secret = session.secret()

    def fresh(self) -> bool:
        """Whether the tokens are known without reading the store."""
        return time.monotonic() - self._read_at < _FRESH

    def refresh(self) -> None:
        """Read the tokens again where that is due."""
        with self._turn:
            if not self.fresh():
                with self._store.read() as session:
                    self._records = session.tokens()
                # Whoever revokes the last token does not mean that everybody may do everything from now on.
                self.demanded = self.demanded or bool(self._records)
                self._read_at = time.monotonic()

    def of_token(self, token: str) -> Principal | None:
        """Whose token this is."""
        given, found = hash_of(token), None
        for record in self._records:  # all of them, so that the time taken tells nothing
            if hmac.compare_digest(record.hash, given):
                found = record
        return _principal(found)

    def open_session(self, principal: Principal) -> str:
        """The content of a login cookie: it ends with its time, or with the token."""
        record = next(record for record in self._records if record.name == principal.name)
        name = base64.urlsafe_b64encode(record.name.encode()).decode()
        ends = str(int(self._clock()) + SESSION)
        return f"{name}.{ends}.{self._seal(name, ends, record)}"

    def of_session(self, cookie: str) -> Principal | None:
        """Whose login this is."""
        name, _, rest = cookie.partition(".")
        ends, _, seal = rest.partition(".")
        found = None
        for record in self._records:
            if hmac.compare_digest(self._seal(name, ends, record).encode(), seal.encode("utf-8", "replace")):
                found = record
        return _principal(found) if found is not None and int(ends) > self._clock() else None

    def _seal(self, name: str, ends: str, record: TokenRecord) -> str:
        return self._mac("session", name, ends, record.name, record.hash)

    def masked(self, user: Any) -> str:
        """A name for a user that is always the same and tells nobody who it is."""
        return f"user-{self._mac('user', type(user).__name__, str(user))[:16]}"

    def _mac(self, *parts: str) -> str:
        return hmac.digest(self._secret, "\0".join(parts).encode("utf-8", "replace"), "sha256").hex()


def _principal(record: TokenRecord | None) -> Principal | None:
    # A role that this release does not know may do nothing.
    return None if record is None or record.role not in ROLES else Principal(record.name, record.role)
