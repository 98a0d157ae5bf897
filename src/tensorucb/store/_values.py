"""What may be stored, checked the same way by every store: JSON, ids, event ids and columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.store._protocol import EdgeResponses, NodeEvents

Known = dict[str, tuple[int, str, int, int | None, float | None, float | None]]
"""What is stored under an event id: (round, "edge" or "node", source or user, target, outcome, time)."""

Number = TypeVar("Number", np.int64, np.float64)

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
        raise FileFormatError(f"the store is damaged: a payload is not JSON ({error}). Use another copy.") from error
    if not isinstance(payload, dict):
        raise FileFormatError("the store is damaged: a payload is not a mapping. Use another copy.")
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


def _check_columns(event_ids: Sequence[str | None], *columns: NDArray[Any]) -> None:
    lengths = {len(event_ids), *(len(column) for column in columns)}
    if len(lengths) > 1:
        raise ShapeError(f"the columns of one batch must have one length; got {sorted(lengths)}.")
    check_texts(event_ids, "an event id")
    given = [text for text in event_ids if text is not None]
    if len(set(given)) != len(given):
        raise InputError("an event id appears twice in one batch; each may be stored once.")


def check_edges(rows: EdgeResponses) -> None:
    """Refuse columns of different lengths and text that cannot be stored."""
    _check_columns(rows.event_ids, rows.sources, rows.targets, rows.outcomes, rows.times)


def check_nodes(rows: NodeEvents) -> None:
    """Refuse columns of different lengths and text that cannot be stored."""
    _check_columns(rows.event_ids, rows.users, rows.times)


@contextmanager
def damage_named(url: str) -> Iterator[None]:
    """Text in a damaged file need not be UTF-8; the driver raises Python's own error then."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{url} is damaged: it holds text that is none. Use another copy.") from error


def as_ids(rows: Sequence[Sequence[Any]]) -> tuple[NDArray[np.int64], list[int | str]]:
    """Keys and ids of users from rows of (key, id as an integer, id as a text)."""
    keys, ids = _column([row[0] for row in rows], np.int64), [row[2] if row[1] is None else row[1] for row in rows]
    if not all(isinstance(value, int | str) for value in ids):
        raise FileFormatError("the store is damaged: a user has no id. Use another copy.")
    return keys, ids


def edge_columns(rows: Sequence[Sequence[Any]]) -> EdgeResponses:
    """Rows of (source, target, outcome, time, event id) as columns."""
    # A comprehension per column: zip(*rows) would make an iterator for each of the rows.
    return EdgeResponses(
        _column([row[0] for row in rows], np.int64),
        _column([row[1] for row in rows], np.int64),
        _column([row[2] for row in rows], np.float64),
        _column([row[3] for row in rows], np.float64),
        [row[4] for row in rows],
    )


def node_columns(rows: Iterable[Sequence[Any]]) -> NodeEvents:
    """Rows of (user, time, event id) as columns, by user, then time, then event id, each with None first."""
    try:
        rows = sorted(rows, key=lambda row: (row[0], _none_first(row[1]), _none_first(row[2])))
    except TypeError as error:
        raise FileFormatError(f"the store is damaged: {error}. Use another copy.") from error
    users, times = _column([row[0] for row in rows], np.int64), _column([row[1] for row in rows], np.float64)
    return NodeEvents(users, times, [row[2] for row in rows])


def _column(values: Sequence[Any], kind: type[Number]) -> NDArray[Number]:
    try:
        return np.array(values, dtype=kind)
    except (TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"the store is damaged: {error}. Use another copy.") from error


def _none_first(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)
