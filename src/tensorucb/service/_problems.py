"""Errors as problem details (RFC 9457): what was wrong, what came, what to do.

The words are the library's own, with fields and routes of the API in place of Python's arguments and calls.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from tensorucb.errors import (
    EngineError,
    InputError,
    MemoryLimitError,
    MissingExtraError,
    StateError,
    StoreError,
    TensorUCBError,
)

MEDIA = "application/problem+json"
_KIND = "urn:tensorucb:error:"
UNFORESEEN = "something went wrong that is not your fault; the log has it."
_log = logging.getLogger("tensorucb.service")

# The first that fits counts. Files that came with a request are refused where they are read; another is the store's.
_STATUS: tuple[tuple[type[TensorUCBError], int], ...] = (
    (InputError, 422),
    (StateError, 409),
    (StoreError, 503),
    (EngineError, 503),
    (MemoryLimitError, 503),
    (MissingExtraError, 501),
    (TensorUCBError, 500),
)

_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|(?<!\w)"(?:[^"\\]|\\.)*"(?!\w))""")
_ADVICE = {r"columns=\{'(\w+)': '(\w+)'\}": r"?column=\1:\2", r"unknown='skip'": "?unknown=skip"}
# What Python calls by other names than HTTP, outside of somebody's values.
_WORDS = {
    r"rounds\(\)": "GET …/rounds",
    r"give them to create_campaign, or to ask": "send them as columns cost and group of the table of users",
    r"Give numbers, or create a campaign from files with create_campaign": "Send numbers, or a file",
    r"create_campaign": "POST /api/v1/campaigns",
    r"delete_campaign": "DELETE /api/v1/campaigns/NAME",
    r"import_history": "POST …/history",
    r"add_(users|products|strategies)": r"POST …/\1",
    r"open rounds with ask\(…, holdout=0\.2\)": "open rounds with a holdout such as 0.2",
    r"Write ask\(([^)]*), …, strategies=\[([^]]*)\]\)": r"Send product \1 and strategies [\2]",
    r"Pass it again: load_campaign\(…, policy=…\)": "The service has only those of this package; go on in Python",
    r"Then call tensorucb\.store\.open_store\(…\)\.purge\(\)": "Ask whoever runs the service to purge it",
    r"opened with read_only=True": "opened to be read only",
    r"pass its features": "send its features",
    r"ids not in the graph": "ids not in the network",
    r"the ids of the graph": "the ids of the network",
    r"Convert them( first)?": "Send them so",
    r"settings of (\w+) must": r"policy_settings of \1 must",
    r"None": "null",
    r"True": "true",
    r"False": "false",
    r"([a-z_]+)=(?![\w='\"{\[])": r"\1",
}
_DRIVER = re.compile(r" \((?:SQLite|PostgreSQL) said: .*\)(?=;)")
_TAGS = re.compile(r"int|float|str|bool|nullable|Contact|(list|dict|literal|union|tagged|constrained|function)\b.*")


class Problem(BaseModel):
    """Why a request was refused."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": f"{_KIND}InputError",
                "title": "Unprocessable Content",
                "status": 422,
                "detail": "k must be at least 1; got 0.",
                "request_id": "5f1e8a0c",
            }
        }
    )

    type: str = Field(description="The kind of error; after the last colon the name of the library's error class.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status again.")
    detail: str = Field(description="What was wrong, what came, what to do.")
    request_id: str | None = Field(default=None, description="The request's id, as the logs have it.")
    python: str | None = Field(default=None, description="The detail in words of the Python library, if they differ.")


class Refusal(Exception):  # noqa: N818
    """An answer other than success, decided by the service; ``kind`` is the library's error that it stands for."""

    def __init__(
        self, status: int, detail: str, *, kind: str = "InputError", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.headers = status, detail, kind, headers


def missing(detail: str) -> Refusal:
    """There is nothing at this address."""
    return Refusal(404, detail, kind="UnknownIdError")


def problem(error: Refusal, request_id: str | None) -> Response:
    """The answer to a request that is refused."""
    title, kind = HTTPStatus(error.status).phrase, f"{_KIND}{error.kind}"
    detail = in_words_of_the_api(error.detail)
    content = Problem(type=kind, title=title, status=error.status, detail=detail, request_id=request_id)
    if detail != error.detail:
        content.python = error.detail
    return JSONResponse(
        content.model_dump(exclude_unset=True), error.status, dict(error.headers or {}), media_type=MEDIA
    )


def in_words_of_the_api(message: str) -> str:
    """A message of the library with fields and routes in place of Python's arguments and calls."""
    for pattern, words in _ADVICE.items():
        message = re.sub(pattern, words, message)
    parts = _QUOTED.split(message)
    for at in range(0, len(parts), 2):  # the others stand in quotes: somebody's values
        for pattern, words in _WORDS.items():
            parts[at] = re.sub(rf"(?<![\w.]){pattern}(?!\w)", words, parts[at])
    return "".join(parts)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route says in the OpenAPI document about its refusals; these can happen everywhere."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    everywhere = (400, 401, 403, 405, 422, 429, 500, 503)
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*everywhere, *statuses})
    }


