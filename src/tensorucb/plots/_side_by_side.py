"""Campaigns side by side: reach, cost per responder and what contact adds, each with its interval, in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from tensorucb.campaign import CampaignProgress, RoundProgress
from tensorucb.campaign._progress import ratio_of_sums, sum_of_rounds
from tensorucb.plots._theme import WIDTH, chart_of, formatted, interval_layers

_SPACE = 36  # pixels of a campaign
_TITLES = {
    "reach": "Users who responded",
    "cost": "Cost per responder",
    "lift": "Lift in percentage points",
}
_FORMATS = {"reach": ",.0f", "cost": ",.2f", "lift": "+.2f"}


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
    found = [Measure(progress.name, "reach", progress.reached, *_reach_ends(progress.reached, rounds))]
    if progress.cost_per_responder is not None:
        paid = np.array([(entry.spend or 0.0, entry.responders) for entry in rounds], dtype=np.float64)
        _, low, high = ratio_of_sums(paid.reshape(-1, 2))
        found.append(Measure(progress.name, "cost", progress.cost_per_responder, low, high))
    if progress.lift is not None:
        points = [100 * share for share in (progress.lift.difference, progress.lift.low, progress.lift.high)]
        found.append(Measure(progress.name, "lift", *points))
    return found


def _reach_ends(reached: int, rounds: Sequence[RoundProgress]) -> tuple[float | None, float | None]:
    """Ends for the reach: as many times as large as it as those of the responses are, which come again and again."""
    low, high = sum_of_rounds([entry.responders for entry in rounds])
    responses = sum(entry.responders for entry in rounds)
    if low is None or high is None or not responses:
        return None, None
    return reached * low / responses, reached * high / responses


def side_by_side(measured: Sequence[Measure]) -> Any:
    """One figure with a part for each number: all campaigns below each other, with their intervals."""
    rows = [vars(measure) for measure in measured]
    names = list(dict.fromkeys(measure.campaign for measure in measured))
    shown = [what for what in _TITLES if any(measure.what == what for measure in measured)]
    width = (WIDTH - 120) // len(shown)
    parts = [_part(rows, names, what, first=what == shown[0]).properties(width=width) for what in shown]
    said = "; ".join(
        f"{_TITLES[what]}: " + ", ".join(_said(measure) for measure in measured if measure.what == what)
        for what in shown
    )
    figure = alt.hconcat(*parts, spacing=24)
    heading = alt.TitleParams("Campaigns side by side", subtitle="Point: the number; bar: its 90 % interval")
    return figure.properties(title=heading, description=f"{said}.")


def _said(measure: Measure) -> str:
    form = _FORMATS[measure.what]
    interval = "" if measure.low is None else f" ({measure.low:{form}} to {measure.high:{form}})"
    return f"{measure.campaign} {measure.value:{form}}{interval}"


def _part(rows: list[dict[str, Any]], names: list[str], what: str, *, first: bool) -> Any:
    """The campaigns by one number; names of campaigns stand beside the first part alone."""
    form = _FORMATS[what]
    tip = ["campaign:N", *formatted(form, "value", "low", "high")]
    beside = alt.Axis(domain=False, labelLimit=150, labelFontSize=12) if first else None
    y = alt.Y("campaign:N", sort=names, title=None, axis=beside, scale=alt.Scale(domain=names))
    whole = {"tickMinStep": 1} if what == "reach" else {}
    axis = alt.Axis(tickCount=4, format=form.replace("f", "~f"), grid=True, **whole)
    base = chart_of(rows).transform_filter(f"datum.what == '{what}'").encode(y=y, tooltip=tip)
    x: Any = {"title": _TITLES[what], "scale": alt.Scale(zero=True, padding=8), "axis": axis}
    layers = interval_layers(base, "value", no_effect=what == "lift", **x)
    return alt.layer(*layers).properties(height=_SPACE * len(names) + _SPACE)
