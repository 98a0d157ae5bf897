"""Running the service: one process or several, with a stop that finishes what was begun."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from tensorucb.errors import InputError, StateError
from tensorucb.service._app import create_app
from tensorucb.service._operation import log_to_stderr
from tensorucb.service._settings import ServiceSettings
from tensorucb.service._tokens import token_count
from tensorucb.store import open_store
from tensorucb.work import Engine

_PATIENCE = 30  # seconds that running requests get when the service stops


class _Protocol(H11Protocol):
    """A connection of the service; when it stops, those who watch a campaign let go."""

    def shutdown(self) -> None:
        """Finish the running request, then close."""
        service: Any = self.app
        service.state.campaigns.stopping.set()
        super().shutdown()


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
        if started is not None:
            host, port, *_ = listening.getsockname()
            started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        config = configured(settings, app)
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[listening])
        else:
            Multiprocess(config, [listening]).run()


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
        log_to_stderr(log_level)
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
