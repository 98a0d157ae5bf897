"""The table of checksums as one transaction sees it: compared with what is read, brought up to date at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from tensorucb.errors import FileFormatError
from tensorucb.store._checksum import RANGE, Checksum
from tensorucb.store._tables import checksum as table

_INSERT = (
    f"INSERT INTO {table.name} (campaign, part, number, rows, sum) VALUES (:campaign, :part, :number, :rows, :sum) "
    "ON CONFLICT (campaign, part, number) DO UPDATE SET "
)
_PUT = sa.text(f"{_INSERT} rows = excluded.rows, sum = excluded.sum")
_ADD = sa.text(f"{_INSERT} rows = {table.name}.rows + excluded.rows, sum = ({table.name}.sum + excluded.sum) % {RANGE}")
_ONE = sa.select(table.c.rows, table.c.sum).where(
    table.c.campaign == sa.bindparam("campaign"),
    table.c.part == sa.bindparam("part"),
    table.c.number == sa.bindparam("number"),
)
_MANY = sa.select(table.c.number, table.c.rows, table.c.sum).where(
    table.c.campaign == sa.bindparam("campaign"),
    table.c.part == sa.bindparam("part"),
    table.c.number > sa.bindparam("after"),
    table.c.number <= sa.bindparam("until"),
)
_FIRST, _LAST = -(2**63), 2**63 - 1

_WORDS = {
    "campaign": "its list of campaigns",
    "blob": "the list of blobs of campaign {campaign}",
    "user": "the users of campaign {campaign}",
    "event": "event {number} of campaign {campaign}",
    "round": "round {number} of campaign {campaign}",
    "edge": "the responses to round {number} of campaign {campaign}",
    "node": "the node events of round {number} of campaign {campaign}",
}


class Groups:
    """Checksums of groups of rows, each named by a campaign, a part and a number within it."""

    def __init__(self, shown: str, rows: Callable[[sa.Executable, Mapping[str, Any]], list[tuple[Any, ...]]]) -> None:
        self._shown = shown
        self._rows = rows
        # What replaces the stored checksum of a group, and what is added to it: no reading before writing.
        self._put: dict[tuple[int, str, int], Checksum] = {}
        self._more: dict[tuple[int, str, int], Checksum] = {}

    def expected(self, campaign: int, part: str, number: int = 0) -> Checksum:
        """What a group's rows must give."""
        key = (campaign, part, number)
        made = self._put.get(key)
        if made is None:
            found = self._rows(_ONE, {"campaign": campaign, "part": part, "number": number})
            made = Checksum(*found[0]) if found else Checksum()
        return made.plus(self._more.get(key, Checksum()))

    def check(self, campaign: int, part: str, number: int, found: Checksum) -> None:
        """Refuse rows that do not give the group's checksum."""
        if found != self.expected(campaign, part, number):
            self._refuse(campaign, part, number)

    def check_each(
        self, campaign: int, part: str, hashes: Mapping[int, int], after: int = _FIRST, until: int | None = None
    ) -> None:
        """The same for groups of one row each: all of this part with ``after < number <= until``."""
        last = _LAST if until is None else until
        values = {"campaign": campaign, "part": part, "after": after, "until": last}
        expected = {number: Checksum(*rest) for number, *rest in self._rows(_MANY, values)}
        for changed in (self._put, self._more):
            for (other, its_part, number), made in changed.items():
                if (other, its_part) == (campaign, part) and after < number <= last:
                    expected[number] = made
        for number in expected.keys() | hashes.keys():
            if number not in hashes or expected.get(number) != Checksum(1, hashes[number]):
                self._refuse(campaign, part, number)

    def put(self, campaign: int, part: str, number: int, made: Checksum) -> None:
        """The group now holds these rows, and no others."""
        self._put[campaign, part, number] = made
        self._more.pop((campaign, part, number), None)

    def add(self, campaign: int, part: str, number: int, more: Checksum) -> None:
        """The group now holds these rows as well."""
        key = (campaign, part, number)
        self._more[key] = self._more.get(key, Checksum()).plus(more)

    def remove(self, campaign: int, part: str, number: int, less: Checksum) -> None:
        """The group has lost these rows."""
        self.add(campaign, part, number, Checksum().minus(less))

    def drop(self, campaign: int) -> None:
        """The campaign is gone, and its lines of the table with it."""
        for changed in (self._put, self._more):
            for key in [key for key in changed if key[0] == campaign]:
                del changed[key]

    def save(self, connection: sa.Connection) -> None:
        """Write what has changed."""
        for statement, changed in ((_PUT, self._put), (_ADD, self._more)):
            lines = [
                {"campaign": campaign, "part": part, "number": number, "rows": made.rows, "sum": made.sum}
                for (campaign, part, number), made in changed.items()
            ]
            if lines:
                connection.execute(statement, lines)

    def _refuse(self, campaign: int, part: str, number: int) -> None:
        what = _WORDS[part].format(campaign=campaign, number=number)
        raise FileFormatError(
            f"{self._shown} is damaged: {what} cannot be read as written (the checksum is another). Use a backup."
        )
