"""The application: its state, its routes, what happens when it starts and stops, and a server for it.

The server is one process or several, with a stop that finishes what was begun.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from tensorucb import __version__
from tensorucb.errors import InputError, StateError
from tensorucb.service import (
    _access,
    _campaigns,
    _catalogues,
    _create,
    _figures,
    _operation,
    _page,
    _problems,
)
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._settings import ServiceSettings
from tensorucb.service._shared import LOGINS
from tensorucb.service._tokens import TokenBook, token_count
from tensorucb.service._uploads import Uploads
from tensorucb.store import open_store
from tensorucb.work import Engine

_PATIENCE = 30  # seconds that running requests get when the service stops
_LONGEST_HEAD = 1 << 16  # bytes of a request's first line and headers
_NO_HTTP = (
    "this is no request that the service takes: its first line names a path of it, and it has one header Host and at "
    f"most {_LONGEST_HEAD:,} bytes before its body."
)


class Service(FastAPI):
    """An app behind the checks of every request; they are outermost, so that answers to errors pass them too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Put the checks in front."""
        state = self.state
        return _access.Guard(super().build_middleware_stack(), state.settings, state.book, state.metrics)

    def openapi(self) -> dict[str, Any]:
        """The description of the API, with the form of all refusals and the ways to log in."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["security"] = [{name: []} for name in LOGINS]
            components = document["components"]
            components["securitySchemes"] = LOGINS
            components["schemas"]["Problem"] = _problems.Problem.model_json_schema()
            for schema in components["schemas"].values():
                _describe(schema)
        return super().openapi()


def create_app(settings: ServiceSettings, engine: Engine | None = None) -> FastAPI:
    """The service as an ASGI application, for a server of your own; ``engine`` is where users are chosen.

    Examples
    --------
    >>> from tensorucb.service import ServiceSettings
    >>> create_app(ServiceSettings("sqlite:///campaigns.db")).title
    'tensorucb'
    """
    app = Service(
        title="tensorucb",
        version=__version__,
        description="Online influence maximisation: ask who to contact, tell what happened, see what was learned.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        redirect_slashes=False,
        lifespan=_life,
        generate_unique_id_function=_route_name,
    )
    app.state.settings = settings
    app.state.campaigns = OpenCampaigns(settings, engine)
    app.state.book = TokenBook(app.state.campaigns.store, demanded=not settings.local)
    app.state.metrics = _operation.Metrics(app.state.campaigns)
    _problems.install(app)
    app.include_router(_operation.router)
    # The framework tries one route after the other: first those that are called most often.
    rooms = _campaigns, _create, _catalogues, _figures, _access
    for router in (_campaigns.rounds_router, *(room.router for room in rooms)):
        app.include_router(router, prefix=_access.API)
    app.include_router(_page.router)
    return app


def _route_name(route: APIRoute) -> str:
    """A short name of a route for programs that are made from the API's description."""
    return f"{route.tags[0] if route.tags else 'page'}-{route.name}"


def _describe(schema: dict[str, Any]) -> None:
    """Put the docstring of one of the library's records where readers of the API look for its parts."""
    about, _, attributes = schema.get("description", "").partition("Attributes\n----------\n")
    schema["description"] = re.split(r"\n\n", about.strip())[0]
    entries = re.findall(r"^(\w[\w, ]*)\n((?:    .*\n?)+)", attributes, re.MULTILINE)
    for names, text in entries:
        said = re.sub(r":\w+:`~?([^`]*)`|``", lambda match: match[1] or "`", " ".join(text.split()))
        for name in names.split(", "):
            schema["properties"].get(name, {}).setdefault("description", said)


@asynccontextmanager
async def _life(app: FastAPI) -> AsyncIterator[None]:
    campaigns: OpenCampaigns = app.state.campaigns
    closing = None if campaigns.settings.read_only else asyncio.create_task(campaigns.keep_closing())
    app.state.uploads = Uploads()
    try:
        yield
    finally:
        campaigns.stopping.set()
        app.state.uploads.close()
        if closing is not None:
            await closing
        campaigns.store.close()


# -- the server --


