"""Conversions at the door: what callers give as JSON or as a table to upload, and answers as records."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
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


@dataclass(frozen=True)
class Upload:
    """A table on its way: its media type, and a file or bytes."""

    kind: str
    content: Path | bytes

    @property
    def suffix(self) -> str:
        """The ending of a file of this kind."""
        return next(suffix for suffix, kind in _KINDS.items() if kind == self.kind)

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The content from its beginning."""
        try:
            file = io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")
        except OSError as error:
            raise FileFormatError(
                f"cannot read {shown(str(self.content), 400)}: {error.strerror}. Check the path."
            ) from error
        with file:
            yield file


def as_upload(name: str, table: Any) -> Upload:
    """A file as it is, a frame as Parquet, rows and columns as JSON."""
    if isinstance(table, str | os.PathLike):
        from tensorucb._delimited import suffix_of

        path = check_path(name, table)
        return Upload(_KINDS[suffix_of(path, tuple(_KINDS))], path)
    if isinstance(table, Mapping) and not any(_is_column(value) for value in table.values()):
        table = [table]  # one response
    if isinstance(table, list | tuple):
        lines = [json.dumps(as_json(f"{name}[{at}]", row)) for at, row in enumerate(table)]
        return Upload(_KINDS[".ndjson"], "".join(f"{line}\n" for line in lines).encode())
    return _parquet(name, table)


def _is_column(value: Any) -> bool:
    return hasattr(plain(value), "__len__") and not isinstance(value, str)


def _parquet(name: str, table: Any) -> Upload:
    import polars as pl

    from tensorucb.tables import as_frame

    held = io.BytesIO()
    try:
        as_frame(name, table).write_parquet(held)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InputError(f"cannot be sent as a table ({shown(str(error))[1:-1]}).", argument=name) from error
    return Upload(_KINDS[".parquet"], held.getvalue())
