"""The page, its files, and the description of the API: all comes from installed packages, nothing from another host.

Files stand under an address that holds a hash of all of them, so that browsers may keep them for good: another version
has another address. Only the names listed here are served. The description is made from the API's OpenAPI document:
plain HTML that needs no script.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Annotated, Any

import vl_convert
from fastapi import APIRouter, Header, Request
from fastapi.responses import HTMLResponse, Response

from tensorucb.plots import theme
from tensorucb.service._problems import missing

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
_REFUSED = 400  # statuses from here on are refusals, all of one form


@router.get("/")
def page() -> HTMLResponse:
    """The page."""
    return _html("index.html")


@router.get("/api/docs")
def docs(request: Request) -> HTMLResponse:
    """The description of the API."""
    return _html("docs.html", reference=_reference(request.app.openapi()))


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


# -- the description of the API --


def _reference(document: Mapping[str, Any]) -> str:
    """All routes with their parameters, bodies and answers, and then the forms of what is sent."""
    rooms: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            room = next(iter(operation.get("tags", ())), "operation")
            rooms.setdefault(room, []).append("".join(_operation(path, method, operation)))
    parts = [f"<p>{_text(document['info']['description'])}</p>"]
    parts += [
        f'<section id="{_id(room)}"><h2>{_text(room)}</h2>{"".join(operations)}</section>'
        for room, operations in rooms.items()
    ]
    schemas = document["components"]["schemas"].items()
    forms = "".join(_form(name, schema) for name, schema in sorted(schemas))
    return "\n".join([*parts, f'<section id="forms"><h2>Forms</h2>{forms}</section>'])


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    said, _, more = operation.get("description", operation.get("summary", "")).partition("\n\n")
    yield f'<details id="{_id(operation["operationId"])}"><summary><b>{method.upper()}</b> <code>{_text(path)}</code>'
    yield f" {_text(said)}</summary>"
    if more:
        yield f"<p>{_text(more)}</p>"
    parameters = operation.get("parameters", ())
    if parameters:
        rows = [(f"{p['name']} ({p['in']})", p["schema"], p.get("required"), p.get("description")) for p in parameters]
        yield _table("Parameters", rows)
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<p>Body: <code>{_text(kind)}</code> {_kind(body.get('schema', {}))}</p>"
        example = body.get("example")
        if example is not None:
            yield f"<pre>{_text(example if isinstance(example, str) else json.dumps(example, indent=2))}</pre>"
    for status, answer in operation["responses"].items():
        if int(status) < _REFUSED:
            kinds = answer.get("content", {}).items()
            forms = "; ".join(f"<code>{_text(kind)}</code> {_kind(body.get('schema', {}))}" for kind, body in kinds)
            yield f"<p>Answer {status}: {forms or _text(answer['description'])}</p>"
    refused = ", ".join(status for status in operation["responses"] if int(status) >= _REFUSED)
    if refused:
        yield f'<p>Refusals: {refused}, each with a <a href="#Problem">Problem</a>.</p>'
    yield "</details>"


def _form(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    fields = schema.get("properties", {}).items()
    rows = [(field, about, field in required, about.get("description")) for field, about in fields]
    about = f"<p>{_text(schema['description'])}</p>" if schema.get("description") else ""
    table = _table("Fields", rows) if rows else f"<p>{_kind(schema)}</p>"
    return f'<details id="{_id(name)}"><summary><code>{_text(name)}</code></summary>{about}{table}</details>'


def _table(title: str, rows: list[tuple[str, Mapping[str, Any], Any, Any]]) -> str:
    lines = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_kind(schema)}{'' if required else ', optional'}</td>"
        f"<td>{_text(about or '')}</td></tr>"
        for name, schema, required, about in rows
    )
    head = "<thead><tr><th>name</th><th>type</th><th>meaning</th></tr></thead>"
    return f'<div class="scroll"><table><caption>{title}</caption>{head}<tbody>{lines}</tbody></table></div>'


def _kind(schema: Mapping[str, Any]) -> str:
    """What a value may be, in few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{_id(name)}">{_text(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_kind, schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return " or ".join(
            f"<code>{_text(json.dumps(value))}</code>" for value in schema.get("enum", [schema.get("const")])
        )
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return _text(schema.get("format") or schema.get("type") or "anything")


def _id(name: str) -> str:
    return escape(name, quote=True).replace(" ", "-")


def _text(value: Any) -> str:
    return escape(str(value))
