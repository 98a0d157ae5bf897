"""Figures of a campaign: responses beside expectation, sums, calibration, lift, and rates by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import altair as alt

from tensorucb.campaign import CampaignProgress, GroupProgress, Lift, RoundProgress
from tensorucb.campaign._progress import calibration
from tensorucb.money import money
from tensorucb.plots._theme import BLUE, GREY, ORANGE, distinct, titled

MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
MOST_GROUPS = 15
_FEWEST_DAYS = 3  # on which rounds were opened, for dates to be an axis
_FEWEST_BLOCKS = 6  # weeks or months that say more than blocks of rounds
_FILLED = 0.8  # of the place of a block
_SPACE = 36  # pixels of a campaign
_POINTS = "Percentage points of followers who respond"
_MOST_HOVERED = 100  # places of a line that say their numbers

_WHOLE = alt.Axis(tickMinStep=1, format=",d")  # users are whole
_STATES = ("in the interval", "outside of it", "still open")
_SUMS = ("responses", "responses expected", "different users who responded")


_DAY = 86_400.0


def _by_date(rounds: Sequence[RoundProgress]) -> bool:
    """Whether dates tell more than numbers of rounds do: rounds were opened on several days."""
    return len({int(entry.opened // _DAY) for entry in rounds}) >= _FEWEST_DAYS


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _axis(rounds: Sequence[RoundProgress]) -> Any:
    """The axis of a line over rounds: dates where there are several, otherwise the numbers, which are whole."""
    if _by_date(rounds):
        return alt.X("opened:T", title="Opened", axis=alt.Axis(tickCount=6, labelOverlap=True))
    return _round_axis(len(rounds))


def _round_axis(count: int) -> Any:
    """The axis of round numbers, which are whole."""
    return alt.X(
        "round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=max(1, min(count - 1, 8)), format="d")
    )


def _hovered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some of the rows of a line, where a pointer finds the exact numbers; the last one is always there."""
    step = max(1, -(-len(rows) // _MOST_HOVERED))
    return rows[::-1][::step][::-1]


def expected_and_observed(progress: CampaignProgress) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded.

    More rounds than can be told apart are put together by week or month, or as many of them as fill so many places.
    """
    compared = [entry for entry in progress.rounds if entry.expected is not None]
    if len(compared) > MOST_ROUNDS:
        return _expected_together([entry for entry in compared if entry.status == "closed"])
    return _expected_by_round(compared, product_names(progress))


def product_names(progress: CampaignProgress) -> dict[int | str, str]:
    """What the products of closed rounds are called, by id; the id itself if a product has no name."""
    return {group.id: group_label(group) for group in progress.products if group.id is not None}


def _expected_by_round(compared: Sequence[RoundProgress], names: Mapping[int | str, str]) -> Any:
    rows: list[dict[str, Any]] = [
        {
            "round": entry.number,
            "opened": _moment(entry.opened)[:10],
            "low": entry.expected.low,
            "high": entry.expected.high,
            "expected": entry.expected.mean,
            "responded": entry.responders,
            "state": _STATES[2] if entry.within is None else _STATES[0] if entry.within else _STATES[1],
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
    # Every layer of a figure names its axis alike, or else the page would put the names side by side.
    tip = [
        "round:O",
        "opened:N",
        "product:N",
        "responded:Q",
        alt.Tooltip("expected:Q", format=".1f"),
        "low:Q",
        "high:Q",
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, tooltip=tip)
    states = [state for state in _STATES if any(row["state"] == state for row in rows)]
    look = dict(zip(_STATES, ((BLUE, "circle"), (ORANGE, "diamond"), (GREY, "square")), strict=True))
    legend = alt.Legend(title=None, orient="bottom")
    hues, shapes = (alt.Scale(domain=states, range=[look[state][part] for state in states]) for part in (0, 1))
    colour, shape = alt.Color("state:N", scale=hues, legend=legend), alt.Shape("state:N", scale=shapes, legend=legend)
    layers = alt.layer(
        base.mark_bar(width=width, opacity=0.28, color=GREY).encode(
            y=alt.Y("low:Q", title="Users", axis=_WHOLE), y2="end:Q"
        ),
        base.mark_tick(orient="horizontal", thickness=2, color=GREY, width=width).encode(
            y=alt.Y("expected:Q", title="Users", axis=_WHOLE)
        ),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=alt.Y("responded:Q", title="Users", axis=_WHOLE), color=colour, shape=shape
        ),
    )
    outside = sum(row["state"] == _STATES[1] for row in rows)
    said = f"For each of {len(rows)} rounds the number of responders that was expected, its interval, and what came. "
    return titled(
        layers,
        "Users who responded, round by round",
        "Bar: where the number should lie in 90 % of rounds, cut if very long; line in it: the number expected",
        said + f"In {outside} closed rounds it lies outside of the interval. The table below has the numbers.",
        height=300,
    )


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
    dated = unit != "rounds"
    kind, x_title = ("T", f"Opened in the {unit} of") if dated else ("Q", "Round")
    axis = alt.Axis(tickCount=6, labelOverlap=True)
    x = alt.X(f"begin:{kind}", title=x_title, axis=axis if dated else alt.Axis(tickMinStep=1, tickCount=6, format="d"))
    whole = ("first round", "last round", "rounds", "responses")
    tip = [
        *([alt.Tooltip("begin:T", title=f"{unit} of", format="%d %b %Y")] if dated else []),
        *(alt.Tooltip(f"{name}:Q", format=",d") for name in whole),
        alt.Tooltip("expected:Q", format=",.1f"),
        alt.Tooltip("intervals held:Q", format=",d"),
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    names = ("responses", "expected")
    legend = alt.Legend(title=None, orient="bottom")
    colour = alt.Color("what:N", scale=alt.Scale(domain=list(names), range=[BLUE, ORANGE]), legend=legend)
    layers = alt.layer(
        base.transform_calculate(what="'responses'")
        .mark_bar(opacity=0.75)
        .encode(y=alt.Y("responses:Q", title=title, axis=_WHOLE), y2=alt.datum(0), color=colour),
        base.transform_calculate(what="'expected'")
        .mark_rule(strokeWidth=3, opacity=1)
        .encode(y=alt.Y("expected:Q", title=title, axis=_WHOLE), color=colour),
    )
    held = sum(row["intervals held"] for row in rows)
    each = f"by {unit}" if dated else f"{rows[0]['rounds']} at a time"
    subtitle = (
        f"{len(closed):,} closed rounds, {each}; choose a shorter period to see single rounds with their intervals"
    )
    said = (
        f"Responses of {len(closed):,} closed rounds and what was expected of them, {each}. Single intervals held in "
        f"{held:,} rounds. The table below has the last rounds."
    )
    return titled(layers, "Users who responded, and how many were expected", subtitle, said, height=300)


def _span(unit: str, entries: Sequence[RoundProgress], first: str) -> dict[str, Any]:
    """Where a block begins and ends on its axis, with a gap before the next one."""
    if unit == "rounds":
        numbers = entries[0].number, entries[-1].number
        return {"begin": numbers[0], "end": numbers[0] + _FILLED * (numbers[1] + 1 - numbers[0])}
    begin = datetime.fromisoformat(first)
    length = timedelta(days=7 if unit == "week" else 30)
    return {"begin": first, "end": (begin + _FILLED * length).strftime("%Y-%m-%dT%H:%M")}


def _blocks(rounds: Sequence[RoundProgress]) -> tuple[str, list[tuple[str, list[RoundProgress]]]]:
    """Rounds put together by week or by month, or if these are too few or too many, by number: the unit, and blocks."""
    for unit, first_day in (("week", _monday), ("month", _first_of_month)):
        dated: dict[str, list[RoundProgress]] = {}
        for entry in rounds:
            dated.setdefault(first_day(datetime.fromtimestamp(entry.opened, UTC)), []).append(entry)
        if _FEWEST_BLOCKS <= len(dated) <= MOST_ROUNDS:
            return unit, sorted(dated.items())
    size = -(-len(rounds) // (MOST_ROUNDS // 2))
    parts = [list(rounds[begin : begin + size]) for begin in range(0, len(rounds), size)]
    return "rounds", [(str(part[0].number), part) for part in parts]


def _monday(moment: datetime) -> str:
    return (moment - timedelta(days=moment.weekday())).strftime("%Y-%m-%d")


def _first_of_month(moment: datetime) -> str:
    return moment.strftime("%Y-%m-01")


def running_sums(rounds: Sequence[RoundProgress]) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = [entry for entry in rounds if entry.status == "closed" and entry.expected is not None]
    series: dict[str, list[float]] = {
        _SUMS[0]: [entry.responders for entry in closed],
        _SUMS[1]: [entry.expected.mean for entry in closed if entry.expected is not None],
        _SUMS[2]: [entry.new_responders for entry in closed],
    }
    rows = [
        {"round": entry.number, "opened": _moment(entry.opened), "what": what, "sum": value}
        for what, values in series.items()
        for entry, value in zip(closed, accumulate(values), strict=True)
    ]
    scale = alt.Scale(domain=list(_SUMS), range=[BLUE, ORANGE, GREY])
    dash = alt.Scale(domain=list(_SUMS), range=[[1, 0], [6, 4], [2, 2]])
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
    x, y = _axis(closed), alt.Y("sum:Q", title="Users, added up over rounds", axis=_WHOLE)
    colour = alt.Color("what:N", scale=scale, legend=legend)
    tip = ["what:N", "round:Q", alt.Tooltip("opened:T", format="%d %b %Y"), alt.Tooltip("sum:Q", format=",.1f")]
    hovered = [row for what in _SUMS for row in _hovered([row for row in rows if row["what"] == what])]
    lines = alt.layer(
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.4)
        .encode(x=x, y=y, color=colour, strokeDash=alt.StrokeDash("what:N", scale=dash, legend=legend)),
        alt.Chart(alt.Data(values=hovered)).mark_point(size=120, opacity=0, filled=True).encode(x=x, y=y, tooltip=tip),
    )
    ends = {what: sum(values) for what, values in series.items()}
    said = ", ".join(f"{value:,.0f} {what}" for what, value in ends.items())
    title, subtitle = "Responses so far", "Closed rounds; somebody who responds to three rounds is three responses"
    return titled(lines, title, subtitle, f"After {len(closed)} closed rounds: {said}.", 260)


def running_spend(rounds: Sequence[RoundProgress]) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = [entry for entry in rounds if entry.spend is not None]
    sums = list(accumulate(entry.spend or 0.0 for entry in paid))
    rows = [
        {"round": entry.number, "opened": _moment(entry.opened), "spend": total}
        for entry, total in zip(paid, sums, strict=True)
    ]
    x, y = _axis(paid), alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))
    tip = ["round:Q", alt.Tooltip("opened:T", format="%d %b %Y"), alt.Tooltip("spend:Q", format=",.2f")]
    area = alt.layer(
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after")
        .encode(x=x, y=y),
        alt.Chart(alt.Data(values=_hovered(rows)))
        .mark_point(size=120, opacity=0, filled=True)
        .encode(x=x, y=y, tooltip=tip),
    )
    said = f"The spending grows to {money(sums[-1])} in round {rows[-1]['round']}."
    return titled(area, "Spending so far", "By the costs of users and strategies, open rounds included", said, 200)


def running_calibration(rounds: Sequence[RoundProgress]) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = [entry for entry in rounds if entry.within is not None]
    rows = []
    for count, entry in enumerate(closed, start=1):
        found = calibration([bool(other.within) for other in closed[:count]])
        if found is not None:
            at = {"round": entry.number, "opened": _moment(entry.opened)}
            rows.append({**at, "share": found.share, "low": found.low, "high": found.high})
    base = alt.Chart(alt.Data(values=rows)).encode(x=_axis(closed))
    whole = alt.Scale(domain=[0, 1])
    title = "Share of intervals that held"
    share = alt.Y("share:Q", title=title, scale=whole, axis=alt.Axis(format="%"))
    promise = alt.Chart(alt.Data(values=[{"share": 0.9, "text": "90 % promised"}]))
    layers = alt.layer(
        base.mark_area(opacity=0.16, color=BLUE).encode(y=alt.Y("low:Q", title=title, scale=whole), y2="high:Q"),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=share),
        alt.Chart(alt.Data(values=_hovered(rows)))
        .mark_point(size=120, opacity=0, filled=True)
        .encode(
            x=_axis(closed),
            y=share,
            tooltip=["round:Q", *(alt.Tooltip(f"{name}:Q", format=".0%") for name in ("share", "low", "high"))],
        ),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6).encode(y=share),
        promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600).encode(
            y=share, x=alt.value(0), text="text:N"
        ),
    )
    last = rows[-1]
    said = f"After {len(rows)} closed rounds {last['share']:.0%} of the intervals have held; 90 % are promised."
    subtitle = "Band: shares that so few rounds do not rule out (exact 90 % interval)"
    return titled(layers, "How often the interval was right", subtitle, said, 220)


def running_regret(rounds: Sequence[tuple[int, float]]) -> Any:
    """What each round lost against the best choice, and the mean so far; only where the truth is known."""
    sums = accumulate(regret for _, regret in rounds)
    rows = [
        {"round": number, "regret": regret, "mean": total / count}
        for count, ((number, regret), total) in enumerate(zip(rounds, sums, strict=True), start=1)
    ]
    base, title = alt.Chart(alt.Data(values=rows)).encode(x=_round_axis(len(rows))), "Responses lost"
    tip = ["round:Q", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("regret", "mean"))]
    layers = alt.layer(
        base.mark_point(filled=True, size=40, opacity=0.7, color=GREY).encode(
            y=alt.Y("regret:Q", title=title), tooltip=tip
        ),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=alt.Y("mean:Q", title=title)),
    )
    said = f"After {len(rows)} rounds a round has lost {rows[-1]['mean']:.1f} expected responses on average."
    subtitle = "Point: expected responses that the best choice has more; line: the mean of all rounds so far"
    return titled(layers, "Regret", subtitle, said, 220)


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    row = {"low": lift.low, "high": lift.high, "difference": lift.difference, "text": f"{100 * lift.difference:+.2f}"}
    row = {name: 100 * value if isinstance(value, float) else value for name, value in row.items()}
    tip = [alt.Tooltip(f"{name}:Q", format="+.2f") for name in ("difference", "low", "high")]
    label = alt.Chart(alt.Data(values=[row])).mark_text(dy=-16, fontWeight=600)
    layers = alt.layer(
        *_intervals([row], tooltip=tip).layer, label.encode(x=alt.X("difference:Q", title=_POINTS), text="text:N")
    )
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+.2f} to "
        f"{row['high']:+.2f}. The dashed line is no effect."
    )
    return titled(layers, "What contact adds", "Point: the estimate; bar: 90 % interval; dashed: no effect", said, 90)


def group_label(group: GroupProgress) -> str:
    """What a product, a strategy or a segment is called; its id if it has no name."""
    return group.name or ("by features" if group.id is None else str(group.id))


def believed_and_observed(groups: Sequence[GroupProgress], what: str) -> Any:
    """For each product, strategy or segment the share of followers expected to respond, and the share that did."""
    shown = [group for group in groups if group.believed is not None][:MOST_GROUPS]
    order = distinct(group_label(group) for group in shown)
    marks = ("believed", "observed")
    rows = [
        {"group": name, "what": mark, "rate": value}
        for name, group in zip(order, shown, strict=True)
        for mark, value in zip(marks, (group.believed, group.observed), strict=True)
    ]
    spans = [
        {"group": name, "from": group.believed, "to": group.observed} for name, group in zip(order, shown, strict=True)
    ]
    y = alt.Y("group:N", sort=order, title=None, axis=alt.Axis(domain=False, labelLimit=150, labelFontSize=12))
    scale, legend = alt.Scale(zero=True), alt.Legend(title=None, orient="bottom")
    colour = alt.Color("what:N", scale=alt.Scale(domain=list(marks), range=[ORANGE, BLUE]), legend=legend)
    shape = alt.Shape("what:N", scale=alt.Scale(domain=list(marks), range=["diamond", "circle"]), legend=legend)
    x_title = "Share of followers who respond"
    layers = alt.layer(
        alt.Chart(alt.Data(values=spans))
        .mark_rule(strokeWidth=2, opacity=0.6)
        .encode(
            y=y,
            x=alt.X("from:Q", title=x_title, scale=scale, axis=alt.Axis(format=".1~%", grid=True, tickCount=6)),
            x2="to:Q",
        ),
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            y=y,
            x=alt.X("rate:Q", title=x_title, scale=scale),
            color=colour,
            shape=shape,
            tooltip=["group:N", "what:N", alt.Tooltip("rate:Q", format=".2%")],
        ),
    )
    said = f"Believed and observed response rates of {what} ({len(shown)}); the table below has the numbers."
    return titled(layers, f"Response rates of {what}", "Closed rounds", said, max(60, 30 * len(shown)))


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
    bars = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(color=BLUE, opacity=0.75, height=16)
        .encode(
            y=_campaign_axis(list(values)),
            x=alt.X(f"{what}:Q", title=what, axis=axis),
            tooltip=["campaign:N", alt.Tooltip(f"{what}:Q", format=form)],
        )
    )
    said = ", ".join(f"{name} {value:,.6g}" for name, value in values.items())
    return titled(bars, title, "", f"{what}: {said}.", _SPACE * len(rows) + _SPACE)


def lift_side_by_side(campaigns: Sequence[CampaignProgress]) -> Any:
    """What contact adds in each campaign, with its interval, beside nothing."""
    rows = [
        {
            "campaign": progress.name,
            **{name: 100 * getattr(progress.lift, name) for name in ("difference", "low", "high")},
            "rounds": progress.lift.rounds,
        }
        for progress in campaigns
        if progress.lift is not None
    ]
    tip = [alt.Tooltip(f"{name}:Q", format="+.2f") for name in ("difference", "low", "high")]
    layers = _intervals(
        rows, y=_campaign_axis([row["campaign"] for row in rows]), tooltip=["campaign:N", *tip, "rounds:Q"]
    )
    said = ", ".join(
        f"{row['campaign']} {row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f})" for row in rows
    )
    words = ("What contact adds", "Point: the estimate; bar: 90 % interval; dashed: no effect")
    return titled(layers, *words, f"{_POINTS}, with 90 % intervals: {said}.", _SPACE * len(rows) + _SPACE)


def _campaign_axis(names: list[str]) -> Any:
    return alt.Y("campaign:N", sort=names, title=None, axis=alt.Axis(domain=False, labelLimit=150, labelFontSize=12))


def _intervals(rows: list[dict[str, Any]], **encoding: Any) -> Any:
    """Differences with their intervals, beside a dashed line at no effect."""
    base = alt.Chart(alt.Data(values=rows)).encode(**encoding)
    scale, axis = alt.Scale(zero=True, padding=14), alt.Axis(tickCount=6)
    low, at = alt.X("low:Q", title=_POINTS, scale=scale, axis=axis), alt.X("difference:Q", title=_POINTS)
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(strokeDash=[6, 4], strokeWidth=1.6)
    return alt.layer(
        zero.encode(x=alt.X("at:Q", title=_POINTS)),
        base.mark_rule(strokeWidth=8, opacity=0.3, color=BLUE).encode(x=low, x2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1, color=BLUE).encode(x=at),
    )
