"""Figures of a campaign: responses beside expectation, sums, calibration, lift, rates, and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate, chain
from typing import Any

import altair as alt

from tensorucb.arrays import F64
from tensorucb.campaign import CampaignProgress, GroupProgress, Lift, RoundProgress
from tensorucb.campaign._progress import calibration
from tensorucb.money import money
from tensorucb.plots._theme import BLUE, GREY, ORANGE, chart_of, distinct, titled

MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
MOST_GROUPS = 15
_FEWEST_DAYS = 3  # on which rounds were opened, for dates to be an axis
_FEWEST_BLOCKS = 6  # weeks or months that say more than blocks of rounds
_FILLED = 0.8  # of the place of a block
_SPACE = 36  # pixels of a campaign
_MOST_HOVERED = 100  # places of a line that say their numbers
_WITH_TEXT = 10  # products beside which a number still fits
_DAY = 86_400.0

_WHOLE = alt.Axis(tickMinStep=1, format=",d")  # users are whole
_BELOW = alt.Legend(title=None, orient="bottom")
_LABELS = alt.Axis(domain=False, labelLimit=150, labelFontSize=12)
_OPENED = alt.Tooltip("opened:T", format="%d %b %Y")
# How a round looks: its colour and its shape.
_STATES = {
    "in the interval": (BLUE, "circle"),
    "outside of it": (ORANGE, "diamond"),
    "still open": (GREY, "square"),
}
_POINTS = "Percentage points of followers who respond"
_LIFT_TIP = [alt.Tooltip(f"{name}:Q", format="+.2f") for name in ("difference", "low", "high")]
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
    expected = alt.Tooltip("expected:Q", format=".1f")
    tip = ["round:O", "opened:N", "product:N", "responded:Q", expected, "low:Q", "high:Q"]
    base = chart_of(rows).encode(x=x, tooltip=tip)
    states = [state for state in _STATES if any(row["state"] == state for row in rows)]
    colours = alt.Scale(domain=states, range=[_STATES[state][0] for state in states])
    shapes = alt.Scale(domain=states, range=[_STATES[state][1] for state in states])
    colour = alt.Color("state:N", scale=colours, legend=_BELOW)
    shape = alt.Shape("state:N", scale=shapes, legend=_BELOW)
    layers = alt.layer(
        base.mark_bar(width=width, opacity=0.28, color=GREY).encode(y=_users("low"), y2="end:Q"),
        base.mark_tick(orient="horizontal", thickness=2, color=GREY, width=width).encode(y=_users("expected")),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=_users("responded"), color=colour, shape=shape),
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
    """An axis of users; every layer of a figure names it alike, or else the page would put the names side by side."""
    return alt.Y(f"{field}:Q", title=title, axis=_WHOLE)


def _expected_together(closed: Sequence[RoundProgress]) -> Any:
    """The same of closed rounds, put together: sums of what was expected and of what came."""
    unit, blocks = _blocks(closed)
    rows: list[dict[str, Any]] = [
        {
            **_span(unit, entries, label),
            "first round": entries[0].number,
            "last round": entries[-1].number,
            "rounds": len(entries),
            "responses": sum(entry.responders for entry in entries),
            "expected": sum(entry.expected.mean for entry in entries if entry.expected is not None),
            "intervals held": sum(bool(entry.within) for entry in entries),
        }
        for label, entries in blocks
    ]
    whole = ("first round", "last round", "rounds", "responses")
    tip = [
        *(alt.Tooltip(f"{name}:Q", format=",d") for name in whole),
        alt.Tooltip("expected:Q", format=",.1f"),
        alt.Tooltip("intervals held:Q", format=",d"),
    ]
    if unit == "rounds":
        x = alt.X("begin:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=6, format="d"))
        each = f"{rows[0]['rounds']} at a time"
    else:
        x = alt.X("begin:T", title=f"Opened in the {unit} of", axis=alt.Axis(tickCount=6, labelOverlap=True))
        tip.insert(0, alt.Tooltip("begin:T", title=f"{unit} of", format="%d %b %Y"))
        each = f"by {unit}"
    base = chart_of(rows).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    colours = alt.Scale(domain=["responses", "expected"], range=[BLUE, ORANGE])
    colour = alt.Color("what:N", scale=colours, legend=_BELOW)
    responses = base.transform_calculate(what="'responses'").mark_bar(opacity=0.75)
    expected = base.transform_calculate(what="'expected'").mark_rule(strokeWidth=3, opacity=1)
    layers = alt.layer(
        responses.encode(y=_users("responses", title), y2=alt.datum(0), color=colour),
        expected.encode(y=_users("expected", title), color=colour),
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


def _span(unit: str, entries: Sequence[RoundProgress], first: str) -> dict[str, Any]:
    """Where a block begins and ends on its axis, with a gap before the next one."""
    if unit == "rounds":
        number = entries[0].number
        return {"begin": number, "end": number + _FILLED * (entries[-1].number + 1 - number)}
    length = timedelta(days=7 if unit == "week" else 30)
    return {"begin": first, "end": (datetime.fromisoformat(first) + _FILLED * length).strftime("%Y-%m-%dT%H:%M")}


def _blocks(rounds: Sequence[RoundProgress]) -> tuple[str, list[tuple[str, list[RoundProgress]]]]:
    """Rounds put together by week or by month, or if these are too few or too many, by number: the unit, and blocks."""
    for unit in ("week", "month"):
        dated: dict[str, list[RoundProgress]] = {}
        for entry in rounds:
            opened = datetime.fromtimestamp(entry.opened, UTC)
            first_day = opened - timedelta(days=opened.weekday()) if unit == "week" else opened.replace(day=1)
            dated.setdefault(first_day.strftime("%Y-%m-%d"), []).append(entry)
        if _FEWEST_BLOCKS <= len(dated) <= MOST_ROUNDS:
            return unit, sorted(dated.items())
    size = -(-len(rounds) // (MOST_ROUNDS // 2))
    parts = [list(rounds[begin : begin + size]) for begin in range(0, len(rounds), size)]
    return "rounds", [(str(part[0].number), part) for part in parts]


# -- lines over rounds --


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _place(entry: RoundProgress) -> dict[str, Any]:
    """Where a round is on the axis of `_axis`."""
    return {"round": entry.number, "opened": _moment(entry.opened)}


def _axis(rounds: Sequence[RoundProgress]) -> Any:
    """Dates, if rounds were opened on several days; otherwise their numbers."""
    if len({int(entry.opened // _DAY) for entry in rounds}) >= _FEWEST_DAYS:
        return alt.X("opened:T", title="Opened", axis=alt.Axis(tickCount=6, labelOverlap=True))
    return _round_axis(len(rounds))


def _round_axis(count: int) -> Any:
    """The axis of round numbers, which are whole."""
    ticks = max(1, min(count - 1, 8))
    return alt.X("round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=ticks, format="d"))


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the rows of a line, among them the last one."""
    step = max(1, -(-len(rows) // _MOST_HOVERED))
    return rows[::-1][::step][::-1]


def _hovered(rows: list[dict[str, Any]], x: Any, y: Any, tooltip: list[Any]) -> Any:
    """Points that nobody sees, where a pointer finds the exact numbers of a line."""
    return chart_of(rows).mark_point(size=120, opacity=0, filled=True).encode(x=x, y=y, tooltip=tooltip)


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
    colours = alt.Scale(domain=list(series), range=[BLUE, ORANGE, GREY])
    strokes = alt.Scale(domain=list(series), range=[[1, 0], [6, 4], [2, 2]])
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
    colour = alt.Color("what:N", scale=colours, legend=legend)
    stroke = alt.StrokeDash("what:N", scale=strokes, legend=legend)
    x = _axis(closed)
    y = _users("sum", "Users, added up over rounds")
    tip = ["what:N", "round:Q", _OPENED, alt.Tooltip("sum:Q", format=",.1f")]
    drawn = chart_of(list(chain(*lines))).mark_line(strokeWidth=2.4)
    layers = alt.layer(
        drawn.encode(x=x, y=y, color=colour, strokeDash=stroke),
        _hovered(list(chain(*map(_thinned, lines))), x, y, tip),
    )
    ends = ", ".join(f"{sum(values):,.0f} {what}" for what, values in series.items())
    subtitle = "Closed rounds; somebody who responds to three rounds is three responses"
    return titled(layers, "Responses so far", subtitle, f"After {len(closed)} closed rounds: {ends}.", height=260)


def running_spend(rounds: Sequence[RoundProgress]) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = [entry for entry in rounds if entry.spend is not None]
    sums = list(accumulate(entry.spend or 0.0 for entry in paid))
    rows = [{**_place(entry), "spend": total} for entry, total in zip(paid, sums, strict=True)]
    x = _axis(paid)
    y = alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))
    line = chart_of(rows).mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after").encode(x=x, y=y)
    layers = alt.layer(
        line, _hovered(_thinned(rows), x, y, ["round:Q", _OPENED, alt.Tooltip("spend:Q", format=",.2f")])
    )
    said = f"The spending grows to {money(sums[-1])} in round {rows[-1]['round']}."
    subtitle = "By the costs of users and strategies, open rounds included"
    return titled(layers, "Spending so far", subtitle, said, height=200)


