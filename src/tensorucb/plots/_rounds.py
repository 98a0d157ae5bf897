"""Figures of a campaign's rounds: responses beside expectation, sums, calibration, spending, responses lost.

Rounds of several days stand on an axis of dates, in the campaign's time zone. More rounds than can be told apart are
put together by week or by month.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import accumulate
from typing import Any, NamedTuple
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


class _Block(NamedTuple):
    """Rounds put together, and where they stand on their axis, with a gap before the next ones."""

    begin: Any
    end: Any
    rounds: list[RoundProgress]


@dataclass(frozen=True)
class _Timeline:
    """Rounds, and when they were opened by the clocks of the campaign's time zone.

    Moments are written without a zone: whoever draws the figure takes them for its own clock's, and so every reader
    sees the campaign's days, wherever they are.
    """

    rounds: list[RoundProgress]
    opened: list[datetime]

    @classmethod
    def of(cls, progress: CampaignProgress, is_shown: Callable[[RoundProgress], bool]) -> _Timeline:
        rounds = [entry for entry in progress.rounds if is_shown(entry)]
        zone = ZoneInfo(progress.timezone)
        return cls(rounds, [datetime.fromtimestamp(entry.opened, zone).replace(tzinfo=None) for entry in rounds])

    @property
    def days(self) -> list[date]:
        """The day on which each round was opened."""
        return [moment.date() for moment in self.opened]

    @property
    def dated(self) -> bool:
        """Whether dates tell the rounds apart: they were opened on several days."""
        return len(set(self.days)) >= _FEWEST_DAYS

    def place(self, at: int) -> dict[str, Any]:
        """Where a round is on the axis."""
        return {"round": self.rounds[at].number, "opened": self.opened[at].isoformat(timespec="seconds")}

    def axis(self) -> Any:
        """Dates, if rounds were opened on several days; otherwise their numbers, which are whole."""
        if self.dated:
            return alt.X("opened:T", title="Opened", axis=_DATES)
        ticks = max(1, min(len(self.rounds) - 1, 8))
        return alt.X("round:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=ticks, format="d"))

    def axis_of_rounds(self) -> Any:
        """A place for each round; their dates below, if they were opened on several days, and otherwise their numbers.

        A date stands where its day begins: rounds of the same day follow without one.
        """
        if not self.dated:
            return alt.X("round:O", title="Round", axis=alt.Axis(labelAngle=0, labelOverlap=True))
        first_rounds: dict[date, int] = {}
        for entry, day in zip(self.rounds, self.days, strict=True):
            first_rounds.setdefault(day, entry.number)
        form = "%b %Y" if len({day.year for day in first_rounds}) > 1 else "%b"
        dates = sorted((number, f"{day.day} {day:{form}}") for day, number in first_rounds.items())
        labels = dict(dates[:: -(-len(dates) // _MOST_DATES)])
        axis = alt.Axis(
            labelAngle=0,
            labelOverlap="greedy",
            values=list(labels),
            labelExpr=f"{json.dumps(labels)}[datum.value]",
        )
        return alt.X("round:O", title="Opened", axis=axis)

    def blocks(self) -> tuple[str, str, list[_Block]]:
        """Rounds by "week" or "month", or if these are too few or too many, so many at a time; which, and in words."""
        for unit, days in (("week", 7), ("month", 30)):
            dated: dict[date, list[RoundProgress]] = {}
            for entry, day in zip(self.rounds, self.days, strict=True):
                begin = day - day.weekday() * _DAY if unit == "week" else day.replace(day=1)
                dated.setdefault(begin, []).append(entry)
            if _FEWEST_BLOCKS <= len(dated) <= MOST_ROUNDS:
                begins = [datetime.combine(day, time()) for day in sorted(dated)]
                return (
                    unit,
                    f"by {unit}",
                    [
                        _Block(begin.isoformat(), (begin + _FILLED * days * _DAY).isoformat(), dated[begin.date()])
                        for begin in begins
                    ],
                )
        size = -(-len(self.rounds) // (MOST_ROUNDS // 2))
        blocks = [self.rounds[at : at + size] for at in range(0, len(self.rounds), size)]
        spans = [(block[0].number, block[-1].number + 1) for block in blocks]
        return (
            "",
            f"{size} at a time",
            [
                _Block(begin, begin + _FILLED * (end - begin), block)
                for (begin, end), block in zip(spans, blocks, strict=True)
            ],
        )

    def thinned(self) -> tuple[list[int], str]:
        """Which places of a running line are drawn: all, or the last one of each block; and what to say of it."""
        if len(self.rounds) <= MOST_ROUNDS:
            return list(range(len(self.rounds))), ""
        _, said, blocks = self.blocks()
        place = {entry.number: at for at, entry in enumerate(self.rounds)}
        lasts = sorted(max(place[entry.number] for entry in block.rounds) for block in blocks)
        return lasts, f"; {len(self.rounds):,} rounds, {said}"


# -- rounds beside what was expected of them --


def expected_and_observed(progress: CampaignProgress) -> Any:
    """For each round the interval that was promised, the number expected, and how many users responded.

    More rounds than can be told apart are put together by week or month, or as many of them as fill so many places.
    """
    compared = _Timeline.of(progress, lambda entry: entry.expected is not None)
    closed = _Timeline.of(progress, _counts)
    if closed.rounds and len(compared.rounds) > MOST_ROUNDS:
        return _expected_together(closed)
    return _expected_by_round(compared, product_names(progress))


def _counts(entry: RoundProgress) -> bool:
    """Whether what came of a round can be compared with what was expected of it."""
    return entry.status == "closed" and entry.expected is not None


def _expected_by_round(compared: _Timeline, names: Mapping[int | str, str]) -> Any:
    rows: list[dict[str, Any]] = [
        {
            "round": entry.number,
            "opened": day.isoformat(),
            "low": entry.expected.low,
            "high": entry.expected.high,
            "expected": entry.expected.mean,
            "responded": entry.responders,
            "state": "still open" if entry.within is None else "in the interval" if entry.within else "outside of it",
            "product": "" if entry.product is None else names.get(entry.product, str(entry.product)),
        }
        for entry, day in zip(compared.rounds, compared.days, strict=True)
        if entry.expected is not None
    ]
    # The first intervals are often many times as wide as what comes: they are cut rather than all others squeezed.
    top = max(5.0, 1.6 * max(max(row["responded"], row["expected"]) for row in rows))
    for row in rows:
        row["end"] = min(row["high"], top)
    # Bars become narrower where the page is; a few of them stay as narrow as many would be.
    width: Any = {"band": 0.62} if len(rows) > 10 else 18
    tip = ["round:O", "opened:N", "product:N", "responded:Q", *formatted(".1f", "expected"), "low:Q", "high:Q"]
    base = chart_of(rows).encode(x=compared.axis_of_rounds(), tooltip=tip)
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


def _expected_together(closed: _Timeline) -> Any:
    """The same of closed rounds, put together: sums of what was expected and of what came."""
    unit, said, blocks = closed.blocks()
    rows = [
        {
            "begin": block.begin,
            "end": block.end,
            "first round": min(entry.number for entry in block.rounds),
            "last round": max(entry.number for entry in block.rounds),
            "rounds": len(block.rounds),
            "responses": sum(entry.responders for entry in block.rounds),
            "expected": sum(entry.expected.mean for entry in block.rounds if entry.expected is not None),
            "intervals held": sum(bool(entry.within) for entry in block.rounds),
        }
        for block in blocks
    ]
    tip = formatted(",d", "first round", "last round", "rounds", "responses")
    tip += [*formatted(",.1f", "expected"), *formatted(",d", "intervals held")]
    if unit:
        x = alt.X("begin:T", title=f"Opened in the {unit} of", axis=_axis_of_blocks(unit, blocks))
        tip.insert(0, alt.Tooltip("begin:T", title=f"{unit} of", format="%d %b %Y"))
    else:
        x = alt.X("begin:Q", title="Round", axis=alt.Axis(tickMinStep=1, tickCount=6, format="d"))
    base = chart_of(rows).encode(x=x, x2="end", tooltip=tip)
    title = "Responses, added up"
    looks = told_apart("what", ("responses", "expected"), BELOW, color=(BLUE, ORANGE))
    responses = base.transform_calculate(what="'responses'").mark_bar(opacity=0.75)
    expected = base.transform_calculate(what="'expected'").mark_rule(strokeWidth=3, opacity=1)
    layers = alt.layer(
        responses.encode(y=_users("responses", title), y2=alt.datum(0), **looks),
        expected.encode(y=_users("expected", title), **looks),
    )
    held = sum(row["intervals held"] for row in rows)
    size = f"{len(closed.rounds):,} closed rounds"
    return titled(
        layers,
        "Users who responded, and how many were expected",
        f"{size}, {said}; choose a shorter period to see single rounds with their intervals",
        f"Responses of {size} and what was expected of them, {said}. Single intervals held in {held:,} rounds. "
        "The table below has the last rounds.",
        height=300,
    )


def _axis_of_blocks(unit: str, blocks: Sequence[_Block]) -> Any:
    """Dates below some of the weeks or months, where they begin: left alone, the axis would begin weeks on Sundays."""
    days = [date.fromisoformat(block.begin[:10]) for block in blocks[:: -(-len(blocks) // _MOST_DATES)]]
    values = [alt.DateTime(year=day.year, month=day.month, date=day.day) for day in days]
    return alt.Axis(values=values, format="%-d %b" if unit == "week" else "%b %Y", labelOverlap="greedy")


# -- lines over rounds --


def _hovered(rows: Sequence[Mapping[str, Any]], **encoding: Any) -> Any:
    """Points that nobody sees, where a pointer finds the exact numbers of lines."""
    return chart_of(rows).mark_point(size=120, opacity=0, filled=True).encode(**encoding)


def running_sums(progress: CampaignProgress) -> Any:
    """Responses and expectation of closed rounds, added up, and how many different users responded."""
    closed = _Timeline.of(progress, _counts)
    drawn, together = closed.thinned()
    series: dict[str, list[float]] = {
        "responses": [entry.responders for entry in closed.rounds],
        "responses expected": [entry.expected.mean for entry in closed.rounds if entry.expected is not None],
        "different users who responded": [entry.new_responders for entry in closed.rounds],
    }
    rows = []
    for what, values in series.items():
        totals = list(accumulate(values))
        rows += [{**closed.place(at), "what": what, "sum": totals[at]} for at in drawn]
    strokes = ([1, 0], [6, 4], [2, 2])
    looks = told_apart("what", series, _STROKES, color=(BLUE, ORANGE, GREY), strokeDash=strokes)
    place = {"x": closed.axis(), "y": _users("sum", "Users, added up over rounds")}
    layers = alt.layer(
        chart_of(rows).mark_line(strokeWidth=2.4).encode(**place, **looks),
        _hovered(rows, **place, tooltip=["what:N", "round:Q", _OPENED, *formatted(",.1f", "sum")]),
    )
    ends = ", ".join(f"{sum(values):,.0f} {what}" for what, values in series.items())
    subtitle = f"Closed rounds; somebody who responds to three rounds is three responses{together}"
    return titled(
        layers, "Responses so far", subtitle, f"After {len(closed.rounds)} closed rounds: {ends}.", height=260
    )


def running_spend(progress: CampaignProgress) -> Any:
    """What contacting users cost, added up over rounds."""
    paid = _Timeline.of(progress, lambda entry: entry.spend is not None)
    drawn, together = paid.thinned()
    sums = list(accumulate(entry.spend or 0.0 for entry in paid.rounds))
    rows = [{**paid.place(at), "spend": sums[at]} for at in drawn]
    place = {"x": paid.axis(), "y": alt.Y("spend:Q", title="Spent, added up", scale=alt.Scale(zero=True))}
    layers = alt.layer(
        chart_of(rows).mark_line(strokeWidth=2.4, color=BLUE, interpolate="step-after").encode(**place),
        _hovered(rows, **place, tooltip=["round:Q", _OPENED, *formatted(",.2f", "spend")]),
    )
    said = f"The spending grows to {money(rows[-1]['spend'])} in round {rows[-1]['round']}."
    subtitle = f"By the costs of users and strategies, open rounds included{together}"
    return titled(layers, "Spending so far", subtitle, said, height=200)


def running_calibration(progress: CampaignProgress) -> Any:
    """Which share of the intervals has held up to each closed round."""
    closed = _Timeline.of(progress, lambda entry: entry.within is not None)
    drawn, together = closed.thinned()
    held = list(accumulate(bool(entry.within) for entry in closed.rounds))
    rows = []
    for at in drawn:
        share = calibration(held[at], at + 1)
        rows.append({**closed.place(at), "share": share.share, "low": share.low, "high": share.high})
    x = closed.axis()
    heights: Any = {"title": "Share of intervals that held", "scale": alt.Scale(domain=[0, 1])}
    share_axis = alt.Y("share:Q", axis=alt.Axis(format="%"), **heights)
    tip = ["round:Q", _OPENED, *formatted(".0%", "share", "low", "high")]
    line = chart_of(rows).encode(x=x)
    promise = chart_of([{"share": 0.9, "text": "90 % promised"}]).encode(y=share_axis)
    words = promise.mark_text(align="left", baseline="top", dx=6, dy=5, color=ORANGE, fontWeight=600)
    layers = alt.layer(
        line.mark_area(opacity=0.16, color=BLUE).encode(y=alt.Y("low:Q", **heights), y2="high:Q"),
        line.mark_line(strokeWidth=2.4, color=BLUE).encode(y=share_axis),
        _hovered(rows, x=x, y=share_axis, tooltip=tip),
        promise.mark_rule(strokeDash=[6, 4], color=ORANGE, strokeWidth=1.6),
        words.encode(x=alt.value(0), text="text:N"),
    )
    held_share = rows[-1]["share"]
    said = f"After {len(closed.rounds)} closed rounds {held_share:.0%} of the intervals have held; 90 % are promised."
    subtitle = f"Band: shares that so few rounds do not rule out (exact 90 % interval){together}"
    return titled(layers, "How often the interval was right", subtitle, said, height=220)


def running_loss(progress: CampaignProgress, lost: Mapping[int, float]) -> Any:
    """What each round lost against the best choice, by its number, and the mean so far; where the truth is known."""
    known = _Timeline.of(progress, lambda entry: entry.number in lost)
    drawn, together = known.thinned()
    losses = [lost[entry.number] for entry in known.rounds]
    sums = list(accumulate(losses))
    rows = []
    begin = 0
    for at in drawn:
        stretch = losses[begin : at + 1]
        rows.append({**known.place(at), "lost": sum(stretch) / len(stretch), "mean": sums[at] / (at + 1)})
        begin = at + 1
    base = chart_of(rows).encode(x=known.axis())
    points_axis, mean_axis = (alt.Y(f"{name}:Q", title="Responses lost") for name in ("lost", "mean"))
    points = base.mark_point(filled=True, size=40, opacity=0.7, color=GREY)
    layers = alt.layer(
        points.encode(y=points_axis, tooltip=["round:Q", _OPENED, *formatted(".1f", "lost", "mean")]),
        base.mark_line(strokeWidth=2.4, color=BLUE).encode(y=mean_axis),
    )
    said = f"After {len(known.rounds)} rounds a round has lost {rows[-1]['mean']:.1f} expected responses on average."
    subtitle = f"Point: expected responses that the best choice has more; line: the mean of all rounds so far{together}"
    return titled(layers, "Responses lost", subtitle, said, height=220)
