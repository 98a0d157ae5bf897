"""The figures of `docs/uncertainty.md`, as Altair charts without a theme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.uncertainty.bonus import BONUSES
from studies.uncertainty.compare import EXACT, LOOKS_BACK, PAPER, PAPER_ONES, PAPER_START
from studies.uncertainty.policy_study import MEASURES, NEW
from studies.uncertainty.study import Row, Tables

_COLOURS = {
    EXACT: "#1f2937",
    LOOKS_BACK: "#7a5bc7",
    PAPER_START: "#4fb3e8",
    PAPER_ONES: "#cc79a7",
    PAPER: "#1477c0",
    "Theorem 1's condition": "#6b7280",
    "explored": "#1477c0",
    "unexplored": "#d55e00",
}
_SHADES = ("#fdae61", "#ee7d55", "#de4968", "#a93b7d", "#8c2981", "#463caa")
_WIDTH, _HEIGHT = 300, 220
_DASHES = [[1, 0], [5, 4]]
_LARGEST_C = 1000.0
_STEPS = [s * 10.0**d for d in range(-3, 3) for s in (1, 2, 5)]


def figures(tables: Tables) -> dict[str, Any]:
    """Name -> chart, for the tables that are there."""
    charts = {}
    if "posteriors_summary" in tables:
        summary = tables["posteriors_summary"]
        charts["uncertainty-coverage"] = _posteriors(
            summary, "coverage", "True u inside the 90 % interval", "Coverage of stated 90 % intervals"
        )
        charts["uncertainty-width"] = _posteriors(
            summary,
            "ratio",
            "Stated / exact standard deviation",
            "Stated widths beside the exact posterior's",
            log=True,
        )
    if "curve" in tables:
        charts["uncertainty-bonus"] = _curves(tables["curve"])
        charts["uncertainty-smallest-c"] = _smallest(tables["smallest_c"])
    if "policies" in tables:
        charts["uncertainty-policy-coverage"] = _policy_coverage(tables["policy_coverage"])
        charts["uncertainty-reliability"] = _policy_reliability(tables["policy_reliability"])
        charts["uncertainty-sources"] = _source_coverage(tables["source_coverage"])
    return charts


def _colour(field: str, values: Sequence[str], title: str | None = None) -> Any:
    import altair as alt

    scale = alt.Scale(domain=list(values), range=[_COLOURS[value] for value in values])
    return alt.Color(f"{field}:N", title=title, scale=scale, legend=alt.Legend(orient="right", labelLimit=240))


def _present(rows: Sequence[Row], field: str) -> list[str]:
    held = {row[field] for row in rows}
    return [value for value in _COLOURS if value in held]


def _samples_axis(rows: Sequence[Row]) -> Any:
    import altair as alt

    values = sorted({row["samples"] for row in rows})
    scale = alt.Scale(type="log", domain=[values[0], values[-1]], nice=False)
    return alt.X("samples:Q", title="Samples N", scale=scale, axis=alt.Axis(values=values, format="~s"))


def _faceted(
    layers: Sequence[Any], rows: Sequence[Row], by: str, order: Sequence[str], title: str, subtitle: str
) -> Any:
    import altair as alt

    chart = alt.layer(*layers, data=alt.Data(values=list(rows))).properties(width=_WIDTH, height=_HEIGHT)
    header = alt.Header(title=None, labelFontSize=13, labelFontWeight=600, labelAnchor="start")
    column = alt.Facet(f"{by}:N", header=header, sort=list(order))
    return chart.facet(facet=column, columns=2).properties(title=alt.TitleParams(title, subtitle=subtitle))


def _posteriors(summary: Sequence[Row], field: str, axis: str, title: str, *, log: bool = False) -> Any:
    """Coverage or width over the samples, for the largest shape."""
    import altair as alt

    shape = max((row["modes"], row["rank"]) for row in summary)
    rows = [row for row in summary if (row["modes"], row["rank"]) == shape]
    rows = [{**row, "nominal": 1.0 if log else 0.9} for row in rows if not log or row[field] > 1e-3]
    scale = alt.Scale(type="log", nice=False, padding=12) if log else alt.Scale(domain=[0, 1])
    y = alt.Y(
        f"{field}:Q",
        title=axis,
        scale=scale,
        axis=alt.Axis(values=_STEPS, format="~g") if log else alt.Axis(format="%"),
    )
    base, x, hue = alt.Chart(), _samples_axis(rows), _colour("variant", _present(rows, "variant"))
    layers = [
        base.mark_rule(strokeDash=[4, 4]).encode(y=alt.Y("nominal:Q", scale=scale)),
        base.mark_line(strokeWidth=2).encode(x=x, y=y, color=hue),
        base.mark_circle(size=44, opacity=1).encode(x=x, y=y, color=hue),
    ]
    if not log:
        band = base.mark_rule(strokeWidth=1.2, opacity=0.6)
        layers.insert(1, band.encode(x=x, y=alt.Y("coverage_low:Q", title=axis), y2="coverage_high:Q", color=hue))
    counts = " and ".join(str(count) for count in sorted({row["problems"] for row in rows}))
    note = "median over problems; collapsed posteriors (ratio 0) are not drawn"
    note = note if log else f"{counts} random problems; rules: 90 % intervals"
    subtitle = f"D = {shape[0]}, R = {shape[1]}, d = 3; {note}"
    return _faceted(layers, rows, "likelihood", ("gaussian", "logistic"), title, subtitle)


def _curves(curve: Sequence[Row]) -> Any:
    """P(u ≤ ū + c·bonus) over c, one line per number of samples: the paper's posterior."""
    import altair as alt

    rows = [
        {**row, "nominal": 0.9}
        for row in curve
        if row["likelihood"] == "gaussian" and row["modes"] > 1 and row["variant"] == PAPER and row["c"] <= 10
    ]
    counts = sorted({row["samples"] for row in rows})
    shades = [_SHADES[round(i)] for i in np.linspace(0, len(_SHADES) - 1, len(counts))]
    hue = alt.Color("samples:O", title="Samples N", scale=alt.Scale(domain=counts, range=shades))
    scale = alt.Scale(domain=[0.4, 1.0])
    y = alt.Y("covered:Q", title="Share with u ≤ ū + c·bonus", scale=scale, axis=alt.Axis(format="%"))
    layers = [
        alt.Chart().mark_rule(strokeDash=[4, 4]).encode(y=alt.Y("nominal:Q", scale=scale)),
        alt.Chart().mark_line(strokeWidth=2).encode(x=alt.X("c:Q", title="c"), y=y, color=hue),
    ]
    subtitle = "Factorised, mean field, prior means told; D = 3, R = 2, d = 4; a calibrated bonus would not move with N"
    return _faceted(layers, rows, "bonus", BONUSES, "Coverage of ū + c·bonus as the data grow", subtitle)


