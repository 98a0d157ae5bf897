"""Checksums of rows, so that a bit that flips on the disk is found when it is read.

Each group of rows that is read together has one line in the table of checksums: how many rows it holds, and the sum of
their hashes. A sum does not depend on the order, so that rows can be added and removed without reading the others, and
it finds a row that is lost as well as one that has changed. Groups are the campaigns, the tokens and the secret of a
store, and the logins that were ended; the users of a campaign, what they said about being contacted, and the names of
its blobs (their content is sealed by whoever made it); each event, each round and its explanation; and a round's
batches of responses, and its event ids.
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
from tensorucb.store._protocol import damage
from tensorucb.store._tables import checksum as table

Hashes = NDArray[np.uint64] | list[int]

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
_RANGED = sa.select(table.c.number, table.c.rows, table.c.sum).where(
    table.c.campaign == sa.bindparam("campaign"),
    table.c.part == sa.bindparam("part"),
    table.c.number.between(sa.bindparam("first"), sa.bindparam("last")),
)
_LAST = 2**63 - 1

_WORDS = {
    "campaign": "its list of campaigns",
    "token": "its list of tokens",
    "secret": "its secret",
    "logout": "its list of ended logins",
    "blob": "the list of blobs of campaign {campaign}",
    "user": "the users of campaign {campaign}",
    "event": "event {number} of campaign {campaign}",
    "round": "round {number} of campaign {campaign}",
    "explanation": "the explanation of round {number} of campaign {campaign}",
    "response": "the responses to round {number} of campaign {campaign}",
    "event_id": "the event ids of round {number} of campaign {campaign}",
    "preference": "the opt-outs of campaign {campaign}",
}


class Checksum(NamedTuple):
    """How many rows a group holds, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0


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
    if isinstance(value, bytes):
        return f"bytes {zlib.crc32(value)}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


def user_hashes(rows: I64, ids: Sequence[int | str]) -> NDArray[np.uint64]:
    """A hash for each user."""
    numbers = np.array([value if isinstance(value, int) else 0 for value in ids], dtype=np.int64)
    texts = [None if isinstance(value, int) else value for value in ids]
    return _hashes(_integers(rows), _integers(numbers), _texts(texts))


def _hashes(*columns: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Each step is one to one, so that rows which differ in one column have different hashes."""
    mixed = np.zeros(columns[0].size, dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column) * _FACTOR
        mixed ^= mixed >> _HALF
    return mixed


def _integers(column: NDArray[Any]) -> NDArray[np.uint64]:
    return np.ascontiguousarray(column, dtype=np.int64).view(np.uint64)


def _texts(texts: Iterable[str | None]) -> NDArray[np.uint64]:
    try:
        codes = [2**32 if text is None else zlib.crc32(text.encode()) for text in texts]
    except AttributeError as error:
        raise damage(error) from error
    return np.array(codes, dtype=np.uint64)


class Groups:
    """The table of checksums, compared with what a transaction reads, and changed with what it writes.

    ``rows`` and ``run`` carry out its statements; ``shown`` is the store's address for messages.
    """

    def __init__(self, shown: str, rows: Callable[..., list[tuple[Any, ...]]], run: Callable[..., object]) -> None:
        self._shown = shown
        self._rows = rows
        self._run = run

    def check(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """Refuse rows that do not give the group's checksum."""
        self.check_each(campaign, part, {number: hashes}, number, number)

    def check_each(
        self,
        campaign: int,
        part: str,
        hashes: Mapping[int, Hashes],
        first: int = -_LAST,
        last: int = _LAST,
        *,
        some: bool = False,
    ) -> None:
        """The same for all groups of this part with a number from ``first`` to ``last``, or only for those read."""
        values = {"campaign": campaign, "part": part, "first": first, "last": last}
        expected = {number: Checksum(*rest) for number, *rest in self._rows(_RANGED, values)}
        for number in hashes.keys() if some else expected.keys() | hashes.keys():
            if total(hashes.get(number, [])) != expected.get(number, Checksum()):
                what = _WORDS[part].format(campaign=campaign, number=number)
                raise FileFormatError(
                    f"{self._shown} is damaged: {what} cannot be read as written (the checksum is another). "
                    "Use a backup."
                )

    def put(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group now holds these rows, and no others."""
        self._run(_PUT, _line(campaign, part, number, total(hashes)))

    def add(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group now holds these rows as well."""
        self._run(_ADD, _line(campaign, part, number, total(hashes)))

    def remove(self, campaign: int, part: str, number: int, hashes: Hashes) -> None:
        """The group has lost these rows."""
        lost = total(hashes)
        self._run(_ADD, _line(campaign, part, number, Checksum(-lost.rows, -lost.sum % _RANGE)))


def _line(campaign: int, part: str, number: int, checksum: Checksum) -> dict[str, Any]:
    return {"campaign": campaign, "part": part, "number": number, **checksum._asdict()}
