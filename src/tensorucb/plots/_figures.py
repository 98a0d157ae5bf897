"""The other figures: degree distributions, run time over size, the bound, and why seeds were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import ArrayLike

from tensorucb.checks import check_array, check_mapping, check_rows, check_text
from tensorucb.errors import InputError
from tensorucb.experiments import ETA, Interval
from tensorucb.plots._lines import HEIGHT, LONGEST_TITLE, WIDTH, line_chart, log_ticks
from tensorucb.plots._theme import colours, dashes, leaders


def degree_distribution(degrees: Mapping[str, ArrayLike], *, title: str = "Out-degrees") -> Any:
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
    check_text("title", title, empty=True, longest=LONGEST_TITLE)
    rows = [row for label in labels for row in _ccdf(label, degrees[label])]
    if not rows:
        raise InputError("no user has an out-edge: there is no distribution to draw.")
    palette = colours(labels)
    legend = alt.Legend(title=None, orient="top-right") if len(labels) > 1 else None

    def powers(field: str) -> Any:
        values = log_ticks(min(row[field] for row in rows) / 10, max(row[field] for row in rows))
        return alt.Axis(grid=True, values=values, format="~%" if field == "share" else "~s")

    y_title = "Share of users with at least as many"
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=26, filled=True), strokeWidth=1.6)
        .encode(
            x=alt.X("degree:Q", title="Out-degree", scale=alt.Scale(type="log", nice=False), axis=powers("degree")),
            y=alt.Y("share:Q", title=y_title, scale=alt.Scale(type="log"), axis=powers("share")),
            color=alt.Color("label:N", scale=alt.Scale(domain=labels, range=palette), legend=legend),
            strokeDash=alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=dashes(labels)), legend=legend),
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
    """Milliseconds per round over the number of users, one line per policy.

    Examples
    --------
    >>> chart = runtime_over_size({"TensorUCB": [5.0, 9.0], "Random": [0.1, 0.1]}, [100, 200])
    >>> chart.to_dict()["title"]["text"]
    'Time per round'
    """
    sizes = check_array("n_nodes", n_nodes, ("n",), low=1.0).tolist()
    given = check_mapping("milliseconds", milliseconds, "a mapping of labels to times")
    times = {label: check_array("milliseconds", values, (len(sizes),), low=0.0) for label, values in given.items()}
    return line_chart(
        {check_text("milliseconds", label): Interval(*(values,) * 3) for label, values in times.items()},
        x=sizes,
        x_title="Users in the network",
        y_title="Milliseconds per round",
        title=title,
        subtitle="Median over rounds: score, select and learn; logarithmic axis",
        log_y=True,
        points=True,
        loud=leaders({label: float(values[-1]) for label, values in times.items()}),
    )


def bound_chart(rounds: Sequence[float], bounds: Mapping[str, ArrayLike], measured: Mapping[str, ArrayLike]) -> Any:
    """Theorem 1's bound on the cumulative regret beside what was measured, on a logarithmic axis.

    Examples
    --------
    >>> from tensorucb.plots import bound_chart
    >>> chart = bound_chart([1, 2, 3], {"bound": [10.0, 20.0, 30.0]}, {"measured": [1.0, 2.0, 2.5]})
    >>> "layer" in chart.to_dict()
    True
    """
    curves = {
        label: Interval(*(np.maximum(np.asarray(values, dtype=np.float64), 1e-3),) * 3)
        for label, values in {**bounds, **measured}.items()
    }
    return line_chart(
        curves,
        x=list(rounds),
        x_title="Round",
        y_title=f"Regret, sum over rounds (users ÷ {ETA:.2f})",
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
