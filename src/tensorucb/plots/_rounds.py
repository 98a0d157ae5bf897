"""Figures of a campaign's rounds: responses beside expectation, sums, calibration, spending, responses lost.

Rounds of several days stand on an axis of dates, in the campaign's time zone. More rounds than can be told apart are
put together by week or by month.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import accumulate, chain
from typing import Any
from zoneinfo import ZoneInfo

import altair as alt

from tensorucb.campaign import CampaignProgress, GroupProgress, RoundProgress
from tensorucb.campaign._progress import calibration
from tensorucb.money import money
from tensorucb.plots._theme import BELOW, BLUE, GREY, ORANGE, chart_of, formatted, titled, told_apart

MOST_ROUNDS = 60  # rounds that stand side by side and can still be told apart
_FEWEST_DAYS = 3  # on which rounds were opened, for dates to be an axis
_FEWEST_BLOCKS = 6  # weeks or months that say more than blocks of rounds
_MOST_DATES = 12  # labels of an axis of rounds
_FILLED = 0.8  # of the place of a block
_MOST_HOVERED = 100  # places of a line that say their numbers
_DAY = timedelta(days=1)

_STROKES = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolStrokeWidth=3)
_DATES = alt.Axis(tickCount=6, labelOverlap=True, format={"week": "%-d %b", "date": "%-d %b"})
_OPENED = alt.Tooltip("opened:T", format="%d %b %Y")
# How a round looks: its colour and its shape.
_STATES = {
    "in the interval": (BLUE, "circle"),
    "outside of it": (ORANGE, "diamond"),
    "still open": (GREY, "square"),
}


def product_names(progress: CampaignProgress) -> dict[int | str, str]:
    """What the products of closed rounds are called, by id; the id itself if a product has no name."""
    return {group.id: group_label(group) for group in progress.products if group.id is not None}


def group_label(group: GroupProgress) -> str:
    """What a product, a strategy or a segment is called; its id if it has no name."""
    return group.name or ("by features" if group.id is None else str(group.id))


# -- when rounds were opened --


@dataclass(frozen=True)
class _Calendar:
    """When rounds were opened, by the clocks of the campaign's time zone.

    Moments are written without a zone: whoever draws the figure takes them for its own clock's, and so every reader
    sees the campaign's days, wherever they are.
    """

    zone: ZoneInfo

    @classmethod
    def of(cls, progress: CampaignProgress) -> _Calendar:
        return cls(ZoneInfo(progress.timezone))

    def day(self, entry: RoundProgress) -> date:
        """The day on which a round was opened."""
        return datetime.fromtimestamp(entry.opened, self.zone).date()

    def place(self, entry: RoundProgress) -> dict[str, Any]:
        """Where a round is on the axis."""
        opened = datetime.fromtimestamp(entry.opened, self.zone)
        return {"round": entry.number, "opened": _written(opened.replace(tzinfo=None))}

    def dated(self, rounds: Iterable[RoundProgress]) -> bool:
        """Whether dates tell the rounds apart: they were opened on several days."""
        return len({self.day(entry) for entry in rounds}) >= _FEWEST_DAYS

    def axis(self, rounds: Sequence[RoundProgress]) -> Any:
        """Dates, if rounds were opened on several days; otherwise their numbers, which are whole."""
        if self.dated(rounds):
            return alt.X("opened:T", title="Opened", axis=_DATES)
        ticks = max(1, min(len(rounds) - 1, 8))
        return alt.X("round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=ticks, format="d"))

    def axis_of_rounds(self, rounds: Sequence[RoundProgress]) -> Any:
        """A place for each round; their dates below, if they were opened on several days, and otherwise their numbers.

        A date stands where its day begins: rounds of the same day follow without one.
        """
        if not self.dated(rounds):
            return alt.X("round:O", title="Round", axis=alt.Axis(labelAngle=0, labelOverlap=True))
        days = {entry.number: self.day(entry) for entry in rounds}
        first_rounds = {day: number for number, day in reversed(days.items())}
        numbers = sorted(first_rounds.values())
        numbers = numbers[:: -(-len(numbers) // _MOST_DATES)]
        years = len({day.year for day in first_rounds}) > 1
        labels = {str(number): _short(days[number], years) for number in numbers}
        axis = alt.Axis(
            labelAngle=0, labelOverlap="greedy", values=numbers, labelExpr=f"{json.dumps(labels)}[datum.value]"
        )
        return alt.X("round:O", title="Opened", axis=axis)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _short(day: date, year: bool) -> str:
    return f"{day.day} {day:%b %Y}" if year else f"{day.day} {day:%b}"


# -- rounds put together --


@dataclass(frozen=True)
class _Blocks:
    """Rounds put together: ``unit`` is week, month or rounds, ``said`` says it in words.

    ``begins`` and ``ends`` are where each block stands on its axis, with a gap before the next one.
    """

    unit: str
    said: str
    blocks: list[list[RoundProgress]]
    begins: list[Any]
    ends: list[Any]


def _monday(day: date) -> date:
    return day - day.weekday() * _DAY


def _first_of_month(day: date) -> date:
    return day.replace(day=1)


_UNITS: tuple[tuple[str, Callable[[date], date], int], ...] = (("week", _monday, 7), ("month", _first_of_month, 30))


def _blocks(rounds: Sequence[RoundProgress], calendar: _Calendar) -> _Blocks:
    """Rounds by week or by month, or if these are too few or too many, so many at a time."""
    for unit, begin_of, days in _UNITS:
        dated: dict[date, list[RoundProgress]] = {}
        for entry in rounds:
            dated.setdefault(begin_of(calendar.day(entry)), []).append(entry)
        if _FEWEST_BLOCKS <= len(dated) <= MOST_ROUNDS:
            midnights = [datetime.combine(day, time()) for day in sorted(dated)]
            return _Blocks(
                unit,
                f"by {unit}",
                [dated[midnight.date()] for midnight in midnights],
                [_written(midnight) for midnight in midnights],
                [_written(midnight + _FILLED * days * _DAY) for midnight in midnights],
            )
    size = -(-len(rounds) // (MOST_ROUNDS // 2))
    blocks = [list(rounds[at : at + size]) for at in range(0, len(rounds), size)]
    begins = [block[0].number for block in blocks]
    ends = [block[0].number + _FILLED * (block[-1].number + 1 - block[0].number) for block in blocks]
    return _Blocks("rounds", f"{size} at a time", blocks, begins, ends)


def _axis_of_blocks(together: _Blocks) -> Any:
    """Dates below some of the weeks or months, where they begin: left alone, the axis would begin weeks on Sundays."""
    days = [date.fromisoformat(begin[:10]) for begin in together.begins]
    shown = days[:: -(-len(days) // _MOST_DATES)]
    values = [alt.DateTime(year=day.year, month=day.month, date=day.day) for day in shown]
    form = "%-d %b" if together.unit == "week" else "%b %Y"
    return alt.Axis(values=values, format=form, labelOverlap="greedy")


def _thinned(rounds: Sequence[RoundProgress], calendar: _Calendar) -> tuple[list[int], str]:
    """Which places of a running line are drawn: all, or the last one of each block; and what to say of it."""
    if len(rounds) <= MOST_ROUNDS:
        return list(range(len(rounds))), ""
    together = _blocks(rounds, calendar)
    place = {entry.number: at for at, entry in enumerate(rounds)}
    lasts = sorted(max(place[entry.number] for entry in block) for block in together.blocks)
    return lasts, f"; {len(rounds):,} rounds, {together.said}"


# -- rounds beside what was expected of them --


def expected_and_observed(progress: CampaignProgress) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded.

    More rounds than can be told apart are put together by week or month, or as many of them as fill so many places.
    """
    compared = [entry for entry in progress.rounds if entry.expected is not None]
    calendar = _Calendar.of(progress)
    if len(compared) > MOST_ROUNDS:
        return _expected_together([entry for entry in compared if entry.status == "closed"], calendar)
    return _expected_by_round(compared, product_names(progress), calendar)