def running_calibration(rounds: Sequence[RoundProgress]) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = [entry for entry in rounds if entry.within is not None]
    rows = []
    for count, entry in enumerate(closed, start=1):
        so_far = calibration([bool(other.within) for other in closed[:count]])
        if so_far is not None:
            rows.append({**_place(entry), "share": so_far.share, "low": so_far.low, "high": so_far.high})
    x = _axis(closed)
    title = "Share of intervals that held"
    whole = alt.Scale(domain=[0, 1])
    share = alt.Y("share:Q", title=title, scale=whole, axis=alt.Axis(format="%"))
    low = alt.Y("low:Q", title=title, scale=whole)
    tip = ["round:Q", *(alt.Tooltip(f"{name}:Q", format=".0%") for name in ("share", "low", "high"))]
    line = chart_of(rows).encode(x=x)
    promise = chart_of([{"share": 0.9, "text": "90 % promised"}])
    words = promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600)
    layers = alt.layer(
        line.mark_area(opacity=0.16, color=BLUE).encode(y=low, y2="high:Q"),
        line.mark_line(strokeWidth=2.4, color=BLUE).encode(y=share),
        _hovered(_thinned(rows), x, share, tip),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6).encode(y=share),
        words.encode(y=share, x=alt.value(0), text="text:N"),
    )
    held = rows[-1]["share"]
    said = f"After {len(rows)} closed rounds {held:.0%} of the intervals have held; 90 % are promised."
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
    tip = ["round:Q", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("regret", "mean"))]
    layers = alt.layer(
        base.mark_point(filled=True, size=40, opacity=0.7, color=GREY).encode(y=regret, tooltip=tip),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=mean),
    )
    said = f"After {len(rows)} rounds a round has lost {rows[-1]['mean']:.1f} expected responses on average."
    subtitle = "Point: expected responses that the best choice has more; line: the mean of all rounds so far"
    return titled(layers, "Regret", subtitle, said, height=220)


