"""Line charts that name each line at its end: a few lines in colour, the others grey behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from tensorucb.checks import check_instance, check_mapping, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import ETA, Experiment, Interval
from tensorucb.plots._labels import GAP, Ending, ending_layers
from tensorucb.plots._theme import colours, dashes, knows_the_truth, leaders, sequential

WIDTH, HEIGHT = 640, 360
LONGEST_TITLE = 2000
REGRET = (
    "Regret is how many more users the best possible choice would have reached in a round, "
    f"divided by {ETA:.2f} as in the paper. Lower is better."
)
REGRET_AXIS = f"Regret per round (users ÷ {ETA:.2f})"
_BEST = "best possible"


def regret_curves(experiment: Experiment, *, title: str = "Average regret so far") -> Any:
    """Average scaled regret over rounds: ours and the two best others in colour, the rest grey.

    The dashed line at 0 is the best possible choice, made by an oracle that knows every probability. The bars at the
    right end are 90 % intervals over runs.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, run_experiment
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import HighDegree, Random
    >>> found = run_experiment(world, {"HighDegree": HighDegree(), "Random": Random()}, rounds=4, runs=2)
    >>> chart = regret_curves(found)
    >>> "layer" in chart.to_dict()
    True
    """
    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    curves = {policy: experiment.curve(policy) for policy in experiment.policies}
    first = experiment.of(experiment.policies[0])
    reached = float(np.mean([run.optimum.mean() for run in first]))
    note = f"The best possible choice reaches {short_number(reached)} users per round on average."
    if len(first) > 1:
        note += f" Bars at the right: 90 % intervals over {len(first)} runs."
    finals = {policy: float(curve.mean[-1]) for policy, curve in curves.items()}
    return line_chart(
        curves,
        x_title="Round",
        y_title=f"{REGRET_AXIS}, average so far",
        title=title,
        subtitle=[REGRET, note],
        loud=leaders(finals),
        reference=_BEST,
    )


def rank_curves(curves: Mapping[int, Interval], *, title: str = "Regret by tensor rank", subtitle: str = "") -> Any:
    """Average scaled regret over rounds, one line per rank, from orange (low) to blue (high).

    Examples
    --------
    >>> from tensorucb.experiments import Interval
    >>> chart = rank_curves({1: Interval([5, 4], [5, 3], [5, 5]), 2: Interval([4, 2], [3, 1], [5, 3])})
    >>> chart.to_dict()["title"]["text"]
    'Regret by tensor rank'
    """
    named = {f"R = {rank}": curves[rank] for rank in sorted(curves)}
    return line_chart(
        named,
        x_title="Round",
        y_title=f"{REGRET_AXIS}, average so far",
        title=title,
        subtitle=subtitle,
        palette=sequential(len(named)),
        reference=_BEST,
    )


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
    heading = _heading(title, subtitle)
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
        zero = alt.Chart(alt.Data(values=[{"mean": 0}]), name="reference").mark_rule(style="reference")
        layers.insert(0, zero.encode(y=y_axis))
        endings.append(Ending(reference, f"{reference} · 0", "reference", scale.pixel(0.0), dash=(4, 3)))
    layers += [*ending_layers(endings, scale.height), _hover(rows, x_axis, y_axis)]
    lasts = ", ".join(ending.text.replace(" ·", "") for ending in sorted(endings, key=lambda e: -e.height))
    described = f"{title}. {y_title}, over: {x_title}. The lines end at: {lasts}."
    return alt.layer(*layers).properties(width=WIDTH, height=scale.height, title=heading, description=described)


def _heading(title: str, subtitle: str | Sequence[str]) -> Any:
    lines = [subtitle] if isinstance(subtitle, str) else list(subtitle)
    check_text("title", title, empty=True, longest=LONGEST_TITLE)
    for line in lines:
        check_text("subtitle", line, empty=True, longest=LONGEST_TITLE)
    return alt.TitleParams(title, subtitle=lines) if any(lines) else alt.TitleParams(title)


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
        alt.Chart(alt.Data(values=group), name=f"lines-{style}")
        .mark_line(style=f"{style}-line")
        .encode(x=x_axis, y=y_axis, detail="label:N")
        for style, group in groups.items()
        if group
    ]
    first = next(iter(looks), None)
    for label, look in reversed(list(looks.items())):
        own = alt.Data(values=[row for row in rows if row["label"] == label])
        base = alt.Chart(own, name=f"line-{label}").encode(x=x_axis, y=y_axis)
        width = 3.0 if label == first and groups["quiet"] else 2.2
        layers.append(base.mark_line(color=look.colour, strokeDash=look.dash, strokeWidth=width))
        if dots:
            layers.append(base.mark_circle(size=46, color=look.colour).properties(name=f"dots-{label}"))
    return layers


def _hover(rows: Sequence[dict[str, Any]], x_axis: Any, y_axis: Any) -> Any:
    """Points that show up under the pointer, with their values; pages need them, files do not."""
    near = alt.selection_point(fields=["x"], nearest=True, on="pointerover", clear="pointerout", empty=False)
    tip = [alt.Tooltip("label:N", title="line"), alt.Tooltip("x:Q", title="at")]
    tip += [alt.Tooltip(f"{name}:Q", format=".3~f") for name in ("mean", "low", "high")]
    return (
        alt.Chart(alt.Data(values=list(rows)), name="hover")
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
