"""The page and its files: everything comes from installed packages, nothing from another host.

Files stand under an address that holds a hash of all of them, so that browsers may keep them for good: another version
has another address. Only the names listed here are served.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Annotated

import vl_convert
from fastapi import APIRouter, Header, Request
from fastapi.responses import HTMLResponse, Response

from tensorucb.plots import theme
from tensorucb.service._problems import missing
from tensorucb.service._reference import reference

router = APIRouter(include_in_schema=False)

_ROOM = files("tensorucb.service") / "page"
_OWN = sorted(entry.name for entry in _ROOM.iterdir() if entry.name.endswith((".css", ".js", ".svg")))
_MADE = ("report.css", "themes.json", "vega.js")
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
}
_KEPT = "public, max-age=31536000, immutable"
_ASKED = "no-cache"
_SMALL = 1_000  # bytes that are not worth packing


@router.get("/")
def page() -> HTMLResponse:
    """The page."""
    return _html("index.html")


@router.get("/api/docs")
def docs(request: Request) -> HTMLResponse:
    """The description of the API."""
    return _html("docs.html", reference=reference(request.app.openapi()))


@router.get("/static/{release}/{name}")
def static(release: str, name: str, accept_encoding: Annotated[str, Header()] = "") -> Response:
    """A file of the page."""
    if name not in (*_OWN, *_MADE):
        raise missing("the page has no file of this name.")
    headers = {"Cache-Control": _KEPT if release == _version() else _ASKED, "Vary": "Accept-Encoding"}
    plain, packed = _content(name)
    if "gzip" in accept_encoding.lower() and len(plain) > _SMALL:
        headers["Content-Encoding"] = "gzip"
        plain = packed
    return Response(plain, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)


def _html(name: str, **parts: str) -> HTMLResponse:
    text = (_ROOM / name).read_text("utf-8")
    return HTMLResponse(Template(text).substitute(parts, version=_version()), headers={"Cache-Control": _ASKED})


@cache
def _version() -> str:
    """A hash of everything that the page is made of."""
    digest = hashlib.sha256(version("vl-convert-python").encode())
    for name in (*_OWN, "report.css", "themes.json"):
        digest.update(_bytes(name))
    digest.update(_figure_script().encode())
    return digest.hexdigest()[:16]


@cache
def _content(name: str) -> tuple[bytes, bytes]:
    """A file as it is, and packed."""
    plain = _bytes(name)
    return plain, gzip.compress(plain, 6, mtime=0)


def _bytes(name: str) -> bytes:
    if name == "vega.js":
        # It takes a second to put together, so it is made when a page first asks for it.
        return str(vl_convert.javascript_bundle(_figure_script())).encode()
    if name == "themes.json":
        return json.dumps({"light": theme("light"), "dark": theme("dark")}).encode()
    if name == "report.css":
        return (files("tensorucb.plots") / name).read_bytes()
    return (_ROOM / name).read_bytes()


def _figure_script() -> str:
    own = (files("tensorucb.plots") / "figures.js").read_text("utf-8")
    return f"{own}\nwindow.vegaEmbed = vegaEmbed;\nwindow.narrowFigure = narrow;\n"
