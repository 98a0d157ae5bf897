"""Conversions at the door: what callers give as JSON or as a table to upload, and answers as records."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from typing import IO, Any, TypeVar

import numpy as np

from tensorucb.campaign._documents import from_json
from tensorucb.checks import check_path, plain, refusal, shown
from tensorucb.errors import FileFormatError, InputError, ServiceError
from tensorucb.moments import duration, duration_text, unix_seconds

T = TypeVar("T")

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
def upload_of(name: str, table: Any) -> Iterator[tuple[str, IO[bytes], str]]:
    """A table on its way, as httpx takes a file: its name, what is in it, and its media type.

    A file is sent as it is, a frame or columns as Parquet, rows as JSON.
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
        suffix = ".ndjson"
        lines = [json.dumps(as_json(f"{name}[{at}]", row)) for at, row in enumerate(table)]
        content = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    else:
        suffix = ".parquet"
        content = io.BytesIO(_parquet(name, table))
    with content:
        yield f"{name}{'.ndjson' if suffix == '.jsonl' else suffix}", content, _KINDS[suffix]


def _is_column(value: Any) -> bool:
    return hasattr(plain(value), "__len__") and not isinstance(value, str)


def _parquet(name: str, table: Any) -> bytes:
    import polars as pl

    from tensorucb.tables import as_frame

    held = io.BytesIO()
    try:
        as_frame(name, table).write_parquet(held)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot be sent as a table ({shown(str(error))[1:-1]}).", argument=name) from error
    return held.getvalue()
