"""The other figures: final regret, degree distributions, run time over size, and the bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.checks import check_array, check_instance, check_mapping, check_rows, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import Experiment, Interval
from tensorucb.plots._lines import HEIGHT, LONGEST_TITLE, WIDTH, line_chart, log_ticks
from tensorucb.plots._theme import colours, sequential


def final_regret(experiment: Experiment, *, last: int | None = None, title: str = "") -> Any:
    """Average scaled regret of each policy as bars, best on top, with the 90 % interval over runs."""
    import altair as alt

    check_instance("experiment", experiment, Experiment, "an Experiment, as run_experiment gives it")
    check_text("title", title, empty=True, longest=LONGEST_TITLE)
    finals = {policy: experiment.final(policy, last=last).row() for policy in experiment.policies}
    order = sorted(finals, key=lambda policy: finals[policy]["mean"])
    rows = [{"label": label, **finals[label], "text": f"{finals[label]['mean']:,.3g}"} for label in order]
    y = alt.Y("label:N", sort=order, title=None, axis=alt.Axis(domain=False, labelFontSize=13, labelLimit=220))
    hues = alt.Color("label:N", scale=alt.Scale(domain=order, range=colours(order)), legend=None)
    # The label stands past the interval's end, so that the two never cover each other.
    reach = max(row["high"] for row in rows)
    scale = alt.Scale(domain=[min(0.0, *(row["low"] for row in rows)), reach * 1.2 or 1.0], nice=False)
    x_title = "Average scaled regret" + (f", last {last} rounds" if last else "")
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    tip = [
        alt.Tooltip("label:N", title="Policy"),
        *(alt.Tooltip(f"{name}:Q", format=".3~f") for name in ("mean", "low", "high")),
    ]
    bars = base.mark_bar(cornerRadiusEnd=3, height={"band": 0.62}).encode(
        x=alt.X("mean:Q", title=x_title, scale=scale, axis=alt.Axis(tickCount=6, grid=True)), color=hues, tooltip=tip
    )
    rules = base.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q", scale=scale, title=x_title), x2="high:Q")
    texts = base.mark_text(align="left", dx=7, fontWeight=600).encode(x=alt.X("high:Q", scale=scale), text="text:N")
    heading = alt.TitleParams(
        title or "Who loses least", subtitle="Lower is better; rules are 90 % intervals over runs"
    )
    return alt.layer(bars, rules, texts).properties(width=WIDTH, height=34 * len(order), title=heading)


def degree_distribution(
    degrees: Mapping[str, ArrayLike], *, title: str = "Out-degrees", degree: str = "Out-degree"
) -> Any:
    """Share of users with at least so many out-edges (CCDF), both axes logarithmic, one line per network."""
    import altair as alt

    labels = [
        check_text("degrees", label) for label in check_mapping("degrees", degrees, "a mapping of labels to degrees")
    ]
    check_text("title", title, empty=True, longest=LONGEST_TITLE)
    check_text("degree", degree, empty=True, longest=LONGEST_TITLE)
    rows = [row for label in labels for row in _ccdf(label, degrees[label])]
    if not rows:
        raise InputError("no user has an out-edge: there is no distribution to draw.")
    palette = sequential(len(labels)) if len(labels) > 1 else ["#1477c0"]
    legend = alt.Legend(title=None, orient="top-right") if len(labels) > 1 else None

    def powers(field: str) -> Any:
        values = log_ticks(min(row[field] for row in rows) / 10, max(row[field] for row in rows))
        return alt.Axis(grid=True, values=values, format="~%" if field == "share" else "~s")

    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=26, filled=True), strokeWidth=1.6)
        .encode(
            x=alt.X("degree:Q", title=degree, scale=alt.Scale(type="log", nice=False), axis=powers("degree")),
            y=alt.Y(
                "share:Q",
                title="Share of users with at least as many",
                scale=alt.Scale(type="log"),
                axis=powers("share"),
            ),
            color=alt.Color("label:N", scale=alt.Scale(domain=labels, range=palette), legend=legend),
            tooltip=["label:N", "degree:Q", alt.Tooltip("share:Q", format=".2~%")],
        )
    )
    heading = alt.TitleParams(title, subtitle="Straight lines on these axes are power laws")
    return chart.properties(width=WIDTH, height=HEIGHT, title=heading)


def _ccdf(label: str, degrees: ArrayLike) -> list[dict[str, Any]]:
    values, counts = np.unique(check_rows("degrees", degrees, 2**31), return_counts=True)
    shares = np.cumsum(counts[::-1])[::-1] / counts.sum()
    kept = values > 0
    # Some 160 points are all that a line of this width can show.
    keep = np.unique(np.round(np.geomspace(1, max(1, kept.sum()), 160)).astype(int)) - 1
    pairs = list(zip(values[kept].tolist(), shares[kept].tolist(), strict=True))
    return [{"label": label, "degree": pairs[i][0], "share": pairs[i][1]} for i in keep if i < len(pairs)]


def runtime_over_size(
    milliseconds: Mapping[str, Sequence[float]], n_nodes: Sequence[int], *, title: str = "Time per round"
) -> Any:
    """Milliseconds per round over the number of users, one line per policy."""
    sizes = check_array("n_nodes", n_nodes, ("n",), low=1.0).tolist()
    given = check_mapping("milliseconds", milliseconds, "a mapping of labels to times")
    times = {label: check_array("milliseconds", values, (len(sizes),), low=0.0) for label, values in given.items()}
    curves = {check_text("milliseconds", label): Interval(*(values,) * 3) for label, values in times.items()}
    return line_chart(
        curves,
        x=sizes,
        x_title="Users |V|",
        y_title="Milliseconds per round",
        title=title,
        subtitle="Median over rounds: score, select and learn; logarithmic axis",
        log_y=True,
        bands=False,
        points=True,
    )


def bound_chart(rounds: Sequence[float], bounds: Mapping[str, ArrayLike], measured: Mapping[str, ArrayLike]) -> Any:
    """Theorem 1's bound on the cumulative regret beside what was measured, on a logarithmic axis."""
    curves = {
        label: Interval(*(np.maximum(np.asarray(values, dtype=np.float64), 1e-3),) * 3)
        for label, values in {**bounds, **measured}.items()
    }
    return line_chart(
        curves,
        x=list(rounds),
        x_title="Round",
        y_title="Cumulative scaled regret",
        title="Theorem 1 beside the measured regret",
        subtitle="Logarithmic axis",
        log_y=True,
        bands=False,
    )


