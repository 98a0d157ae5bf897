"""Errors as problem details (RFC 9457): what was wrong, what came, what to do, in fields and routes of the API."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import compile_path

from tensorucb.errors import (
    EngineError,
    InputError,
    MemoryLimitError,
    Mention,
    MissingExtraError,
    StateError,
    StoreError,
    TableError,
    TensorUCBError,
    Words,
    argument,
)
from tensorucb.service._unpack import TooLargeError

MEDIA = "application/problem+json"
KEY = "Idempotency-Key"
_KIND = "urn:tensorucb:error:"
_log = logging.getLogger("tensorucb.service")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered; threads that work for it have it too."""

# The first that fits counts. A table came with a request; another file that is damaged is the store's.
_STATUS: tuple[tuple[type[TensorUCBError], int], ...] = (
    (InputError, 422),
    (TooLargeError, 413),
    (TableError, 422),
    (StateError, 409),
    (StoreError, 503),
    (EngineError, 503),
    (MemoryLimitError, 503),
    (MissingExtraError, 501),
    (TensorUCBError, 500),
)

# The routes for calls that messages advise.
_ROUTES = {
    "campaigns": "GET /api/v1/campaigns",
    "figures": "GET …/figures",
    "rounds": "GET …/rounds",
    "users": "GET …/users",
    "ask": "POST …/rounds",
    "create_campaign": "POST /api/v1/campaigns",
    "delete_campaign": "DELETE /api/v1/campaigns/NAME",
    "import_history": "POST …/history",
    "add_users": "POST …/users",
    "add_products": "POST …/products",
    "add_strategies": "POST …/strategies",
    "set_costs": "POST …/strategies/costs",
}
# What is wanted where a pattern would say it.
_WANTED = {
    KEY: "must be 1 to 200 visible ASCII characters without spaces.",
    "column": "must look like FIELD:COLUMN, such as user:buyer.",
}
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
    parts: list[str | dict[str, Any]] | None = Field(
        default=None,
        description="The detail in parts, for programs that call fields and routes differently: texts, and objects "
        "with the kind of a thing (argument, call, constant or python), its name in Python, and a value that it "
        "should have.",
    )


