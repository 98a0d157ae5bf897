"""Line charts that name each line at its end: a few lines in colour, the others grey behind them.

To the right of the picture stand the last value's interval, a thin line to the label, and the label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from tensorucb.errors import InputError
from tensorucb.experiments import Interval
from tensorucb.plots._theme import HEIGHT, chart_of, colours, dashes, formatted, knows_the_truth, titled

_GAP = 16  # pixels between neighbouring labels
_WHISKER_STEP = 8  # pixels between the intervals of neighbouring lines
_LEADER = 16  # width of the lines between the ends and the labels that had to move
_CAP = 3  # half the width of a whisker's end


@dataclass(frozen=True)
class _Line:
    """A line, as the rows of its points (label, x, mean, low, high), and how it looks.

    ``style`` is "loud" (coloured), "quiet", "knowing" (a mark of what can be reached) or "reference".
    """

    label: str
    style: str
    rows: list[dict[str, Any]]
    colour: str = ""
    dash: Sequence[int] = (1, 0)

    @property
    def last(self) -> float:
        mean: float = self.rows[-1]["mean"]
        return mean

    def text(self, top: float) -> str:
        """Its name and last value; an arrow says that it ends above the picture."""
        return f"{self.label} · {short_number(self.last)}" + (" ↑" if self.last > top else "")


@dataclass(frozen=True)
class _Scale:
    """The vertical axis: its ends, and where a value is in pixels from the top."""

    low: float
    high: float
    log: bool
    height: int

    def pixel(self, value: float) -> float:
        ends = np.array([self.low, self.high, max(value, self.low) if self.log else value])
        low, high, at = np.log(ends) if self.log else ends
        return float(np.clip(self.height * (1.0 - (at - low) / (high - low)), 0.0, self.height))

    def axis(self, title: str) -> Any:
        kind = {"type": "log"} if self.log else {"nice": False, "zero": False}
        ticks = {"values": log_ticks(self.low, self.high), "format": "~s"} if self.log else {"tickCount": 6}
        scale = alt.Scale(domain=[self.low, self.high], **kind)
        return alt.Y("mean:Q", title=title, scale=scale, axis=alt.Axis(**ticks))


def line_chart(
    curves: Mapping[str, Interval],
    *,
    x_title: str,
    y_title: str,
    title: str,
    subtitle: str | Sequence[str] = "",
    x: Sequence[float] | None = None,
    log_y: bool = False,
    points: bool = False,
    loud: Sequence[str] | None = None,
    palette: Sequence[str] | None = None,
    reference: str = "",
) -> Any:
    """One line per label, its name and last value at its right end; coloured ones with the last value's interval.

    A curve has a mean, a low and a high at each ``x``, by default at 1, 2, 3 …; ``points`` draws a dot there. The
    ``loud`` labels get the colours of the ``palette``, the most important first, by default all; the others are grey.
    A logarithmic vertical axis, ``log_y``, needs positive values and has no intervals. ``reference`` is the name of a
    dashed line at 0.
    """
    if not curves:
        raise InputError("a figure needs at least one curve.")
    size = max(np.asarray(curve.mean).size for curve in curves.values())
    positions = list(map(float, range(1, size + 1))) if x is None else list(x)
    named = list(curves) if loud is None else [label for label in loud if label in curves]
    # A palette needs no dashes.
    strokes = dashes(named) if palette is None else [[1, 0]] * len(named)
    looks = dict(zip(named, zip(palette or colours(named), strokes, strict=True), strict=True))
    lines = {label: _line(label, curve, positions, *looks.get(label, ())) for label, curve in curves.items()}
    scale = _scale(list(lines.values()), log_y=log_y, reference=bool(reference))
    extent = alt.Scale(domain=[min(positions), max(positions)], nice=False)
    x_axis = alt.X("x:Q", title=x_title, scale=extent, axis=alt.Axis(tickCount=8, tickMinStep=1))
    place = {"x": x_axis, "y": scale.axis(y_title)}
    # Points above the picture are left out rather than clipped: clips are numbered, and files would differ by it.
    seen = {name: [row for row in line.rows if row["mean"] <= scale.high] for name, line in lines.items()}
    layers = []
    for style in ("quiet", "knowing"):
        rows = [row for name in seen if lines[name].style == style for row in seen[name]]
        if rows:
            grey = chart_of(rows, name=f"lines-{style}").mark_line(style=f"{style}-line")
            layers.append(grey.encode(**place, detail="label:N"))
    behind = any(line.style == "quiet" for line in lines.values())
    for label in reversed(named):  # the most important on top
        line = lines[label]
        base = chart_of(seen[label], name=f"line-{label}").encode(**place)
        width = 3.0 if label == named[0] and behind else 2.2
        layers.append(base.mark_line(color=line.colour, strokeDash=line.dash, strokeWidth=width))
        if points:
            layers.append(base.mark_circle(size=46, color=line.colour).properties(name=f"dots-{label}"))
    ended = list(lines.values())
    if reference:
        zero = chart_of([{"mean": 0}], name="reference").mark_rule(style="reference")
        layers.insert(0, zero.encode(y=place["y"]))
        ended.append(_Line(reference, "reference", [{"mean": 0.0}], dash=(4, 3)))
    layers += [*_endings(ended, scale), _hover([row for rows in seen.values() for row in rows], place)]
    ended.sort(key=lambda line: -scale.pixel(line.last))
    lasts = ", ".join(line.text(scale.high).replace(" ·", "") for line in ended)
    described = f"{title}. {y_title}, over: {x_title}. The lines end at: {lasts}."
    return titled(alt.layer(*layers), title, subtitle, described, scale.height)


def _line(label: str, curve: Interval, positions: Sequence[float], colour: str = "", dash: Sequence[int] = ()) -> _Line:
    parts = [np.ravel(part).tolist() for part in (curve.mean, curve.low, curve.high)]
    rows = [
        {"label": label, "x": at, "mean": float(mean), "low": float(low), "high": float(high)}
        for at, mean, low, high in zip(positions, *parts, strict=False)
    ]
    if colour:
        return _Line(label, "loud", rows, colour, dash)
    if knows_the_truth(label):
        return _Line(label, "knowing", rows, dash=(3, 3))
    return _Line(label, "quiet", rows)


def _scale(lines: Sequence[_Line], *, log_y: bool, reference: bool) -> _Scale:
    height = max(HEIGHT, _GAP * (len(lines) + 2))
    if log_y:
        positive = [row["mean"] for line in lines for row in line.rows if row["mean"] > 0]
        if not positive:
            raise InputError("a logarithmic axis needs positive values.")
        return _Scale(min(positive) / 1.5, max(positive) * 1.5, log=True, height=height)
    # A grey line far above the others, such as random choices, would press them all to the ground: it may leave the
    # picture, and its label says so.
    far = 3.0 * float(np.median([line.last for line in lines]))
    kept = [row["mean"] for line in lines if line.style == "loud" or line.last <= far for row in line.rows]
    high, low = max(0.0, *kept), min(0.0, *kept)
    room = 0.05 * ((high - low) or 1.0)
    return _Scale(low - room if reference or low < 0 else low, high + room, log=False, height=height)


def _hover(rows: Sequence[dict[str, Any]], place: Mapping[str, Any]) -> Any:
    """Points that show up under the pointer, with their values; pages need them, files do not."""
    near = alt.selection_point(fields=["x"], nearest=True, on="pointerover", clear="pointerout", empty=False)
    tip = [alt.Tooltip("label:N", title="line"), alt.Tooltip("x:Q", title="at")]
    tip += formatted(".3~f", "mean", "low", "high")
    opacity = alt.when(near).then(alt.value(1)).otherwise(alt.value(0))
    circles = chart_of(rows, name="hover").mark_circle(size=40, style="whisker")
    return circles.encode(**place, opacity=opacity, tooltip=tip).add_params(near)


def _endings(lines: Sequence[_Line], scale: _Scale) -> list[Any]:
    """The layers that name the lines, with the intervals of the last values of coloured ones."""
    ends = [scale.pixel(line.last) for line in lines]
    rows = [
        {
            "label": line.label,
            "text": line.text(scale.high),
            "style": "quiet" if line.style == "knowing" else line.style,
            "colour": line.colour,
            "dash": list(line.dash),
            "height": end,
            "place": place,
        }
        for line, end, place in zip(lines, ends, spread_apart(ends, _GAP, scale.height), strict=True)
    ]
    loud = [line for line in lines if line.style == "loud" and not scale.log]
    uncertain = [line for line in loud if line.rows[-1]["low"] != line.rows[-1]["high"]]
    room = 6 + _WHISKER_STEP * len(uncertain)
    layers = []
    for end, left, right in (("height", 2, room), ("place", room, room + _LEADER)):
        leader = chart_of(rows, name=f"end-leaders-{end}").mark_rule(style="leader", xOffset=left, x2Offset=right)
        layers.append(_beside(leader, "height", end))
    for number, line in enumerate(uncertain):
        # A vertical line with a bar at each end.
        at = 8 + _WHISKER_STEP * number
        low, high = (scale.pixel(line.rows[-1][name]) for name in ("low", "high"))
        parts = {"whisker": (0, low, high), "whisker-low": (_CAP, low, low), "whisker-high": (_CAP, high, high)}
        for name, (half, top, bottom) in parts.items():
            whisker = chart_of([{"from": top, "to": bottom}], name=f"{name}-{line.label}")
            rule = whisker.mark_rule(color=line.colour, strokeWidth=1.8, xOffset=at - half, x2Offset=at + half)
            layers.append(_beside(rule, "from", "to"))
    for style in ("loud", "quiet", "reference"):
        if own := [row for row in rows if row["style"] == style]:
            look: Any = {"align": "left", "baseline": "middle", "dx": room + _LEADER + 4, "style": f"{style}-label"}
            names = chart_of(own, name=f"end-labels-{style}").mark_text(**look)
            names = names.encode(x=alt.XValue("width"), y=alt.Y(**_pixels("place")), text="text:N")
            layers.append(names.encode(color=alt.Color("colour:N", scale=None)) if style == "loud" else names)
    return layers


def _beside(rule: Any, begin: str, end: str) -> Any:
    """A rule to the right of the picture, from one height in pixels to another."""
    return rule.encode(x=alt.XValue("width"), x2=alt.X2Value("width"), y=alt.Y(**_pixels(begin)), y2=alt.Y2(f"{end}:Q"))


def _pixels(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def short_number(value: float) -> str:
    """Three digits; thousands and more with k, M, G."""
    rounded = float(f"{value:.3g}")
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(rounded) >= limit:
            return f"{rounded / (1e3 if unit == 'k' else limit):,g}{unit}"
    return f"{value:,.0f}" if abs(rounded) >= 1e3 else f"{rounded:g}"


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 … between ``low`` and ``high``; powers of ten alone over more than three decades."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if high / low < 1e3 else (1,)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


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
