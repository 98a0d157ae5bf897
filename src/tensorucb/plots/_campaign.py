"""Figures of a campaign: responses beside expectation, sums, calibration, lift, rates, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain
from typing import Any

import altair as alt
import polars as pl

from tensorucb.arrays import F64
from tensorucb.campaign import CampaignProgress, GroupProgress, Lift, RoundProgress
from tensorucb.campaign._progress import calibration
from tensorucb.money import money
from tensorucb.plots._theme import BLUE, GREY, ORANGE, chart_of, distinct, formatted, titled, told_apart

MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
MOST_GROUPS = 15
_FEWEST_DAYS = 3  # on which rounds were opened, for dates to be an axis
_FEWEST_BLOCKS = 6  # weeks or months that say more than blocks of rounds
_FILLED = 0.8  # of the place of a block
_SPACE = 36  # pixels of a campaign
_MOST_HOVERED = 100  # places of a line that say their numbers
_WITH_TEXT = 10  # products beside which a number still fits
_DAY = 86_400.0

_BELOW = alt.Legend(title=None, orient="bottom")
_STROKES = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
_DATES = alt.Axis(tickCount=6, labelOverlap=True)
_OPENED = alt.Tooltip("opened:T", format="%d %b %Y")
# How a round looks: its colour and its shape.
_STATES = {
    "in the interval": (BLUE, "circle"),
    "outside of it": (ORANGE, "diamond"),
    "still open": (GREY, "square"),
}
_POINTS = "Percentage points of followers who respond"
_ESTIMATE = "Point: the estimate; bar: 90 % interval; dashed: no effect"


def product_names(progress: CampaignProgress) -> dict[int | str, str]:
    """What the products of closed rounds are called, by id; the id itself if a product has no name."""
    return {group.id: group_label(group) for group in progress.products if group.id is not None}


def group_label(group: GroupProgress) -> str:
    """What a product, a strategy or a segment is called; its id if it has no name."""
    return group.name or ("by features" if group.id is None else str(group.id))


# -- rounds beside what was expected of them --


def expected_and_observed(progress: CampaignProgress) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded.

    More rounds than can be told apart are put together by week or month, or as many of them as fill so many places.
    """
    compared = [entry for entry in progress.rounds if entry.expected is not None]
    if len(compared) > MOST_ROUNDS:
        return _expected_together([entry for entry in compared if entry.status == "closed"])
    return _expected_by_round(compared, product_names(progress))


def _expected_by_round(compared: Sequence[RoundProgress], names: Mapping[int | str, str]) -> Any:
    rows: list[dict[str, Any]] = [
        {
            "round": entry.number,
            "opened": _moment(entry.opened)[:10],
            "low": entry.expected.low,
            "high": entry.expected.high,
            "expected": entry.expected.mean,
            "responded": entry.responders,
            "state": "still open" if entry.within is None else "in the interval" if entry.within else "outside of it",
            "product": "" if entry.product is None else names.get(entry.product, str(entry.product)),
        }
        for entry in compared
        if entry.expected is not None
    ]
    # The first intervals are often many times as wide as what comes: they are cut rather than all others squeezed.
    top = max(5.0, 1.6 * max(max(row["responded"], row["expected"]) for row in rows))
    for row in rows:
        row["end"] = min(row["high"], top)
    # Bars become narrower where the page is; a few of them stay as narrow as many would be.
    width: Any = {"band": 0.62} if len(rows) > 10 else 18
    x = alt.X("round:O", title="Round", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    tip = ["round:O", "opened:N", "product:N", "responded:Q", *formatted(".1f", "expected"), "low:Q", "high:Q"]
    base = chart_of(rows).encode(x=x, tooltip=tip)
    states = [state for state in _STATES if any(row["state"] == state for row in rows)]
    colours, shapes = zip(*(_STATES[state] for state in states), strict=True)
    looks = told_apart("state", states, _BELOW, color=colours, shape=shapes)
    layers = alt.layer(
        base.mark_bar(width=width, opacity=0.28, color=GREY).encode(y=_users("low"), y2="end:Q"),
        base.mark_tick(orient="horizontal", thickness=2, color=GREY, width=width).encode(y=_users("expected")),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=_users("responded"), **looks),
    )
    outside = sum(row["state"] == "outside of it" for row in rows)
    said = f"For each of {len(rows)} rounds the number of responders that was expected, its interval, and what came. "
    return titled(
        layers,
        "Users who responded, round by round",
        "Bar: where the number should lie in 90 % of rounds, cut if very long; line in it: the number expected",
        said + f"In {outside} closed rounds it lies outside of the interval. The table below has the numbers.",
        height=300,
    )


