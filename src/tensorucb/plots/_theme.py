"""One look for all figures: a colour-blind-safe palette, quiet axes, readable type, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tensorucb.checks import check_choice

Mode = Literal["light", "dark"]

FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"

# Okabe and Ito's palette, shifted where it would vanish on white or on black. A policy keeps its colour everywhere.
_KNOWN = {
    "TensorUCB": "#1477c0",
    "OnlineTensorUCB": "#0f6480",
    "TensorUCB (paper)": "#4fb3e8",
    "DILinUCB": "#d55e00",
    "IMLinUCB": "#009e73",
    "IMFB": "#cc79a7",
    "COIN": "#e69f00",
    "LinUCB": "#8a6d3b",
    "CUCB": "#7a5bc7",
    "Thompson": "#b8423a",
    "HighDegree": "#6b7280",
    "Random": "#9ca3af",
    "product-blind oracle": "#8c3181",
}
_SPARE = ("#117733", "#882255", "#44aa99", "#999933", "#aa4499", "#332288", "#ddaa33", "#661100")
# Those that do not learn are dashed, so that grey need not carry the meaning alone.
_DASHED = {"HighDegree": [7, 4], "Random": [2, 3], "TensorUCB (paper)": [10, 3], "product-blind oracle": [4, 2]}
_INKS = {
    "light": {"ink": "#1f2937", "soft": "#6b7280", "grid": "#e5e7eb", "axis": "#9ca3af", "paper": "#ffffff"},
    "dark": {"ink": "#e5e7eb", "soft": "#9ca3af", "grid": "#2b303b", "axis": "#6b7280", "paper": "#161a22"},
}


def colours(labels: Sequence[str]) -> list[str]:
    """A colour for each label; known policies always get their own."""
    spare = iter(_SPARE * (len(labels) // len(_SPARE) + 1))
    return [_KNOWN[label] if label in _KNOWN else next(spare) for label in labels]


def dashes(labels: Sequence[str]) -> list[list[int]]:
    """A dash pattern for each label."""
    return [_DASHED.get(label, [1, 0]) for label in labels]


def sequential(count: int) -> list[str]:
    """``count`` colours from pale to deep for an ordered quantity, all visible on white and on black."""
    anchors = ((253, 174, 97), (222, 73, 104), (140, 41, 129), (70, 60, 170))
    steps = [i * (len(anchors) - 1) / max(1, count - 1) for i in range(count)]
    return [_between(anchors, step) for step in steps]


def _between(anchors: Sequence[tuple[int, int, int]], step: float) -> str:
    low = min(int(step), len(anchors) - 2)
    share = step - low
    mixed = (round(a + share * (b - a)) for a, b in zip(anchors[low], anchors[low + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def theme(mode: Mode = "light") -> dict[str, Any]:
    """The Vega-Lite ``config`` of every figure."""
    ink = _INKS[check_choice("mode", mode, _INKS)]
    return {
        "background": ink["paper"],
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "color": ink["ink"],
            "fontSize": 16,
            "fontWeight": 600,
            "subtitleColor": ink["soft"],
            "subtitleFontSize": 12.5,
            "subtitlePadding": 5,
            "offset": 16,
        },
        "axis": {
            "labelColor": ink["soft"],
            "labelFontSize": 12,
            "titleColor": ink["ink"],
            "titleFontSize": 12.5,
            "titleFontWeight": 500,
            "titlePadding": 10,
            "gridColor": ink["grid"],
            "domain": False,
            "tickColor": ink["axis"],
            "tickSize": 4,
            "labelPadding": 5,
        },
        "axisX": {"grid": False, "domain": True, "domainColor": ink["axis"]},
        "axisY": {"ticks": False},
        "text": {"color": ink["ink"], "fontSize": 12},
        "rule": {"color": ink["axis"]},
        "legend": {"labelColor": ink["ink"], "titleColor": ink["ink"], "labelFontSize": 12, "labelLimit": 0},
        "line": {"strokeCap": "round", "strokeJoin": "round"},
    }
