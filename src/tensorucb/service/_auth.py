"""Who may do what: who sends a request, the login of the page, and masked ids for those who only read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.cookies import CookieError, SimpleCookie

import anyio.to_thread
from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.security import APIKeyCookie, HTTPBearer
from pydantic import BaseModel, Field
from starlette.datastructures import Headers

from tensorucb import __version__
from tensorucb.service._problems import responses
from tensorucb.service._tokens import LOCAL, SESSION, Principal, Role, TokenBook

COOKIE = "tensorucb_session"
router = APIRouter(prefix="/session", tags=["session"], responses=responses())

Mask = Callable[[int | str], int | str]
"""How the id of a user is shown to the one who asks."""

# For the API's description: who asks is found before any route.
LOGINS = [
    Depends(HTTPBearer(auto_error=False, description="A token made with `tensorucb token add STORAGE NAME`.")),
    Depends(APIKeyCookie(name=COOKIE, auto_error=False, description="The login of the page.")),
]


async def principal_of(book: TokenBook, headers: Headers, forwarded: bool) -> Principal | None:
    """Who sends a request; None for a stranger, as is everybody who comes through a proxy without a token."""
    if not book.fresh():
        await anyio.to_thread.run_sync(book.refresh)
    if not book.demanded:
        return None if forwarded else LOCAL
    kind, _, token = headers.get("authorization", "").partition(" ")
    if kind:
        return book.of_token(token.strip()) if kind.lower() == "bearer" else None
    cookie = session_cookie(headers)
    return None if cookie is None else book.of_session(cookie)


def session_cookie(headers: Headers) -> str | None:
    """The login cookie that came with a request."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def demand(request: Request, role: Role) -> Principal:
    """Who asks: somebody with this role or a higher one."""
    principal: Principal | None = request.state.principal
    if principal is None:
        detail = (
            "this needs a token: send the header `Authorization: Bearer TOKEN`, or log in on the page. The command "
            "`tensorucb token add` makes tokens."
        )
        if not request.app.state.book.demanded:
            detail = (
                "the request came through a proxy, so that anybody may have sent it, and the store holds no token yet. "
                "Make one with `tensorucb token add STORAGE NAME --role admin`, and send it in the header "
                "`Authorization: Bearer TOKEN` or log in with it on the page."
            )
        raise HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})
    if not principal.may(role):
        raise HTTPException(
            403, f"this needs the role {role}; your token {principal.name!r} has the role {principal.role}."
        )
    return principal


def mask_for(request: Request, principal: Principal) -> Mask:
    """Ids of users as they are, or as stable pseudonyms for those who may only read."""
    book: TokenBook = request.app.state.book
    return (lambda user: user) if principal.may("operate") else book.masked


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


@router.get("", dependencies=LOGINS)
async def who(request: Request) -> SessionDocument:
    """Who you are to the service, and what you may do."""
    return _session(request, request.state.principal)


@router.post("")
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


@router.delete("", status_code=204)
async def log_out(request: Request, response: Response) -> None:
    """Log out: the cookie is removed, and counts no longer if somebody has kept a copy."""
    book: TokenBook = request.app.state.book
    cookie = session_cookie(request.headers)
    if cookie is not None and book.of_session(cookie) is not None:
        everywhere = not request.app.state.settings.read_only  # which leaves the store as it is
        await anyio.to_thread.run_sync(partial(book.end_session, cookie, everywhere=everywhere))
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
