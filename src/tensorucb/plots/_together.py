"""Figures of what was learned: which users, products and strategies go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from tensorucb.arrays import F64
from tensorucb.plots._theme import BLUE, ORANGE, titled

_SIDES = ("more responses than usual", "fewer")
_STRONGEST = 2.0  # times as many, or as few: full colour
_CELL = 26
_WITH_TEXT = 10  # products beside which a number still fits
_FAINT, _FULL = 0.05, 0.9
_Words = tuple[str, str, str]  # title, subtitle and description


def goes_together(users: Sequence[Any], products: Sequence[Any], affinity: F64) -> Any:
    """Users by products: how many times as many responses as usual are expected of the two together."""
    rows = _cells("user", users, products, affinity)
    for row in rows:
        row["side"] = _SIDES[0] if row["value"] >= 1.0 else _SIDES[1]
        row["strength"] = _strength(row["value"])
    best = max(rows, key=lambda row: float(row["value"]))
    said = (
        f"Of {len(users)} users and {len(products)} products, {best['user']} and {best['product']} go together best: "
        f"{best['value']:.1f} times as many responses as usual."
    )
    colour = alt.Color(
        "side:N",
        scale=alt.Scale(domain=list(_SIDES), range=[BLUE, ORANGE]),
        legend=alt.Legend(title=None, orient="bottom"),
    )
    opacity = alt.Opacity("strength:Q", scale=alt.Scale(domain=[0, 1], range=[_FAINT, _FULL]), legend=None)
    subtitle = "Responses expected, as a multiple of what is usual for the user and for the product"
    return _grid(rows, "user", ".1f", colour, opacity, ("Users and products", subtitle, said))


def strategies_by_product(strategies: Sequence[Any], products: Sequence[Any], shares: F64) -> Any:
    """Strategies by products: the share of all followers expected to respond."""
    rows = _cells("strategy", strategies, products, shares)
    best = max(rows, key=lambda row: float(row["value"]))
    said = (
        f"The highest share of followers, {100 * best['value']:.1f} %, is expected to respond to {best['product']} "
        f"with {best['strategy']}."
    )
    scale = alt.Scale(domain=[0, best["value"] or 1.0], range=[_FAINT, _FULL])
    opacity = alt.Opacity("value:Q", scale=scale, legend=None)
    words = ("Strategies and products", "Share of all followers expected to respond", said)
    return _grid(rows, "strategy", ".1%", alt.value(BLUE), opacity, words)


def _cells(kind: str, names: Sequence[Any], products: Sequence[Any], values: F64) -> list[dict[str, Any]]:
    return [
        {kind: str(name), "product": str(product), "value": float(values[i, j])}
        for i, name in enumerate(names)
        for j, product in enumerate(products)
    ]


def _strength(times: float) -> float:
    """0 for the usual, 1 from twice as many or half as many on."""
    low, high = sorted((max(times, 1e-9), 1.0))
    return min(1.0, (high / low - 1.0) / (_STRONGEST - 1.0))


def _grid(rows: list[dict[str, Any]], kind: str, form: str, colour: Any, opacity: Any, words: _Words) -> Any:
    """Cells in the order of ``rows``, with their numbers where these fit."""
    names, products = (list(dict.fromkeys(row[key] for row in rows)) for key in (kind, "product"))
    axis = alt.Axis(orient="top", labelAngle=-40, labelLimit=110, domain=False, ticks=False)
    quiet, gap = alt.Axis(domain=False, labelLimit=150), alt.Scale(paddingInner=0.06)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("product:N", sort=products, title=None, axis=axis, scale=gap),
        y=alt.Y(f"{kind}:N", sort=names, title=None, axis=quiet, scale=gap),
        tooltip=[f"{kind}:N", "product:N", alt.Tooltip("value:Q", format=form)],
    )
    layers = [base.mark_rect(cornerRadius=3, stroke=None).encode(color=colour, opacity=opacity)]
    if len(products) <= _WITH_TEXT:
        text = base.mark_text(fontSize=11).encode(text=alt.Text("value:Q", format=form))
        layers.append(text.properties(name="values"))
    return titled(alt.layer(*layers), *words, height=max(80, _CELL * len(names)))
