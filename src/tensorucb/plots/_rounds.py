"""Figures of a campaign's rounds: responses beside expectation, sums, calibration, spending, responses lost.

Rounds of several days stand on an axis of dates, in the campaign's time zone. More rounds than can be told apart are
put together by week or by month.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import altair as alt
import polars as pl

from tensorucb.campaign import CampaignProgress, GroupProgress
from tensorucb.campaign._progress import calibration
from tensorucb.money import money
from tensorucb.plots._theme import BELOW, BLUE, GREY, ORANGE, chart_of, formatted, titled, told_apart

MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
_FEWEST_DAYS = 3  # on which rounds were opened, for dates to be an axis
_FEWEST_BLOCKS = 6  # weeks or months that say more than blocks of rounds
_MOST_DATES = 12  # labels of an axis of rounds
_FILLED = 0.8  # of the place of a block
_MOMENT = "%Y-%m-%dT%H:%M:%S"

_STROKES = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
_DATES = alt.Axis(tickCount=6, labelOverlap=True, format={"week": "%-d %b", "date": "%-d %b"})
_OPENED = alt.Tooltip("opened:T", format="%d %b %Y")
# How a round looks: its colour and its shape.
_STATES = {
    "in the interval": (BLUE, "circle"),
    "outside of it": (ORANGE, "diamond"),
    "still open": (GREY, "square"),
}
_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("round", "responders", "new_responders"), pl.Int64),
    **dict.fromkeys(("expected", "low", "high", "spend"), pl.Float64),
    **dict.fromkeys(("closed", "within"), pl.Boolean),
    "opened": pl.Datetime,
    "product": pl.String,
}
_FORESEEN = pl.col("expected").is_not_null()


def product_names(progress: CampaignProgress) -> dict[int | str, str]:
    """What the products of closed rounds are called, by id; the id itself if a product has no name."""
    return {group.id: group_label(group) for group in progress.products if group.id is not None}


def group_label(group: GroupProgress) -> str:
    """What a product, a strategy or a segment is called; its id if it has no name."""
    return group.name or ("by features" if group.id is None else str(group.id))


# -- rounds, and when they were opened --


def _rounds(progress: CampaignProgress, shown: pl.Expr) -> pl.DataFrame:
    """The shown rounds, ``opened`` by the clocks of the campaign's time zone.

    Moments are written without a zone: whoever draws the figure takes them for its own clock's, and so every reader
    sees the campaign's days, wherever they are.
    """
    zone = ZoneInfo(progress.timezone)
    names = product_names(progress)
    rows = []
    for entry in progress.rounds:
        row: dict[str, Any] = {"round": entry.number, "closed": entry.status == "closed"}
        row |= {name: getattr(entry, name) for name in ("responders", "new_responders", "within", "spend")}
        row["opened"] = datetime.fromtimestamp(entry.opened, zone).replace(tzinfo=None)
        row["product"] = "" if entry.product is None else names.get(entry.product, str(entry.product))
        if entry.expected is not None:
            row |= {"expected": entry.expected.mean, "low": entry.expected.low, "high": entry.expected.high}
        rows.append(row)
    return pl.DataFrame(rows, _COLUMNS).filter(shown)


def _is_dated(rounds: pl.DataFrame) -> bool:
    """Whether dates tell the rounds apart: they were opened on several days."""
    return rounds["opened"].dt.date().n_unique() >= _FEWEST_DAYS


def _axis(rounds: pl.DataFrame) -> Any:
    """Dates, if rounds were opened on several days; otherwise their numbers, which are whole."""
    if _is_dated(rounds):
        return alt.X("opened:T", title="Opened", axis=_DATES)
    ticks = max(1, min(rounds.height - 1, 8))
    return alt.X("round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=ticks, format="d"))


def _axis_of_rounds(rounds: pl.DataFrame) -> Any:
    """A place for each round; their dates below, if they were opened on several days, and otherwise their numbers.

    A date stands where its day begins: rounds of the same day follow without one.
    """
    if not _is_dated(rounds):
        return alt.X("round:O", title="Round", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    firsts = rounds.filter(pl.col("opened").dt.date().is_first_distinct())
    form = "%-d %b %Y" if firsts["opened"].dt.year().n_unique() > 1 else "%-d %b"
    dates = zip(firsts["round"], firsts["opened"].dt.strftime(form), strict=True)
    labels = dict(list(dates)[:: -(-firsts.height // _MOST_DATES)])
    shown = f"{json.dumps(labels)}[datum.value]"
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", values=list(labels), labelExpr=shown)
    return alt.X("round:O", title="Opened", axis=axis)


def _in_blocks(rounds: pl.DataFrame) -> tuple[str, str, pl.DataFrame]:
    """Rounds by "week" or "month", or if these are too few or too many, so many at a time; which, and in words.

    The rounds get the ``begin`` and the ``end`` of their block on its axis, with a gap before the next one.
    """
    for unit, every, days in (("week", "1w", 7), ("month", "1mo", 30)):
        begin = pl.col("opened").dt.truncate(every)
        ends = {"begin": begin, "end": begin + _FILLED * timedelta(days=days)}
        blocks = rounds.with_columns(**{name: end.dt.strftime(_MOMENT) for name, end in ends.items()})
        if _FEWEST_BLOCKS <= blocks["begin"].n_unique() <= MOST_ROUNDS:
            return unit, f"by {unit}", blocks
    size = -(-rounds.height // (MOST_ROUNDS // 2))
    first, last = (number.over(pl.int_range(pl.len()) // size) for number in (pl.first("round"), pl.last("round")))
    return "", f"{size} at a time", rounds.with_columns(begin=first, end=first + _FILLED * (last + 1 - first))


def _drawn(rounds: pl.DataFrame, *columns: str, averaged: str = "") -> tuple[pl.DataFrame, str]:
    """Which rounds a running line goes through: all, or the last one of each block; and what to say of it."""
    said = ""
    if rounds.height > MOST_ROUNDS:
        _, unit, blocks = _in_blocks(rounds)
        said = f"; {rounds.height:,} rounds, {unit}"
        if averaged:
            blocks = blocks.with_columns(pl.col(averaged).mean().over("begin"))
        rounds = blocks.unique("begin", keep="last").sort("round")
    return rounds.select("round", pl.col("opened").dt.strftime(_MOMENT), *columns), said


# -- rounds beside what was expected of them --


def expected_and_observed(progress: CampaignProgress) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded.

    More rounds than can be told apart are put together by week or month, or as many of them as fill so many places.
    """
    compared = _rounds(progress, _FORESEEN)
    closed = compared.filter("closed")
    if closed.height and compared.height > MOST_ROUNDS:
        return _expected_together(closed)
    return _expected_by_round(compared)


