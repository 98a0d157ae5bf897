"""The figures of an experiment: regret, ranks, degree distributions, run time, the bound, and why seeds were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from tensorucb.checks import check_array, check_instance, check_mapping, check_rows, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import Experiment, Interval
from tensorucb.plots._lines import line_chart, log_ticks, short_number
from tensorucb.plots._theme import chart_of, colours, dashes, formatted, leaders, sequential, titled, told_apart

_REGRET = "Regret is how many more users the best possible choice would have reached in a round. Lower is better."
_REGRET_AXIS = "Regret per round (users)"
_RESPONDERS = "Distinct responders per round"
_BEST = "best possible"
_ROW = 30  # pixels for a bar and the space around it


def regret_curves(experiment: Experiment, *, title: str = "") -> Any:
    """Average regret over rounds: ours and the two best others in colour, the rest grey.

    The dashed line at 0 is the best possible choice, made by an oracle that knows every probability. The bars at the
    right end are 90 % intervals over runs. In a replayed log it is the distinct responders per round, and no regret.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> found = tu.experiments.run_experiment(world, {"Random": tu.policies.Random()}, rounds=2, runs=1)
    >>> regret_curves(found).to_dict()["title"]["text"]
    'Average regret so far'
    """
    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    check_text("title", title, empty=True)
    optimum = experiment.by_run(experiment.policies[0], "optimum")
    note = f"The best possible choice reaches {short_number(float(optimum.mean()))} users per round on average."
    if len(optimum) > 1:
        note += f" Bars at the right: 90 % intervals over {len(optimum)} runs."
    replayed = experiment.measure == "responders"
    return line_chart(
        {policy: experiment.curve(policy) for policy in experiment.policies},
        x_title="Round",
        y_title=f"{_RESPONDERS if replayed else _REGRET_AXIS}, average so far",
        title=title or f"Average {experiment.measure} so far",
        subtitle=[note] if replayed else [_REGRET, note],
        loud=_loud(experiment),
        reference="" if replayed else _BEST,
    )


def _loud(experiment: Experiment) -> list[str]:
    """The policies in colour: ours and the two best others over all rounds."""
    sign = -1.0 if experiment.measure == "responders" else 1.0
    return leaders({policy: sign * float(experiment.final(policy).mean) for policy in experiment.policies})


def rank_curves(curves: Mapping[int, Interval], *, title: str = "Regret by tensor rank", subtitle: str = "") -> Any:
    """Average regret over rounds, one line per rank, from orange (low) to blue (high).

    Examples
    --------
    >>> curve = Interval(mean=[5, 4], low=[5, 3], high=[5, 5])
    >>> rank_curves({1: curve}).to_dict()["title"]["text"]
    'Regret by tensor rank'
    """
    named = {f"R = {rank}": curves[rank] for rank in sorted(curves)}
    return line_chart(
        named,
        x_title="Round",
        y_title=f"{_REGRET_AXIS}, average so far",
        title=title,
        subtitle=subtitle,
        palette=sequential(len(named)),
        reference=_BEST,
    )


def final_regret(experiment: Experiment, *, last: int | None = None, title: str = "") -> Any:
    """Average regret of each policy as bars, best on top, with the 90 % interval over runs.

    Ours and the two best others have the colours that they have in :func:`regret_curves`. In a replayed log it is the
    distinct responders per round.

    Examples
    --------
    >>> import tensorucb as tu
    >>> world = tu.experiments.Environment.from_sandbox(tu.data.make_sandbox(60, 400, 5, rng=0))
    >>> found = tu.experiments.run_experiment(world, {"Random": tu.policies.Random()}, rounds=2, runs=1)
    >>> final_regret(found).to_dict()["title"]["text"]
    'Who loses least'
    """
    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    check_text("title", title, empty=True)
    loud = _loud(experiment)
    hues = dict(zip(loud, colours(loud), strict=True))
    rows: list[dict[str, Any]] = [
        {"label": policy, **experiment.final(policy, last=last).row(), "colour": hues.get(policy)}
        for policy in experiment.policies
    ]
    replayed = experiment.measure == "responders"
    rows.sort(key=lambda row: float(row["mean"]), reverse=replayed)
    low, high = _bar_ends(rows)
    for row in rows:
        row |= {"text": short_number(row["mean"]), "from": max(row["low"], low), "to": min(row["high"], high)}
    order = [row["label"] for row in rows]
    x_title = (_RESPONDERS if replayed else _REGRET_AXIS) + (f", last {last} rounds" if last else ", all rounds")
    subtitle = "Higher is better." if replayed else "Lower is better; 0 is the best possible choice."
    if any(row["high"] > row["low"] for row in rows):
        subtitle += " Whiskers are 90 % intervals over runs."
    title = title or ("Who reaches most" if replayed else "Who loses least")
    described = f"{title}. {x_title}: " + ", ".join(f"{row['label']} {row['text']}" for row in rows) + "."
    layers = _bar_layers(rows, order, (low, high), x_title)
    return titled(alt.layer(*layers), title, subtitle, described, height=_ROW * len(order))


def _bar_layers(rows: list[dict[str, Any]], order: list[str], ends: tuple[float, float], title: str) -> list[Any]:
    """Grey bars, coloured bars, values in a column at the right, where no whisker is, and whiskers."""
    axis = alt.Axis(domain=False, labelFontSize=13, labelLimit=260)
    scale = alt.Scale(domain=list(ends), nice=False)

    def part(kept: list[dict[str, Any]]) -> Any:
        return chart_of(kept).encode(y=alt.Y("label:N", sort=order, title=None, axis=axis))

    def at(field: str) -> Any:
        return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, grid=True))

    tip = [alt.Tooltip("label:N", title="policy"), *formatted(".3~f", "mean", "low", "high")]
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
    for drawn, bound in (("from", "low"), ("to", "high")):
        # An end that is not in the picture has no tick, and so reads as going on.
        kept = [row for row in uncertain if row[drawn] == row[bound]]
        tick = part(kept).mark_tick(style="whisker", thickness=1.8, size=9, opacity=1)
        layers += [tick.encode(x=at(drawn))] if kept else []
    return layers


def _bar_ends(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The ends of the axis; an interval over two runs may be so wide that it is cut rather than all bars squeezed."""
    means = [row["mean"] for row in rows]
    low, high = min(0.0, *(row["low"] for row in rows)), max(row["high"] for row in rows)
    if max(means) <= 0:
        return low, max(high, 1.0)
    return max(low, min(-0.1 * max(means), *means)), 1.02 * min(high, 1.35 * max(means))


