"""Checksums of rows, so that a bit that flips on the disk is found when it is read.

Each group of rows that is read together has one line in the table of checksums: how many rows it holds, and the sum of
their hashes. A sum does not depend on the order, so that rows can be added and removed without reading the others, and
it finds a row that is lost as well as one that has changed. Groups are the campaigns of a store; the users of a
campaign, and the names of its blobs (their content is sealed by whoever made it); each event and each round; and the
responses and the node events of each round.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError
from tensorucb.store._protocol import CampaignRecord, EdgeResponses, NodeEvents

RANGE = 2**62  # databases have no unsigned 64-bit integers
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Checksum(NamedTuple):
    """How many rows a group holds, and the sum of their hashes."""

    rows: int = 0
    sum: int = 0

    def plus(self, other: Checksum) -> Checksum:
        """The checksum once the rows of the other one are added."""
        return Checksum(self.rows + other.rows, (self.sum + other.sum) % RANGE)

    def minus(self, other: Checksum) -> Checksum:
        """The checksum once the rows of the other one are removed."""
        return Checksum(self.rows - other.rows, (self.sum - other.sum) % RANGE)


def total(hashes: NDArray[np.uint64] | Sequence[int]) -> Checksum:
    """The checksum of a group from the hashes of its rows."""
    if isinstance(hashes, list):
        return Checksum(len(hashes), sum(hashes) % RANGE)
    array = np.asarray(hashes, dtype=np.uint64)
    return Checksum(array.size, int(array.sum(dtype=np.uint64)) % RANGE)


def event_hash(seq: int, kind: str, at: int | None, payload: str, created: float) -> int:
    """The hash of an event, its payload as JSON text."""
    return _row(seq, kind, at, payload, _moment(created))


def round_hash(values: Sequence[Any]) -> int:
    """The hash of a round: its columns after the campaign's number, the payload as JSON text."""
    number, name, status, opened, deadline, closed, revision, request_id, payload = values
    return _row(number, name, status, *map(_moment, (opened, deadline, closed)), revision, request_id, payload)


def campaign_hash(record: CampaignRecord, settings: str) -> int:
    """The hash of a campaign, its settings as JSON text."""
    return _row(record.campaign, record.name, settings, _moment(record.created))


def name_hash(name: str) -> int:
    """The hash of a blob's name."""
    return _row(name)


def edge_hashes(rows: EdgeResponses) -> NDArray[np.uint64]:
    """A hash for each response."""
    numbers = _integers(rows.sources), _integers(rows.targets), _floats(rows.outcomes), _floats(rows.times)
    return _hashes(*numbers, _texts(rows.event_ids))


def node_hashes(rows: NodeEvents) -> NDArray[np.uint64]:
    """A hash for each node event."""
    return _hashes(_integers(rows.users), _floats(rows.times), _texts(rows.event_ids))


def user_hashes(keys: NDArray[np.int64], ids: Sequence[int | str]) -> NDArray[np.uint64]:
    """A hash for each user."""
    numbers = np.array([value if isinstance(value, int) else 0 for value in ids], dtype=np.int64)
    texts = [None if isinstance(value, int) else value for value in ids]
    return _hashes(_integers(keys), _integers(numbers), _texts(texts))


def _moment(value: Any) -> Any:
    """A time as it will be read: whole numbers come back as floats."""
    return float(value) if isinstance(value, int | np.number) else value


def _row(*values: Any) -> int:
    return zlib.crc32("\x1f".join(_field(value) for value in values).encode())


def _field(value: Any) -> str:
    """A value with its type, the same whether it is about to be stored or was read: -0.0 is 0.0, NaN is None."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "none"
    if isinstance(value, float):
        return f"float {float(value) + 0.0!r}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


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
    values[np.isnan(values)] = np.nan
    return values.view(np.uint64)


def _texts(texts: Iterable[str | None]) -> NDArray[np.uint64]:
    try:
        codes = [2**32 if text is None else zlib.crc32(text.encode()) for text in texts]
    except AttributeError as error:
        raise FileFormatError(f"the store is damaged: {error}. Use another copy.") from error
    return np.array(codes, dtype=np.uint64)
