"""The pages of the API reference: one per room, with every name in its `__all__`; each name gets a page of its own."""

from __future__ import annotations

import importlib
import types
from pathlib import Path

from sphinx.application import Sphinx

import tensorucb

ROOMS = [*tensorucb._ROOMS, "experiments.offline"]


def names_of(room: str) -> tuple[types.ModuleType, list[str]]:
    module = importlib.import_module(f"tensorucb.{room}")
    return module, sorted(module.__all__, key=str.lower)


def room_page(room: str) -> str:
    module, names = names_of(room)
    title = f"tensorucb.{room}"
    lines = [title, "=" * len(title), "", (module.__doc__ or "").strip(), "", f".. currentmodule:: {title}", ""]
    lines += [".. autosummary::", "   :toctree: names", "", *(f"   {name}" for name in names), ""]
    return "\n".join(lines)


def index_page() -> str:
    top = []
    for name in tensorucb.__all__:
        room = tensorucb._NAMES[name].removeprefix(".")
        top.append(f"* :py:obj:`tensorucb.{name} <tensorucb.{room}.{name}>`")
    rooms = [f"   {room}" for room in sorted(ROOMS)]
    head = ["API", "===", "", "Every public name, by room, with an example that the tests run.", ""]
    tail = ["These names are at the top of the package too (``import tensorucb as tu``):", "", *top, ""]
    return "\n".join([*head, *tail, ".. toctree::", "   :maxdepth: 1", "   :caption: Rooms", "", *rooms, ""])


def write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"index": index_page(), **{room: room_page(room) for room in ROOMS}}
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", lambda app, _: write(app))  # before Sphinx looks for pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