def degree_distribution(degrees: Mapping[str, ArrayLike]) -> Any:
    """Share of users with at least so many out-edges (CCDF), both axes logarithmic, one line per network.

    Examples
    --------
    >>> chart = degree_distribution({"mine": [0, 1, 1, 5, 80]})
    >>> [(row["degree"], row["share"]) for row in chart.to_dict()["data"]["values"]]
    [(1, 0.8), (5, 0.4), (80, 0.2)]
    """
    labels = [
        check_text("degrees", label) for label in check_mapping("degrees", degrees, "a mapping of labels to degrees")
    ]
    rows = [row for label in labels for row in _ccdf(label, degrees[label])]
    if not rows:
        raise InputError("no user has an out-edge: there is no distribution to draw.")
    legend = alt.Legend(title=None, orient="top-right") if len(labels) > 1 else None
    looks = told_apart("label", labels, legend, color=colours(labels), strokeDash=dashes(labels))

    def powers(field: str) -> Any:
        values = log_ticks(min(row[field] for row in rows) / 10, max(row[field] for row in rows))
        return alt.Axis(grid=True, values=values, format="~%" if field == "share" else "~s")

    y_title = "Share of users with at least as many"
    chart = (
        chart_of(rows)
        .mark_line(point=alt.OverlayMarkDef(size=26, filled=True), strokeWidth=1.6)
        .encode(
            x=alt.X("degree:Q", title="Out-degree", scale=alt.Scale(type="log", nice=False), axis=powers("degree")),
            y=alt.Y("share:Q", title=y_title, scale=alt.Scale(type="log"), axis=powers("share")),
            tooltip=["label:N", "degree:Q", *formatted(".2~%", "share")],
            **looks,
        )
    )
    return titled(chart, "Out-degrees", "Straight lines on these axes are power laws")