def _expected_by_round(compared: pl.DataFrame) -> Any:
    # The first intervals are often many times as wide as what comes: they are cut rather than all others squeezed.
    top = max(5.0, 1.6 * compared.select(pl.max_horizontal("responders", "expected").max()).item())
    held = pl.when("within").then(pl.lit("in the interval")).otherwise(pl.lit("outside of it"))
    rounds = compared.select(
        "round",
        pl.col("opened").dt.strftime("%Y-%m-%d"),
        *("low", "high", "expected", pl.col("responders").alias("responded")),
        pl.when(pl.col("within").is_null()).then(pl.lit("still open")).otherwise(held).alias("state"),
        "product",
        pl.min_horizontal("high", pl.lit(top)).alias("end"),
    )
    # Bars become narrower where the page is; a few of them stay as narrow as many would be.
    width: Any = {"band": 0.62} if rounds.height > 10 else 18
    tip = ["round:O", "opened:N", "product:N", "responded:Q", *formatted(".1f", "expected"), "low:Q", "high:Q"]
    base = chart_of(rounds).encode(x=_axis_of_rounds(compared), tooltip=tip)
    states = [state for state in _STATES if state in rounds["state"]]
    colours, shapes = zip(*(_STATES[state] for state in states), strict=True)
    looks = told_apart("state", states, BELOW, color=colours, shape=shapes)
    layers = alt.layer(
        base.mark_bar(width=width, opacity=0.28, color=GREY).encode(y=_users("low"), y2="end:Q"),
        base.mark_tick(orient="horizontal", thickness=2, color=GREY, width=width).encode(y=_users("expected")),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=_users("responded"), **looks),
    )
    outside = (rounds["state"] == "outside of it").sum()
    return titled(
        layers,
        "Users who responded, round by round",
        "Bar: where the number should lie in 90 % of rounds, cut if very long; line in it: the number expected",
        f"For each of {rounds.height} rounds the number of responders that was expected, its interval, and what came. "
        f"In {outside} closed rounds it lies outside of the interval. The table below has the numbers.",
        height=300,
    )


