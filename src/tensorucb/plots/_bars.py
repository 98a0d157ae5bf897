"""Final regret as bars with whiskers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from tensorucb.checks import check_instance, check_text
from tensorucb.experiments import Experiment
from tensorucb.plots._lines import LONGEST_TITLE, REGRET_AXIS, WIDTH, short_number
from tensorucb.plots._theme import colours, leaders

_ROW = 30  # pixels for a bar and the space around it


def final_regret(experiment: Experiment, *, last: int | None = None, title: str = "") -> Any:
    """Average scaled regret of each policy as bars, best on top, with the 90 % interval over runs.

    Ours and the two best others have the colours that they have in :func:`regret_curves`.

    Examples
    --------
    >>> from tensorucb.data import make_sandbox
    >>> from tensorucb.experiments import Environment, WorldSettings, run_experiment
    >>> world = Environment.from_sandbox(make_sandbox(60, 400, 5, rng=0), settings=WorldSettings(k=3))
    >>> from tensorucb.policies import HighDegree, Random
    >>> found = run_experiment(world, {"HighDegree": HighDegree(), "Random": Random()}, rounds=4, runs=2)
    >>> chart = final_regret(found)
    >>> "layer" in chart.to_dict()
    True
    """
    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    check_text("title", title, empty=True, longest=LONGEST_TITLE)
    loud = leaders({policy: float(experiment.final(policy).mean) for policy in experiment.policies})
    hues = dict(zip(loud, colours(loud), strict=True))
    rows: list[dict[str, Any]] = [
        {"label": policy, **experiment.final(policy, last=last).row(), "colour": hues.get(policy)}
        for policy in experiment.policies
    ]
    rows.sort(key=lambda row: float(row["mean"]))
    low, high = _reach(rows)
    for row in rows:
        row |= {"text": short_number(row["mean"]), "from": max(row["low"], low), "to": min(row["high"], high)}
    order = [row["label"] for row in rows]
    x_title = REGRET_AXIS + (f", last {last} rounds" if last else ", all rounds")
    subtitle = "Lower is better; 0 is the best possible choice."
    if any(row["high"] > row["low"] for row in rows):
        subtitle += " Whiskers are 90 % intervals over runs."
    heading = alt.TitleParams(title or "Who loses least", subtitle=subtitle)
    described = f"{heading.text}. {x_title}: " + ", ".join(f"{row['label']} {row['text']}" for row in rows) + "."
    return alt.layer(*_layers(rows, order, (low, high), x_title)).properties(
        width=WIDTH, height=_ROW * len(order), title=heading, description=described
    )


def _layers(rows: list[dict[str, Any]], order: list[str], ends: tuple[float, float], title: str) -> list[Any]:
    """Grey bars, coloured bars, values in a column at the right, where no whisker is, and whiskers."""
    axis = alt.Axis(domain=False, labelFontSize=13, labelLimit=260)
    scale = alt.Scale(domain=list(ends), nice=False)

    def part(kept: list[dict[str, Any]]) -> Any:
        return alt.Chart(alt.Data(values=kept)).encode(y=alt.Y("label:N", sort=order, title=None, axis=axis))

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, grid=True))

    tip = [
        alt.Tooltip("label:N", title="policy"),
        *(alt.Tooltip(f"{name}:Q", format=".3~f") for name in ("mean", "low", "high")),
    ]
    bar: dict[str, Any] = {"cornerRadiusEnd": 3, "height": {"band": 0.62}}
    quiet = part([row for row in rows if not row["colour"]]).mark_bar(style="quiet-bar", **bar)
    loud = part([row for row in rows if row["colour"]]).mark_bar(**bar).encode(color=alt.Color("colour:N", scale=None))
    layers = [
        quiet.encode(x=at("mean"), tooltip=tip),
        loud.encode(x=at("mean"), tooltip=tip),
        part(rows).mark_text(align="left", dx=8, fontWeight=600).encode(x=alt.XValue("width"), text="text:N"),
    ]
    uncertain = [row for row in rows if row["high"] > row["low"]]
    if uncertain:
        layers.append(part(uncertain).mark_rule(style="whisker").encode(x=at("from"), x2="to:Q"))
    for drawn, given in (("from", "low"), ("to", "high")):
        # An end that is not in the picture has no tick, and so reads as going on.
        kept = [row for row in uncertain if row[drawn] == row[given]]
        tick = part(kept).mark_tick(style="whisker", thickness=1.8, size=9, opacity=1)
        layers += [tick.encode(x=at(drawn))] if kept else []
    return layers


def _reach(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The ends of the axis; an interval over two runs may be so wide that it is cut rather than all bars squeezed."""
    means = [row["mean"] for row in rows]
    low, high = min(0.0, *(row["low"] for row in rows)), max(row["high"] for row in rows)
    if max(means) <= 0:
        return low, max(high, 1.0)
    return max(low, min(-0.1 * max(means), *means)), 1.02 * min(high, 1.35 * max(means))
