"""Figures of campaigns as a whole: what contact adds, rates of groups, what was learned, campaigns side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import altair as alt
import numpy as np

from tensorucb.arrays import F64
from tensorucb.campaign import CampaignProgress, GroupProgress, Lift
from tensorucb.campaign._progress import ratio_of_sums, sum_of_rounds
from tensorucb.plots._rounds import group_label
from tensorucb.plots._theme import BELOW, BLUE, ORANGE, WIDTH, chart_of, distinct, formatted, titled, told_apart

MOST_GROUPS = 15
_WITH_TEXT = 10  # products beside which a number still fits
_SPACE = 36  # pixels of a campaign beside others
# What campaigns are compared by: its title, and how its numbers are written.
_MEASURES = {
    "reach": ("Users who responded", ",.0f"),
    "cost": ("Cost per responder", ",.2f"),
    "lift": ("Lift in percentage points", "+.2f"),
}


def _interval_layers(base: Any, value: str, *, no_effect: bool, **x: Any) -> list[Any]:
    """A number on its interval, ``low`` to ``high``; beside a dashed line at ``no_effect``, which is 0."""
    layers = [
        base.mark_rule(strokeWidth=8, opacity=0.3, color=BLUE).encode(x=alt.X("low:Q", **x), x2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1, color=BLUE).encode(x=alt.X(f"{value}:Q", **x)),
    ]
    if no_effect:
        zero = chart_of([{"at": 0}]).mark_rule(strokeDash=[6, 4], strokeWidth=1.6)
        layers.insert(0, zero.encode(x=alt.X("at:Q", **x)))
    return layers


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    row: dict[str, Any] = {name: 100 * getattr(lift, name) for name in ("difference", "low", "high")}
    row["text"] = f"{row['difference']:+z.2f}"
    base = chart_of([row]).encode(tooltip=formatted("+.2f", "difference", "low", "high"))
    title = "Percentage points of followers who respond"
    x: Any = {"title": title, "scale": alt.Scale(zero=True, padding=14), "axis": alt.Axis(tickCount=6)}
    label = chart_of([row]).mark_text(dy=-16, fontWeight=600)
    number = label.encode(x=alt.X("difference:Q", title=title), text="text:N")
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+z.2f} to "
        f"{row['high']:+z.2f}. The dashed line is no effect."
    )
    layers = [*_interval_layers(base, "difference", no_effect=True, **x), number]
    subtitle = "Point: the estimate; bar: 90 % interval; dashed: no effect"
    return titled(alt.layer(*layers), "What contact adds", subtitle, said, height=90)


def believed_and_observed(groups: Sequence[GroupProgress], what: str) -> Any:
    """For each product, strategy or segment the share of followers expected to respond, and the share that did."""
    shown = [group for group in groups if group.believed is not None][:MOST_GROUPS]
    names = distinct(group_label(group) for group in shown)
    rows = []
    spans = []
    for name, group in zip(names, shown, strict=True):
        rows += [{"group": name, "what": mark, "rate": getattr(group, mark)} for mark in ("believed", "observed")]
        spans.append({"group": name, "from": group.believed, "to": group.observed})
    axis = alt.Axis(domain=False, labelLimit=150, labelFontSize=12)
    y = alt.Y("group:N", sort=names, title=None, axis=axis)
    looks = told_apart("what", ("believed", "observed"), BELOW, color=(ORANGE, BLUE), shape=("diamond", "circle"))
    shares: Any = {"title": "Share of followers who respond", "scale": alt.Scale(zero=True)}
    begin = alt.X("from:Q", axis=alt.Axis(format=".1~%", grid=True, tickCount=6), **shares)
    tip = ["group:N", "what:N", *formatted(".2%", "rate")]
    points = chart_of(rows).mark_point(filled=True, size=90, opacity=1)
    layers = alt.layer(
        chart_of(spans).mark_rule(strokeWidth=2, opacity=0.6).encode(y=y, x=begin, x2="to:Q"),
        points.encode(y=y, x=alt.X("rate:Q", **shares), **looks, tooltip=tip),
    )
    said = f"Believed and observed response rates of {what} ({len(shown)}); the table below has the numbers."
    return titled(layers, f"Response rates of {what}", "Closed rounds", said, height=max(60, 30 * len(shown)))


# -- what was learned: which users, products and strategies go together --


def goes_together(users: Sequence[Any], products: Sequence[Any], affinity: F64) -> Any:
    """Users by products: how many times as many responses as usual are expected of the two together."""
    rows = _cells("user", users, products, affinity)
    best = max(rows, key=itemgetter("value"))
    more, fewer = "more responses than usual", "fewer"
    for row in rows:
        times = row["value"]
        row["side"] = more if times >= 1.0 else fewer
        # 0 for the usual, 1 from twice as many or half as many on.
        row["strength"] = min(1.0, max(times, 1.0 / max(times, 1e-9)) - 1.0)
    colour = told_apart("side", (more, fewer), BELOW, color=(BLUE, ORANGE))["color"]
    said = (
        f"Of {len(users)} users and {len(products)} products, {best['user']} and {best['product']} go together best: "
        f"{best['value']:.1f} times as many responses as usual."
    )
    subtitle = "Responses expected, as a multiple of what is usual for the user and for the product"
    chart = _grid(rows, "user", ".1f", colour, "strength", 1)
    return titled(chart, "Users and products", subtitle, said, height=max(80, 26 * len(users)))


def strategies_by_product(strategies: Sequence[Any], products: Sequence[Any], shares: F64) -> Any:
    """Strategies by products: the share of all followers expected to respond."""
    rows = _cells("strategy", strategies, products, shares)
    best = max(rows, key=itemgetter("value"))
    said = (
        f"The highest share of followers, {100 * best['value']:.1f} %, is expected to respond to {best['product']} "
        f"with {best['strategy']}."
    )
    chart = _grid(rows, "strategy", ".1%", alt.value(BLUE), "value", best["value"] or 1.0)
    subtitle = "Share of all followers expected to respond"
    return titled(chart, "Strategies and products", subtitle, said, height=max(80, 26 * len(strategies)))


def _cells(kind: str, names: Sequence[Any], products: Sequence[Any], values: F64) -> list[dict[str, Any]]:
    return [
        {kind: str(name), "product": str(product), "value": float(values[i, j])}
        for i, name in enumerate(names)
        for j, product in enumerate(products)
    ]


def _grid(rows: list[dict[str, Any]], kind: str, form: str, colour: Any, strength: str, strongest: float) -> Any:
    """Cells in the order of ``rows``, the stronger the less transparent, with their numbers where these fit."""
    names, products = (list(dict.fromkeys(row[key] for row in rows)) for key in (kind, "product"))
    above = alt.Axis(orient="top", labelAngle=-40, labelLimit=110, domain=False, ticks=False)
    beside = alt.Axis(domain=False, labelLimit=150)
    gap = alt.Scale(paddingInner=0.06)
    base = chart_of(rows).encode(
        x=alt.X("product:N", sort=products, title=None, axis=above, scale=gap),
        y=alt.Y(f"{kind}:N", sort=names, title=None, axis=beside, scale=gap),
        tooltip=[f"{kind}:N", "product:N", *formatted(form, "value")],
    )
    opacities = alt.Scale(domain=[0, strongest], range=[0.05, 0.9])
    opacity = alt.Opacity(f"{strength}:Q", scale=opacities, legend=None)
    layers = [base.mark_rect(cornerRadius=3, stroke=None).encode(color=colour, opacity=opacity)]
    if len(products) <= _WITH_TEXT:
        text = base.mark_text(fontSize=11).encode(text=alt.Text("value:Q", format=form))
        layers.append(text.properties(name="values"))
    return alt.layer(*layers)


# -- campaigns side by side --


@dataclass(frozen=True)
class Measure:
    """One number of a campaign with its 90 % interval; no ends where too few rounds tell how far it may vary.

    Attributes
    ----------
    campaign
        Its name.
    what
        ``reach``: different users who responded to any round; the interval says how far rounds differ in how many
        respond. ``cost``: what all contacts cost, divided by the responders, counted once per round. ``lift``: what
        contact adds to the share of followers who respond, in percentage points.
    value
        The number.
    low, high
        Ends of the interval.
    """

    campaign: str
    what: str
    value: float
    low: float | None
    high: float | None


def measures(progress: CampaignProgress) -> list[Measure]:
    """What a campaign can be compared by: its reach, and where they are known cost per responder and lift."""
    rounds = [entry for entry in progress.rounds if entry.kind != "history" and entry.status != "cancelled"]
    responses = [entry.responders for entry in rounds]
    # As many times as large as the reach as those of the responses are, which come again and again.
    times = progress.reached / sum(responses) if any(responses) else None
    ends = [None if end is None or times is None else times * end for end in sum_of_rounds(responses)]
    found = [Measure(progress.name, "reach", progress.reached, *ends)]
    if progress.cost_per_responder is not None:
        paid = np.array([(entry.spend or 0.0, entry.responders) for entry in rounds], dtype=np.float64)
        _, *ends = ratio_of_sums(paid.reshape(-1, 2))
        found.append(Measure(progress.name, "cost", progress.cost_per_responder, *ends))
    if progress.lift is not None:
        points = [100 * share for share in (progress.lift.difference, progress.lift.low, progress.lift.high)]
        found.append(Measure(progress.name, "lift", *points))
    return found


def side_by_side(measured: Sequence[Measure]) -> Any:
    """One figure with a part for each number: all campaigns below each other, with their intervals.

    The parts show one table, which is the figure's: the page gives it to whoever takes the numbers home.
    """
    names = list(dict.fromkeys(measure.campaign for measure in measured))
    by_what = {what: [measure for measure in measured if measure.what == what] for what in _MEASURES}
    shown = {what: found for what, found in by_what.items() if found}
    parts: list[Any] = []
    said = []
    for what, found in shown.items():
        title, form = _MEASURES[what]
        said.append(f"{title}: " + ", ".join(_said(measure, form) for measure in found))
        # Names of campaigns stand beside the first part alone.
        beside = None if parts else alt.Axis(domain=False, labelLimit=150, labelFontSize=12)
        y = alt.Y("campaign:N", sort=names, title=None, axis=beside, scale=alt.Scale(domain=names))
        whole = {"tickMinStep": 1} if what == "reach" else {}
        axis = alt.Axis(tickCount=4, format=form.replace("f", "~f"), grid=True, **whole)
        x: Any = {"title": title, "scale": alt.Scale(zero=True, padding=8), "axis": axis}
        tip = ["campaign:N", *formatted(form, "value", "low", "high")]
        base = alt.Chart().transform_filter(f"datum.what == '{what}'").encode(y=y, tooltip=tip)
        layers = alt.layer(*_interval_layers(base, "value", no_effect=what == "lift", **x))
        parts.append(layers.properties(width=(WIDTH - 120) // len(shown), height=_SPACE * (len(names) + 1)))
    heading = alt.TitleParams("Campaigns side by side", subtitle="Point: the number; bar: its 90 % interval")
    table = alt.Data(values=[vars(measure) for measure in measured])
    return alt.hconcat(*parts, data=table, spacing=24, title=heading, description=f"{'; '.join(said)}.")


def _said(measure: Measure, form: str) -> str:
    interval = "" if measure.low is None else f" ({measure.low:{form}} to {measure.high:{form}})"
    return f"{measure.campaign} {measure.value:{form}}{interval}"
