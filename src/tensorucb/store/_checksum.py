"""Checksums of rows, so that a bit that flips on the disk is found when it is read.

Each group of rows that is read together has one line in the table of checksums: how many rows it holds, and the sum of
their hashes. A sum does not depend on the order, so that rows can be added and removed without reading the others, and
it finds a row that is lost as well as one that has changed. Groups are the campaigns, the tokens and the secret of a
store, and the logins that were ended; the users of a campaign, and the names of its blobs (their content is sealed by
whoever made it); each event and each round; and the responses and the node events of each round.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.errors import FileFormatError
from tensorucb.store._protocol import EdgeResponses, NodeEvents
from tensorucb.store._tables import checksum as table
from tensorucb.store._values import damage

Hashes = NDArray[np.uint64] | list[int]
Group = tuple[int, str, int]
"""A campaign, a part of it, and a number within the part."""

_RANGE = 2**62  # databases have no unsigned 64-bit integers
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

_INSERT = (
    f"INSERT INTO {table.name} (campaign, part, number, rows, sum) VALUES (:campaign, :part, :number, :rows, :sum) "
    "ON CONFLICT (campaign, part, number) DO UPDATE SET "
)
_PUT = sa.text(f"{_INSERT} rows = excluded.rows, sum = excluded.sum")
_ADD = sa.text(
    f"{_INSERT} rows = {table.name}.rows + excluded.rows, sum = ({table.name}.sum + excluded.sum) % {_RANGE}"
)
_OF_PART = sa.select(table.c.number, table.c.rows, table.c.sum).where(
    table.c.campaign == sa.bindparam("campaign"), table.c.part == sa.bindparam("part")
)
_ONE = _OF_PART.where(table.c.number == sa.bindparam("number"))
_RANGED = _OF_PART.where(table.c.number.between(sa.bindparam("first"), sa.bindparam("last")))
_LATER = _OF_PART.where(table.c.number > sa.bindparam("after"))

_WORDS = {
    "campaign": "its list of campaigns",
    "token": "its list of tokens",
    "secret": "its secret",
    "logout": "its list of ended logins",
    "blob": "the list of blobs of campaign {campaign}",
    "user": "the users of campaign {campaign}",
    "event": "event {number} of campaign {campaign}",
    "round": "round {number} of campaign {campaign}",
    "edge": "the responses to round {number} of campaign {campaign}",
    "node": "the node events of round {number} of campaign {campaign}",
}


class Checksum(NamedTuple):
    """How many rows a group holds, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0

    def plus(self, other: Checksum) -> Checksum:
        """The checksum once the rows of the other one are added."""
        return Checksum(self.rows + other.rows, (self.sum + other.sum) % _RANGE)

    def minus(self, other: Checksum) -> Checksum:
        """The checksum once the rows of the other one are removed."""
        return Checksum(self.rows - other.rows, (self.sum - other.sum) % _RANGE)


def total(hashes: Hashes) -> Checksum:
    """The checksum of a group from the hashes of its rows."""
    if isinstance(hashes, list):
        return Checksum(len(hashes), sum(hashes) % _RANGE)
    return Checksum(hashes.size, int(hashes.sum(dtype=np.uint64)) % _RANGE)


def row_hash(*values: Any) -> int:
    """The hash of one row, the same whether it is about to be stored or was read; a time must be a float."""
    return zlib.crc32("\x1f".join(_field(value) for value in values).encode())


def _field(value: Any) -> str:
    """A value with its type, as both databases give it back: -0.0 is 0.0, NaN is None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "none"
    if isinstance(value, float):
        return f"float {float(value) + 0.0!r}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


def edge_hashes(rows: EdgeResponses) -> NDArray[np.uint64]:
    """A hash for each response."""
    numbers = _integers(rows.sources), _integers(rows.targets), _floats(rows.outcomes), _floats(rows.times)
    return _hashes(*numbers, _texts(rows.event_ids))


def node_hashes(rows: NodeEvents) -> NDArray[np.uint64]:
    """A hash for each node event."""
    return _hashes(_integers(rows.users), _floats(rows.times), _texts(rows.event_ids))


def user_hashes(keys: I64, ids: Sequence[int | str]) -> NDArray[np.uint64]:
    """A hash for each user."""
    numbers = np.array([value if isinstance(value, int) else 0 for value in ids], dtype=np.int64)
    texts = [None if isinstance(value, int) else value for value in ids]
    return _hashes(_integers(keys), _integers(numbers), _texts(texts))


def _hashes(*columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each step is one to one, so that rows which differ in one column have different hashes."""
    mixed = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * _FACTOR
        mixed ^= mixed >> _HALF
    return mixed


