"""The plain records that cross between a campaign and its store, and how they are stored: as JSON, ids and bytes.

A store keeps rows and bytes; it knows nothing of graphs, policies or learning. Users appear by their row, a number
that changes only when somebody before them is erased. Digests of rows find a bit that flips on the disk.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.checks import unstorable
from tensorucb.errors import FileFormatError, InputError, ShapeError

Status = Literal["open", "closed", "cancelled"]


@dataclass
class CampaignRecord:
    """One campaign: its number in the store, its name, JSON settings and the moment it was created (unix seconds).

    ``events`` and ``rounds`` are how many it has, ``blobs`` the SHA-256 of each blob, as its session knows them.
    """

    campaign: int
    name: str
    settings: dict[str, Any]
    created: float
    events: int = 0
    rounds: int = 0
    blobs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EventRecord:
    """One line of the append-only log; ``seq`` grows by commit order within a campaign."""

    seq: int
    kind: str
    round: int | None
    payload: Mapping[str, Any]
    created: float


@dataclass(frozen=True)
class RoundRecord:
    """One round. ``revision`` is the event number of the last change to what the model learns from it."""

    number: int
    id: str
    status: Status
    opened: float
    deadline: float | None
    closed: float | None
    revision: int
    request_id: str | None
    payload: Mapping[str, Any]


NOBODY = -1
"""In place of a source: somebody acted, and nobody is named who led them to it."""


@dataclass(frozen=True, eq=False)
class Responses:
    """What a round was told, as columns of one length; users are numbers.

    A row tells the outcome of the edge from ``sources`` to ``targets``. Or it tells that the target acted: then the
    source is `NOBODY`, and the outcome 1. Times and amounts are NaN, event ids None, where none was told.
    """

    sources: I64
    targets: I64
    outcomes: F64
    times: F64
    amounts: F64
    event_ids: NDArray[np.object_]

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.sources.size

    def take(self, at: NDArray[Any]) -> Self:
        """Some of the rows, by their places or by a mask."""
        return replace(self, **{column.name: getattr(self, column.name)[at] for column in fields(self)})

    @classmethod
    def joined(cls, parts: Sequence[Responses]) -> Self:
        """The rows of several, one after the other; each has at least the columns of this class."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    def names(self, user: int) -> NDArray[np.bool_]:
        """Which rows name a user."""
        named: NDArray[np.bool_] = (self.sources == user) | (self.targets == user)
        return named

    @cached_property
    def by_edge(self) -> Self:
        """The rows that tell of an edge."""
        return self.take(self.sources != NOBODY)

    @cached_property
    def actions(self) -> Self:
        """The rows that tell who acted."""
        return self.take(self.sources == NOBODY)

    @cached_property
    def contents(self) -> list[Content]:
        """Source, target, outcome and time of each row; None where there is no time, so that equal rows compare so."""
        times = [None if math.isnan(time) else time for time in self.times.tolist()]
        return list(zip(self.sources.tolist(), self.targets.tolist(), self.outcomes.tolist(), times, strict=True))


Content = tuple[int, int, float, float | None]
"""What a response says: source, target, outcome, time."""


@dataclass(frozen=True)
class Preference:
    """What a person said about being contacted: ``answer`` is ``no`` or ``yes``, since a moment (unix seconds).

    ``person`` is a keyed hash of their id, from 0 to 2**63 - 1: nobody can read the id from it.
    """

    person: int
    answer: str
    since: float


@dataclass(frozen=True)
class TokenRecord:
    """Somebody who may use the service: a name, a role, and the SHA-256 of their token, never the token itself."""

    name: str
    role: str
    hash: str
    created: float


# The columns of numbers, and how each is packed.
_NUMBERS = {"sources": "<i8", "targets": "<i8", "outcomes": "<f8", "times": "<f8", "amounts": "<f8"}


def dump_json(payload: Mapping[str, Any]) -> str:
    """JSON text with sorted keys."""
    try:
        return json.dumps(dict(payload), sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"a payload must be plain JSON: {error}. Convert arrays and NumPy numbers first.") from error


