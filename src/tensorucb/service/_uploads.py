"""Rows that come with a request: streamed to a temporary file, bounded, and read there.

Whatever a caller sends, it is never taken for the path of a file: JSON must hold rows, and a file is one of ours.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.datastructures import FormData, UploadFile

from tensorucb.errors import FileFormatError
from tensorucb.service._parquet import check_parquet
from tensorucb.service._problems import Refusal

FORMS = {
    "application/json": ".json",
    "application/x-ndjson": ".ndjson",
    "text/csv": ".csv",
    "application/vnd.apache.parquet": ".parquet",
}
"""What a body of rows may be, and the ending of such a file."""

MOST_ROWS = 2_000_000
_HEADER = 1 << 16  # bytes of the first line of a text file
_PART = 1 << 20

_ROW = {"type": "object", "additionalProperties": True}
_EXAMPLES: dict[str, Any] = {
    "application/json": [{"source": "ann", "target": "bob", "outcome": 1}],
    "application/x-ndjson": '{"user": "bob", "time": 1790000000}\n',
    "text/csv": "source,target,outcome\nann,bob,1\n",
}


def described(*forms: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a route says in the OpenAPI document about the rows that it takes."""
    rows: dict[str, Any] = {"type": "array", "items": _ROW, "maxItems": MOST_ROWS}
    kinds = {"application/json": rows, "application/vnd.apache.parquet": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = {form: {"schema": kinds.get(form, {"type": "string"})} for form in forms}
    for form in _EXAMPLES.keys() & content.keys():
        content[form]["example"] = _EXAMPLES[form]
    return {"requestBody": {"required": True, "content": {**content, **(more or {})}}}


def form_described(tables: tuple[str, ...], required: list[str], **fields: Any) -> dict[str, Any]:
    """The same about a form with files."""
    files = {table: {"type": "string", "format": "binary"} for table in tables}
    schema = {"type": "object", "required": required, "additionalProperties": False, "properties": {**files, **fields}}
    return {"multipart/form-data": {"schema": schema}}


def form_of(request: Request) -> str:
    """The content type of a request, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[Path]:
    """The body of a request as a file whose ending tells its form; it is gone after the block."""
    form = form_of(request)
    if form not in FORMS:
        raise Refusal(415, f"rows come as {', '.join(FORMS)}, as the header Content-Type says; got {form[:80]!r}.")
    with _reading() as folder:
        path = folder / f"body{FORMS[form]}"
        with path.open("wb") as file:
            async for part in request.stream():
                file.write(part)
        yield path


@asynccontextmanager
async def received_form(
    request: Request, tables: tuple[str, ...], needed: str
) -> AsyncIterator[tuple[FormData, dict[str, Path]]]:
    """A form, and its files by table, under names of our own; they are gone after the block."""
    async with request.form(max_files=len(tables), max_fields=1, max_part_size=2**20) as form:
        with _reading() as folder:
            files = {table: await _saved(form, table, folder) for table in tables if form.get(table)}
            if needed not in files:
                raise Refusal(422, f"the form needs a file {needed}.")
            yield form, files


def rows_of(path: Path) -> Any:
    """The rows of a file that was received, as `Campaign.tell` takes them: mappings, or the file itself."""
    check_size(path)
    if path.suffix == ".json":
        return _json(path)
    return list(_lines(path)) if path.suffix == ".ndjson" else path


def _json(path: Path) -> Any:
    try:
        rows = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise Refusal(422, f"the body is no JSON ({str(error)[:100]}).") from None
    if not isinstance(rows, list):
        raise Refusal(422, 'the body must be a list of rows: [{"source": …, "target": …, "outcome": …}, …].')
    if len(rows) > MOST_ROWS:
        raise _too_many()
    return rows


def _lines(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if line.strip():
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise Refusal(422, f"line {number + 1} of the body is no JSON object; each line is one row.")
                yield row


def check_size(path: Path) -> None:
    """Refuse a file that would need much more memory than it has bytes."""
    if path.suffix == ".parquet":
        check_parquet(path, MOST_ROWS)
        return
    with path.open("rb") as file:
        if path.suffix == ".csv" and len(file.readline(_HEADER)) == _HEADER:
            raise Refusal(413, f"the first line, which names the columns, may have at most {_HEADER:,} bytes.")
        file.seek(0)
        lines = 0
        while part := file.read(_PART):
            lines += part.count(b"\n")
        if lines > MOST_ROWS + 1:
            raise _too_many()


def _too_many() -> Refusal:
    return Refusal(413, f"a body may have at most {MOST_ROWS:,} rows; send it in parts.")


@contextmanager
def _reading() -> Iterator[Path]:
    """A folder for received files; what is wrong with one is refused without the name of the folder where it lies."""
    with tempfile.TemporaryDirectory(prefix="tensorucb-") as name:
        folder = Path(name)
        try:
            yield folder
        except FileFormatError as error:
            text, place = str(error), f"{folder}/"
            if place not in text and not text.startswith(tuple(path.name for path in folder.iterdir())):
                raise  # it is the store that is damaged
            raise Refusal(422, text.replace(place, ""), kind="FileFormatError") from None


async def _saved(form: FormData, table: str, folder: Path) -> Path:
    upload = form[table]
    if not isinstance(upload, UploadFile):
        raise Refusal(422, f"{table} must be a file, sent as a part of the form with a file name.")
    suffix = Path(upload.filename or "").suffix.lower()
    if suffix not in (".csv", ".ndjson", ".parquet"):
        raise Refusal(422, f"{table} must be a file called .csv, .ndjson or .parquet; got {upload.filename!r:.80}.")
    path = folder / f"{table}{suffix}"
    with path.open("wb") as file:
        while part := await upload.read(_PART):
            file.write(part)
    return path