def _integers(column: NDArray[Any]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(column, dtype=np.int64).view(np.uint64)


def _floats(column: NDArray[Any]) -> NDArray[np.uint64]:
    values = np.asarray(column, dtype=np.float64) + 0.0
    values[np.isnan(values)] = np.nan  # one of the many bit patterns of NaN
    return values.view(np.uint64)


def _texts(texts: Iterable[str | None]) -> NDArray[np.uint64]:
    try:
        codes = [2**32 if text is None else zlib.crc32(text.encode()) for text in texts]
    except AttributeError as error:
        raise damage(error) from error
    return np.array(codes, dtype=np.uint64)


class Groups:
    """The table of checksums as one transaction sees it: compared with what is read, brought up to date at its end."""

    def __init__(self, shown: str, rows: Callable[[sa.Executable, Mapping[str, Any]], list[tuple[Any, ...]]]) -> None:
        self._shown = shown
        self._rows = rows
        # What replaces the stored checksum of a group, and what is added to it: no reading before writing.
        self._put: dict[Group, Checksum] = {}
        self._more: dict[Group, Checksum] = {}

    def check(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """Refuse rows that do not give the group's checksum."""
        group = (campaign, part, number)
        expected = self._put.get(group)
        if expected is None:
            found = self._rows(_ONE, {"campaign": campaign, "part": part, "number": number})
            expected = Checksum(*found[0][1:]) if found else Checksum()
        if not all(isinstance(value, int) for value in expected) or total(hashes) != expected.plus(
            self._more.get(group, Checksum())
        ):
            self._refuse(campaign, part, number)

    def check_each(
        self, campaign: int, part: str, hashes: Mapping[int, int], after: int = -(2**63), *, some: bool = False
    ) -> None:
        """The same for groups of one row each: all of this part with a number above ``after``, or some of them."""
        values = {"campaign": campaign, "part": part, "after": after}
        expected = {number: Checksum(*rest) for number, *rest in self._rows(_LATER, values)}
        for changed in (self._put, self._more):
            for (other, its_part, number), made in changed.items():
                if (other, its_part) == (campaign, part) and number > after:
                    expected[number] = made
        for number in hashes.keys() if some else expected.keys() | hashes.keys():
            if number not in hashes or expected.get(number) != Checksum(1, hashes[number]):
                self._refuse(campaign, part, number)

    def check_range(self, campaign: int, part: str, hashes: Mapping[int, Hashes], first: int, last: int) -> None:
        """The same for groups of any size: all of this part with a number from ``first`` to ``last``."""
        values = {"campaign": campaign, "part": part, "first": first, "last": last}
        stored = {number: Checksum(*rest) for number, *rest in self._rows(_RANGED, values)}
        for number in range(first, last + 1):
            group = (campaign, part, number)
            expected = self._put.get(group, stored.get(number, Checksum())).plus(self._more.get(group, Checksum()))
            if total(hashes.get(number, [])) != expected:
                self._refuse(campaign, part, number)

    def put(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group now holds these rows, and no others."""
        self._put[campaign, part, number] = total(hashes)
        self._more.pop((campaign, part, number), None)

    def add(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group now holds these rows as well."""
        group = (campaign, part, number)
        self._more[group] = self._more.get(group, Checksum()).plus(total(hashes))

    def remove(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group has lost these rows."""
        group = (campaign, part, number)
        self._more[group] = self._more.get(group, Checksum()).minus(total(hashes))

    def drop(self, campaign: int) -> None:
        """The campaign is gone, and its lines of the table with it."""
        for changed in (self._put, self._more):
            for group in [group for group in changed if group[0] == campaign]:
                del changed[group]

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
