"""Writing calls that may be sent again: the same key and the same request get the same answer.

Only good answers are kept, for a day: what was refused has changed nothing and may be tried again. A worker that is
killed after its change and before it keeps the answer leaves the call to be done again. This does no harm: an ask with
the same key finds its round, responses told twice count once, a campaign knows the call that created it, and a
deletion keeps its answer as it deletes.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import Message

from tensorucb.service._desk import Desk
from tensorucb.service._problems import Refusal
from tensorucb.service._tokens import Principal
from tensorucb.store import SQLStore
from tensorucb.store._protocol import AnswerRecord

KEY, REPLAYED = "Idempotency-Key", "Idempotency-Replayed"
_LONGEST = 200
_LINE = 1 << 20
_PARAMETER = {
    "name": KEY,
    "in": "header",
    "required": False,
    "description": "A text of your own. The same with the same request gives the same answer, and changes nothing.",
    "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST, "pattern": "^[!-~]+$"},
}
_turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class Once(APIRoute):
    """A route of a campaign. If it writes, nothing is written in read-only mode, nor twice for one key."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if set(options["methods"] or ()) - {"GET"}:
            options["openapi_extra"] = {**(options["openapi_extra"] or {}), "parameters": [_PARAMETER]}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Handler:
        """The route's own handler, behind the look at what was answered before."""
        handle = super().get_route_handler()

        async def once(request: Request) -> Response:
            if request.app.state.settings.read_only:
                raise Refusal(403, "the service is read-only; nothing can be changed through it.", kind="StateError")
            key = request.headers.get(KEY)
            who: Principal | None = request.state.principal
            request.state.call = None
            if key is None or who is None:
                return await handle(request)
            if not 0 < len(key) <= _LONGEST or not all("!" <= mark <= "~" for mark in key):
                raise Refusal(422, f"{KEY} must have 1 to {_LONGEST} visible characters without spaces.")
            digest = hashlib.sha256(f"{who.name}\0{who.role}\0{key}".encode()).hexdigest()
            async with _turns.setdefault(digest, asyncio.Lock()):
                return await _answer(request, handle, Call(digest, request))

        return handle if self.methods == {"GET"} else once


async def _answer(request: Request, handle: Handler, call: Call) -> Response:
    desk: Desk = request.app.state.desk
    known = await desk.aside(lambda: _find(desk, call.key))
    if known is not None:
        if known.request != await call.digest():
            raise Refusal(422, f"this {KEY} came before with another request; use a new key for a new request.")
        media = "application/json" if known.body else None
        return Response(known.body or None, known.status, {REPLAYED: "true"}, media)
    request.state.call = call
    response = await handle(request)
    if 200 <= response.status_code < 300:
        name = request.path_params.get("name", call.created)
        body, digest = bytes(response.body).decode(), await call.digest()
        await desk.aside(lambda: _keep(desk, name, call.key, digest, response.status_code, body), "tell")
    return response


class Call:
    """A writing call with a key: hashes the request as its body is read; ``created`` names a campaign it creates.

    The boundary of a form, which is another each time, does not count.
    """

    def __init__(self, key: str, request: Request) -> None:
        self.key, self.created = key, ""
        place = request.scope.get("raw_path") or request.url.path.encode()
        self._hash = hashlib.sha256(b"%s %s?" % (request.method.encode(), place))
        form, _, boundary = request.headers.get("content-type", "").partition("boundary=")
        self._mark = f"--{boundary.strip().strip(chr(34))}".encode() if boundary else None
        self._hash.update(f"{request.url.query}\0{form}".encode())
        self._rest, self._done, self._receive = b"", False, request._receive
        request._receive = self.receive

    async def receive(self) -> Message:
        """The next part of the body."""
        message = await self._receive()
        self._done = not message.get("more_body", False)
        if message["type"] == "http.request":
            self._add(message.get("body", b""))
        return message

    def _add(self, part: bytes) -> None:
        if self._mark is None:
            self._hash.update(part)
            return
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            self._hash.update(b"--" if line.startswith(self._mark) else line + b"\n")
        while len(self._rest) > _LINE:  # no boundary; kept whole it would be copied with every part that comes
            self._hash.update(self._rest[:_LINE])
            self._rest = self._rest[_LINE:]

    async def digest(self) -> str:
        """The hash of the whole request; what nobody has read of the body is read now."""
        while not self._done:
            await self.receive()
        done = self._hash.copy()
        done.update(b"" if self._mark and self._rest.startswith(self._mark) else self._rest)
        return done.hexdigest()


class Together:
    """A store each of whose writes does something more in the same transaction: both are durable, or neither is."""

    def __init__(self, store: SQLStore, also: Callable[[Any], None]) -> None:
        self._store, self._also = store, also

    @contextmanager
    def write(self) -> Iterator[Any]:
        """A write transaction of the store."""
        with self._store.write() as session:
            yield session
            self._also(session)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _find(desk: Desk, key: str) -> AnswerRecord | None:
    with desk.store.read() as session:
        return session.answer(key)


def _keep(desk: Desk, name: str, key: str, request: str, status: int, body: str) -> None:
    with desk.store.write() as session:
        # Another worker may have answered the same request meanwhile, or this one as it deleted.
        if session.answer(key) is None:
            found = session.campaign(name) if name else None
            session.put_answer(AnswerRecord(found.campaign if found else 0, key, request, status, body, time.time()))
