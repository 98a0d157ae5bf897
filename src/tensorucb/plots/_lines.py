"""Lines with interval bands and a label at the end of each: the shape most of the paper's figures share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorucb.checks import check_instance, check_mapping, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import Experiment, Interval
from tensorucb.plots._theme import colours, dashes, sequential

WIDTH, HEIGHT = 640, 360
LONGEST_TITLE = 2000
_LABEL_GAP = 17  # pixels between the labels at the ends of neighbouring lines


def regret_curves(experiment: Experiment, *, title: str = "Average scaled regret", subtitle: str = "") -> Any:
    """Average scaled regret over rounds, one line per policy, with the 90 % interval over runs."""
    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    check_text("subtitle", subtitle, empty=True, longest=LONGEST_TITLE)
    curves = {policy: experiment.curve(policy) for policy in experiment.policies}
    runs = len(experiment.of(experiment.policies[0]))
    return line_chart(
        curves,
        x_title="Round",
        y_title="Average scaled regret",
        title=title,
        subtitle=subtitle or f"Lower is better; mean of {runs} runs, bands are 90 % intervals",
    )


def rank_curves(curves: Mapping[int, Interval], *, title: str = "Regret by tensor rank", subtitle: str = "") -> Any:
    """Average scaled regret over rounds, one line per rank, from pale (low) to deep (high)."""
    ranks = sorted(curves)
    named = {f"R = {rank}": curves[rank] for rank in ranks}
    return line_chart(
        named,
        x_title="Round",
        y_title="Average scaled regret",
        title=title,
        subtitle=subtitle,
        palette=sequential(len(ranks)),
    )


def line_chart(
    curves: Mapping[str, Interval],
    *,
    x_title: str,
    y_title: str,
    title: str,
    subtitle: str = "",
    x: Sequence[float] | None = None,
    log_y: bool = False,
    bands: bool = True,
    points: bool = False,
    palette: Sequence[str] | None = None,
) -> Any:
    """One line per label, its interval as a band, its name and last value at its right end.

    Parameters
    ----------
    curves
        Label -> mean, low and high at each ``x``.
    x
        Positions; 1, 2, 3 … by default.
    log_y
        Logarithmic vertical axis; every value must then be positive.
    bands, points
        Whether to draw the intervals, and a dot at each position.
    """
    import altair as alt

    for name, text in (("x_title", x_title), ("y_title", y_title), ("title", title), ("subtitle", subtitle)):
        check_text(name, text, empty=True, longest=LONGEST_TITLE)
    if not check_mapping("curves", curves, "a mapping of labels to intervals"):
        raise InputError("a figure needs at least one curve.")
    labels = list(curves)
    size = max(np.asarray(curve.mean).size for curve in curves.values())
    positions = list(x) if x is not None else [float(i + 1) for i in range(size)]
    rows = _rows(curves, positions)
    low, high = _range(rows, bands=bands, log_y=log_y)
    for row in rows:
        row["bottom"], row["top"] = max(row["low"], low), min(row["high"], high)
    y_scale = (
        alt.Scale(domain=[low, high], type="log") if log_y else alt.Scale(domain=[low, high], nice=False, zero=False)
    )
    x_scale = alt.Scale(domain=[min(positions), max(positions)], nice=False)
    hues = alt.Scale(domain=labels, range=list(palette or colours(labels)))
    colour = alt.Color("label:N", scale=hues, legend=None)
    x_axis = alt.X("x:Q", title=x_title, scale=x_scale, axis=alt.Axis(tickCount=8))
    ticks = alt.Axis(values=log_ticks(low, high), format="~s") if log_y else alt.Axis(tickCount=6)
    y_axis = alt.Y("mean:Q", title=y_title, scale=y_scale, axis=ticks)
    base = alt.Chart(alt.Data(values=rows))
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=dashes(labels)), legend=None)
    hover = alt.selection_point(fields=["x"], nearest=True, on="pointerover", clear="pointerout", empty=False)
    shown = alt.when(hover).then(alt.value(1)).otherwise(alt.value(1 if points else 0))
    tip = [
        alt.Tooltip("label:N", title="Policy" if palette is None else "Rank"),
        alt.Tooltip("x:Q", title=x_title),
        alt.Tooltip("mean:Q", title=y_title, format=".3~f"),
        alt.Tooltip("low:Q", title="from", format=".3~f"),
        alt.Tooltip("high:Q", title="to", format=".3~f"),
    ]
    layers = [
        base.mark_line(strokeWidth=2.2).encode(x=x_axis, y=y_axis, color=colour, strokeDash=dash),
        base.mark_circle(size=46)
        .encode(x=x_axis, y=y_axis, color=colour, opacity=shown, tooltip=tip)
        .add_params(hover),
        _end_labels(curves, hues, y_scale, low, high, log_y=log_y),
    ]
    if bands:
        band = base.mark_area(opacity=0.16).encode(
            x=x_axis, y=alt.Y("bottom:Q", scale=y_scale, title=y_title), y2="top:Q", color=colour
        )
        layers.insert(0, band)
    heading = alt.TitleParams(title, subtitle=subtitle) if subtitle else alt.TitleParams(title)
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=heading)


def _rows(curves: Mapping[str, Interval], positions: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {"label": label, "x": at, "mean": float(mean), "low": float(low), "high": float(high)}
        for label, curve in curves.items()
        for at, mean, low, high in zip(
            positions, np.ravel(curve.mean), np.ravel(curve.low), np.ravel(curve.high), strict=False
        )
    ]


def _range(rows: Sequence[Mapping[str, Any]], *, bands: bool, log_y: bool) -> tuple[float, float]:
    lows = [row["low" if bands else "mean"] for row in rows]
    highs = [row["high" if bands else "mean"] for row in rows]
    if log_y:
        positive = [row["mean"] for row in rows if row["mean"] > 0]
        if not positive:
            raise InputError("a logarithmic axis needs positive values.")
        return min(positive) / 1.5, max(max(highs), min(positive)) * 1.5
    # A band over two runs can be many times as wide as the means are apart: it is cut rather than all lines squeezed.
    ceiling = 1.3 * max(row["mean"] for row in rows)
    low, high = min(0.0, *lows), max(0.0, min(max(highs), ceiling))
    low = max(low, -0.3 * high) if min(row["mean"] for row in rows) >= 0 else low
    return low, high + 0.06 * ((high - low) or 1.0)


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


def _end_labels(
    curves: Mapping[str, Interval], hues: Any, y_scale: Any, low: float, high: float, *, log_y: bool
) -> Any:
    """Names at the right ends of the lines, pushed apart where lines end close together."""
    import altair as alt

    lasts = {label: float(np.ravel(curve.mean)[-1]) for label, curve in curves.items()}
    bend = np.log if log_y else np.asarray
    bottom, top = float(bend(low)), float(bend(high))
    heights = [(float(bend(max(v, low) if log_y else v)) - bottom) / (top - bottom) * HEIGHT for v in lasts.values()]
    placed = spread_apart(heights, _LABEL_GAP, HEIGHT)
    rows = [
        {"label": label, "text": f"{label} · {short_number(value)}", "offset": HEIGHT - place}
        for (label, value), place in zip(lasts.items(), placed, strict=True)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_text(align="left", baseline="middle", dx=10, fontWeight=600, fontSize=12)
        .encode(
            x=alt.XValue("width"),
            y=alt.Y("offset:Q", scale=None, title=None),
            text="text:N",
            color=alt.Color("label:N", scale=hues, legend=None),
        )
        .properties(name="end-labels")
    )


def spread_apart(heights: Sequence[float], gap: float, limit: float) -> list[float]:
    """``heights`` moved as little as possible (least squares) to be ``gap`` apart, order kept, within 0..limit."""
    order = np.argsort(heights, kind="stable")
    # Less i·gap, "at least a gap apart" becomes "not falling": isotonic regression, by pooling what falls.
    blocks: list[tuple[float, int]] = []
    for value in np.asarray(heights, dtype=np.float64)[order] - gap * np.arange(order.size):
        blocks.append((float(value), 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (b, m), (a, n) = blocks.pop(), blocks.pop()
            blocks.append(((a * n + b * m) / (n + m), n + m))
    flat = np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])
    placed = np.clip(flat, 0.0, max(0.0, limit - gap * (order.size - 1))) + gap * np.arange(order.size)
    result = np.empty(order.size)
    result[order] = placed
    return [float(value) for value in result]
