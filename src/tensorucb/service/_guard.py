"""What every request passes before a route sees it, as plain ASGI: each class refuses one kind of harm.

Watch   an id for the request, safe headers on every answer, the log and the metrics; no error escapes it
Bodies  not too large, not too slow, not compressed
Gate    addressed to us by a name of ours, by somebody known, not too often, and not by the page of another site
Heads   asked by HEAD, answered as by GET, without a body
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import re
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorucb.checks import shown
from tensorucb.errors import TensorUCBError
from tensorucb.service._auth import principal_of, session_cookie
from tensorucb.service._operation import ALIVE, Metrics, log_access, request_id
from tensorucb.service._problems import UNFORESEEN, Refusal, problem
from tensorucb.service._settings import ServiceSettings
from tensorucb.service._shared import SLASH
from tensorucb.service._tokens import TokenBook

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SAFE_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_READING = ("GET", "HEAD", "OPTIONS")
_METHODS = (*_READING, "POST", "PUT", "PATCH", "DELETE")
_API = "/api/v1"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLOSE = {"Connection": "close"}
_SLOWEST = 16 * 1024  # bytes a second of a body, after the settings' patience
_FORWARDING = (b"forwarded", b"via", b"x-real-ip")
_KNOWN = 10_000  # callers whose pace is remembered
_log = logging.getLogger("tensorucb.service")


def guarded(app: ASGIApp, settings: ServiceSettings, book: TokenBook, metrics: Metrics) -> ASGIApp:
    """An app behind all of these."""
    return Watch(Bodies(Gate(Heads(app), settings, book), settings.max_body, settings.patience), metrics)


class Watch:
    """Gives each request an id, and each answer safe headers, a line in the log and a place in the metrics."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _ID.fullmatch(given) else uuid.uuid4().hex[:16]
        # A copy: the server itself cannot write the sign that stands for a slash.
        scope = {**scope, "path": _path(scope), "state": {**scope.get("state", {}), "request_id": name}}
        token = request_id.set(name)

        async def safe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = name
                for key, value in SAFE_HEADERS.items():
                    headers.setdefault(key, value)
            await send(message)

        try:
            await self._answered(scope, receive, safe, lambda: bool(status))
        finally:
            seconds = time.perf_counter() - began
            method, route = scope["method"] if scope["method"] in _METHODS else "-", _route(scope)
            principal = scope["state"].get("principal")
            status = status or 499  # the client has gone before it was answered
            self._metrics.observe(method, route, status, seconds)
            log_access(method, route, status, seconds, principal and principal.name)
            request_id.reset(token)

    async def _answered(self, scope: Scope, receive: Receive, send: Send, begun: Callable[[], bool]) -> None:
        try:
            await self._app(scope, receive, send)
            return
        except Refusal as error:
            refused = error
        except TensorUCBError as error:  # the store is out of reach, so that nobody knows who asks
            _log.warning("%s", error)
            refused = Refusal(503, "the store is out of reach; try again later.", kind="StoreError")
        except Exception as error:
            # The app answers its errors itself, and raises them again for those who log.
            if not begun():
                _log.error("unforeseen error", exc_info=error)
            refused = Refusal(500, UNFORESEEN, kind="TensorUCBError")
        if not begun():
            await problem(refused, request_id.get())(scope, receive, send)


def _path(scope: Scope) -> str:
    """The address, in which a slash within a campaign's name is not one that divides."""
    raw = bytes(scope.get("raw_path") or b"").decode("latin-1").partition("?")[0]
    found = re.match(f"({_API}/campaigns/)([^/]*%2F[^/]*)(.*)", raw, re.IGNORECASE | re.DOTALL)
    if found is None:
        return str(scope["path"])
    return f"{found[1]}{unquote(found[2]).replace('/', SLASH)}{unquote(found[3])}"


def _route(scope: Scope) -> str:
    """The route's pattern: it names nobody, and there are only so many."""
    route = str(getattr(scope.get("route"), "path_format", "-"))
    below = scope["path"].startswith(_API) and route != "-" and not route.startswith(_API)
    return f"{_API}{route}" if below else route