def leads_to(room: str, *routes: str, **parameters: str) -> dict[str, Any]:
    """Links of an answer in the OpenAPI document: which routes its content names something for."""
    given = {name: f"$response.body#/{field}" for name, field in parameters.items()}
    given = given if "name" in given else {"name": "$request.path.name", **given}
    return {"links": {route: {"operationId": f"{room}-{route}", "parameters": given} for route in routes}}


def install(app: FastAPI) -> None:
    """Answer every error of an app with problem details."""

    def answer(request: Request, status: int, detail: str, kind: str, headers: Any = None) -> Response:
        return problem(Refusal(status, detail, kind=kind, headers=headers), getattr(request.state, "request_id", None))

    @app.exception_handler(TensorUCBError)
    async def ours(request: Request, error: TensorUCBError) -> Response:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        if status == 500:
            _log.error("damaged data", exc_info=error)
        # Where the store lies is nobody's business; what its driver said may name files and machines.
        if isinstance(error, StoreError):
            _log.warning("%s", error)
        detail = _DRIVER.sub("", str(error)).replace(request.app.state.campaigns.store.masked_url, "the store")
        return answer(request, status, detail, type(error).__name__, {"Retry-After": "1"} if status == 503 else None)

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return answer(request, error.status, error.detail, error.kind, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(request, 422, _first(error), "InputError")

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        details = {
            400: "the body cannot be read; send it again as /api/docs says.",
            404: "there is nothing at this address; /api/docs lists what there is.",
            405: f"{request.method} is not allowed here; /api/docs lists what is.",
        }
        # Sentences of our own stay; words of the framework are replaced.
        found = "" if str(error.detail).endswith(".") else details.get(error.status_code, "")
        kind, headers = "UnknownIdError" if error.status_code == 404 else "InputError", error.headers
        if error.status_code == 405:
            headers = {"Allow": _allowed(request)}
        return answer(request, error.status_code, found or str(error.detail), kind, headers)

    @app.exception_handler(Exception)
    async def unforeseen(request: Request, error: Exception) -> Response:
        _log.error("unforeseen error", exc_info=error)
        return answer(request, 500, UNFORESEEN, "TensorUCBError")


def _allowed(request: Request) -> str:
    """The methods of all routes at this address; the framework knows only those of the first."""
    paths = request.app.openapi()["paths"].items()
    here = [methods for path, methods in paths if compile_path(path)[0].match(request.url.path)]
    allowed = {method.upper() for methods in here for method in methods}
    return ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))


def _first(error: RequestValidationError) -> str:
    """The first thing that was wrong with a request, by its place in it."""
    found = error.errors()
    # One value of several possible kinds gives an error for each kind, with the kind as a part of its place.
    places = [_place(each["loc"]) for each in found]
    said = str(found[0]["msg"]).removeprefix("Value error, ").removesuffix(".")
    more = len(set(places)) - 1
    return f"{places[0]}: {said[:1].lower()}{said[1:]}." + (f" {more} more like this." if more else "")


def _place(loc: tuple[Any, ...]) -> str:
    parts = [str(part) for part in loc if part not in ("body", "query", "path", "header")]
    return ".".join(part for at, part in enumerate(parts) if not at or not _TAGS.fullmatch(part)) or "the body"
