"""The application: its state, its routes, and what happens when it starts and stops."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from tensorucb import __version__
from tensorucb.service import _auth, _campaigns, _catalogues, _data, _figures, _operation, _page, _problems, _rounds
from tensorucb.service._guard import guarded
from tensorucb.service._open import OpenCampaigns
from tensorucb.service._settings import ServiceSettings
from tensorucb.service._tokens import TokenBook
from tensorucb.service._uploads import Uploads
from tensorucb.work import Engine

PREFIX = "/api/v1"


class Service(FastAPI):
    """An app behind the checks of every request; they are outermost, so that answers to errors pass them too."""

    def build_middleware_stack(self) -> ASGIApp:
        """Put the checks in front."""
        state = self.state
        return guarded(super().build_middleware_stack(), state.settings, state.book, state.metrics)

    def openapi(self) -> dict[str, Any]:
        """The description of the API, with the form of all refusals."""
        if self.openapi_schema is None:
            found = super().openapi()
            schemas = found.setdefault("components", {}).setdefault("schemas", {})
            schemas["Problem"] = _problems.Problem.model_json_schema()
            for schema in schemas.values():
                _describe(schema)
        return self.openapi_schema or found


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
    app.state.metrics = _operation.Metrics()
    _problems.install(app)
    api = APIRouter(prefix=PREFIX)
    api.include_router(_auth.router)
    routers = (_campaigns.router, _data.router, _catalogues.router, _rounds.previews, _rounds.router)
    for router in (*routers, _figures.router, _figures.comparisons):
        api.include_router(router, dependencies=_auth.LOGINS)
    for router in (api, _operation.router, _page.router):
        app.include_router(router)
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
        said = re.sub(r":\w+:`~?([^`]*)`|``", lambda found: found[1] or "`", " ".join(text.split()))
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
        campaigns.close()