# -- what contact adds --


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    points = _in_points(lift)
    row = {**points, "text": f"{points['difference']:+.2f}"}
    label = chart_of([row]).mark_text(dy=-16, fontWeight=600)
    number = label.encode(x=alt.X("difference:Q", title=_POINTS), text="text:N")
    layers = alt.layer(*_intervals([row], tooltip=_LIFT_TIP).layer, number)
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+.2f} to "
        f"{row['high']:+.2f}. The dashed line is no effect."
    )
    return titled(layers, "What contact adds", _ESTIMATE, said, height=90)


def lift_side_by_side(campaigns: Sequence[CampaignProgress]) -> Any:
    """What contact adds in each campaign, with its interval, beside nothing."""
    rows: list[dict[str, Any]] = [
        {"campaign": progress.name, **_in_points(progress.lift), "rounds": progress.lift.rounds}
        for progress in campaigns
        if progress.lift is not None
    ]
    y = _by_name("campaign", [row["campaign"] for row in rows])
    layers = _intervals(rows, y=y, tooltip=["campaign:N", *_LIFT_TIP, "rounds:Q"])
    each = ", ".join(
        f"{row['campaign']} {row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})" for row in rows
    )
    said = f"{_POINTS}, with 90 % intervals: {each}."
    return titled(layers, "What contact adds", _ESTIMATE, said, height=_SPACE * len(rows) + _SPACE)