def check_texts(texts: Iterable[str | None], what: str) -> None:
    """Refuse text which not every database can hold."""
    try:
        reason = unstorable("".join(text for text in texts if text is not None))
    except TypeError as error:
        raise InputError(f"{what} must be text: {error}.") from error
    if reason:
        raise InputError(f"{what} cannot be stored: {reason}.")


def check_columns(rows: Responses) -> None:
    """Refuse columns of different lengths, event ids that cannot be stored, and the same event id twice."""
    lengths = {len(getattr(rows, column.name)) for column in fields(rows)}
    if len(lengths) > 1:
        raise ShapeError(f"the columns of one batch must have one length; got {sorted(lengths)}.")
    check_texts(rows.event_ids, "an event id")
    event_ids = [text for text in rows.event_ids if text is not None]
    if len(set(event_ids)) != len(event_ids):
        raise InputError("an event id appears twice in one batch; each may be stored once.")


@contextmanager
def damage_named(url: str) -> Iterator[None]:
    """Text in a damaged file need not be UTF-8; the driver raises Python's own error then."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{url} is damaged: it holds text that is none. Use another copy.") from error


def pack(rows: Responses) -> bytes:
    """The numbers of a batch, column after column, compressed; event ids are kept apart.

    Of each column first bytes come first, then second ones: most of these are zeros, which take no space together.
    """
    columns = (np.ascontiguousarray(getattr(rows, name), kind) for name, kind in _NUMBERS.items())
    return zlib.compress(b"".join(column.view(np.uint8).reshape(-1, 8).T.tobytes() for column in columns))


def unpack(data: bytes, event_ids: Mapping[int, str]) -> Responses:
    """The batch that :func:`pack` made; ``event_ids`` are those of some rows, by place."""
    content = zlib.decompress(data)
    length = len(content) // (8 * len(_NUMBERS))
    parts = np.frombuffer(content, np.uint8).reshape(len(_NUMBERS), 8, length)
    columns = {
        name: part.T.copy().view(kind).ravel() for part, (name, kind) in zip(parts, _NUMBERS.items(), strict=True)
    }
    names = np.full(length, None, dtype=object)
    names[list(event_ids)] = list(event_ids.values())
    return Responses(**columns, event_ids=names)


Row = tuple[Any, ...]

RANGE = 2**62
"""Sums of digests are kept below: databases have no unsigned 64-bit integers."""


def digest(row: Iterable[Any]) -> int:
    """The hash of a row, the same whether it is about to be stored or was read; a time must be a float."""
    return zlib.crc32("\x1f".join(map(_field, row)).encode())


def digest_sum(rows: Iterable[Row]) -> int:
    """The sum of the hashes of some rows, in whatever order they come; 0 if there are none."""
    return sum(map(digest, rows)) % RANGE


def with_digest(row: Row) -> Row:
    """A row with its digest behind it."""
    return (*row, digest(row))


def _field(value: Any) -> str:
    """A value with its type, as both databases give it back: -0.0 is 0.0."""
    if isinstance(value, float):
        return f"float {value + 0.0!r}"
    if isinstance(value, bytes):
        return f"bytes {zlib.crc32(value)}"
    return f"int {value}" if isinstance(value, int | np.integer) else f"{type(value).__name__} {value}"


NOTHING = unpack(zlib.compress(b""), {})


def in_order(batches: Sequence[Responses]) -> Responses:
    """The rows of several batches, by source, target and time; what comes first stays first otherwise."""
    rows = Responses.joined([NOTHING, *batches])
    times = np.where(np.isnan(rows.times), -np.inf, rows.times)
    return rows.take(np.lexsort((times, rows.targets, rows.sources)))


def without_user(rows: Responses, gone: int) -> Responses:
    """A batch once a user is erased: without the rows that name them, and with the users behind them moved up."""
    kept = rows.take(~rows.names(gone))
    return replace(kept, sources=kept.sources - (kept.sources > gone), targets=kept.targets - (kept.targets > gone))
