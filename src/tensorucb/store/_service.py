"""What the service keeps in a store: tokens, a secret, and ended logins."""

from __future__ import annotations

import sqlalchemy as sa

from tensorucb.errors import UnknownIdError
from tensorucb.store import _tables as tables
from tensorucb.store._checksum import row_hash
from tensorucb.store._protocol import TokenRecord
from tensorucb.store._transaction import Transaction
from tensorucb.store._values import check_texts

_token, _logout = tables.token.c, tables.logout.c
_TOKENS = sa.select(*_token).order_by(_token.created, _token.name)


class ServiceRows(Transaction):
    """The rows of the service, which belong to the whole store."""

    def tokens(self) -> list[TokenRecord]:
        """All tokens, oldest first."""
        rows = self._rows(_TOKENS)
        self._groups.check(0, "token", 0, [row_hash(*row) for row in rows])
        return [TokenRecord(*row) for row in rows]

    def put_token(self, record: TokenRecord) -> None:
        """A new token; a name that exists is an :class:`~tensorucb.errors.InputError`."""
        self._check(change=True)
        values = vars(record) | {"created": float(record.created)}
        check_texts([record.name, record.role, record.hash], "a token's name, role or hash")
        self._run(sa.insert(tables.token).values(**values))
        self._groups.add(0, "token", 0, [row_hash(*values.values())])

    def delete_token(self, name: str) -> None:
        """Remove a token; a name that does not exist is an :class:`~tensorucb.errors.UnknownIdError`."""
        self._check(change=True)
        record = next((record for record in self.tokens() if record.name == name), None)
        if record is None:
            raise UnknownIdError(f"the store holds no token called {name!r}.")
        self._run(sa.delete(tables.token).where(_token.name == name))
        self._groups.remove(0, "token", 0, [row_hash(*vars(record).values())])

    def secret(self) -> bytes:
        """32 random bytes that this store was given when it was made, and that leave it nowhere."""
        rows = self._rows(sa.select(tables.secret))
        self._groups.check(0, "secret", 0, [row_hash(*row) for row in rows])
        return bytes.fromhex(rows[0][1])

    def ended_logins(self) -> dict[str, float]:
        """Logins that were ended before their time, and when each would have ended by itself."""
        rows = self._rows(sa.select(*_logout))
        self._groups.check(0, "logout", 0, [row_hash(*row) for row in rows])
        return dict(rows)

    def end_login(self, login: str, ends: float, now: float) -> None:
        """A login no longer counts; what is kept of those whose time is over goes. Ending again changes nothing."""
        self._check(change=True)
        check_texts([login], "a login")
        known = self.ended_logins()
        over = [row for row in known.items() if row[1] <= now]
        self._run(sa.delete(tables.logout).where(_logout.ends <= now))
        self._groups.remove(0, "logout", 0, [row_hash(*row) for row in over])
        if login not in known and ends > now:
            self._run(sa.insert(tables.logout).values(login=login, ends=float(ends)))
            self._groups.add(0, "logout", 0, [row_hash(login, float(ends))])
