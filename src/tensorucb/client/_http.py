"""Requests that may be sent again: a new round or campaign is found by its key, all other calls may come twice."""

from __future__ import annotations

import copy
import random
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from tensorucb import errors
from tensorucb.checks import check_number, check_text, refusal, shown
from tensorucb.errors import Mention, MissingExtraError, ServiceError, TensorUCBError, Words

if TYPE_CHECKING:
    import httpx

_ATTEMPTS = 8  # with the waits between them, for about 20 s
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_BUSY = (429, 503)
_OURS = (404, 409, 422, 503)  # with these the library itself refuses; others are about the request or the service
_PAGE = 500  # entries of a list at a time


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
        return self.send("GET", *path, params=params).json()

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
        return self.send("POST", *path, key=key, **({} if document is None else {"json": document})).json()

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
        raise ServiceError(
            f"{answer.url.host} answered {answer.status_code} without a reason. Is that address a tensorucb service?"
        ) from None
    error_class = getattr(errors, kind, None) if answer.status_code in _OURS else None
    if isinstance(error_class, type) and issubclass(error_class, TensorUCBError):
        raise error_class(*parts)
    raise ServiceError(Words().said(parts), status=answer.status_code, request_id=problem.get("request_id"))


def _part(part: Any) -> str | Mention:
    """A part of a message, from the JSON of the service; of a kind that this release does not know, its name."""
    if not isinstance(part, dict):
        return str(part)
    kind, name = str(part.get("kind")), str(part["name"])
    if (kind, name) == ("call", "users"):
        return "users()"  # a campaign of a service has no graph
    return Mention(kind, name, part.get("value")) if kind in ("argument", "call", "constant") else name