def seed_reasons(rows: Sequence[Mapping[str, Any]], *, title: str = "Why these seeds") -> Any:
    """Expected direct responses of each seed, split into what is believed and what is hoped (exploration).

    Each row has ``seed``, ``believed`` and ``explored``.
    """
    import altair as alt

    order = [str(row["seed"]) for row in rows]
    parts = [
        {"seed": str(row["seed"]), "part": part, "value": float(row[key])}
        for row in rows
        for part, key in (("expected from what was seen", "believed"), ("added to explore", "explored"))
    ]
    scale = alt.Scale(domain=["expected from what was seen", "added to explore"], range=["#1477c0", "#e69f00"])
    return (
        alt.Chart(alt.Data(values=parts))
        .mark_bar(cornerRadiusEnd=3, height={"band": 0.62})
        .encode(
            y=alt.Y("seed:N", sort=order, title="Seed, in order of choice", axis=alt.Axis(domain=False)),
            x=alt.X("value:Q", title="Direct responses", axis=alt.Axis(grid=True, tickCount=6)),
            color=alt.Color("part:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolType="square")),
            order=alt.Order("part:N", sort="descending"),
            tooltip=["seed:N", "part:N", alt.Tooltip("value:Q", format=".2~f")],
        )
        .properties(width=WIDTH, height=30 * len(order), title=alt.TitleParams(title))
    )
