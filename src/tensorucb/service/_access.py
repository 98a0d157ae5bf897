"""Who may enter: the checks that a server must make itself before every route, and the login of the page.

Each request passes these, from the outside in. Everything else that keeps strangers and slow clients away is a proxy's
work; docs/service.md has its configuration.

Guard                    counted, logged and given an id; not too large, by somebody known, not by the page of another
                         site; answered with safe headers
TrustedHostMiddleware    addressed by a name of ours: a page of a stranger may resolve its own name to this machine
"""

from __future__ import annotations

import random
import re
import time
from functools import partial

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tensorucb import __version__
from tensorucb.checks import shown
from tensorucb.service._operation import ALIVE, Metrics
from tensorucb.service._problems import Refusal, problem, request_id, responses
from tensorucb.service._settings import ServiceSettings
from tensorucb.service._shared import COOKIE, OPEN_TO_ALL
from tensorucb.service._tokens import LOCAL, SESSION, Principal, Role, TokenBook

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_SAFE = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"cache-control": b"no-store",
}
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_READING = ("GET", "HEAD", "OPTIONS")
_METHODS = (*_READING, "POST", "PUT", "PATCH", "DELETE")
API = "/api/v1"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLOSE = {"Connection": "close"}  # nobody reads the rest
_FORWARDING = (b"forwarded", b"via", b"x-real-ip")


class Guard:
    """Finds out who asks, as ``principal`` of the request's state, refuses those who may not, and counts all.

    Each request has an id, and each answer safe headers, a line in the log and a place in the metrics.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, book: TokenBook, metrics: Metrics) -> None:
        own = f"[{settings.host}]" if ":" in settings.host else settings.host
        self._app = TrustedHostMiddleware(app, [*_LOOPBACK, own, *settings.hosts], www_redirect=False)
        self._book = book
        self._metrics = metrics
        self._most = settings.max_body
        self._too_large = f"a body may have at most {self._most:,} bytes; send it in parts."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        headers = Headers(scope=scope)
        sent_id = headers.get("x-request-id", "")
        name = sent_id if _ID.fullmatch(sent_id) else f"{random.getrandbits(64):016x}"
        method = scope["method"]
        # HEAD is answered as GET; the server leaves out the body.
        routed = "GET" if method == "HEAD" else method
        state = {**scope.get("state", {}), "bodiless": method == "HEAD", "principal": None}
        scope = {**scope, "method": routed, "state": state}
        token = request_id.set(name)

        async def safe(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = dict(message["headers"])
                missing = [(key, value) for key, value in _SAFE.items() if key not in answered]
                message["headers"] += [*missing, (b"x-request-id", name.encode())]
            await send(message)

        try:
            await self._admit(scope, headers)
            await self._app(scope, self._bounded(receive), safe)
        except Exception as error:
            # The app answers its errors itself, and raises them again for those who log.
            if not status:
                await problem(Request(scope), error)(scope, receive, safe)
        finally:
            seconds = time.perf_counter() - began
            route = _route(scope)
            principal = state["principal"]
            status = status or 499  # the client has gone before it was answered
            method = method if method in _METHODS else "-"
            self._metrics.answered(method, route, status, seconds, principal and principal.name)
            request_id.reset(token)

    async def _admit(self, scope: Scope, headers: Headers) -> None:
        # Whether the process is alive must not depend on the store, where the tokens are.
        if scope["path"] != ALIVE:
            scope["state"]["principal"] = await self._principal(headers, _forwarded(scope))
        _check_origin(scope["method"], scope["path"], headers)
        if int(headers.get("content-length", "0")) > self._most:
            raise Refusal(413, self._too_large, headers=_CLOSE)

    async def _principal(self, headers: Headers, forwarded: bool) -> Principal | None:
        """Who sends a request; None for a stranger, as is everybody who comes through a proxy without a token."""
        book = self._book
        if not book.fresh():
            await anyio.to_thread.run_sync(book.refresh)
        if not book.demanded:
            return None if forwarded else LOCAL
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind:
            return book.of_token(token.strip()) if kind.lower() == "bearer" else None
        cookie = _session_cookie(headers)
        return None if cookie is None else book.of_session(cookie)

    def _bounded(self, receive: Receive) -> Receive:
        """The body, as long as it is not too large; not every one says its length."""
        came = 0

        async def bounded() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._most:
                raise HTTPException(413, self._too_large, _CLOSE)
            return message

        return bounded


def _route(scope: Scope) -> str:
    """The route's pattern: it names nobody, and there are only so many."""
    route = str(getattr(scope.get("route"), "path_format", "-"))
    below = scope["path"].startswith(API) and route != "-" and not route.startswith(API)
    return f"{API}{route}" if below else route


