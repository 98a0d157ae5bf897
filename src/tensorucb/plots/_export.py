"""Figures as files: PNG and SVG, drawn by the renderer in the installed wheel, nothing fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from tensorucb.files import atomic_write
from tensorucb.plots._theme import theme


def specification(chart: Any, *, responsive: bool = False) -> dict[str, Any]:
    """The figure as a Vega-Lite document with the house theme; ``responsive`` fits it to its container.

    Examples
    --------
    >>> from tensorucb.plots import degree_distribution, specification
    >>> specification(degree_distribution({"mine": [1, 2, 5]}), responsive=True)["width"]
    'container'
    """
    document: dict[str, Any] = chart.to_dict()
    document["config"] = theme("light")
    if responsive:
        document["width"] = "container"
        document["autosize"] = {"type": "fit-x", "contains": "padding"}
    return document


def save_figure(chart: Any, directory: str | Path, name: str) -> list[Path]:
    """Write ``name.png`` (twice the screen's resolution) and ``name.svg`` into ``directory``.

    Examples
    --------
    >>> from tensorucb.plots import degree_distribution
    >>> [path.name for path in save_figure(degree_distribution({"mine": [1, 2, 5]}), "figures", "degrees")]
    ['degrees.png', 'degrees.svg']
    """
    document = specification(chart)
    document["config"]["aria"] = False  # a description of every point would make the SVG many times larger
    _without_hover(document)
    release = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    options: dict[str, Any] = {"vl_version": release, "allowed_base_urls": []}
    content = {
        Path(directory) / f"{name}.png": vl_convert.vegalite_to_png(document, scale=2, **options),
        Path(directory) / f"{name}.svg": vl_convert.vegalite_to_svg(document, **options).encode(),
    }
    for path, drawn in content.items():
        with atomic_write(path) as file:
            file.write(drawn)
    return list(content)


def _without_hover(document: dict[str, Any]) -> None:
    """Leave out what only a pointer would show."""
    if "layer" in document:
        hidden = {layer["name"] for layer in document["layer"] if layer.get("name") == "hover"}
        document["layer"] = [layer for layer in document["layer"] if layer.get("name") not in hidden]
        document["params"] = [each for each in document.get("params", ()) if not hidden & set(each.get("views", ()))]