def _users(field: str, title: str = "Users") -> Any:
    """An axis of users, who are whole; each layer names it alike, or else the page would put names side by side."""
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(tickMinStep=1, format=",d"))


def _expected_together(closed: Sequence[RoundProgress]) -> Any:
    """The same of closed rounds, put together: sums of what was expected and of what came."""
    unit, rows = _blocks(closed)
    tip = formatted(",d", "first round", "last round", "rounds", "responses")
    tip += [*formatted(",.1f", "expected"), *formatted(",d", "intervals held")]
    if unit == "rounds":
        x = alt.X("begin:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=6, format="d"))
        each = f"{rows[0]['rounds']} at a time"
    else:
        x = alt.X("begin:T", title=f"Opened in the {unit} of", axis=_DATES)
        tip.insert(0, alt.Tooltip("begin:T", title=f"{unit} of", format="%d %b %Y"))
        each = f"by {unit}"
    base = chart_of(rows).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    looks = told_apart("what", ("responses", "expected"), _BELOW, color=(BLUE, ORANGE))
    responses = base.transform_calculate(what="'responses'").mark_bar(opacity=0.75)
    expected = base.transform_calculate(what="'expected'").mark_rule(strokeWidth=3, opacity=1)
    layers = alt.layer(
        responses.encode(y=_users("responses", title), y2=alt.datum(0), **looks),
        expected.encode(y=_users("expected", title), **looks),
    )
    held = sum(row["intervals held"] for row in rows)
    return titled(
        layers,
        "Users who responded, and how many were expected",
        f"{len(closed):,} closed rounds, {each}; choose a shorter period to see single rounds with their intervals",
        f"Responses of {len(closed):,} closed rounds and what was expected of them, {each}. Single intervals held in "
        f"{held:,} rounds. The table below has the last rounds.",
        height=300,
    )


def _blocks(closed: Sequence[RoundProgress]) -> tuple[str, list[dict[str, Any]]]:
    """Rounds added up by week or by month, or if these are too few or too many, by number: the unit, and the sums.

    ``begin`` and ``end`` are where a block stands on its axis, with a gap before the next one.
    """
    rounds = pl.DataFrame(
        {
            "round": [entry.number for entry in closed],
            "day": [datetime.fromtimestamp(entry.opened, UTC).date() for entry in closed],
            "responses": [entry.responders for entry in closed],
            "expected": [entry.expected.mean for entry in closed if entry.expected is not None],
            "intervals held": [bool(entry.within) for entry in closed],
        }
    )
    number = pl.col("round")
    sums = (
        number.first().alias("first round"),
        number.last().alias("last round"),
        number.count().alias("rounds"),
        pl.col("responses", "expected", "intervals held").sum(),
    )
    for unit, every, days in (("week", "1w", 7), ("month", "1mo", 30)):
        dated = rounds.group_by(pl.col("day").dt.truncate(every).alias("begin")).agg(sums).sort("begin")
        if _FEWEST_BLOCKS <= len(dated) <= MOST_ROUNDS:
            end = pl.col("begin").cast(pl.Datetime) + timedelta(days=_FILLED * days)
            texts = {"begin": pl.col("begin").dt.to_string("%Y-%m-%d"), "end": end.dt.to_string("%Y-%m-%dT%H:%M")}
            return unit, dated.with_columns(**texts).to_dicts()
    size = -(-len(closed) // (MOST_ROUNDS // 2))
    block = (pl.int_range(pl.len()) // size).alias("block")
    numbered = rounds.group_by(block, maintain_order=True).agg(sums).drop("block")
    begin = pl.col("first round")
    end = begin + _FILLED * (pl.col("last round") + 1 - begin)
    return "rounds", numbered.with_columns(begin=begin, end=end).to_dicts()


# -- lines over rounds --


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _place(entry: RoundProgress) -> dict[str, Any]:
    """Where a round is on the axis of `_axis`."""
    return {"round": entry.number, "opened": _moment(entry.opened)}


def _axis(rounds: Sequence[RoundProgress]) -> Any:
    """Dates, if rounds were opened on several days; otherwise their numbers."""
    if len({int(entry.opened // _DAY) for entry in rounds}) >= _FEWEST_DAYS:
        return alt.X("opened:T", title="Opened", axis=_DATES)
    return _round_axis(len(rounds))


def _round_axis(count: int) -> Any:
    """The axis of round numbers, which are whole."""
    ticks = max(1, min(count - 1, 8))
    return alt.X("round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=ticks, format="d"))


def _hovered(lines: Sequence[Sequence[Mapping[str, Any]]], **encoding: Any) -> Any:
    """Points that nobody sees, where a pointer finds the exact numbers of lines; among them the last of each."""
    rows: list[Mapping[str, Any]] = []
    for line in lines:
        step = max(1, -(-len(line) // _MOST_HOVERED))
        rows += line[::-1][::step][::-1]
    return chart_of(rows).mark_point(size=120, opacity=0, filled=True).encode(**encoding)


def running_sums(rounds: Sequence[RoundProgress]) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = [entry for entry in rounds if entry.status == "closed" and entry.expected is not None]
    series: dict[str, list[float]] = {
        "responses": [entry.responders for entry in closed],
        "responses expected": [entry.expected.mean for entry in closed if entry.expected is not None],
        "different users who responded": [entry.new_responders for entry in closed],
    }
    lines = [
        [{**_place(entry), "what": what, "sum": total} for entry, total in zip(closed, accumulate(values), strict=True)]
        for what, values in series.items()
    ]
    strokes = ([1, 0], [6, 4], [2, 2])
    looks = told_apart("what", series, _STROKES, color=(BLUE, ORANGE, GREY), strokeDash=strokes)
    place = {"x": _axis(closed), "y": _users("sum", "Users, added up over rounds")}
    layers = alt.layer(
        chart_of(list(chain(*lines))).mark_line(strokeWidth=2.4).encode(**place, **looks),
        _hovered(lines, **place, tooltip=["what:N", "round:Q", _OPENED, *formatted(",.1f", "sum")]),
    )
    ends = ", ".join(f"{sum(values):,.0f} {what}" for what, values in series.items())
    subtitle = "Closed rounds; somebody who responds to three rounds is three responses"
    return titled(layers, "Responses so far", subtitle, f"After {len(closed)} closed rounds: {ends}.", height=260)


def running_spend(rounds: Sequence[RoundProgress]) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = [entry for entry in rounds if entry.spend is not None]
    sums = accumulate(entry.spend or 0.0 for entry in paid)
    rows = [{**_place(entry), "spend": total} for entry, total in zip(paid, sums, strict=True)]
    place = {"x": _axis(paid), "y": alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))}
    layers = alt.layer(
        chart_of(rows).mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after").encode(**place),
        _hovered([rows], **place, tooltip=["round:Q", _OPENED, *formatted(",.2f", "spend")]),
    )
    said = f"The spending grows to {money(rows[-1]['spend'])} in round {rows[-1]['round']}."
    subtitle = "By the costs of users and strategies, open rounds included"
    return titled(layers, "Spending so far", subtitle, said, height=200)


def running_calibration(rounds: Sequence[RoundProgress]) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = [entry for entry in rounds if entry.within is not None]
    rows = []
    for count, held in enumerate(accumulate(bool(entry.within) for entry in closed), start=1):
        share = calibration(held, count)
        rows.append({**_place(closed[count - 1]), "share": share.share, "low": share.low, "high": share.high})
    x = _axis(closed)
    heights: Any = {"title": "Share of intervals that held", "scale": alt.Scale(domain=[0, 1])}
    share_axis = alt.Y("share:Q", axis=alt.Axis(format="%"), **heights)
    tip = ["round:Q", *formatted(".0%", "share", "low", "high")]
    line = chart_of(rows).encode(x=x)
    promise = chart_of([{"share": 0.9, "text": "90 % promised"}]).encode(y=share_axis)
    words = promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600)
    layers = alt.layer(
        line.mark_area(opacity=0.16, color=BLUE).encode(y=alt.Y("low:Q", **heights), y2="high:Q"),
        line.mark_line(strokeWidth=2.4, color=BLUE).encode(y=share_axis),
        _hovered([rows], x=x, y=share_axis, tooltip=tip),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6),
        words.encode(x=alt.value(0), text="text:N"),
    )
    held_share = rows[-1]["share"]
    said = f"After {len(rows)} closed rounds {held_share:.0%} of the intervals have held; 90 % are promised."
    subtitle = "Band: shares that so few rounds do not rule out (exact 90 % interval)"
    return titled(layers, "How often the interval was right", subtitle, said, height=220)


def running_regret(rounds: Sequence[tuple[int, float]]) -> Any:
    """What each round lost against the best choice, and the mean so far; only where the truth is known."""
    sums = accumulate(regret for _, regret in rounds)
    rows = [
        {"round": number, "regret": regret, "mean": total / count}
        for count, ((number, regret), total) in enumerate(zip(rounds, sums, strict=True), start=1)
    ]
    base = chart_of(rows).encode(x=_round_axis(len(rows)))
    regret, mean = (alt.Y(f"{name}:Q", title="Responses lost") for name in ("regret", "mean"))
    points = base.mark_point(filled=True, size=40, opacity=0.7, color=GREY)
    layers = alt.layer(
        points.encode(y=regret, tooltip=["round:Q", *formatted(".1f", "regret", "mean")]),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=mean),
    )
    said = f"After {len(rows)} rounds a round has lost {rows[-1]['mean']:.1f} expected responses on average."
    subtitle = "Point: expected responses that the best choice has more; line: the mean of all rounds so far"
    return titled(layers, "Regret", subtitle, said, height=220)


# -- what contact adds --


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    row = _in_points(lift)
    label = chart_of([row]).mark_text(dy=-16, fontWeight=600)
    number = label.encode(x=alt.X("difference:Q", title=_POINTS), text="text:N")
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+.2f} to "
        f"{row['high']:+.2f}. The dashed line is no effect."
    )
    return titled(alt.layer(*_intervals([row]), number), "What contact adds", _ESTIMATE, said, height=90)


def lift_side_by_side(campaigns: Sequence[CampaignProgress]) -> Any:
    """What contact adds in each campaign, with its interval, beside nothing."""
    rows = [
        {"campaign": progress.name, **_in_points(progress.lift), "rounds": progress.lift.rounds}
        for progress in campaigns
        if progress.lift is not None
    ]
    y = _by_name("campaign", [row["campaign"] for row in rows])
    each = ", ".join(f"{row['campaign']} {row['text']} ({row['low']:+.2f} to {row['high']:+.2f})" for row in rows)
    said = f"{_POINTS}, with 90 % intervals: {each}."
    layers = alt.layer(*_intervals(rows, ["campaign:N"], ["rounds:Q"], y=y))
    return titled(layers, "What contact adds", _ESTIMATE, said, height=_SPACE * len(rows) + _SPACE)


def _in_points(lift: Lift) -> dict[str, Any]:
    points = {name: 100 * getattr(lift, name) for name in ("difference", "low", "high")}
    return {**points, "text": f"{points['difference']:+.2f}"}


def _intervals(
    rows: list[dict[str, Any]], before: Sequence[str] = (), after: Sequence[str] = (), **encoding: Any
) -> list[Any]:
    """Differences with their intervals, beside a dashed line at no effect; a pointer finds more before and after."""
    tip = [*before, *formatted("+.2f", "difference", "low", "high"), *after]
    base = chart_of(rows).encode(tooltip=tip, **encoding)
    low = alt.X("low:Q", title=_POINTS, scale=alt.Scale(zero=True, padding=14), axis=alt.Axis(tickCount=6))
    zero = chart_of([{"at": 0}]).mark_rule(strokeDash=[6, 4], strokeWidth=1.6)
    estimate = base.mark_point(filled=True, size=110, opacity=1, color=BLUE)
    return [
        zero.encode(x=alt.X("at:Q", title=_POINTS)),
        base.mark_rule(strokeWidth=8, opacity=0.3, color=BLUE).encode(x=low, x2="high:Q"),
        estimate.encode(x=alt.X("difference:Q", title=_POINTS)),
    ]


# -- groups and campaigns --


def _by_name(kind: str, names: list[str]) -> Any:
    axis = alt.Axis(domain=False, labelLimit=150, labelFontSize=12)
    return alt.Y(f"{kind}:N", sort=names, title=None, axis=axis)


def believed_and_observed(groups: Sequence[GroupProgress], what: str) -> Any:
    """For each product, strategy or segment the share of followers expected to respond, and the share that did."""
    shown = [group for group in groups if group.believed is not None][:MOST_GROUPS]
    names = distinct(group_label(group) for group in shown)
    rows = []
    spans = []
    for name, group in zip(names, shown, strict=True):
        rows += [{"group": name, "what": mark, "rate": getattr(group, mark)} for mark in ("believed", "observed")]
        spans.append({"group": name, "from": group.believed, "to": group.observed})
    y = _by_name("group", names)
    looks = told_apart("what", ("believed", "observed"), _BELOW, color=(ORANGE, BLUE), shape=("diamond", "circle"))
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


def reach_side_by_side(campaigns: Sequence[CampaignProgress]) -> Any:
    """How many different users responded to each campaign."""
    reached = {progress.name: progress.reached for progress in campaigns}
    axis = alt.Axis(tickMinStep=1, tickCount=8, format=",d")
    return _bars_by_campaign(reached, "Reach", "Different users who responded", ",d", axis)


def cost_side_by_side(campaigns: Sequence[CampaignProgress]) -> Any:
    """What a responder has cost in each campaign."""
    costs = {progress.name: progress.cost_per_responder or 0.0 for progress in campaigns}
    return _bars_by_campaign(costs, "Cost per responder", "Spent per responder", ",.2~f", alt.Axis(tickCount=6))


def _bars_by_campaign(values: Mapping[str, float], title: str, what: str, form: str, axis: Any) -> Any:
    rows = [{"campaign": name, what: value} for name, value in values.items()]
    bars = chart_of(rows).mark_bar(color=BLUE, opacity=0.75, height=16)
    chart = bars.encode(
        y=_by_name("campaign", list(values)),
        x=alt.X(f"{what}:Q", title=what, axis=axis),
        tooltip=["campaign:N", *formatted(form, what)],
    )
    said = ", ".join(f"{name} {value:,.6g}" for name, value in values.items())
    return titled(chart, title, description=f"{what}: {said}.", height=_SPACE * len(rows) + _SPACE)


# -- what was learned: which users, products and strategies go together --


def goes_together(users: Sequence[Any], products: Sequence[Any], affinity: F64) -> Any:
    """Users by products: how many times as many responses as usual are expected of the two together."""
    rows = _cells("user", users, products, affinity)
    more, fewer = "more responses than usual", "fewer"
    for row in rows:
        times = row["value"]
        row["side"] = more if times >= 1.0 else fewer
        # 0 for the usual, 1 from twice as many or half as many on.
        row["strength"] = min(1.0, max(times, 1.0 / max(times, 1e-9)) - 1.0)
    best = max(rows, key=lambda row: float(row["value"]))
    colour = told_apart("side", (more, fewer), _BELOW, color=(BLUE, ORANGE))["color"]
    said = (
        f"Of {len(users)} users and {len(products)} products, {best['user']} and {best['product']} go together best: "
        f"{best['value']:.1f} times as many responses as usual."
    )
    subtitle = "Responses expected, as a multiple of what is usual for the user and for the product"
    return titled(
        _grid(rows, "user", ".1f", colour, "strength", 1), "Users and products", subtitle, said, _grid_height(users)
    )


def strategies_by_product(strategies: Sequence[Any], products: Sequence[Any], shares: F64) -> Any:
    """Strategies by products: the share of all followers expected to respond."""
    rows = _cells("strategy", strategies, products, shares)
    best = max(rows, key=lambda row: float(row["value"]))
    said = (
        f"The highest share of followers, {100 * best['value']:.1f} %, is expected to respond to {best['product']} "
        f"with {best['strategy']}."
    )
    chart = _grid(rows, "strategy", ".1%", alt.value(BLUE), "value", best["value"] or 1.0)
    subtitle = "Share of all followers expected to respond"
    return titled(chart, "Strategies and products", subtitle, said, _grid_height(strategies))


def _cells(kind: str, names: Sequence[Any], products: Sequence[Any], values: F64) -> list[dict[str, Any]]:
    return [
        {kind: str(name), "product": str(product), "value": float(values[i, j])}
        for i, name in enumerate(names)
        for j, product in enumerate(products)
    ]


def _grid_height(names: Sequence[Any]) -> int:
    return max(80, 26 * len(names))


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
