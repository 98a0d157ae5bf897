"""Figures of a campaign as a whole: what contact adds, rates of its groups, and what was learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from tensorucb.arrays import F64
from tensorucb.campaign import GroupProgress, Lift
from tensorucb.plots._rounds import group_label
from tensorucb.plots._theme import (
    BELOW,
    BLUE,
    ORANGE,
    chart_of,
    distinct,
    formatted,
    interval_layers,
    titled,
    told_apart,
)

MOST_GROUPS = 15
_WITH_TEXT = 10  # products beside which a number still fits
_POINTS = "Percentage points of followers who respond"


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    row: dict[str, Any] = {name: 100 * getattr(lift, name) for name in ("difference", "low", "high")}
    row["text"] = f"{row['difference']:+.2f}"
    base = chart_of([row]).encode(tooltip=formatted("+.2f", "difference", "low", "high"))
    scale = alt.Scale(zero=True, padding=14)
    x: Any = {"title": _POINTS, "scale": scale, "axis": alt.Axis(tickCount=6)}
    label = chart_of([row]).mark_text(dy=-16, fontWeight=600)
    number = label.encode(x=alt.X("difference:Q", title=_POINTS), text="text:N")
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+.2f} to "
        f"{row['high']:+.2f}. The dashed line is no effect."
    )
    layers = [*interval_layers(base, "difference", no_effect=True, **x), number]
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
    rows, best = _cells("user", users, products, affinity)
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
    rows, best = _cells("strategy", strategies, products, shares)
    said = (
        f"The highest share of followers, {100 * best['value']:.1f} %, is expected to respond to {best['product']} "
        f"with {best['strategy']}."
    )
    chart = _grid(rows, "strategy", ".1%", alt.value(BLUE), "value", best["value"] or 1.0)
    subtitle = "Share of all followers expected to respond"
    return titled(chart, "Strategies and products", subtitle, said, height=max(80, 26 * len(strategies)))


def _cells(
    kind: str, names: Sequence[Any], products: Sequence[Any], values: F64
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The cells of a grid, and the one with the largest value."""
    rows = [
        {kind: str(name), "product": str(product), "value": float(values[i, j])}
        for i, name in enumerate(names)
        for j, product in enumerate(products)
    ]
    return rows, max(rows, key=lambda row: float(row["value"]))


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
