"""Figures of a campaign: responses beside expectation, sums, calibration, lift, and rates by group."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from tensorucb.campaign import GroupProgress, Lift, RoundProgress
from tensorucb.campaign._progress import calibration

WIDTH, HEIGHT = 640, 300
BLUE, ORANGE, GREY = "#1477c0", "#d55e00", "#8a93a0"
MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
MOST_GROUPS = 15

_STATES = ("in the interval", "outside of it", "still open")
_SUMS = ("responses", "responses expected", "different users who responded")


def _round_axis(count: int) -> Any:
    """The axis of round numbers, which are whole."""
    return alt.X(
        "round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=max(1, min(count - 1, 8)), format="d")
    )


def _chart(layers: Any, title: str, subtitle: str, description: str, height: int = HEIGHT) -> Any:
    heading = alt.TitleParams(title, subtitle=subtitle)
    return layers.properties(width=WIDTH, height=height, title=heading, description=description)


def expected_and_observed(rounds: Sequence[RoundProgress]) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded."""
    rows: list[dict[str, Any]] = [
        {
            "round": entry.number,
            "low": entry.expected.low,
            "high": entry.expected.high,
            "expected": entry.expected.mean,
            "responded": entry.responders,
            "state": _STATES[2] if entry.within is None else _STATES[0] if entry.within else _STATES[1],
            "product": "" if entry.product is None else str(entry.product),
        }
        for entry in rounds
        if entry.expected is not None
    ][-MOST_ROUNDS:]
    # The first intervals are often many times as wide as what comes: they are cut rather than all others squeezed.
    top = max(5.0, 1.6 * max(max(row["responded"], row["expected"]) for row in rows))
    for row in rows:
        row["end"] = min(row["high"], top)
    # Bars become narrower where the page is; a few of them stay as narrow as many would be.
    width: Any = {"band": 0.62} if len(rows) > 10 else 18
    x = alt.X("round:O", title="Round", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    # Every layer of a figure names its axis alike, or else the page would put the names side by side.
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    tip = ["round:O", "product:N", "responded:Q", alt.Tooltip("expected:Q", format=".1f"), "low:Q", "high:Q"]
    states = [state for state in _STATES if any(row["state"] == state for row in rows)]
    look = dict(zip(_STATES, ((BLUE, "circle"), (ORANGE, "diamond"), (GREY, "square")), strict=True))
    legend = alt.Legend(title=None, orient="bottom")
    hues, shapes = (alt.Scale(domain=states, range=[look[state][part] for state in states]) for part in (0, 1))
    colour, shape = alt.Color("state:N", scale=hues, legend=legend), alt.Shape("state:N", scale=shapes, legend=legend)
    layers = alt.layer(
        base.mark_bar(width=width, opacity=0.28, color=GREY).encode(y=alt.Y("low:Q", title="Users"), y2="end:Q"),
        base.mark_tick(orient="horizontal", thickness=2, color=GREY, width=width).encode(
            y=alt.Y("expected:Q", title="Users")
        ),
        base.mark_point(filled=True, size=60, opacity=1).encode(
            y=alt.Y("responded:Q", title="Users"), color=colour, shape=shape, tooltip=tip
        ),
    )
    outside = sum(row["state"] == _STATES[1] for row in rows)
    said = f"For each of {len(rows)} rounds the number of responders that was expected, its interval, and what came. "
    return _chart(
        layers,
        "Users who responded, round by round",
        "Bar: where the number should lie in 90 % of rounds, cut if very long; line in it: the number expected",
        said + f"In {outside} closed rounds it lies outside of the interval. The table below has the numbers.",
    )


def running_sums(rounds: Sequence[RoundProgress]) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = [entry for entry in rounds if entry.status == "closed" and entry.expected is not None]
    series: dict[str, list[float]] = {
        _SUMS[0]: [entry.responders for entry in closed],
        _SUMS[1]: [entry.expected.mean for entry in closed if entry.expected is not None],
        _SUMS[2]: [entry.new_responders for entry in closed],
    }
    rows = [
        {"round": entry.number, "what": what, "sum": value}
        for what, values in series.items()
        for entry, value in zip(closed, accumulate(values), strict=True)
    ]
    scale = alt.Scale(domain=list(_SUMS), range=[BLUE, ORANGE, GREY])
    dash = alt.Scale(domain=list(_SUMS), range=[[1, 0], [6, 4], [2, 2]])
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.4)
        .encode(
            x=_round_axis(len(closed)),
            y=alt.Y("sum:Q", title="Users, added up over rounds"),
            color=alt.Color("what:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("what:N", scale=dash, legend=legend),
            tooltip=["what:N", "round:Q", alt.Tooltip("sum:Q", format=",.1f")],
        )
    )
    ends = {what: sum(values) for what, values in series.items()}
    said = ", ".join(f"{value:,.0f} {what}" for what, value in ends.items())
    title, subtitle = "Responses so far", "Closed rounds; somebody who responds to three rounds is three responses"
    return _chart(lines, title, subtitle, f"After {len(closed)} closed rounds: {said}.", 260)