def _smallest(table: Sequence[Row]) -> Any:
    """The smallest c for 90 % over the samples, with Theorem 1's condition."""
    import altair as alt

    kept = [row for row in table if row["modes"] > 1]
    rows = [{**row, "c": row["c90"]} for row in kept if 0.0 < row["c90"] < _LARGEST_C]
    rows += [
        {**row, "c": row["condition"], "variant": "Theorem 1's condition"}
        for row in kept
        if (row["likelihood"], row["variant"], row["bonus"]) == ("gaussian", PAPER, BONUSES[0])
    ]
    rows = [{**row, "c": float(row["c"]), "nominal": 1.2816} for row in rows]
    hue, x = _colour("variant", _present(rows, "variant")), _samples_axis(rows)
    scale = alt.Scale(type="log", nice=False, padding=12)
    y = alt.Y("c:Q", title="Smallest c that covers 90 %", scale=scale, axis=alt.Axis(values=_STEPS, format="~g"))
    dash = alt.StrokeDash("bonus:N", title=None, scale=alt.Scale(domain=list(BONUSES), range=_DASHES))
    layers = [
        alt.Chart().mark_rule(strokeDash=[2, 3]).encode(y=alt.Y("nominal:Q", scale=scale)),
        alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=hue, strokeDash=dash),
    ]
    subtitle = "D = 3, R = 2, d = 4; dotted rule: 1.28, a calibrated standard deviation; c beyond 1,000: not drawn"
    return _faceted(layers, rows, "likelihood", ("gaussian", "logistic"), "How large must c be?", subtitle)