class Refusal(Exception):  # noqa: N818
    """An answer other than success, decided by the service; ``kind`` is the library's error that it stands for."""

    def __init__(
        self, status: int, *detail: str | Mention, kind: str = "InputError", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(*detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.headers = headers


class ApiWords(Words):
    """Arguments as fields and parameters of the API; calls as routes."""

    def argument(self, name: str, value: Any) -> str:
        """A field or a header; with a value, a parameter such as `?max_left_out=1.0` or `?column=user:NAME`.

        Names of columns of several tables are settings of a campaign.
        """
        if name == "request_id":
            return KEY
        if isinstance(value, Mapping) and any(isinstance(word, Mapping) for word in value.values()):
            return f'"{name}": {json.dumps(value)}'
        if isinstance(value, Mapping):
            return "&".join(f"?{name.removesuffix('s')}={key}:{word}" for key, word in value.items())
        return name if value is None else f"?{name}={value}"

    def call(self, name: str, value: Any) -> str:
        """A method and an address."""
        return _ROUTES.get(name) or super().call(name, value)

    def python(self, name: str, value: Any) -> str:
        """What JSON has not."""
        return ""

    def constant(self, name: str, value: Any) -> str:
        """A constant of JSON."""
        return {"None": "null", "True": "true", "False": "false"}[name]


def missing(*detail: str | Mention) -> Refusal:
    """There is nothing at this address."""
    return Refusal(404, *detail, kind="UnknownIdError")


def parts_of(request: Request, error: TensorUCBError) -> list[str | Mention]:
    """A message without what is nobody's business: where the store and received files lie, what its driver said."""
    state = request.app.state
    store, uploads = state.campaigns.store.masked_url, getattr(state, "uploads", None)
    # A server that does not tell an app when it starts has no place for files, and none comes.
    received = "(?!)" if uploads is None else f"{re.escape(str(uploads.folder))}/[^/]+/"
    return [
        re.sub(received, "", part.replace(store, "the store")) if isinstance(part, str) else part
        for part in error.parts()
        if isinstance(part, str) or part.kind != "driver"
    ]


def as_parts(parts: Iterable[str | Mention]) -> list[str | dict[str, Any]]:
    """A message in parts, as JSON."""
    return [part if isinstance(part, str) else part._asdict() for part in parts]


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route says in the OpenAPI document about its refusals; these can happen everywhere."""
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    everywhere = (400, 401, 403, 405, 422, 500, 503)
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in sorted({*everywhere, *statuses})
    }


def leads_to(room: str, *routes: str, **parameters: str) -> dict[str, Any]:
    """Links of an answer in the OpenAPI document: which routes its content names something for."""
    expressions = {name: f"$response.body#/{field}" for name, field in parameters.items()}
    expressions = expressions if "name" in expressions else {"name": "$request.path.name", **expressions}
    return {"links": {route: {"operationId": f"{room}-{route}", "parameters": expressions} for route in routes}}


def install(app: FastAPI) -> None:
    """Answer every error of an app with problem details."""

    async def answer(request: Request, error: Exception) -> Response:
        return problem(request, error)

    for kind in (TensorUCBError, Refusal, RequestValidationError, HTTPException, ClientDisconnect, Exception):
        app.add_exception_handler(kind, answer)


def problem(request: Request, error: Exception) -> Response:
    """The answer to a request that failed, as problem details."""
    refusal = _refusal(request, error)
    content = _details(refusal)
    content.request_id = request_id.get()
    if any(isinstance(part, Mention) for part in refusal.detail):
        content.parts = as_parts(refusal.detail)
    headers = dict(refusal.headers or {})
    return JSONResponse(content.model_dump(exclude_unset=True), refusal.status, headers, media_type=MEDIA)


def no_http(detail: str) -> bytes:
    """Problem details of what is no HTTP request, which no route and no exception handler ever sees."""
    return _details(Refusal(400, detail)).model_dump_json(exclude_unset=True).encode()


def _details(refusal: Refusal) -> Problem:
    return Problem(
        type=f"{_KIND}{refusal.kind}",
        title=HTTPStatus(refusal.status).phrase,
        status=refusal.status,
        detail=ApiWords().said(refusal.detail),
    )


def _refusal(request: Request, error: Exception) -> Refusal:
    """How an error is said to callers; what they must not know is logged."""
    match error:
        case Refusal():
            return error
        case RequestValidationError():
            return Refusal(422, *_first(error))
        case ClientDisconnect():
            return Refusal(400, "the connection ended before the body did; nothing was done.")
        case HTTPException():
            return _of_framework(request, error)
        case TensorUCBError():
            status = next(status for kind, status in _STATUS if isinstance(error, kind))
            if status == 500:
                _log.error("damaged data", exc_info=error)
            if isinstance(error, StoreError):
                _log.warning("%s", error)
            headers = {"Retry-After": "1"} if status == 503 else None
            kind = "FileFormatError" if isinstance(error, TableError) else type(error).__name__
            return Refusal(status, *parts_of(request, error), kind=kind, headers=headers)
        case _:
            _log.error("unforeseen error", exc_info=error)
            unforeseen = "something went wrong that is not your fault; the log has it."
            return Refusal(500, unforeseen, kind="TensorUCBError")


def _of_framework(request: Request, error: HTTPException) -> Refusal:
    """Sentences of our own stay; words of the framework are replaced."""
    details = {
        400: "the body cannot be read; send it again as /api/docs says.",
        404: "there is nothing at this address; /api/docs lists what there is.",
        405: f"{request.method} is not allowed here; /api/docs lists what is.",
    }
    status, said = error.status_code, str(error.detail)
    detail = said if said.endswith(".") else details.get(status, said)
    kind = "UnknownIdError" if status == 404 else "InputError"
    headers = {"Allow": _allowed(request)} if status == 405 else error.headers
    return Refusal(status, detail, kind=kind, headers=headers)


def _allowed(request: Request) -> str:
    """The methods of all routes at this address; the framework knows only those of the first."""
    paths = request.app.openapi()["paths"].items()
    here = [methods for path, methods in paths if compile_path(path)[0].match(request.url.path)]
    allowed = {method.upper() for methods in here for method in methods}
    return ", ".join(sorted(allowed | {"HEAD"} if "GET" in allowed else allowed))


def _first(error: RequestValidationError) -> tuple[Mention, str]:
    """The first thing that was wrong with a request, by its place in it."""
    details = error.errors()
    # One value of several possible kinds gives an error for each kind, with the kind as a part of its place.
    places = [_place(each["loc"]) for each in details]
    kind, said = str(details[0]["type"]), str(details[0]["msg"]).removeprefix("Value error, ").removesuffix(".")
    if kind == "json_invalid":
        return _no_json(details[0]["loc"], said)
    field = places[0].partition(".")[0]
    if kind.startswith("string_") and field in _WANTED:
        return argument(field), f" {_WANTED[field]}"
    more = len(set(places)) - 1
    return argument(places[0]), f": {said[:1].lower()}{said[1:]}." + (f" {more} more like this." if more else "")


def _no_json(loc: tuple[Any, ...], said: str) -> tuple[Mention, str]:
    """Where a text stops being JSON: the framework has a place in the body, pydantic names it in its message."""
    if loc and isinstance(loc[-1], int):
        return argument("the body"), f" is not JSON (character {loc[-1] + 1})."
    return argument(_place(loc)), f" is not JSON ({said.rpartition(' at ')[2]})."


def _place(loc: tuple[Any, ...]) -> str:
    parts = [str(part) for part in loc if part not in ("body", "query", "path", "header")]
    return ".".join(part for at, part in enumerate(parts) if not at or not _TAGS.fullmatch(part)) or "the body"