def running_spend(rounds: Sequence[RoundProgress]) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = [(entry.number, entry.spend) for entry in rounds if entry.spend is not None]
    sums = list(accumulate(spend for _, spend in paid))
    rows = [{"round": number, "spend": total} for (number, _), total in zip(paid, sums, strict=True)]
    area = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after")
        .encode(
            x=_round_axis(len(rows)),
            y=alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True)),
            tooltip=["round:Q", alt.Tooltip("spend:Q", format=",.2~f")],
        )
    )
    said = f"The spending grows to {sums[-1]:,.10g} in round {rows[-1]['round']}."
    return _chart(area, "Spending so far", "By the costs of users and strategies, open rounds included", said, 200)


def running_calibration(rounds: Sequence[RoundProgress]) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = [entry for entry in rounds if entry.within is not None]
    rows = []
    for count, entry in enumerate(closed, start=1):
        found = calibration([bool(other.within) for other in closed[:count]])
        if found is not None:
            rows.append({"round": entry.number, "share": found.share, "low": found.low, "high": found.high})
    base = alt.Chart(alt.Data(values=rows)).encode(x=_round_axis(len(rows)))
    whole = alt.Scale(domain=[0, 1])
    title = "Share of intervals that held"
    share = alt.Y("share:Q", title=title, scale=whole, axis=alt.Axis(format="%"))
    promise = alt.Chart(alt.Data(values=[{"share": 0.9, "text": "90 % promised"}]))
    layers = alt.layer(
        base.mark_area(opacity=0.16, color=BLUE).encode(y=alt.Y("low:Q", title=title, scale=whole), y2="high:Q"),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(
            y=share, tooltip=["round:Q", *(alt.Tooltip(f"{name}:Q", format=".0%") for name in ("share", "low", "high"))]
        ),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6).encode(y=share),
        promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600).encode(
            y=share, x=alt.value(0), text="text:N"
        ),
    )
    last = rows[-1]
    said = f"After {len(rows)} closed rounds {last['share']:.0%} of the intervals have held; 90 % are promised."
    subtitle = "Band: shares that so few rounds do not rule out (exact 90 % interval)"
    return _chart(layers, "How often the interval was right", subtitle, said, 220)


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
    return _chart(layers, "Regret", subtitle, said, 220)


def lift_interval(lift: Lift) -> Any:
    """What contact adds to the response rate of followers, with its interval, beside nothing."""
    row = {"low": lift.low, "high": lift.high, "difference": lift.difference, "text": f"{100 * lift.difference:+.2f}"}
    row = {name: 100 * value if isinstance(value, float) else value for name, value in row.items()}
    base, title = alt.Chart(alt.Data(values=[row])), "Percentage points of followers who respond"
    scale, axis = alt.Scale(zero=True, padding=14), alt.Axis(tickCount=6)
    low, at = alt.X("low:Q", title=title, scale=scale, axis=axis), alt.X("difference:Q", title=title)
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(strokeDash=[6, 4], strokeWidth=1.6)
    layers = alt.layer(
        zero.encode(x=alt.X("at:Q", title=title)),
        base.mark_rule(strokeWidth=8, opacity=0.3, color=BLUE).encode(x=low, x2="high:Q"),
        base.mark_point(filled=True, size=110, opacity=1, color=BLUE).encode(x=at),
        base.mark_text(dy=-16, fontWeight=600).encode(x=at, text="text:N"),
    )
    said = (
        f"Contact adds {row['text']} percentage points, with a 90 % interval from {row['low']:+.2f} to "
        f"{row['high']:+.2f}. The dashed line is no effect."
    )
    return _chart(layers, "What contact adds", "Point: the estimate; bar: 90 % interval; dashed: no effect", said, 90)


def believed_and_observed(groups: Sequence[GroupProgress], what: str) -> Any:
    """For each product or strategy the share of followers expected to respond, and the share that did."""
    shown = [group for group in groups if group.believed is not None][:MOST_GROUPS]
    order = ["by features" if group.id is None else str(group.id) for group in shown]
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
    said = f"Believed and observed response rates of {len(shown)} {what}; the table below has the numbers."
    return _chart(layers, f"Response rates of {what}", "Closed rounds", said, max(60, 30 * len(shown)))
