"""Conversions at the door: what callers give as JSON or as a table to upload, and answers as records."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from typing import IO, TYPE_CHECKING, Any, TypeVar

import numpy as np

from tensorucb.campaign._documents import from_json
from tensorucb.checks import check_path, plain, refusal, shown
from tensorucb.errors import FileFormatError, InputError, ServiceError
from tensorucb.moments import duration, duration_text, unix_seconds

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
_ROWS = ".ndjson"
_SHORT = 1 << 16  # bytes of text for which a service starts no process of its own

_KINDS = {
    ".csv": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
}


def as_json(name: str, value: Any) -> Any:
    """A value as JSON has it: arrays become lists, moments seconds, durations and keys of mappings text."""
    value = plain(value)
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(name, entry) for key, entry in value.items()}
    if isinstance(value, timedelta | np.timedelta64):
        return duration_text(duration(name, value, zero=True))
    if isinstance(value, date | np.datetime64):
        return unix_seconds(value)
    if hasattr(value, "tolist"):
        return as_json(name, value.tolist())
    if isinstance(value, list | tuple | set | frozenset | range):
        return [as_json(name, entry) for entry in value]
    raise refusal(name, "something that JSON can hold: numbers, texts, lists, arrays", value)


def record(kind: type[T], document: Any) -> T:
    """A record of the library from the service's JSON."""
    try:
        return from_json(kind, document)
    except FileFormatError as error:
        raise ServiceError(f"the service's {kind.__name__} is not ours: {error} Is its release another one?") from error


@contextmanager
def upload_of(name: str, table: Any, *, short_as_text: bool = False) -> Iterator[tuple[str, IO[bytes], str]]:
    """A table on its way, as httpx takes a file: its name, what is in it, and its media type.

    A file is sent as it is, a frame or columns as Parquet, rows as JSON; ``short_as_text`` says whether a short frame
    is sent as rows too, which a service reads on the spot.
    """
    content: IO[bytes]
    if isinstance(table, Mapping) and not any(_is_column(value) for value in table.values()):
        table = [table]  # one response
    if isinstance(table, str | os.PathLike):
        from tensorucb._delimited import suffix_of

        path = check_path(name, table)
        suffix = suffix_of(path, tuple(_KINDS))
        try:
            content = path.open("rb")
        except OSError as error:
            raise FileFormatError(f"cannot read {shown(str(path), 400)}: {error.strerror}. Check the path.") from error
    elif isinstance(table, list | tuple):
        suffix = _ROWS
        lines = [json.dumps(as_json(f"{name}[{at}]", row)) for at, row in enumerate(table)]
        content = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    else:
        suffix, text = _packed(name, table, short_as_text)
        content = io.BytesIO(text)
    with content:
        yield f"{name}{'.ndjson' if suffix == '.jsonl' else suffix}", content, _KINDS[suffix]


def _is_column(value: Any) -> bool:
    return hasattr(plain(value), "__len__") and not isinstance(value, str)


def _packed(name: str, table: Any, short_as_text: bool) -> tuple[str, bytes]:
    """A frame or columns as a file: its suffix, and what is in it."""
    import polars as pl

    from tensorucb.tables import as_frame

    frame = as_frame(name, table)
    if short_as_text and frame.height and frame.estimated_size() <= _SHORT and _is_plain(frame):
        text = frame.write_ndjson().encode()
        if len(text) <= _SHORT:
            return _ROWS, text
    held = io.BytesIO()
    try:
        frame.write_parquet(held)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot be sent as a table ({shown(str(error))[1:-1]}).", argument=name) from error
    return ".parquet", held.getvalue()


def _is_plain(frame: pl.DataFrame) -> bool:
    """Whether JSON holds all cells as they are: texts, numbers that are finite or missing, and flags."""
    import polars as pl

    return all(
        column.dtype in (pl.String, pl.Boolean, pl.Int64, pl.Int32)
        or (column.dtype == pl.Float64 and not column.is_infinite().any())
        for column in frame.get_columns()
    )
