"""Figures as files: PNG and SVG, drawn by the renderer in the installed wheel, nothing fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tensorucb.files import atomic_write
from tensorucb.plots._theme import Mode, theme


def specification(chart: Any, *, mode: Mode = "light", responsive: bool = False) -> dict[str, Any]:
    """The figure as a Vega-Lite document with the house theme; ``responsive`` fits it to its container."""
    document: dict[str, Any] = chart.to_dict()
    document["config"] = theme(mode)
    if responsive:
        document["width"] = "container"
        document["autosize"] = {"type": "fit-x", "contains": "padding"}
    return document


def save_figure(chart: Any, directory: str | Path, name: str, *, mode: Mode = "light") -> list[Path]:
    """Write ``name.png`` (twice the screen's resolution) and ``name.svg`` into ``directory``."""
    import altair as alt
    import vl_convert

    document = specification(chart, mode=mode)
    document["config"]["aria"] = False  # a description of every point would make the SVG many times larger
    release = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    options: dict[str, Any] = {"vl_version": release, "allowed_base_urls": []}
    png, svg = Path(directory) / f"{name}.png", Path(directory) / f"{name}.svg"
    with atomic_write(png) as file:
        file.write(vl_convert.vegalite_to_png(document, scale=2, **options))
    with atomic_write(svg) as file:
        file.write(vl_convert.vegalite_to_svg(document, **options).encode())
    return [png, svg]
