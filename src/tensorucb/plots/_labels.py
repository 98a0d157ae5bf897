"""What stands to the right of a line chart: the last value's interval, a thin line to the label, and the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

GAP = 16  # pixels between neighbouring labels
_WHISKER_STEP = 8  # pixels between the intervals of neighbouring lines
_LEADER = 16  # width of the lines between the ends and the labels that had to move
_CAP = 3  # half the width of a whisker's end


@dataclass(frozen=True)
class Ending:
    """How a line ends: its label, and where its last value and that value's interval are, in pixels from the top."""

    label: str
    text: str
    style: str  # "loud" (coloured), "quiet" or "reference"
    height: float
    interval: tuple[float, float] | None = None
    colour: str = ""
    dash: Sequence[int] = (1, 0)


def ending_layers(endings: Sequence[Ending], limit: float) -> list[Any]:
    """The layers that name the lines; ``limit`` is the chart's height."""
    whiskers = [ending for ending in endings if ending.interval is not None]
    room = 6 + _WHISKER_STEP * len(whiskers)
    placed = spread_apart([ending.height for ending in endings], GAP, limit)
    rows = [
        {
            "label": ending.label,
            "text": ending.text,
            "height": ending.height,
            "place": place,
            "style": ending.style,
            "colour": ending.colour,
            "dash": list(ending.dash),
        }
        for ending, place in zip(endings, placed, strict=True)
    ]
    layers = [_leaders(rows, 2, room, "height", "height"), _leaders(rows, room, room + _LEADER, "height", "place")]
    for number, ending in enumerate(whiskers):
        layers += _whisker(ending, 8 + _WHISKER_STEP * number)
    layers += [_names([row for row in rows if row["style"] == style], style, room + _LEADER + 4) for style in _STYLES]
    return [layer for layer in layers if layer is not None]


_STYLES = ("loud", "quiet", "reference")


def _pixels(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def _leaders(rows: Sequence[dict[str, Any]], left: int, right: int, begin: str, end: str) -> Any:
    return (
        alt.Chart(alt.Data(values=list(rows)), name=f"end-leaders-{end}")
        .mark_rule(style="leader", xOffset=left, x2Offset=right)
        .encode(x=alt.XValue("width"), x2=alt.X2Value("width"), y=alt.Y(**_pixels(begin)), y2=alt.Y2(f"{end}:Q"))
    )


def _whisker(ending: Ending, shift: int) -> list[Any]:
    """The interval of the last value: a vertical line with a bar at each end."""
    low, high = ending.interval or (0.0, 0.0)
    parts = {"whisker": (0, low, high), "whisker-low": (_CAP, low, low), "whisker-high": (_CAP, high, high)}
    return [
        alt.Chart(alt.Data(values=[{"from": begin, "to": end}]), name=f"{name}-{ending.label}")
        .mark_rule(color=ending.colour, strokeWidth=1.8, xOffset=shift - half, x2Offset=shift + half)
        .encode(x=alt.XValue("width"), x2=alt.X2Value("width"), y=alt.Y(**_pixels("from")), y2=alt.Y2("to:Q"))
        for name, (half, begin, end) in parts.items()
    ]


def _names(rows: Sequence[dict[str, Any]], style: str, shift: int) -> Any:
    if not rows:
        return None
    text = (
        alt.Chart(alt.Data(values=list(rows)), name=f"end-labels-{style}")
        .mark_text(align="left", baseline="middle", dx=shift, style=f"{style}-label")
        .encode(x=alt.XValue("width"), y=alt.Y(**_pixels("place")), text="text:N")
    )
    return text.encode(color=alt.Color("colour:N", scale=None)) if style == "loud" else text


def spread_apart(heights: Sequence[float], gap: float, limit: float) -> list[float]:
    """``heights`` moved as little as possible (least squares) to be ``gap`` apart, order kept, within 0..limit."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(heights, kind="stable")
    steps = gap * np.arange(order.size)
    # Less i·gap, "at least a gap apart" becomes "not falling", which is isotonic regression.
    flat = isotonic_regression(np.asarray(heights, dtype=np.float64)[order] - steps).x
    placed = np.empty(order.size)
    placed[order] = np.clip(flat, 0.0, max(0.0, limit - gap * (order.size - 1))) + steps
    return [float(value) for value in placed]
