"""Line charts that name each line at its end: a few lines in colour, the others grey behind them.

To the right of the picture stand the last value's interval, a thin line to the label, and the label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from tensorucb.checks import check_mapping, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import Interval
from tensorucb.plots._theme import HEIGHT, LONGEST_TITLE, chart_of, colours, dashes, formatted, knows_the_truth, titled

GAP = 16  # pixels between neighbouring labels
_WHISKER_STEP = 8  # pixels between the intervals of neighbouring lines
_LEADER = 16  # width of the lines between the ends and the labels that had to move
_CAP = 3  # half the width of a whisker's end
_STYLES = ("loud", "quiet", "reference")


class _Look(NamedTuple):
    colour: str
    dash: list[int]


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

    def channel(self) -> Any:
        kind = {"type": "log"} if self.log else {"nice": False, "zero": False}
        return alt.Scale(domain=[self.low, self.high], **kind)


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

    Parameters
    ----------
    curves
        Label -> mean, low and high at each ``x``.
    x
        Positions; 1, 2, 3 … by default.
    log_y
        Logarithmic vertical axis, without intervals; every value must then be positive.
    points
        Whether to draw a dot at each position.
    loud
        Labels that get a colour, with the most important first; all by default. The others are grey.
    palette
        Colours of ``loud``.
    reference
        Name of a dashed line at 0.
    """
    for name, text in (("x_title", x_title), ("y_title", y_title)):
        check_text(name, text, empty=True, longest=LONGEST_TITLE)
    if not check_mapping("curves", curves, "a mapping of labels to intervals"):
        raise InputError("a figure needs at least one curve.")
    looks = _looks(curves, loud, palette)
    size = max(np.asarray(curve.mean).size for curve in curves.values())
    positions = list(x) if x is not None else [float(i + 1) for i in range(size)]
    rows = _rows(curves, positions)
    scale = _scale(curves, rows, looks, log_y=log_y, reference=bool(reference))
    extent = alt.Scale(domain=[min(positions), max(positions)], nice=False)
    x_axis = alt.X("x:Q", title=x_title, scale=extent, axis=alt.Axis(tickCount=8, tickMinStep=1))
    ticks = alt.Axis(values=log_ticks(scale.low, scale.high), format="~s") if log_y else alt.Axis(tickCount=6)
    y_axis = alt.Y("mean:Q", title=y_title, scale=scale.channel(), axis=ticks)
    # Points above the picture are left out rather than clipped: clips are numbered, and files would differ by it.
    rows = [row for row in rows if row["mean"] <= scale.high]
    layers = _line_layers(rows, looks, x_axis, y_axis, dots=points)
    endings = [_ending(label, curve, scale, looks.get(label)) for label, curve in curves.items()]
    if reference:
        zero = chart_of([{"mean": 0}], name="reference").mark_rule(style="reference")
        layers.insert(0, zero.encode(y=y_axis))
        endings.append(Ending(reference, f"{reference} · 0", "reference", scale.pixel(0.0), dash=(4, 3)))
    layers += [*ending_layers(endings, scale.height), _hover(rows, x_axis, y_axis)]
    lasts = ", ".join(ending.text.replace(" ·", "") for ending in sorted(endings, key=lambda e: -e.height))
    described = f"{title}. {y_title}, over: {x_title}. The lines end at: {lasts}."
    return titled(alt.layer(*layers), title, subtitle, described, scale.height)


def _looks(curves: Collection[str], loud: Sequence[str] | None, palette: Sequence[str] | None) -> dict[str, _Look]:
    """Colour and dashes of each coloured line, the most important first; a palette needs no dashes."""
    named = list(curves) if loud is None else [label for label in loud if label in curves]
    strokes = dashes(named) if palette is None else [[1, 0]] * len(named)
    shown = zip(named, palette or colours(named), strokes, strict=True)
    return {label: _Look(colour, dash) for label, colour, dash in shown}


def _line_layers(
    rows: Sequence[dict[str, Any]], looks: Mapping[str, _Look], x_axis: Any, y_axis: Any, *, dots: bool
) -> list[Any]:
    """Grey lines, then the dashed ones of those that know the truth, then coloured ones, the first on top."""
    groups: dict[str, list[dict[str, Any]]] = {"quiet": [], "knowing": []}
    for row in rows:
        if row["label"] not in looks:
            groups["knowing" if knows_the_truth(row["label"]) else "quiet"].append(row)
    layers = [
        chart_of(group, name=f"lines-{style}")
        .mark_line(style=f"{style}-line")
        .encode(x=x_axis, y=y_axis, detail="label:N")
        for style, group in groups.items()
        if group
    ]
    first = next(iter(looks), None)
    for label, look in reversed(list(looks.items())):
        own = [row for row in rows if row["label"] == label]
        base = chart_of(own, name=f"line-{label}").encode(x=x_axis, y=y_axis)
        width = 3.0 if label == first and groups["quiet"] else 2.2
        layers.append(base.mark_line(color=look.colour, strokeDash=look.dash, strokeWidth=width))
        if dots:
            layers.append(base.mark_circle(size=46, color=look.colour).properties(name=f"dots-{label}"))
    return layers