class _Protocol(HttpToolsProtocol):
    """A connection of the service; when it stops, those who watch a campaign let go.

    The parser takes more than we do: heads of any length, requests with no host or several, and those that name
    another server in their first line. All of these are no HTTP to us.
    """

    _unparsed = 0  # bytes that came since the end of a head, or since a piece of a body

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._unparsed += len(data)
        super().data_received(data)
        if self._unparsed > _LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(_NO_HTTP)

    def on_headers_complete(self) -> None:
        """A head is there; what is wrong with it is an error of the parser."""
        self._unparsed = 0
        hosts = sum(name == b"host" for name, _ in self.headers)
        length = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            raise ValueError("a request names one host")
        if length > _LONGEST_HEAD or not self.url.startswith(b"/"):
            raise ValueError("a request names a path of ours")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body is there."""
        self._unparsed = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP to us in the same form as everything else."""
        body = _problems.no_http(_NO_HTTP)
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: {_problems.MEDIA}\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(f"{head}connection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def shutdown(self) -> None:
        """Finish the running request, then close."""
        service: Any = self.app
        service.state.campaigns.stopping.set()
        super().shutdown()


class _Server(uvicorn.Server):
    """A server that says when it answers: from then on, and not before, a Ctrl-C ends it in order."""

    def __init__(self, config: uvicorn.Config, greet: Callable[[], object]) -> None:
        super().__init__(config)
        self._greet = greet

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, then say so."""
        await super().startup(sockets)
        self._greet()


def configured(settings: ServiceSettings, app: Callable[[], FastAPI] | FastAPI) -> uvicorn.Config:
    """How uvicorn serves an app, or what makes it."""
    return uvicorn.Config(
        app,
        factory=not isinstance(app, FastAPI),
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        timeout_worker_healthcheck=_PATIENCE,  # a worker on a busy machine takes its time to begin
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE,
        timeout_keep_alive=10,
        lifespan="on",
        limit_concurrency=settings.connections,
        http=_Protocol,
        loop="uvloop",
        ws="none",
    )


def run(
    settings: ServiceSettings,
    *,
    engine: Engine | None = None,
    log_level: str | None = None,
    started: Callable[[str], object] | None = None,
) -> None:
    """Serve until a signal says stop.

    Parameters
    ----------
    settings
        Where the campaigns are, where to listen, and what to allow.
    engine
        Where users are chosen, such as a :class:`tensorucb.engines.RayEngine`, for one worker alone; None is this
        machine.
    log_level
        Write logs from this level on to stderr, as lines of JSON; None leaves logging to the caller.
    started
        Called with the address once clients can connect.

    Examples
    --------
    >>> run(ServiceSettings("sqlite:///campaigns.db"), started=print)  # doctest: +SKIP
    http://127.0.0.1:8000
    >>> run(ServiceSettings("sqlite:///campaigns.db", host="0.0.0.0"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    tensorucb.errors.StateError: everybody who reaches 0.0.0.0 could use the service, since the store holds no token...
    """
    check_access(settings)
    if engine is not None and settings.workers > 1:
        raise InputError(f"a cluster takes the choices of one worker; got {settings.workers}. Leave workers at 1.")
    app: Any = partial(_app, settings, engine, log_level)
    with listening_socket(settings) as listening, _shared_metrics(settings):
        if settings.workers == 1:
            app = app()  # what is wrong with it is raised here
        host, port, *_ = listening.getsockname()
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

        def greet() -> None:
            if started is not None:
                started(address)

        config = configured(settings, app)
        if settings.workers == 1:
            _Server(config, greet).run(sockets=[listening])
        else:
            workers = Multiprocess(config, [listening])
            greet()
            workers.run()


def check_access(settings: ServiceSettings) -> int:
    """Refuse what would be unsafe or cannot work; returns how many tokens there are."""
    if settings.workers > 1 and not settings.storage.startswith("postgresql"):
        raise InputError(f"{settings.workers} workers need PostgreSQL; with SQLite one worker is quicker.")
    with open_store(settings.storage, read_only=settings.read_only) as store:
        tokens = token_count(store)
    if not settings.local and not tokens:
        name = settings.hosts[0] if settings.hosts else settings.host
        raise StateError(
            f"everybody who reaches {name} could use the service, since the store holds no token; make one first with "
            "`tensorucb token add STORAGE NAME --role admin`."
        )
    return tokens


def _app(settings: ServiceSettings, engine: Engine | None, log_level: str | None) -> FastAPI:
    if log_level is not None:
        _operation.log_to_stderr(log_level)
    return create_app(settings, engine)


def listening_socket(settings: ServiceSettings) -> socket.socket:
    """A socket to which clients can connect already; they are answered as soon as the app is there."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
        # Connections inherit it. Without it the second part of an answer waits 40 ms for the client's acknowledgement.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        where = f"port {settings.port} of {settings.host}"
        if error.errno == errno.EADDRINUSE:
            raise StateError(f"{where} is in use by another program; stop it, or use another port.") from error
        if error.errno == errno.EACCES:
            raise StateError(f"{where} may not be used by this account; use a port above 1023.") from error
        raise InputError(f"the service cannot listen on {where}: {error.strerror}.") from error


def _shared_metrics(settings: ServiceSettings) -> Any:
    """A directory in which workers count together; Prometheus's library finds it in the environment."""
    if settings.workers == 1:
        return nullcontext()
    directory = tempfile.TemporaryDirectory(prefix="tensorucb-metrics-")
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory.name
    return directory