def _ccdf(label: str, degrees: ArrayLike) -> list[dict[str, Any]]:
    values, counts = np.unique(check_rows("degrees", degrees, 2**31), return_counts=True)
    shares = np.cumsum(counts[::-1])[::-1] / counts.sum()
    kept = values > 0
    # Some 160 points are all that a line of this width can show.
    keep = np.unique(np.round(np.geomspace(1, max(1, kept.sum()), 160)).astype(int)) - 1
    pairs = list(zip(values[kept].tolist(), shares[kept].tolist(), strict=True))
    return [{"label": label, "degree": pairs[i][0], "share": pairs[i][1]} for i in keep if i < len(pairs)]


def runtime_over_size(milliseconds: Mapping[str, Sequence[float]], n_nodes: Sequence[int]) -> Any:
    """Milliseconds per round over the number of users, one line per policy.

    Examples
    --------
    >>> runtime_over_size({"TensorUCB": [5.0, 9.0]}, n_nodes=[100, 200]).to_dict()["title"]["text"]
    'Time per round'
    """
    sizes = check_array("n_nodes", n_nodes, ("n",), low=1.0).tolist()
    series = check_mapping("milliseconds", milliseconds, "a mapping of labels to times")
    times = {label: check_array("milliseconds", values, (len(sizes),), low=0.0) for label, values in series.items()}
    return line_chart(
        {check_text("milliseconds", label): Interval(*(values,) * 3) for label, values in times.items()},
        x=sizes,
        x_title="Users in the network",
        y_title="Milliseconds per round",
        title="Time per round",
        subtitle="Median over rounds: score, select and learn; logarithmic axis",
        log_y=True,
        points=True,
        loud=leaders({label: float(values[-1]) for label, values in times.items()}),
    )


def bound_chart(rounds: Sequence[float], bounds: Mapping[str, ArrayLike], measured: Mapping[str, ArrayLike]) -> Any:
    """Theorem 1's bound on the cumulative regret beside what was measured, on a logarithmic axis.

    Examples
    --------
    >>> bound_chart([1, 2], {"bound": [10.0, 20.0]}, {"measured": [1.0, 2.0]}).to_dict()["title"]["text"]
    'Theorem 1 beside the measured regret'
    """
    curves = {
        label: Interval(*(np.maximum(np.asarray(values, dtype=np.float64), 1e-3),) * 3)
        for label, values in {**bounds, **measured}.items()
    }
    return line_chart(
        curves,
        x=list(rounds),
        x_title="Round",
        y_title="Regret, sum over rounds (users)",
        title="Theorem 1 beside the measured regret",
        subtitle="What the theorem promises at most, and what was measured; logarithmic axis",
        log_y=True,
    )


def seed_reasons(rows: Sequence[Mapping[str, Any]], *, title: str = "Why these seeds") -> Any:
    """Expected direct responses of each seed, split into what is believed and what is hoped (exploration).

    Each row has ``seed``, ``believed`` and ``explored``.

    Examples
    --------
    >>> chart = seed_reasons([{"seed": "ann", "believed": 2.0, "explored": 0.5}])
    >>> [row["value"] for row in chart.to_dict()["data"]["values"]]
    [2.0, 0.5]
    """
    order = [str(row["seed"]) for row in rows]
    names = {"expected from what was seen": "believed", "added to explore": "explored"}
    parts = [
        {"seed": str(row["seed"]), "part": part, "value": float(row[key])}
        for row in rows
        for part, key in names.items()
    ]
    legend = alt.Legend(title=None, orient="top", symbolType="square")
    bars = (
        chart_of(parts)
        .mark_bar(cornerRadiusEnd=3, height={"band": 0.62})
        .encode(
            y=alt.Y("seed:N", sort=order, title="Seed, in order of choice", axis=alt.Axis(domain=False)),
            x=alt.X("value:Q", title="Direct responses", axis=alt.Axis(grid=True, tickCount=6)),
            order=alt.Order("part:N", sort="descending"),
            tooltip=["seed:N", "part:N", *formatted(".2~f", "value")],
            **told_apart("part", names, legend, color=("#1477c0", "#e69f00")),
        )
    )
    return titled(bars, title, height=_ROW * len(order))
