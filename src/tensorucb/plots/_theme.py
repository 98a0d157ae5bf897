"""One look for all figures: a colour-blind-safe palette, quiet axes, readable type, light and dark."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import altair as alt
import numpy as np
import polars as pl

from tensorucb.checks import check_choice, check_text

Mode = Literal["light", "dark"]
_Look = TypeVar("_Look")

WIDTH, HEIGHT = 640, 360
BLUE = "#1477c0"
ORANGE = "#d55e00"
GREY = "#8a93a0"
_LONGEST_TITLE = 2000
BELOW = alt.Legend(title=None, orient="bottom")
FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"

# After Okabe and Ito; each has a contrast of at least 3 to 1 with the white and with the black of the pages.
_PALETTE = (BLUE, ORANGE, "#009e73", "#a855b0", "#b07d00", "#c2568a", "#2f9d8c", "#7a8b1f", "#b06040", "#6a72e0")
# Shapes as well as colours, for readers and printers that do not tell colours apart.
_DASHES = ([1, 0], [9, 3], [2, 3], [9, 3, 2, 3])
_OURS = "TensorUCB"
# They know part of the truth: marks of what can be reached, beside which the policies play.
_KNOWING = ("product-blind oracle", "truth", f"{_OURS}, best fixed strategy")
# Of a light page, and of a dark one.
_INKS = {
    "ink": ("#1f2937", "#e5e7eb"),
    "soft": ("#6b7280", "#9ca3af"),
    "grid": ("#e5e7eb", "#2b303b"),
    "axis": ("#9ca3af", "#6b7280"),
    "paper": ("#ffffff", "#161a22"),
    "quiet": ("#a3aab5", "#555e6c"),
}


def chart_of(rows: pl.DataFrame | Sequence[Mapping[str, Any]], **properties: Any) -> Any:
    """A chart of rows that are part of the figure."""
    values = rows.to_dicts() if isinstance(rows, pl.DataFrame) else list(rows)
    return alt.Chart(alt.Data(values=values), **properties)


def formatted(form: str, *fields: str) -> list[Any]:
    """What a pointer finds of these fields, which are numbers of one format."""
    return [alt.Tooltip(f"{field}:Q", format=form) for field in fields]


def told_apart(field: str, labels: Iterable[str], legend: Any, **looks: Iterable[Any]) -> dict[str, Any]:
    """Encodings that tell the labels of a field apart: ``color``, ``shape`` or ``strokeDash``, with a look for each."""
    kinds = {"color": alt.Color, "shape": alt.Shape, "strokeDash": alt.StrokeDash}
    domain = list(labels)
    return {
        channel: kinds[channel](f"{field}:N", scale=alt.Scale(domain=domain, range=list(look)), legend=legend)
        for channel, look in looks.items()
    }


def titled(
    chart: Any,
    title: str,
    subtitle: str | Sequence[str] = "",
    description: str = "",
    height: int = HEIGHT,
    width: int = WIDTH,
) -> Any:
    """A figure: the chart with its heading, its size, and words for readers who do not see it."""
    check_text("title", title, empty=True, longest=_LONGEST_TITLE)
    for line in [subtitle] if isinstance(subtitle, str) else subtitle:
        check_text("subtitle", line, empty=True, longest=_LONGEST_TITLE)
    heading = alt.TitleParams(title, subtitle=subtitle) if any(subtitle) else alt.TitleParams(title)
    return chart.properties(width=width, height=height, title=heading, description=description or title)


def knows_the_truth(label: str) -> bool:
    """Whether this is no policy but a mark of what can be reached, by its label."""
    return label.startswith(_KNOWING)


def leaders(finals: Mapping[str, float]) -> list[str]:
    """Which policies a figure shows in colour: ours and the two best others, by their last regret."""
    policies = [label for label in finals if not knows_the_truth(label)]
    return sorted(policies, key=lambda label: (label != _OURS, finals[label]))[:3]


def colours(labels: Sequence[str]) -> list[str]:
    """A colour for each label; the first one is ours where we are among them."""
    return _given(labels, _PALETTE)


def dashes(labels: Sequence[str]) -> list[list[int]]:
    """A dash pattern for each label; ours is a full line."""
    return [list(pattern) for pattern in _given(labels, _DASHES)]


def _given(labels: Sequence[str], looks: Sequence[_Look]) -> list[_Look]:
    others = itertools.cycle(looks[1:] if _OURS in labels else looks)
    return [looks[0] if label == _OURS else next(others) for label in labels]


def sequential(count: int) -> list[str]:
    """``count`` colours from orange to blue for an ordered quantity, all readable on white and on black."""
    anchors = np.array([(200, 113, 26), (207, 74, 107), (156, 83, 180), (95, 106, 216)])
    steps = np.linspace(0, len(anchors) - 1, count)
    channels = [np.interp(steps, np.arange(len(anchors)), anchors[:, channel]) for channel in range(3)]
    return [f"#{round(red):02x}{round(green):02x}{round(blue):02x}" for red, green, blue in zip(*channels, strict=True)]


def theme(mode: Mode = "light") -> dict[str, Any]:
    """The Vega-Lite ``config`` of every figure.

    Examples
    --------
    >>> theme("dark")["background"]
    '#161a22'
    """
    dark = check_choice("mode", mode, get_args(Mode)) == "dark"
    ink = {name: pair[dark] for name, pair in _INKS.items()}
    heading = {"anchor": "start", "color": ink["ink"], "fontSize": 16, "fontWeight": 600, "offset": 16}
    labels = {"labelColor": ink["soft"], "labelFontSize": 12, "labelPadding": 5}
    titles = {"titleColor": ink["ink"], "titleFontSize": 12.5, "titleFontWeight": 500, "titlePadding": 10}
    return {
        "background": ink["paper"],
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None},
        "title": heading | {"subtitleColor": ink["soft"], "subtitleFontSize": 12.5, "subtitlePadding": 5},
        "axis": labels | titles | {"gridColor": ink["grid"], "domain": False, "tickColor": ink["axis"], "tickSize": 4},
        "axisX": {"grid": False, "domain": True, "domainColor": ink["axis"]},
        "axisY": {"ticks": False},
        "text": {"color": ink["ink"], "fontSize": 12},
        "rule": {"color": ink["axis"]},
        "legend": {"labelColor": ink["ink"], "titleColor": ink["ink"], "labelFontSize": 12, "labelLimit": 0},
        "line": {"strokeCap": "round", "strokeJoin": "round"},
        "style": _styles(ink),
    }


def _styles(ink: Mapping[str, str]) -> dict[str, Any]:
    """Looks that change with the page's light and dark; figures name them."""
    name = {"fontSize": 11.5, "fontWeight": 400}
    return {
        "quiet-line": {"color": ink["quiet"], "strokeWidth": 1.4},
        "knowing-line": {"color": ink["soft"], "strokeWidth": 1.6, "strokeDash": [3, 3]},
        "reference": {"color": ink["ink"], "strokeWidth": 1.4, "strokeDash": [4, 3]},
        "leader": {"color": ink["quiet"], "strokeWidth": 0.8},
        "whisker": {"color": ink["ink"], "strokeWidth": 1.8},
        "quiet-bar": {"color": ink["quiet"]},
        "loud-label": name | {"fontWeight": 700},
        "quiet-label": name | {"color": ink["soft"]},
        "reference-label": name | {"color": ink["ink"]},
    }


def distinct(names: Iterable[object]) -> list[str]:
    """Names as texts, with a number behind one that came before: a figure puts what is called the same in one place."""
    given: list[str] = []
    for name in map(str, names):
        numbered = (f"{name} ({number})" for number in itertools.count(2))
        given.append(next(each for each in itertools.chain([name], numbered) if each not in given))
    return given