def _hover(rows: Sequence[dict[str, Any]], x_axis: Any, y_axis: Any) -> Any:
    """Points that show up under the pointer, with their values; pages need them, files do not."""
    near = alt.selection_point(fields=["x"], nearest=True, on="pointerover", clear="pointerout", empty=False)
    tip = [alt.Tooltip("label:N", title="line"), alt.Tooltip("x:Q", title="at")]
    tip += formatted(".3~f", "mean", "low", "high")
    return (
        chart_of(rows, name="hover")
        .mark_circle(size=40, style="whisker")
        .encode(x=x_axis, y=y_axis, opacity=alt.when(near).then(alt.value(1)).otherwise(alt.value(0)), tooltip=tip)
        .add_params(near)
    )


def _ending(label: str, curve: Interval, scale: _Scale, look: _Look | None) -> Ending:
    last, low, high = (float(np.ravel(part)[-1]) for part in (curve.mean, curve.low, curve.high))
    text = f"{label} · {short_number(last)}" + (" ↑" if last > scale.high else "")
    height = scale.pixel(last)
    if look is None:
        return Ending(label, text, "quiet", height, dash=(3, 3) if knows_the_truth(label) else (1, 0))
    interval = None if scale.log or low == high else (scale.pixel(low), scale.pixel(high))
    return Ending(label, text, "loud", height, interval, look.colour, look.dash)


def _rows(curves: Mapping[str, Interval], positions: Sequence[float]) -> list[dict[str, Any]]:
    columns = {
        label: [np.ravel(c).tolist() for c in (curve.mean, curve.low, curve.high)] for label, curve in curves.items()
    }
    return [
        {"label": label, "x": at, "mean": float(mean), "low": float(low), "high": float(high)}
        for label, ends in columns.items()
        for at, mean, low, high in zip(positions, *ends, strict=False)
    ]


def _scale(
    curves: Mapping[str, Interval],
    rows: Sequence[Mapping[str, Any]],
    loud: Collection[str],
    *,
    log_y: bool,
    reference: bool,
) -> _Scale:
    height = max(HEIGHT, GAP * (len(curves) + 2))
    if log_y:
        positive = [row["mean"] for row in rows if row["mean"] > 0]
        if not positive:
            raise InputError("a logarithmic axis needs positive values.")
        return _Scale(min(positive) / 1.5, max(positive) * 1.5, log=True, height=height)
    # A grey line far above the others, such as random choices, would press them all to the ground: it may leave the
    # picture, and its label says so.
    finals = {label: float(np.ravel(curve.mean)[-1]) for label, curve in curves.items()}
    far = 3.0 * float(np.median(list(finals.values())))
    kept = [row["mean"] for row in rows if row["label"] in loud or finals[row["label"]] <= far]
    high, low = max(0.0, *kept), min(0.0, *kept)
    room = 0.05 * ((high - low) or 1.0)
    return _Scale(low - room if reference or low < 0 else low, high + room, log=False, height=height)


def short_number(value: float) -> str:
    """Three digits; thousands and more with k, M, G."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):,.3g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.3g}"


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10 … between ``low`` and ``high``; powers of ten alone over more than three decades."""
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    steps = (1, 2, 5) if high / low < 1e3 else (1,)
    return [s * 10.0**d for d in decades for s in steps if low <= s * 10.0**d <= high]


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
    rows = [{**asdict(ending), "place": place} for ending, place in zip(endings, placed, strict=True)]
    layers = [_leaders(rows, 2, room, "height", "height"), _leaders(rows, room, room + _LEADER, "height", "place")]
    for number, ending in enumerate(whiskers):
        layers += _whisker(ending, 8 + _WHISKER_STEP * number)
    layers += [_names([row for row in rows if row["style"] == style], style, room + _LEADER + 4) for style in _STYLES]
    return [layer for layer in layers if layer is not None]


def _pixels(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}


def _leaders(rows: Sequence[dict[str, Any]], left: int, right: int, begin: str, end: str) -> Any:
    return (
        chart_of(rows, name=f"end-leaders-{end}")
        .mark_rule(style="leader", xOffset=left, x2Offset=right)
        .encode(x=alt.XValue("width"), x2=alt.X2Value("width"), y=alt.Y(**_pixels(begin)), y2=alt.Y2(f"{end}:Q"))
    )


def _whisker(ending: Ending, shift: int) -> list[Any]:
    """The interval of the last value: a vertical line with a bar at each end."""
    low, high = ending.interval or (0.0, 0.0)
    parts = {"whisker": (0, low, high), "whisker-low": (_CAP, low, low), "whisker-high": (_CAP, high, high)}
    return [
        chart_of([{"from": begin, "to": end}], name=f"{name}-{ending.label}")
        .mark_rule(color=ending.colour, strokeWidth=1.8, xOffset=shift - half, x2Offset=shift + half)
        .encode(x=alt.XValue("width"), x2=alt.X2Value("width"), y=alt.Y(**_pixels("from")), y2=alt.Y2("to:Q"))
        for name, (half, begin, end) in parts.items()
    ]


def _names(rows: Sequence[dict[str, Any]], style: str, shift: int) -> Any:
    if not rows:
        return None
    text = (
        chart_of(rows, name=f"end-labels-{style}")
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
