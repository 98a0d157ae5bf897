"""Rows in JSON: a list of objects, or an object on each line, as files, bodies of requests and the standard input have.

Each row may have other fields. A field with values of several kinds is text, as in a CSV file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from tensorucb._delimited import file_errors
from tensorucb.checks import shown, shown_path
from tensorucb.errors import TableError
from tensorucb.memory import check_memory

_BATCH = 1_000
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonRows:
    """The text of rows in JSON, by ``lines`` or as a list, which is no file.

    ``origin`` is what errors call it. ``check`` may refuse so many rows and columns before they are made. ``written``
    says whether somebody wrote the ids as text, where a number is not told from how it is written.
    """

    content: bytes
    origin: str
    lines: bool = True
    check: Callable[[int, int], None] = lambda rows, columns: None
    written: bool = False


def rows_of_file(path: Path) -> JsonRows:
    """The rows of a file of lines, whose ids somebody wrote."""
    with file_errors(path, path.suffix.lower()):
        check_memory(f"reading {shown_path(path)}", path.stat().st_size * 8.0)
        return JsonRows(path.read_bytes(), path.name, written=True)


def json_frame(source: JsonRows) -> pl.DataFrame:
    """The rows as a table."""
    origin = source.origin
    columns: dict[str, list[Any]] = {}
    n_rows = 0
    for batch in _batches(source.content, origin, source.lines):
        names = dict.fromkeys(chain(columns, *batch))
        source.check(n_rows + len(batch), len(names))
        for name in names:
            column = columns.setdefault(name, [None] * n_rows)
            column += [row.get(name) for row in batch]
        n_rows += len(batch)
    try:
        return pl.DataFrame({name: _column(values) for name, values in columns.items()})
    except UnicodeEncodeError as error:
        raise TableError(f"{origin} holds {shown(error.object, 40)}, which is no valid Unicode.") from None


def _batches(content: bytes, origin: str, lines: bool) -> Iterator[list[dict[str, Any]]]:
    """The objects, some at a time: those of all lines at once would take many times their text."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableError(f"{origin} is no text in UTF-8; save or send it so.") from None
    whole: list[Any] = [line.strip() for line in text.split("\n")] if lines else _listed(text, origin)
    for start in range(0, len(whole), _BATCH):
        part = whole[start : start + _BATCH]
        yield [_of_line(line, at, origin) for at, line in enumerate(part, start + 1) if line] if lines else part


def _of_line(line: str, number: int, origin: str) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        row, end = _DECODER.raw_decode(line)
        if end == len(line) and isinstance(row, dict):
            return row
    raise TableError(f"line {number} of {origin} is no JSON object; each line is one row.")


def _listed(text: str, origin: str) -> list[Any]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{origin} is no JSON ({str(error)[:100]}).") from None
    if not isinstance(rows, list):
        raise TableError(f'{origin} must be a list of rows: [{{"source": …, "target": …, "outcome": …}}, …].')
    strange = next((number for number, row in enumerate(rows, 1) if not isinstance(row, dict)), None)
    if strange is not None:
        raise TableError(f'row {strange} of {origin} is no JSON object such as {{"user": …, "time": …}}.')
    return rows


def _column(values: list[Any]) -> pl.Series:
    """Numbers or texts as they are; values of several kinds all as text."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds <= {str}:
        return pl.Series(values, dtype=pl.String)
    if kinds == {bool}:
        return pl.Series(values, dtype=pl.Boolean)
    if kinds <= {bool, int, float}:
        with suppress(OverflowError, TypeError):  # a whole number of more than 64 bits
            return pl.Series(values, dtype=pl.Float64 if float in kinds else pl.Int64)
    return pl.Series([value if value is None or isinstance(value, str) else json.dumps(value) for value in values])