def _in_points(lift: Lift) -> dict[str, float]:
    return {name: 100 * getattr(lift, name) for name in ("difference", "low", "high")}


def _intervals(rows: list[dict[str, Any]], **encoding: Any) -> Any:
    """Differences with their intervals, beside a dashed line at no effect."""
    base = chart_of(rows).encode(**encoding)
    low = alt.X("low:Q", title=_POINTS, scale=alt.Scale(zero=True, padding=14), axis=alt.Axis(tickCount=6))
    zero = chart_of([{"at": 0}]).mark_rule(strokeDash=[6, 4], strokeWidth=1.6)
    estimate = base.mark_point(filled=True, size=110, opacity=1, color=BLUE)
    return alt.layer(
        zero.encode(x=alt.X("at:Q", title=_POINTS)),
        base.mark_rule(strokeWidth=8, opacity=0.3, color=BLUE).encode(x=low, x2="high:Q"),
        estimate.encode(x=alt.X("difference:Q", title=_POINTS)),
    )


# -- groups and campaigns --


def _by_name(kind: str, names: list[str]) -> Any:
    return alt.Y(f"{kind}:N", sort=names, title=None, axis=_LABELS)


def believed_and_observed(groups: Sequence[GroupProgress], what: str) -> Any:
    """For each product, strategy or segment the share of followers expected to respond, and the share that did."""
    shown = [group for group in groups if group.believed is not None][:MOST_GROUPS]
    names = distinct(group_label(group) for group in shown)
    rows = []
    spans = []
    for name, group in zip(names, shown, strict=True):
        rows.append({"group": name, "what": "believed", "rate": group.believed})
        rows.append({"group": name, "what": "observed", "rate": group.observed})
        spans.append({"group": name, "from": group.believed, "to": group.observed})
    y = _by_name("group", names)
    marks = ["believed", "observed"]
    colour = alt.Color("what:N", scale=alt.Scale(domain=marks, range=[ORANGE, BLUE]), legend=_BELOW)
    shape = alt.Shape("what:N", scale=alt.Scale(domain=marks, range=["diamond", "circle"]), legend=_BELOW)
    title = "Share of followers who respond"
    scale = alt.Scale(zero=True)
    begin = alt.X("from:Q", title=title, scale=scale, axis=alt.Axis(format=".1~%", grid=True, tickCount=6))
    rate = alt.X("rate:Q", title=title, scale=scale)
    tip = ["group:N", "what:N", alt.Tooltip("rate:Q", format=".2%")]
    points = chart_of(rows).mark_point(filled=True, size=90, opacity=1)
    layers = alt.layer(
        chart_of(spans).mark_rule(strokeWidth=2, opacity=0.6).encode(y=y, x=begin, x2="to:Q"),
        points.encode(y=y, x=rate, color=colour, shape=shape, tooltip=tip),
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
    x = alt.X(f"{what}:Q", title=what, axis=axis)
    tip = ["campaign:N", alt.Tooltip(f"{what}:Q", format=form)]
    bars = chart_of(rows).mark_bar(color=BLUE, opacity=0.75, height=16)
    said = ", ".join(f"{name} {value:,.6g}" for name, value in values.items())
    return titled(
        bars.encode(y=_by_name("campaign", list(values)), x=x, tooltip=tip),
        title,
        description=f"{what}: {said}.",
        height=_SPACE * len(rows) + _SPACE,
    )


# -- what was learned: which users, products and strategies go together --


def goes_together(users: Sequence[Any], products: Sequence[Any], affinity: F64) -> Any:
    """Users by products: how many times as many responses as usual are expected of the two together."""
    rows = _cells("user", users, products, affinity)
    more, fewer = "more responses than usual", "fewer"
    for row in rows:
        row["side"] = more if row["value"] >= 1.0 else fewer
        row["strength"] = _strength(row["value"])
    best = max(rows, key=lambda row: float(row["value"]))
    colour = alt.Color("side:N", scale=alt.Scale(domain=[more, fewer], range=[BLUE, ORANGE]), legend=_BELOW)
    return titled(
        _grid(rows, "user", ".1f", colour, alt.Opacity("strength:Q", scale=_opacities(1), legend=None)),
        "Users and products",
        "Responses expected, as a multiple of what is usual for the user and for the product",
        f"Of {len(users)} users and {len(products)} products, {best['user']} and {best['product']} go together best: "
        f"{best['value']:.1f} times as many responses as usual.",
        height=_grid_height(users),
    )


def strategies_by_product(strategies: Sequence[Any], products: Sequence[Any], shares: F64) -> Any:
    """Strategies by products: the share of all followers expected to respond."""
    rows = _cells("strategy", strategies, products, shares)
    best = max(rows, key=lambda row: float(row["value"]))
    opacity = alt.Opacity("value:Q", scale=_opacities(best["value"] or 1.0), legend=None)
    return titled(
        _grid(rows, "strategy", ".1%", alt.value(BLUE), opacity),
        "Strategies and products",
        "Share of all followers expected to respond",
        f"The highest share of followers, {100 * best['value']:.1f} %, is expected to respond to {best['product']} "
        f"with {best['strategy']}.",
        height=_grid_height(strategies),
    )


def _cells(kind: str, names: Sequence[Any], products: Sequence[Any], values: F64) -> list[dict[str, Any]]:
    return [
        {kind: str(name), "product": str(product), "value": float(values[i, j])}
        for i, name in enumerate(names)
        for j, product in enumerate(products)
    ]


def _strength(times: float) -> float:
    """0 for the usual, 1 from twice as many or half as many on."""
    low, high = sorted((max(times, 1e-9), 1.0))
    return min(1.0, high / low - 1.0)


def _opacities(strongest: float) -> Any:
    return alt.Scale(domain=[0, strongest], range=[0.05, 0.9])


def _grid_height(names: Sequence[Any]) -> int:
    return max(80, 26 * len(names))


def _grid(rows: list[dict[str, Any]], kind: str, form: str, colour: Any, opacity: Any) -> Any:
    """Cells in the order of ``rows``, with their numbers where these fit."""
    names, products = (list(dict.fromkeys(row[key] for row in rows)) for key in (kind, "product"))
    above = alt.Axis(orient="top", labelAngle=-40, labelLimit=110, domain=False, ticks=False)
    beside = alt.Axis(domain=False, labelLimit=150)
    gap = alt.Scale(paddingInner=0.06)
    base = chart_of(rows).encode(
        x=alt.X("product:N", sort=products, title=None, axis=above, scale=gap),
        y=alt.Y(f"{kind}:N", sort=names, title=None, axis=beside, scale=gap),
        tooltip=[f"{kind}:N", "product:N", alt.Tooltip("value:Q", format=form)],
    )
    layers = [base.mark_rect(cornerRadius=3, stroke=None).encode(color=colour, opacity=opacity)]
    if len(products) <= _WITH_TEXT:
        text = base.mark_text(fontSize=11).encode(text=alt.Text("value:Q", format=form))
        layers.append(text.properties(name="values"))
    return alt.layer(*layers)