def _expected_by_round(compared: Sequence[RoundProgress], names: Mapping[int | str, str], calendar: _Calendar) -> Any:
    rows: list[dict[str, Any]] = [
        {
            "round": entry.number,
            "opened": calendar.day(entry).isoformat(),
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
    tip = ["round:O", "opened:N", "product:N", "responded:Q", *formatted(".1f", "expected"), "low:Q", "high:Q"]
    base = chart_of(rows).encode(x=calendar.axis_of_rounds(compared), tooltip=tip)
    states = [state for state in _STATES if any(row["state"] == state for row in rows)]
    colours, shapes = zip(*(_STATES[state] for state in states), strict=True)
    looks = told_apart("state", states, BELOW, color=colours, shape=shapes)
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


def _expected_together(closed: Sequence[RoundProgress], calendar: _Calendar) -> Any:
    """The same of closed rounds, put together: sums of what was expected and of what came."""
    together = _blocks(closed, calendar)
    rows = [
        {
            "begin": begin,
            "end": end,
            "first round": min(entry.number for entry in block),
            "last round": max(entry.number for entry in block),
            "rounds": len(block),
            "responses": sum(entry.responders for entry in block),
            "expected": sum(entry.expected.mean for entry in block if entry.expected is not None),
            "intervals held": sum(bool(entry.within) for entry in block),
        }
        for block, begin, end in zip(together.blocks, together.begins, together.ends, strict=True)
    ]
    tip = formatted(",d", "first round", "last round", "rounds", "responses")
    tip += [*formatted(",.1f", "expected"), *formatted(",d", "intervals held")]
    if together.unit == "rounds":
        x = alt.X("begin:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=6, format="d"))
    else:
        x = alt.X("begin:T", title=f"Opened in the {together.unit} of", axis=_axis_of_blocks(together))
        tip.insert(0, alt.Tooltip("begin:T", title=f"{together.unit} of", format="%d %b %Y"))
    base = chart_of(rows).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    looks = told_apart("what", ("responses", "expected"), BELOW, color=(BLUE, ORANGE))
    responses = base.transform_calculate(what="'responses'").mark_bar(opacity=0.75)
    expected = base.transform_calculate(what="'expected'").mark_rule(strokeWidth=3, opacity=1)
    layers = alt.layer(
        responses.encode(y=_users("responses", title), y2=alt.datum(0), **looks),
        expected.encode(y=_users("expected", title), **looks),
    )
    held = sum(entry["intervals held"] for entry in rows)
    return titled(
        layers,
        "Users who responded, and how many were expected",
        f"{len(closed):,} closed rounds, {together.said}; choose a shorter period to see single rounds with their "
        "intervals",
        f"Responses of {len(closed):,} closed rounds and what was expected of them, {together.said}. Single intervals "
        f"held in {held:,} rounds. The table below has the last rounds.",
        height=300,
    )


# -- lines over rounds --


def _hovered(lines: Sequence[Sequence[Mapping[str, Any]]], **encoding: Any) -> Any:
    """Points that nobody sees, where a pointer finds the exact numbers of lines; among them the last of each."""
    rows: list[Mapping[str, Any]] = []
    for line in lines:
        step = max(1, -(-len(line) // _MOST_HOVERED))
        rows += line[::-1][::step][::-1]
    return chart_of(rows).mark_point(size=120, opacity=0, filled=True).encode(**encoding)


def running_sums(progress: CampaignProgress) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = [entry for entry in progress.rounds if entry.status == "closed" and entry.expected is not None]
    calendar = _Calendar.of(progress)
    drawn, together = _thinned(closed, calendar)
    series: dict[str, list[float]] = {
        "responses": [entry.responders for entry in closed],
        "responses expected": [entry.expected.mean for entry in closed if entry.expected is not None],
        "different users who responded": [entry.new_responders for entry in closed],
    }
    lines = []
    for what, values in series.items():
        totals = list(accumulate(values))
        lines.append([{**calendar.place(closed[at]), "what": what, "sum": totals[at]} for at in drawn])
    strokes = ([1, 0], [6, 4], [2, 2])
    looks = told_apart("what", series, _STROKES, color=(BLUE, ORANGE, GREY), strokeDash=strokes)
    place = {"x": calendar.axis(closed), "y": _users("sum", "Users, added up over rounds")}
    layers = alt.layer(
        chart_of(list(chain(*lines))).mark_line(strokeWidth=2.4).encode(**place, **looks),
        _hovered(lines, **place, tooltip=["what:N", "round:Q", _OPENED, *formatted(",.1f", "sum")]),
    )
    ends = ", ".join(f"{sum(values):,.0f} {what}" for what, values in series.items())
    subtitle = f"Closed rounds; somebody who responds to three rounds is three responses{together}"
    return titled(layers, "Responses so far", subtitle, f"After {len(closed)} closed rounds: {ends}.", height=260)


def running_spend(progress: CampaignProgress) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = [entry for entry in progress.rounds if entry.spend is not None]
    calendar = _Calendar.of(progress)
    drawn, together = _thinned(paid, calendar)
    sums = list(accumulate(entry.spend or 0.0 for entry in paid))
    rows = [{**calendar.place(paid[at]), "spend": sums[at]} for at in drawn]
    place = {"x": calendar.axis(paid), "y": alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))}
    layers = alt.layer(
        chart_of(rows).mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after").encode(**place),
        _hovered([rows], **place, tooltip=["round:Q", _OPENED, *formatted(",.2f", "spend")]),
    )
    said = f"The spending grows to {money(rows[-1]['spend'])} in round {rows[-1]['round']}."
    subtitle = f"By the costs of users and strategies, open rounds included{together}"
    return titled(layers, "Spending so far", subtitle, said, height=200)


def running_calibration(progress: CampaignProgress) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = [entry for entry in progress.rounds if entry.within is not None]
    calendar = _Calendar.of(progress)
    drawn, together = _thinned(closed, calendar)
    held = list(accumulate(bool(entry.within) for entry in closed))
    rows = []
    for at in drawn:
        share = calibration(held[at], at + 1)
        rows.append({**calendar.place(closed[at]), "share": share.share, "low": share.low, "high": share.high})
    x = calendar.axis(closed)
    heights: Any = {"title": "Share of intervals that held", "scale": alt.Scale(domain=[0, 1])}
    share_axis = alt.Y("share:Q", axis=alt.Axis(format="%"), **heights)
    tip = ["round:Q", _OPENED, *formatted(".0%", "share", "low", "high")]
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
    said = f"After {len(closed)} closed rounds {held_share:.0%} of the intervals have held; 90 % are promised."
    subtitle = f"Band: shares that so few rounds do not rule out (exact 90 % interval){together}"
    return titled(layers, "How often the interval was right", subtitle, said, height=220)


def running_loss(progress: CampaignProgress, lost: Mapping[int, float]) -> Any:
    """What each round lost against the best choice, by its number, and the mean so far; where the truth is known."""
    known = [entry for entry in progress.rounds if entry.number in lost]
    calendar = _Calendar.of(progress)
    drawn, together = _thinned(known, calendar)
    losses = [lost[entry.number] for entry in known]
    sums = list(accumulate(losses))
    rows = []
    begin = 0
    for at in drawn:
        stretch = losses[begin : at + 1]
        rows.append({**calendar.place(known[at]), "lost": sum(stretch) / len(stretch), "mean": sums[at] / (at + 1)})
        begin = at + 1
    base = chart_of(rows).encode(x=calendar.axis(known))
    points_axis, mean_axis = (alt.Y(f"{name}:Q", title="Responses lost") for name in ("lost", "mean"))
    points = base.mark_point(filled=True, size=40, opacity=0.7, color=GREY)
    layers = alt.layer(
        points.encode(y=points_axis, tooltip=["round:Q", _OPENED, *formatted(".1f", "lost", "mean")]),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=mean_axis),
    )
    said = f"After {len(known)} rounds a round has lost {rows[-1]['mean']:.1f} expected responses on average."
    subtitle = f"Point: expected responses that the best choice has more; line: the mean of all rounds so far{together}"
    return titled(layers, "Responses lost", subtitle, said, height=220)
