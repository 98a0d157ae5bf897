"""The page that describes the API, made from its OpenAPI document: plain HTML that needs no script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_REFUSED = 400  # statuses from here on are refusals, all of one form


def reference(document: Mapping[str, Any]) -> str:
    """All routes with their parameters, bodies and answers, and then the forms of what is sent."""
    rooms: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            room = next(iter(operation.get("tags", ())), "operation")
            rooms.setdefault(room, []).append("".join(_operation(path, method, operation)))
    parts = [f"<p>{_text(document['info']['description'])}</p>"]
    parts += [
        f'<section id="{_id(room)}"><h2>{_text(room)}</h2>{"".join(found)}</section>' for room, found in rooms.items()
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