def _policy_coverage(table: Sequence[Row]) -> Any:
    import altair as alt

    order = list(dict.fromkeys(row["policy"] for row in table))
    hue = _colour("edges", _present(table, "edges"), "Source")
    x = alt.X("nominal:Q", title="Nominal level", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("empirical:Q", title="True rates inside", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    ideal = alt.Chart().mark_line(strokeDash=[4, 4], color="#9ca3af").encode(x=x, y=alt.Y("nominal:Q"))
    line = alt.Chart().mark_line(point=True, strokeWidth=2).encode(x=x, y=y, color=hue)
    subtitle = "Intervals of edge probabilities for products never met; dashed: what the levels promise"
    return _faceted([ideal, line], table, "policy", order, "Does a stated interval hold the true rate?", subtitle)


def _source_coverage(table: Sequence[Row]) -> Any:
    """Nominal against empirical, by source: a facet a world and policy, products that nobody has met."""
    import altair as alt

    rows = [{**row, "where": f"{row['policy']}, {row['world']}"} for row in table if row["products"] == NEW]
    order = list(dict.fromkeys(row["where"] for row in rows))
    hue = _colour("sources", _present(rows, "sources"), "Source")
    dash = alt.StrokeDash("measure:N", title="Interval of", scale=alt.Scale(domain=list(MEASURES), range=_DASHES))
    shares = {"axis": alt.Axis(format="%"), "scale": alt.Scale(domain=[0, 1])}
    x, y = alt.X("nominal:Q", title="Nominal level", **shares), alt.Y("empirical:Q", title="Share inside", **shares)
    ideal = alt.Chart().mark_line(strokeWidth=1, color="#9ca3af").encode(x=x, y=alt.Y("nominal:Q"))
    line = alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=hue, strokeDash=dash)
    subtitle = "Total response of a source to products never met; thin line: what the levels promise"
    return _faceted([ideal, line], rows, "where", order, "Does the interval of a source hold?", subtitle)


def _policy_reliability(table: Sequence[Row]) -> Any:
    import altair as alt

    least = 1e-3
    rows = [{**row, **{k: max(least, row[k]) for k in ("predicted", "observed", "low", "high")}} for row in table]
    order = list(dict.fromkeys(row["policy"] for row in rows))
    hue = _colour("edges", _present(rows, "edges"), "Source")
    scale, ticks = alt.Scale(type="log", domain=[least, 1]), alt.Axis(values=[0.001, 0.01, 0.1, 1], format="~%")
    x = alt.X("predicted:Q", title="Predicted probability", scale=scale, axis=ticks)
    y = alt.Y("observed:Q", title="Observed rate", scale=scale, axis=ticks)
    ends = [{"predicted": v, "observed": v, "policy": p} for p in order for v in (least, 1.0)]
    base = alt.Chart()
    layers = [
        base.transform_filter("!isValid(datum.edges)").mark_line(strokeDash=[4, 4], color="#9ca3af").encode(x=x, y=y),
        base.transform_filter("isValid(datum.edges)").mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=hue),
        base.transform_filter("isValid(datum.edges)").mark_circle(size=52, opacity=1).encode(x=x, y=y, color=hue),
    ]
    subtitle = (
        "Ten bins of equal counts; products never met; rules: 90 % binomial intervals; values below 0.1 % at the edge"
    )
    return _faceted(layers, [*rows, *ends], "policy", order, "Predicted and observed rates", subtitle)
