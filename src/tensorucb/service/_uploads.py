"""Rows that come with a request: streamed to a temporary file, looked into by a process of its own, and read there.

Whatever a caller sends, it is never taken for the path of a file: JSON must hold rows, and a file is one of ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Depends, Query, Request
from starlette.datastructures import FormData, UploadFile

from tensorucb.errors import StateError, TableError
from tensorucb.service._problems import Refusal
from tensorucb.service._unpack import MEMORY, MOST_ROWS, PATIENCE, SECONDS, SMALL, TooLargeError, body_rows, unpack

FORMS = {
    "application/json": ".json",
    "application/x-ndjson": ".ndjson",
    "text/csv": ".csv",
    "application/vnd.apache.parquet": ".parquet",
}
"""What a body of rows may be, and the ending of such a file."""

_AT_ONCE = 2  # processes that look into files; each may take a gigabyte
_MOST_WAITING = 16
_FOLDER = "tensorucb-uploads-"
_PART = 1 << 20

_FILE = {"type": "string", "format": "binary"}
_ROWS: dict[str, Any] = {
    "application/json": {
        "schema": {"type": "array", "items": {"type": "object", "additionalProperties": True}, "maxItems": MOST_ROWS},
        "example": [{"source": "ann", "target": "bob", "outcome": 1}],
    },
    "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"user": "bob", "time": 1790000000}\n'},
    "text/csv": {"schema": {"type": "string"}, "example": "source,target,outcome\nann,bob,1\n"},
    "application/vnd.apache.parquet": {"schema": _FILE},
}


def described(*forms: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a route says in the OpenAPI document about the rows that it takes."""
    content = {form: _ROWS[form] for form in forms} | (more or {})
    return {"requestBody": {"required": True, "content": content}}


def form_described(tables: tuple[str, ...], *required: str, settings: bool = False) -> dict[str, Any]:
    """The same about a form with files, and ``settings`` in JSON."""
    fields: dict[str, Any] = dict.fromkeys(tables, _FILE)
    form: dict[str, Any] = {}
    if settings:
        fields["settings"] = {"type": "string"}
        form["encoding"] = {"settings": {"contentType": "application/json"}}
    schema = {"type": "object", "required": list(required), "additionalProperties": False, "properties": fields}
    return {"multipart/form-data": {"schema": schema, **form}}


def form_of(request: Request) -> str:
    """The content type of a request, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


class Uploads:
    """Received files of a running service, in a folder of its own, and the processes that look into them.

    The folder is locked as long as the service runs. One without a lock was left by a service that was killed, and is
    removed when the next one starts, since it may hold ids of users.
    """

    def __init__(self) -> None:
        if sys.platform == "win32":
            raise StateError("the service bounds what an upload may take by setrlimit, which this system has not.")
        for left in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
            _remove_unless_locked(left)
        self._looking = anyio.CapacityLimiter(_AT_ONCE)
        self.folder, self._lock = _locked_folder()

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)

    async def unpacked(self, path: Path) -> Path:
        """A file that the service may read; what is wrong or too large is refused."""
        if path.suffix != ".parquet" and path.stat().st_size <= SMALL:
            return await anyio.to_thread.run_sync(unpack, path)
        if self._looking.statistics().tasks_waiting >= _MOST_WAITING:
            raise Refusal(503, "too many files come at once; try again in 5 s.", headers={"Retry-After": "5"})
        return await anyio.to_thread.run_sync(_unpack_apart, path, limiter=self._looking)


def _locked_folder() -> tuple[Path, int]:
    import fcntl

    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder, lock
        os.close(lock)  # another service that starts just now took it for one that was left


def _remove_unless_locked(folder: Path) -> None:
    import fcntl

    with suppress(OSError):  # of another account, or gone by now
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
        finally:
            os.close(lock)


def _unpack_apart(path: Path) -> Path:
    """The same as `unpack`, in a process of its own, whose memory and time are bounded."""
    # It gets none of our secrets, looks for modules where we do, and returns memory at once rather than keeping it.
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "POLARS_MAX_THREADS": "1",
        "_RJEM_MALLOC_CONF": "narenas:1,retain:false",
    }
    command = [sys.executable, "-P", "-m", "tensorucb.service._unpack", str(path)]
    with suppress(subprocess.TimeoutExpired, ValueError):
        ended = subprocess.run(
            command,
            env=environment,
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
        answer = json.loads(ended.stdout)
        if "file" in answer:
            return path.with_name(answer["file"])
        if "refused" in answer:
            raise TableError(answer["refused"])
        raise TooLargeError(answer["too_large"])
    raise TooLargeError(
        f"reading {path.name} takes more than {MEMORY // 2**20:,} MiB of memory or {SECONDS} s, or it is damaged. "
        "Send it in parts, or as CSV."
    )


async def received_rows(
    request: Request,
    strict: Annotated[bool, Query(description="Refuse all if a single row cannot be used.")] = False,
    max_left_out: Annotated[
        float, Query(ge=0, le=1, description="Rows that cannot be used are left out; above this share, refuse all.")
    ] = 0.5,
    columns: Annotated[
        list[Annotated[str, Query(pattern=".:.", max_length=1000)]],
        Query(alias="column", description="Which column is which field, such as `user:buyer`.", max_length=20),
    ] = [],  # noqa: B006
) -> AsyncIterator[dict[str, Any]]:
    """Rows, and how the query says to read them: arguments of `Campaign.tell`, which reads short JSON itself."""
    names = dict(text.split(":", 1) for text in columns)
    options = {"strict": strict, "max_left_out": max_left_out, "columns": names or None}
    form, length = form_of(request), request.headers.get("content-length", "")
    if form in ("application/json", "application/x-ndjson") and length.isdecimal() and int(length) <= SMALL:
        rows = body_rows(await request.body(), "responses", lines=form == "application/x-ndjson")
        yield {"responses": rows, **options}
        return
    async with received_file(request) as path:
        yield {"responses": path, **options}


Rows = Annotated[dict[str, Any], Depends(received_rows)]


@asynccontextmanager
async def received_file(request: Request) -> AsyncIterator[Path]:
    """The rows of a request as a file of ours that was looked into; it is gone after the block."""
    form = form_of(request)
    if form not in FORMS:
        raise Refusal(415, f"rows come as {', '.join(FORMS)}, as the header Content-Type says; got {form[:80]!r}.")
    uploads: Uploads = request.app.state.uploads
    with tempfile.TemporaryDirectory(dir=uploads.folder) as folder:
        path = Path(folder) / f"body{FORMS[form]}"
        with path.open("wb") as file:
            async for part in request.stream():
                file.write(part)
        yield await uploads.unpacked(path)


@asynccontextmanager
async def received_form(
    request: Request, tables: tuple[str, ...], needed: str
) -> AsyncIterator[tuple[FormData, dict[str, Path]]]:
    """A form, and its files by table, under names of our own; they are gone after the block."""
    uploads: Uploads = request.app.state.uploads
    async with request.form(max_files=len(tables), max_fields=1, max_part_size=2**20) as form:
        with tempfile.TemporaryDirectory(dir=uploads.folder) as folder:
            files = {table: await _saved(form, table, Path(folder)) for table in tables if form.get(table)}
            if needed not in files:
                raise Refusal(422, f"the form needs a file {needed}.")
            yield form, {table: await uploads.unpacked(path) for table, path in files.items()}


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
