"""What comes before every route: the checks that a server must make itself.

Each request passes these, from the outside in. Everything else that keeps strangers and slow clients away is a proxy's
work; docs/service.md has its configuration.

Watch                    counted, logged, given an id, and answered with safe headers
TrustedHostMiddleware    addressed by a name of ours: a page of a stranger may resolve its own name to this machine
Gate                     not too large, by somebody known, and not by the page of another site
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorucb.checks import shown
from tensorucb.errors import TensorUCBError
from tensorucb.service._auth import principal_of, session_cookie
from tensorucb.service._operation import ALIVE, Metrics, log_access, request_id
from tensorucb.service._problems import UNFORESEEN, Refusal, problem
from tensorucb.service._settings import ServiceSettings
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
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_READING = ("GET", "HEAD", "OPTIONS")
_METHODS = (*_READING, "POST", "PUT", "PATCH", "DELETE")
_API = "/api/v1"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLOSE = {"Connection": "close"}  # nobody reads the rest
_FORWARDING = (b"forwarded", b"via", b"x-real-ip")
_log = logging.getLogger("tensorucb.service")


def guarded(app: ASGIApp, settings: ServiceSettings, book: TokenBook, metrics: Metrics) -> ASGIApp:
    """An app behind all of these."""
    own = f"[{settings.host}]" if ":" in settings.host else settings.host
    names = [*_LOOPBACK, own, *settings.hosts]
    return Watch(TrustedHostMiddleware(Gate(app, settings, book), names, www_redirect=False), metrics)


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
        name = given if _ID.fullmatch(given) else f"{random.getrandbits(64):016x}"
        method = scope["method"]
        # HEAD is answered as GET; the server leaves out the body.
        routed = "GET" if method == "HEAD" else method
        state = {**scope.get("state", {}), "request_id": name, "bodiless": method == "HEAD"}
        scope = {**scope, "method": routed, "state": state}
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
            route = _route(scope)
            principal = scope["state"].get("principal")
            status = status or 499  # the client has gone before it was answered
            method = method if method in _METHODS else "-"
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


def _route(scope: Scope) -> str:
    """The route's pattern: it names nobody, and there are only so many."""
    route = str(getattr(scope.get("route"), "path_format", "-"))
    below = scope["path"].startswith(_API) and route != "-" and not route.startswith(_API)
    return f"{_API}{route}" if below else route


class Gate:
    """Finds out who asks, as ``principal`` of the request's state, and refuses those who may not."""

    def __init__(self, app: ASGIApp, settings: ServiceSettings, book: TokenBook) -> None:
        self._app, self._book, self._most = app, book, settings.max_body
        self._too_large = f"a body may have at most {self._most:,} bytes; send it in parts."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        # Whether the process is alive must not depend on the store, where the tokens are.
        alive = scope["path"] == ALIVE
        scope["state"]["principal"] = None if alive else await principal_of(self._book, headers, _forwarded(scope))
        _check_origin(scope["method"], scope["path"], headers)
        if int(headers.get("content-length", "0")) > self._most:
            raise Refusal(413, self._too_large, headers=_CLOSE)
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        """The body, as long as it is not too large, and to its end; not every one says its length."""
        came, whole = 0, False

        async def bounded() -> Message:
            nonlocal came, whole
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise HTTPException(413, self._too_large, _CLOSE)
            if message["type"] == "http.disconnect" and came and not whole:
                raise HTTPException(400, "the connection ended before the body did; nothing was done.")
            whole = whole or not message.get("more_body", False)
            return message

        return bounded


def _forwarded(scope: Scope) -> bool:
    """Whether a request came through a proxy: anybody may have sent it.

    Unless told otherwise, nginx names itself in no header, but it speaks HTTP/1.0, which browsers do not.
    """
    names = (name for name, _ in scope["headers"])
    named = any(name in _FORWARDING or name.startswith(b"x-forwarded-") for name in names)
    return named or scope["http_version"] == "1.0"


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
