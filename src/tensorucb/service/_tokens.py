"""Tokens: how they are made, kept as hashes, and recognised; free of the web framework."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from tensorucb.checks import check_choice, check_text
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
        self._store = store
        self.demanded = demanded
        self._clock = clock
        self._turn = threading.Lock()
        self._read_at = float("-inf")
        self._records: list[TokenRecord] = []
        self._ended: dict[str, float] = {}
        with store.read() as session:
            self._secret = session.secret()
        # For a search all users of a network are masked, and this takes a third of the time of an HMAC.
        self._mask = hashlib.blake2b(key=self._secret, person=b"user", digest_size=8)

    def fresh(self) -> bool:
        """Whether the tokens are known without reading the store."""
        return time.monotonic() - self._read_at < _FRESH

    def refresh(self) -> None:
        """Read the tokens again where that is due."""
        with self._turn:
            if not self.fresh():
                with self._store.read() as session:
                    self._records = session.tokens()
                    # A store that cannot be written does not know the logins that were ended here.
                    ended = self._ended | session.ended_logins()
                self._ended = {login: ends for login, ends in ended.items() if ends > self._clock()}
                # Whoever revokes the last token does not mean that everybody may do everything from now on.
                self.demanded = self.demanded or bool(self._records)
                self._read_at = time.monotonic()

    def of_token(self, token: str) -> Principal | None:
        """Whose token this is."""
        return self._whose(hash_of(token), lambda record: record.hash)

    def open_session(self, principal: Principal) -> str:
        """The content of a login cookie: it ends with its time, with the token, or by `end_session`."""
        record = next(record for record in self._records if record.name == principal.name)
        number = secrets.token_hex(8)  # tells two logins of the same second apart
        ends = str(int(self._clock()) + SESSION)
        return f"{number}.{ends}.{self._seal(number, ends, record)}"

    def of_session(self, cookie: str) -> Principal | None:
        """Whose login this is."""
        number, _, rest = cookie.partition(".")
        ends, _, seal = rest.partition(".")
        principal = self._whose(seal, lambda record: self._seal(number, ends, record))
        over = principal is None or int(ends) <= self._clock() or seal in self._ended
        return None if over else principal

    def _whose(self, sent: str, expected: Callable[[TokenRecord], str]) -> Principal | None:
        """Whose secret was sent; ``expected`` is what it would be for each token."""
        match = None
        for record in self._records:  # all of them, so that the time taken tells nothing
            if hmac.compare_digest(expected(record).encode(), sent.encode("utf-8", "replace")):
                match = record
        # A role that this release does not know may do nothing.
        return None if match is None or match.role not in ROLES else Principal(match.name, match.role)

    def end_session(self, cookie: str, *, everywhere: bool) -> None:
        """A login counts no longer: here from now on, and ``everywhere`` also in other processes, within a second."""
        _, ends, seal = cookie.split(".")
        with self._turn:
            self._ended = {**self._ended, seal: float(ends)}
        if everywhere:
            with self._store.write() as session:
                session.end_login(seal, float(ends), self._clock())

    def _seal(self, number: str, ends: str, record: TokenRecord) -> str:
        sealed = "\0".join(["session", number, ends, record.name, record.hash])
        return hmac.digest(self._secret, sealed.encode("utf-8", "replace"), "sha256").hex()

    def masked(self, user: Any) -> str:
        """A name for a user that is always the same and tells nobody who it is."""
        mask = self._mask.copy()
        mask.update(f"{type(user).__name__}\0{user}".encode("utf-8", "replace"))
        return f"user-{mask.hexdigest()}"