def _forwarded(scope: Scope) -> bool:
    """Whether a request came through a proxy: anybody may have sent it.

    Unless told otherwise, nginx names itself in no header, but it speaks HTTP/1.0, which browsers do not.
    """
    names = (name for name, _ in scope["headers"])
    named = any(name in _FORWARDING or name.startswith(b"x-forwarded-") for name in names)
    return named or scope["http_version"] == "1.0"


def _check_origin(method: str, path: str, headers: Headers) -> None:
    """The page of another site would act with the rights of whoever looks at that page."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    if origin is not None:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or host.lower() != headers.get("host", "").lower():
            raise Refusal(403, f"the page at {shown(origin)} may not use this service.")
    elif method not in _READING and _session_cookie(headers) is not None:
        raise Refusal(403, "a change with the login of the page needs the header Origin; use a token instead.")
    # Following a link to the page is fine; reading the API from elsewhere is not.
    if site not in ("same-origin", "none") and (method not in _READING or path.startswith("/api/v")):
        raise Refusal(403, "the page of another site may not use this service.")


def _session_cookie(headers: Headers) -> str | None:
    """The login cookie that came with a request."""
    return cookie_parser(headers.get("cookie", "")).get(COOKIE)


# -- the login of the page --

router = APIRouter(prefix="/session", tags=["session"], responses=responses())


class Login(BaseModel):
    """A token to log in with."""

    token: str = Field(max_length=200, description="The token, as `tensorucb token add` printed it.")


class SessionDocument(BaseModel):
    """Who you are to the service."""

    name: str | None = Field(description="The name of your token; null for a stranger, who must log in.")
    role: Role | None = Field(description="What you may do.")
    login: bool = Field(description="Whether the service demands tokens.")
    read_only: bool = Field(description="Whether the service can write at all.")
    version: str | None = Field(description="The release of tensorucb; null for a stranger.")


def _session(request: Request, principal: Principal | None) -> SessionDocument:
    return SessionDocument(
        name=principal.name if principal else None,
        role=principal.role if principal else None,
        login=principal is not LOCAL,
        read_only=request.app.state.settings.read_only,
        version=__version__ if principal else None,
    )


@router.get("")
async def who(request: Request) -> SessionDocument:
    """Who you are to the service, and what you may do."""
    return _session(request, request.state.principal)


@router.post("", openapi_extra=OPEN_TO_ALL)
async def log_in(request: Request, response: Response, login: Login) -> SessionDocument:
    """Log in with a token: the answer sets a cookie that lasts for 12 hours, or until the token is revoked."""
    book: TokenBook = request.app.state.book
    principal = LOCAL if request.state.principal is LOCAL else book.of_token(login.token.strip())
    if principal is None:
        raise HTTPException(401, "the service knows no such token; copy it again as `tensorucb token add` printed it.")
    if principal is not LOCAL:
        # The service itself never sees TLS, which ends at a proxy in front of it; the browser knows.
        secure = request.headers.get("origin", "").startswith("https:")
        value = book.open_session(principal)
        response.set_cookie(COOKIE, value, SESSION, httponly=True, samesite="strict", secure=secure)
    return _session(request, principal)


@router.delete("", status_code=204, openapi_extra=OPEN_TO_ALL)
async def log_out(request: Request, response: Response) -> None:
    """Log out: the cookie is removed, and counts no longer if somebody has kept a copy."""
    book: TokenBook = request.app.state.book
    cookie = _session_cookie(request.headers)
    if cookie is not None and book.of_session(cookie) is not None:
        everywhere = not request.app.state.settings.read_only  # which leaves the store as it is
        await anyio.to_thread.run_sync(partial(book.end_session, cookie, everywhere=everywhere))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
