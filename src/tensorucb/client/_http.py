"""Requests that may be sent again, what travels with them, and answers as records or as the library's errors.

A new round or campaign is found by its key; all other calls may come twice.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import numpy as np

from tensorucb import errors
from tensorucb.campaign._documents import from_json
from tensorucb.checks import check_number, check_path, check_text, plain, refusal, shown
from tensorucb.errors import (
    FileFormatError,
    InputError,
    Mention,
    MissingExtraError,
    ServiceError,
    TensorUCBError,
    Words,
)
from tensorucb.moments import duration, duration_text, unix_seconds

if TYPE_CHECKING:
    import httpx
    import polars as pl

T = TypeVar("T")

_ATTEMPTS = 8  # with the waits between them, for about 20 s
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_BUSY = (429, 503)
_OURS = (404, 409, 422, 503)  # with these the library itself refuses; others are about the request or the service
_PAGE = 500  # entries of a list at a time

_ROWS = ".ndjson"
_SHORT = 1 << 16  # bytes of text for which a service starts no process of its own

_KINDS = {
    ".csv": "text/csv",
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
}


class Connection:
    """Sends requests to one service, again where that is safe, and raises the library's errors.

    A path is given in parts, from the API's address on, or from where `below` has gone.
    """

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        httpx = _httpx()
        check_text("url", url, longest=2000)
        if not re.match("https?://[^/]", url):
            raise refusal("url", "an address such as http://127.0.0.1:8000", url)
        headers = {} if token is None else {"Authorization": f"Bearer {check_text('token', token)}"}
        try:
            self._http = httpx.Client(
                base_url=f"{url.rstrip('/')}/api/v1/",
                headers=headers,
                timeout=check_number("timeout", timeout, strict=True),
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise refusal("url", "an address such as http://127.0.0.1:8000", url) from error
        self.url = url
        self._root: tuple[Any, ...] = ()

    def below(self, *path: Any) -> Self:
        """The same connection, from this path on."""
        connection = copy.copy(self)
        connection._root = (*self._root, *path)
        return connection

    def get(self, *path: Any, **params: Any) -> Any:
        """The JSON document at a path."""
        return self.call("GET", *path, params=params)

    def pages(self, *path: Any, **params: Any) -> Iterator[Any]:
        """The items of a list, page after page."""
        after = None
        while True:
            page = self.get(*path, limit=_PAGE, after=after, **params)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def post(self, document: Any, *path: Any, key: str | None = None) -> Any:
        """The answer to a writing call with a JSON body."""
        return self.call("POST", *path, key=key, **({} if document is None else {"json": document}))

    def call(self, method: str, *path: Any, **request: Any) -> Any:
        """The JSON document that answers a request; ``request`` is as in `send`."""
        answer = self.send(method, *path, **request)
        try:
            return answer.json()
        except ValueError:
            raise _no_service(answer, "something else than JSON") from None

    def send(self, method: str, *path: Any, key: str | None = None, **request: Any) -> httpx.Response:
        """The answer to a request with this ``key`` as its id; ``request`` is what httpx takes."""
        httpx = _httpx()
        address = "/".join(quote(str(part), safe="") for part in (*self._root, *path))
        params = request.pop("params", {})
        request["params"] = {name: value for name, value in params.items() if value is not None}
        if key is not None:
            request["headers"] = {"Idempotency-Key": key}
        for attempt in range(_ATTEMPTS):
            wait = random.uniform(0.5, 1.0) * _FIRST_WAIT * 2.0**attempt
            last = attempt == _ATTEMPTS - 1
            if "content" in request:
                request["content"].seek(0)  # of the files of a form httpx does so
            try:
                answer = self._http.request(method, address, **request)
            except httpx.TransportError as error:
                if last:
                    reason = shown(str(error) or type(error).__name__)[1:-1]
                    raise ServiceError(f"no answer from {self.url} ({reason}). Is the service running?") from error
                time.sleep(wait)
                continue
            if answer.status_code not in _BUSY or last:
                return _checked(answer, gone=method == "DELETE" and attempt > 0)
            asked = answer.headers.get("Retry-After", "")
            time.sleep(min(float(asked), _LONGEST_WAIT) if asked.isdecimal() else wait)
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("the client needs httpx. Install it with: pip install 'tensorucb[client]'") from error
    return httpx


def _checked(answer: httpx.Response, gone: bool) -> httpx.Response:
    """The answer, if it is a good one; otherwise the error that it tells of.

    What is deleted may be ``gone`` already, by an attempt whose answer was lost.
    """
    if answer.is_success or (gone and answer.status_code == 404):
        return answer
    try:
        problem = answer.json()
        text, kind = str(problem["detail"]), str(problem["type"]).rpartition("/")[2].rpartition(":")[2]
        parts = [_part(part) for part in problem.get("parts", [text])]
    except (ValueError, KeyError, TypeError):
        raise _no_service(answer, f"{answer.status_code} without a reason") from None
    error_class = getattr(errors, kind, None) if answer.status_code in _OURS else None
    if isinstance(error_class, type) and issubclass(error_class, TensorUCBError):
        raise error_class(*parts)
    raise ServiceError(Words().said(parts), status=answer.status_code, request_id=problem.get("request_id"))


def _no_service(answer: httpx.Response, what: str) -> ServiceError:
    return ServiceError(f"{answer.url.host} answered {what}. Is that address a tensorucb service?")


def _part(part: Any) -> str | Mention:
    """A part of a message, from the JSON of the service; of a kind that this release does not know, its name."""
    if not isinstance(part, dict):
        return str(part)
    kind, name = str(part.get("kind")), str(part["name"])
    if (kind, name) == ("call", "users"):
        return "users()"  # a campaign of a service has no graph
    return Mention(kind, name, part.get("value")) if kind in ("argument", "call", "constant") else name


# -- what is sent, and what comes --


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