def _users(field: str, title: str = "Users") -> Any:
    """An axis of users, who are whole; each layer names it alike, or else the page would put names side by side."""
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(tickMinStep=1, format=",d"))


def _expected_together(closed: pl.DataFrame) -> Any:
    """The same of closed rounds, put together: sums of what was expected and of what came."""
    unit, said, rounds = _in_blocks(closed)
    sums = {
        "first round": pl.min("round"),
        "last round": pl.max("round"),
        "rounds": pl.len(),
        "responses": pl.sum("responders"),
        "expected": pl.sum("expected"),
        "intervals held": pl.sum("within"),
    }
    blocks = rounds.group_by("begin", "end").agg(**sums).sort("begin")
    tip = formatted(",d", "first round", "last round", "rounds", "responses")
    tip += [*formatted(",.1f", "expected"), *formatted(",d", "intervals held")]
    if unit:
        x = alt.X("begin:T", title=f"Opened in the {unit} of", axis=_axis_of_blocks(unit, blocks["begin"].to_list()))
        tip.insert(0, alt.Tooltip("begin:T", title=f"{unit} of", format="%d %b %Y"))
    else:
        x = alt.X("begin:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=6, format="d"))
    base = chart_of(blocks).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    looks = told_apart("what", ("responses", "expected"), BELOW, color=(BLUE, ORANGE))
    responses = base.transform_calculate(what="'responses'").mark_bar(opacity=0.75)
    expected = base.transform_calculate(what="'expected'").mark_rule(strokeWidth=3, opacity=1)
    layers = alt.layer(
        responses.encode(y=_users("responses", title), y2=alt.datum(0), **looks),
        expected.encode(y=_users("expected", title), **looks),
    )
    size = f"{closed.height:,} closed rounds"
    return titled(
        layers,
        "Users who responded, and how many were expected",
        f"{size}, {said}; choose a shorter period to see single rounds with their intervals",
        f"Responses of {size} and what was expected of them, {said}. Single intervals held in "
        f"{blocks['intervals held'].sum():,} rounds. The table below has the last rounds.",
        height=300,
    )


def _axis_of_blocks(unit: str, begins: Sequence[str]) -> Any:
    """Dates below some of the weeks or months, where they begin: left alone, the axis would begin weeks on Sundays."""
    days = [date.fromisoformat(begin[:10]) for begin in begins[:: -(-len(begins) // _MOST_DATES)]]
    values = [alt.DateTime(year=day.year, month=day.month, date=day.day) for day in days]
    return alt.Axis(values=values, format="%-d %b" if unit == "week" else "%b %Y", labelOverlap="greedy")


# -- lines over rounds --


def _hovered(rounds: pl.DataFrame, **encoding: Any) -> Any:
    """Points that nobody sees, where a pointer finds the exact numbers of lines."""
    return chart_of(rounds).mark_point(size=120, opacity=0, filled=True).encode(**encoding)


def running_sums(progress: CampaignProgress) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = _rounds(progress, pl.col("closed") & _FORESEEN)
    series = {
        "responses": "responders",
        "responses expected": "expected",
        "different users who responded": "new_responders",
    }
    sums = closed.with_columns(**{what: pl.col(name).cum_sum() for what, name in series.items()})
    points, together = _drawn(sums, *series)
    points = points.unpivot(list(series), index=["round", "opened"], variable_name="what", value_name="sum")
    strokes = ([1, 0], [6, 4], [2, 2])
    looks = told_apart("what", series, _STROKES, color=(BLUE, ORANGE, GREY), strokeDash=strokes)
    place = {"x": _axis(closed), "y": _users("sum", "Users, added up over rounds")}
    layers = alt.layer(
        chart_of(points).mark_line(strokeWidth=2.4).encode(**place, **looks),
        _hovered(points, **place, tooltip=["what:N", "round:Q", _OPENED, *formatted(",.1f", "sum")]),
    )
    ends = ", ".join(f"{closed[name].sum():,.0f} {what}" for what, name in series.items())
    subtitle = f"Closed rounds; somebody who responds to three rounds is three responses{together}"
    return titled(layers, "Responses so far", subtitle, f"After {closed.height} closed rounds: {ends}.", height=260)


def running_spend(progress: CampaignProgress) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = _rounds(progress, pl.col("spend").is_not_null())
    points, together = _drawn(paid.with_columns(pl.col("spend").cum_sum()), "spend")
    place = {"x": _axis(paid), "y": alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))}
    layers = alt.layer(
        chart_of(points).mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after").encode(**place),
        _hovered(points, **place, tooltip=["round:Q", _OPENED, *formatted(",.2f", "spend")]),
    )
    said = f"The spending grows to {money(points['spend'][-1])} in round {points['round'][-1]}."
    subtitle = f"By the costs of users and strategies, open rounds included{together}"
    return titled(layers, "Spending so far", subtitle, said, height=200)


def running_calibration(progress: CampaignProgress) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = _rounds(progress, pl.col("within").is_not_null())
    counts = closed.with_columns(held=pl.col("within").cum_sum(), rounds=pl.int_range(1, pl.len() + 1))
    points, together = _drawn(counts, "held", "rounds")
    shares = [calibration(held, rounds) for held, rounds in points.select("held", "rounds").rows()]
    ends = {name: [getattr(share, name) for share in shares] for name in ("share", "low", "high")}
    points = points.select("round", "opened", **{name: pl.Series(values) for name, values in ends.items()})
    x = _axis(closed)
    heights: Any = {"title": "Share of intervals that held", "scale": alt.Scale(domain=[0, 1])}
    share_axis = alt.Y("share:Q", axis=alt.Axis(format="%"), **heights)
    tip = ["round:Q", _OPENED, *formatted(".0%", "share", "low", "high")]
    line = chart_of(points).encode(x=x)
    promise = chart_of([{"share": 0.9, "text": "90 % promised"}]).encode(y=share_axis)
    words = promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600)
    layers = alt.layer(
        line.mark_area(opacity=0.16, color=BLUE).encode(y=alt.Y("low:Q", **heights), y2="high:Q"),
        line.mark_line(strokeWidth=2.4, color=BLUE).encode(y=share_axis),
        _hovered(points, x=x, y=share_axis, tooltip=tip),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6),
        words.encode(x=alt.value(0), text="text:N"),
    )
    share = points["share"][-1]
    said = f"After {closed.height} closed rounds {share:.0%} of the intervals have held; 90 % are promised."
    subtitle = f"Band: shares that so few rounds do not rule out (exact 90 % interval){together}"
    return titled(layers, "How often the interval was right", subtitle, said, height=220)


def running_loss(progress: CampaignProgress, lost: Mapping[int, float]) -> Any:
    """What each round lost against the best choice, by its number, and the mean so far; where the truth is known."""
    known = _rounds(progress, pl.col("round").is_in(list(lost)))
    losses = pl.col("round").replace_strict(lost, return_dtype=pl.Float64)
    means = losses.cum_sum() / pl.int_range(1, pl.len() + 1)
    points, together = _drawn(known.with_columns(lost=losses, mean=means), "lost", "mean", averaged="lost")
    base = chart_of(points).encode(x=_axis(known))
    points_axis, mean_axis = (alt.Y(f"{name}:Q", title="Responses lost") for name in ("lost", "mean"))
    marks = base.mark_point(filled=True, size=40, opacity=0.7, color=GREY)
    layers = alt.layer(
        marks.encode(y=points_axis, tooltip=["round:Q", _OPENED, *formatted(".1f", "lost", "mean")]),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=mean_axis),
    )
    said = f"After {known.height} rounds a round has lost {points['mean'][-1]:.1f} expected responses on average."
    subtitle = f"Point: expected responses that the best choice has more; line: the mean of all rounds so far{together}"
    return titled(layers, "Responses lost", subtitle, said, height=220)
