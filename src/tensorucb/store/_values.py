"""What may be stored, and what was read: JSON, ids, event ids and columns, checked before use."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import I64
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.store._protocol import EdgeResponses, NodeEvents

_Number = TypeVar("_Number", np.int64, np.float64)
_INT64 = np.iinfo(np.int64)


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
    """Refuse text which not every database can hold: the NUL character and lone surrogates."""
    try:
        joined = "".join(text for text in texts if text is not None)
        joined.encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{what} must be text that UTF-8 can hold: {error}.") from error
    if "\0" in joined:
        raise InputError(f"{what} must not hold the NUL character.")


def check_id(value: object) -> int | str:
    """A user's id as a plain int or str."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and _INT64.min <= value <= _INT64.max:
        return int(value)
    raise InputError(f"a user's id must be a string or a 64-bit integer; got {value!r} ({type(value).__name__}).")


def check_columns(rows: EdgeResponses | NodeEvents) -> None:
    """Refuse columns of different lengths, event ids that cannot be stored, and the same event id twice."""
    lengths = {len(column) for column in vars(rows).values()}
    if len(lengths) > 1:
        raise ShapeError(f"the columns of one batch must have one length; got {sorted(lengths)}.")
    check_texts(rows.event_ids, "an event id")
    given = [text for text in rows.event_ids if text is not None]
    if len(set(given)) != len(given):
        raise InputError("an event id appears twice in one batch; each may be stored once.")


@contextmanager
def damage_named(url: str) -> Iterator[None]:
    """Text in a damaged file need not be UTF-8; the driver raises Python's own error then."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{url} is damaged: it holds text that is none. Use another copy.") from error


def as_ids(rows: Sequence[Sequence[Any]]) -> tuple[I64, list[int | str]]:
    """Rows and ids of users from lines of (row, id as an integer, id as a text)."""
    numbers, ids = _column([row[0] for row in rows], np.int64), [row[2] if row[1] is None else row[1] for row in rows]
    if not all(isinstance(value, int | str) for value in ids):
        raise damage("a user has no id")
    return numbers, ids


def edge_columns(rows: Sequence[Sequence[Any]]) -> EdgeResponses:
    """Rows of (source, target, outcome, time, event id, …) as columns."""
    # A comprehension per column: zip(*rows) would make an iterator for each of the rows.
    return EdgeResponses(
        _column([row[0] for row in rows], np.int64),
        _column([row[1] for row in rows], np.int64),
        _column([row[2] for row in rows], np.float64),
        _column([row[3] for row in rows], np.float64),
        [row[4] for row in rows],
    )


def in_order(rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Rows of (user, time, event id, …) by user, then time, then event id, each with None first."""
    try:
        return sorted(rows, key=lambda row: (row[0], _none_first(row[1]), _none_first(row[2])))
    except TypeError as error:
        raise damage(error) from error


def node_columns(rows: Sequence[Sequence[Any]]) -> NodeEvents:
    """Rows of (user, time, event id, …) as columns."""
    users, times = _column([row[0] for row in rows], np.int64), _column([row[1] for row in rows], np.float64)
    return NodeEvents(users, times, [row[2] for row in rows])


def seqs_of(rows: Sequence[Sequence[Any]], place: int) -> I64:
    """The numbers of events in a place of each row."""
    return _column([row[place] for row in rows], np.int64)


def _column(values: Sequence[Any], kind: type[_Number]) -> NDArray[_Number]:
    try:
        return np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise damage(error) from error


def _none_first(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def damage(what: object) -> FileFormatError:
    """The error for rows that nobody can have written."""
    return FileFormatError(f"the store is damaged: {what}. Use another copy.")
