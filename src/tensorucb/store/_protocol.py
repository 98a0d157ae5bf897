"""The plain records that cross between a campaign and its store, and how they are stored: as JSON, ids and bytes.

A store keeps rows and bytes; it knows nothing of graphs, policies or learning. Users appear by their row, a number
that changes only when somebody before them is erased.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.checks import unstorable
from tensorucb.errors import FileFormatError, InputError, ShapeError

Status = Literal["open", "closed", "cancelled"]


@dataclass(frozen=True)
class CampaignRecord:
    """One campaign: its number in the store, its name, JSON settings and the moment it was created (unix seconds)."""

    campaign: int
    name: str
    settings: Mapping[str, Any]
    created: float


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


@dataclass(frozen=True)
class EdgeResponses:
    """Outcomes by edge, as columns of one length; NaN or None where no time, event id or amount was given."""

    sources: I64
    targets: I64
    outcomes: F64
    times: F64
    event_ids: Sequence[str | None]
    amounts: F64


@dataclass(frozen=True)
class NodeEvents:
    """Who acted when, and what it was worth, as columns of one length."""

    users: I64
    times: F64
    event_ids: Sequence[str | None]
    amounts: F64


Responses = EdgeResponses | NodeEvents
EventContent = tuple[int, str, int, int | None, float | None, float | None]
"""A response with an event id: round, "edge" or "node", source or user, target, outcome, time."""


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


R = TypeVar("R", bound=Responses)
_USER = "<i8"
# The columns of numbers, and how each is packed: rows of users as integers, all else as floats.
_NUMBERS: dict[type, dict[str, str]] = {
    kind: {
        column.name: _USER if column.type == "I64" else "<f8" for column in fields(kind) if column.name != "event_ids"
    }
    for kind in (EdgeResponses, NodeEvents)
}


def dump_json(payload: Mapping[str, Any]) -> str:
    """JSON text with sorted keys."""
    try:
        return json.dumps(dict(payload), sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InputError(f"a payload must be plain JSON: {error}. Convert arrays and NumPy numbers first.") from error


def load_json(text: str) -> dict[str, Any]:
    """The mapping that :func:`dump_json` wrote."""
    try:
        payload = json.loads(text)
    except (TypeError, ValueError) as error:
        raise damage(f"a payload is not JSON ({error})") from error
    if not isinstance(payload, dict):
        raise damage("a payload is not a mapping")
    return payload


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
    lengths = {len(column) for column in vars(rows).values()}
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
    columns = (np.ascontiguousarray(getattr(rows, name), kind) for name, kind in _NUMBERS[type(rows)].items())
    return zlib.compress(b"".join(column.view(np.uint8).reshape(-1, 8).T.tobytes() for column in columns))


def unpack(kind: type[R], data: bytes, event_ids: Mapping[int, str]) -> R:
    """The batch that :func:`pack` made; ``event_ids`` are those of some rows, by place."""
    numbers = _NUMBERS[kind]
    content = zlib.decompress(data)
    length = len(content) // (8 * len(numbers))
    parts = np.frombuffer(content, np.uint8).reshape(len(numbers), 8, length)
    columns = {
        name: part.T.copy().view(dtype).ravel() for part, (name, dtype) in zip(parts, numbers.items(), strict=True)
    }
    return kind(**columns, event_ids=[event_ids.get(place) for place in range(length)])


def joined(kind: type[R], batches: Sequence[R]) -> R:
    """The rows of several batches, by user, then by the next column; what comes first stays first otherwise."""
    columns = {
        name: np.concatenate([np.empty(0, dtype), *(getattr(batch, name) for batch in batches)])
        for name, dtype in _NUMBERS[kind].items()
    }
    event_ids = [name for batch in batches for name in batch.event_ids]
    first, second, *_ = columns.values()
    order = np.lexsort((np.where(np.isnan(second), -np.inf, second), first))
    return kind(
        **{name: column[order] for name, column in columns.items()}, event_ids=[event_ids[at] for at in order.tolist()]
    )


def without_user(rows: R, gone: int) -> R:
    """A batch once a user is erased: without the rows that name them, and with the users behind them moved up."""
    users = [name for name, dtype in _NUMBERS[type(rows)].items() if dtype == _USER]
    kept = np.all([getattr(rows, name) != gone for name in users], axis=0)
    columns = {name: getattr(rows, name)[kept] for name in _NUMBERS[type(rows)]}
    columns |= {name: columns[name] - (columns[name] > gone) for name in users}
    event_ids = [name for name, stays in zip(rows.event_ids, kept.tolist(), strict=True) if stays]
    return replace(rows, **columns, event_ids=event_ids)


def with_amounts(rows: R, amounts: Mapping[Any, float]) -> R:
    """A batch with the amounts of rows that have none, by their first two columns."""
    first, second, *_ = (getattr(rows, name).tolist() for name in _NUMBERS[type(rows)])
    filled = [
        amounts.get(key, math.nan) if math.isnan(amount) else amount
        for key, amount in zip(zip(first, second, strict=True), rows.amounts.tolist(), strict=True)
    ]
    return replace(rows, amounts=np.array(filled))


def damage(what: object) -> FileFormatError:
    """The error for rows that nobody can have written."""
    return FileFormatError(f"the store is damaged: {what}. Use another copy.")