class Gate:
    """Finds out who asks, as ``principal`` of the request's state, and refuses those who may not."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, book: TokenBook) -> None:
        self._app, self._book, self._pace = app, book, Pace(settings.rate)
        self._names = {name.lower() for name in (*_LOOPBACK, settings.host, *settings.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            self._check_host(headers.get("host", ""), scope.get("server"))
            # Whether the process is alive must not depend on the store, where the tokens are.
            alive = scope["path"] == ALIVE
            scope["state"]["principal"] = None if alive else await principal_of(self._book, headers, _forwarded(scope))
            self._pace.take(_caller(scope))
            _check_origin(scope["method"], scope["path"], headers)
        await self._app(scope, receive, send)

    def _check_host(self, host: str, server: tuple[str, int | None] | None) -> None:
        """A page of a stranger may resolve its own name to this machine."""
        name = host_name(host)
        # An address cannot be made to mean another machine; ours is fine, also if the service listens on all.
        if name not in self._names and not _same_address(name, server):
            raise Refusal(
                400, f"the service is not called {shown(host)}; start it with `--allow-host` if this name is right."
            )


def _forwarded(scope: Scope) -> bool:
    """Whether a request came through a proxy: anybody may have sent it.

    Unless told otherwise, nginx names itself in no header, but it speaks HTTP/1.0, which browsers do not.
    """
    names = (name for name, _ in scope["headers"])
    named = any(name in _FORWARDING or name.startswith(b"x-forwarded-") for name in names)
    return named or scope["http_version"] == "1.0"


def host_name(host: str) -> str:
    """The name in a Host header or an origin, without its port."""
    found = re.fullmatch(r"\[([0-9A-Fa-f:.]+)\](:[0-9]+)?|([^:/@\s]+)(:[0-9]+)?", host)
    return (found.group(1) or found.group(3)).lower() if found else ""


def _same_address(name: str, server: tuple[str, int | None] | None) -> bool:
    try:
        return server is not None and ipaddress.ip_address(name) == ipaddress.ip_address(server[0])
    except ValueError:
        return False


def _check_origin(method: str, path: str, headers: Headers) -> None:
    """The page of another site would act with the rights of whoever looks at that page."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or host.lower() != headers.get("host", "").lower():
            raise Refusal(403, f"the page at {shown(origin)} may not use this service.")
    elif method not in _READING and session_cookie(headers) is not None:
        raise Refusal(403, "a change with the login of the page needs the header Origin; use a token instead.")
    # Following a link to the page is fine; reading the API from elsewhere is not.
    if site not in ("same-origin", "none") and (method not in _READING or path.startswith("/api/v")):
        raise Refusal(403, "the page of another site may not use this service.")


class Pace:
    """Refuses callers who ask too often: a bucket for each token or address, which fills at a steady rate."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._size, self._clock = rate, max(1.0, 2 * rate), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> None:
        """Count a request of a caller, or refuse it."""
        now = self._clock()
        left, then = self._buckets.pop(caller, (self._size, now))
        left = min(self._size, left + (now - then) * self._rate)
        self._buckets[caller] = (max(left - 1.0, 0.0) if left >= 1.0 else left, now)
        if len(self._buckets) > _KNOWN:
            self._buckets.popitem(last=False)
        if left < 1.0:
            wait = str(math.ceil((1.0 - left) / self._rate))
            raise Refusal(429, f"that is too often; try again in {wait} s.", headers={"Retry-After": wait})


def _caller(scope: Scope) -> str:
    principal, client = scope["state"].get("principal"), scope.get("client")
    address = client[0] if client else ""
    if ":" in address:  # somebody with IPv6 has the whole network of 64 bits
        address = str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
    return address if principal is None or principal.name == "local" else f"token {principal.name}"


class Bodies:
    """Bounds the size of a body, also of one that does not say its length, and the time that it may take."""

    def __init__(self, app: ASGIApp, most: int, patience: float) -> None:
        self._app, self._most, self._patience = app, most, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if headers.get("content-encoding", "identity").lower() != "identity":
            detail = "a body must not be compressed; send it without Content-Encoding."
            raise Refusal(415, detail, headers=_CLOSE)
        length = headers.get("content-length", "0")
        if len(length) > 18 or int(length) > self._most:
            raise Refusal(413, _too_large(self._most), headers=_CLOSE)
        body = _Body(receive, self._most, self._patience, pending=length != "0" or "transfer-encoding" in headers)

        async def after_body(message: Message) -> None:
            if message["type"] == "http.response.start" and body.pending:
                if "expect" not in headers:
                    await body.skip()
                if body.pending:
                    MutableHeaders(scope=message)["connection"] = "close"
            await send(message)

        try:
            await self._app(scope, body.receive, after_body)
        except Refusal as error:
            await problem(error, request_id.get())(scope, receive, after_body)


class _Body:
    """The body of one request on its way."""

    def __init__(self, receive: Receive, most: int, patience: float, pending: bool) -> None:
        self._receive, self._most, self._patience, self.pending = receive, most, patience, pending
        self._came, self._began, self._refused = 0, time.monotonic(), False

    async def receive(self) -> Message:
        """The next part of the body, or what comes after it."""
        if not self.pending:
            return await self._receive()
        left = self._began + self._patience + self._came / _SLOWEST - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), max(left, 0.001))
        except TimeoutError:
            self._refused = True
            raise HTTPException(408, "the body came too slowly; try again.") from None
        if message["type"] == "http.request":
            self._came += len(message.get("body", b""))
            self.pending = message.get("more_body", False)
            if self._came > self._most:
                self.pending = self._refused = True
                raise HTTPException(413, _too_large(self._most))
        else:
            self.pending = False
            raise HTTPException(400, "the connection ended before the body did; nothing was done.")
        return message

    async def skip(self) -> None:
        """Read what nobody wants to the end; a client that is cut off while it sends would never see the answer."""
        try:
            while self.pending and not self._refused:
                await self.receive()
        except HTTPException:
            return


def _too_large(most: int) -> str:
    """Why a body is refused."""
    return f"a body may have at most {most:,} bytes; send it in parts."


class Heads:
    """Answers HEAD as GET without its body; those who only look whether something is there ask so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        answered = asyncio.Event()

        async def without_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})
                answered.set()

        async def gone() -> Message:
            await answered.wait()  # an answer without an end stops here
            return {"type": "http.disconnect"}

        scope["method"] = "GET"  # not in a copy, since the log looks up the route that is found in this one
        try:
            await self._app(scope, gone, without_body)
        finally:
            scope["method"] = "HEAD"
