"""The pages of the API reference: one per module, with every name in its `__all__`.

Each class and function gets a page of its own. Names of types and constants stand on the page of the module, with the
text that follows their assignment in the code.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import itertools
import re
import types
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import tensorucb

ROOMS = list(tensorucb._ROOMS)


def names_of(room: str) -> tuple[types.ModuleType, list[str]]:
    module = importlib.import_module(f"tensorucb.{room}")
    return module, sorted(module.__all__, key=str.lower)


# The room of each public name, where only one room has it.
_FOUND = [(name, f"tensorucb.{room}") for room in ROOMS for name in names_of(room)[1]]
PLACES = {name: room for name, room in _FOUND if [n for n, _ in _FOUND].count(name) == 1}


def constant(module: types.ModuleType, name: str) -> list[str]:
    """A name of a type, or a number: what it stands for, and the text below its assignment."""
    for path in sorted(Path(str(module.__file__)).parent.glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for line, below in itertools.pairwise(body):
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == name and isinstance(below, ast.Expr):
                text = inspect.cleandoc(ast.literal_eval(below.value))
                return [f".. py:data:: {name}", "", f"   ``{ast.unparse(line.value)}``", "", f"   {text}", ""]
    raise LookupError(f"{module.__name__}.{name} has no text below its assignment")


def room_page(room: str) -> str:
    module, names = names_of(room)
    values = {name: getattr(module, name) for name in names}
    own = [name for name, value in values.items() if inspect.isclass(value) or inspect.isfunction(value)]
    title = f"tensorucb.{room}"
    lines = [title, "=" * len(title), "", (module.__doc__ or "").strip(), "", f".. currentmodule:: {title}", ""]
    lines += [".. autosummary::", "   :toctree: names", "", *(f"   {name}" for name in own), ""]
    for name in names:
        if name not in own:
            lines += constant(module, name)
    return "\n".join(lines)


def index_page() -> str:
    head = ["API", "===", "", "Every public name, by module; what people call has an example that the tests run.", ""]
    modules = [".. list-table::", "   :widths: auto", ""]
    for room in sorted(ROOMS):
        first = (names_of(room)[0].__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        modules += [f"   * - :doc:`tensorucb.{room} <{room}>`", f"     - {first}"]
    top = ["", "These names are at the top of the package too (``import tensorucb as tu``):", ""]
    for name in sorted(tensorucb.__all__, key=str.lower):
        room = tensorucb._NAMES[name].removeprefix(".")
        top.append(f"* :py:obj:`tu.{name} <tensorucb.{room}.{name}>`")
    tree = ["", ".. toctree::", "   :hidden:", "", *(f"   {room}" for room in sorted(ROOMS)), ""]
    return "\n".join([*head, *modules, *top, *tree])


def readable(app: Sphinx, what: str, name: str, obj: Any, options: Any, *parts: str | None) -> tuple[str | None, ...]:
    """A signature in which names of types stand as in the code, also beside a bar."""
    return tuple(part and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", part) for part in parts)


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"index": index_page(), **{room: room_page(room) for room in ROOMS}}
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    named = {line.strip() for text in pages.values() for line in text.splitlines()}
    for path in (folder / "names").glob("*.rst"):  # of names that are gone
        if path.stem.rpartition(".")[2] not in named:
            path.unlink()


def resolve(app: Sphinx, env: Any, node: pending_xref, contents: nodes.Element) -> nodes.Element | None:
    """Link a name as docstrings and signatures write it, alone or with its private file, to the page of the name."""
    parts = node.get("reftarget", "").split(".")
    if node.get("refdomain") != "py" or (len(parts) > 1 and not parts[-2].startswith("_") and parts[-2] not in PLACES):
        return None
    name, member = (parts[-2], [parts[-1]]) if len(parts) > 1 and parts[-2] in PLACES else (parts[-1], [])
    if name not in PLACES:
        return None
    target = ".".join([PLACES[name], name, *member])
    link = env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contents)
    return link if link is None else nodes.reference("", "", contents, **{k: link[k] for k in ("internal", "refuri")})


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write(app))  # before Sphinx looks for pages
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-signature", readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
