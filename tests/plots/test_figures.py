from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb import plots
from tensorucb.errors import InputError
from tensorucb.experiments import Experiment, Interval

# private: how labels are placed, numbers shortened and lines coloured, for any input
from tensorucb.plots import _lines, _theme, specification, theme

GAPS = {"TensorUCB": 1.0, "HighDegree": 5.0, "my own": 3.0}
CROWD = GAPS | {"CUCB": 5.1, "COIN": 5.0, "COIN+": 5.0, "Thompson": 3.1, "Random": 18.0, "product-blind oracle": 0.5}


def small_experiment(gaps: dict[str, float] = GAPS, rounds: int = 6, runs: int = 3) -> Experiment:
    rng = np.random.default_rng(0)
    results = [
        pl.DataFrame({"optimum": np.full(rounds, 20.0), "regret": gap + rng.random(rounds)}).select(
            pl.lit(policy).alias("policy"), pl.lit(run).alias("run"), pl.all()
        )
        for policy, gap in gaps.items()
        for run in range(runs)
    ]
    return Experiment(pl.concat(results))


def layers(chart) -> dict[str, dict]:
    """The layers of a drawn figure by their names; those without one are numbered."""
    found = specification(chart)["layer"]
    return {layer.get("name", str(number)): layer for number, layer in enumerate(found)}


def end_labels(chart) -> list[dict]:
    named = [layer for name, layer in layers(chart).items() if name.startswith("end-labels")]
    return [row for layer in named for row in layer["data"]["values"]]


FIGURES = {
    "regret": lambda: plots.regret_curves(small_experiment()),
    "final": lambda: plots.final_regret(small_experiment(), last=2),
    "degrees": lambda: plots.degree_distribution({"one": [0, 1, 1, 5, 80], "two": [2, 3, 900]}),
    "rank": lambda: plots.rank_curves({r: Interval(*(np.linspace(9, r, 4),) * 3) for r in (1, 2, 5)}),
    "runtime": lambda: plots.runtime_over_size({"TensorUCB": [5.0, 9.0], "COIN": [1.0, 2.0]}, [100, 200]),
    "bound": lambda: plots.bound_chart([1, 2, 3], {"bound": [1e5, 2e5, 3e5]}, {"TensorUCB": [0.0, 2, 3]}),
    "seeds": lambda: plots.seed_reasons([{"seed": 7, "believed": 2.0, "explored": 0.5}]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_is_drawn_as_png_and_svg(name, tmp_path):
    png, svg = plots.save_figure(FIGURES[name](), tmp_path, name)
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert svg.read_text("utf-8").startswith("<svg")


def test_drawing_twice_gives_the_same_svg(tmp_path):
    first = plots.save_figure(FIGURES["regret"](), tmp_path / "a", "f")[1].read_bytes()
    assert plots.save_figure(FIGURES["regret"](), tmp_path / "b", "f")[1].read_bytes() == first


def test_curves_name_every_policy_with_its_last_value(tmp_path):
    experiment = small_experiment()
    text = plots.save_figure(plots.regret_curves(experiment), tmp_path, "f")[1].read_text("utf-8")
    for policy in experiment.policies:
        assert f"{policy} · {float(experiment.curve(policy).mean[-1]):.3g}" in text


def test_ours_and_the_two_best_others_are_coloured_and_the_rest_is_grey():
    drawn = layers(plots.regret_curves(small_experiment(CROWD)))
    coloured = {name.removeprefix("line-"): layer["mark"]["color"] for name, layer in drawn.items() if "line-" in name}
    assert set(coloured) == {"TensorUCB", "my own", "Thompson"}
    assert len(set(coloured.values())) == 3
    assert drawn["lines-quiet"]["mark"]["style"] == "quiet-line"
    assert drawn["lines-knowing"]["mark"]["style"] == "knowing-line"
    shapes = [drawn[f"line-{label}"]["mark"]["strokeDash"] for label in coloured]
    assert len({tuple(shape) for shape in shapes}) == 3  # they can be told apart without colours
    assert list(drawn).index("line-TensorUCB") > list(drawn).index("line-my own") > list(drawn).index("lines-quiet")


def test_a_policy_has_one_colour_in_all_figures_of_an_experiment():
    experiment = small_experiment(CROWD)
    lines = layers(plots.regret_curves(experiment))
    bars = specification(plots.final_regret(experiment, last=1))["layer"][1]["data"]["values"]
    shown = {row["label"]: row["colour"] for row in bars if row["colour"]}
    assert shown == {label: lines[f"line-{label}"]["mark"]["color"] for label in ("TensorUCB", "my own", "Thompson")}
    assert _theme.colours(["A", "TensorUCB"])[1] == _theme.colours(["TensorUCB"])[0]


def test_who_is_coloured():
    finals = {"a": 4.0, "b": 3.0, "TensorUCB": 9.0, "c": 2.0, "product-blind oracle": 0.1, "truth, one strategy": 0.0}
    assert _theme.leaders(finals) == ["TensorUCB", "c", "b"]
    assert _theme.leaders({"a": 2.0, "b": 1.0}) == ["b", "a"]


def test_intervals_are_whiskers_beside_the_coloured_lines_and_no_bands():
    drawn = layers(plots.regret_curves(small_experiment(CROWD)))
    assert all(layer["mark"]["type"] in ("line", "rule", "text", "circle") for layer in drawn.values())
    whiskers = {name: layer for name, layer in drawn.items() if name.startswith("whisker-") and "high" not in name}
    assert set(whiskers) >= {"whisker-TensorUCB", "whisker-my own", "whisker-Thompson"}
    shifts = [whiskers[f"whisker-{label}"]["mark"]["xOffset"] for label in ("TensorUCB", "my own", "Thompson")]
    assert min(abs(a - b) for a, b in itertools.combinations(shifts, 2)) > 6  # side by side, not on top of each other
    alone = layers(plots.regret_curves(small_experiment(CROWD, runs=1)))
    assert not any(name.startswith("whisker") for name in alone)


def test_the_best_possible_choice_is_a_dashed_line_at_zero_with_what_it_reaches():
    chart = plots.regret_curves(small_experiment(CROWD))
    reference = layers(chart)["reference"]
    assert reference["data"]["values"] == [{"mean": 0}]
    low, high = reference["encoding"]["y"]["scale"]["domain"]
    assert low < 0 < high  # apart from the axis, so that it is seen
    assert theme()["style"]["reference"]["strokeDash"]
    assert "best possible · 0" in [row["text"] for row in end_labels(chart)]
    assert "reaches 20 users per round" in specification(chart)["title"]["subtitle"][1]
    assert "Regret is how many more users" in specification(chart)["title"]["subtitle"][0]


def test_a_grey_line_far_above_leaves_the_picture_and_its_label_says_so():
    chart = plots.regret_curves(small_experiment(CROWD))
    labels = {row["label"]: row for row in end_labels(chart)}
    assert labels["Random"]["text"].endswith(" ↑")
    assert labels["Random"]["place"] == min(row["place"] for row in labels.values())
    assert not any(row["text"].endswith("↑") for label, row in labels.items() if label != "Random")
    assert not any(row["text"].endswith("↑") for row in end_labels(plots.regret_curves(small_experiment())))


@pytest.mark.parametrize("count", [4, 17, 40])
def test_labels_at_the_ends_are_a_line_apart_and_inside_the_picture(count):
    gaps = {f"policy {i}": 3.0 + 0.01 * i for i in range(count)}
    chart = plots.regret_curves(small_experiment(gaps))
    places = np.sort([row["place"] for row in end_labels(chart)])
    assert places.size == count + 1  # and the best possible
    assert np.diff(places).min() >= theme()["style"]["loud-label"]["fontSize"] + 3
    assert places[0] >= 0
    assert places[-1] <= specification(chart)["height"]


def _luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_are_readable_on_light_and_dark_pages(mode):
    """A contrast of 3 to 1, which the accessibility guidelines (WCAG 2.1) ask of graphics and large text."""
    many = _theme.colours([f"policy {i}" for i in range(9)])
    assert len(set(many)) == 9
    assert len(set(_theme.sequential(7))) == 7
    paper = _luminance(theme(mode)["background"])
    quiet = theme(mode)["style"]["quiet-label"]["color"]
    for colour in (*_theme.colours(["TensorUCB"]), *many, *_theme.sequential(7), quiet):
        ends = sorted((paper, _luminance(colour)))
        assert (ends[1] + 0.05) / (ends[0] + 0.05) >= 3.0, colour


def test_bars_show_whiskers_past_what_is_drawn_before_them():
    drawn = specification(plots.final_regret(small_experiment(CROWD)))["layer"]
    kinds = [layer["mark"]["type"] for layer in drawn]
    assert kinds == ["bar", "bar", "text", "rule", "tick", "tick"]
    assert all(layer["mark"]["style"] == "whisker" for layer in drawn[3:])
    alone = specification(plots.final_regret(small_experiment(CROWD, runs=1)))
    assert {layer["mark"]["type"] for layer in alone["layer"]} == {"bar", "text"}
    assert "Whiskers" not in alone["title"]["subtitle"]


def test_an_interval_over_two_runs_does_not_squeeze_the_bars():
    frame = pl.DataFrame({"policy": ["a", "a"], "run": [0, 1], "regret": [1.0, 10.0]})
    low, high = specification(plots.final_regret(Experiment(frame)))["layer"][0]["encoding"]["x"]["scale"]["domain"]
    longest = frame["regret"].mean()
    assert -0.2 * longest < low < 0
    assert high < 1.5 * longest


def test_files_leave_out_what_only_a_pointer_shows(tmp_path):
    chart = plots.regret_curves(small_experiment(CROWD))
    assert "hover" in layers(chart)
    text = plots.save_figure(chart, tmp_path, "f")[1].read_text("utf-8")
    assert "mark-symbol" not in text


def test_a_figure_is_described_in_words():
    described = specification(plots.regret_curves(small_experiment()))["description"]
    assert all(label in described for label in GAPS)
    assert described.index("TensorUCB") < described.index("my own") < described.index("HighDegree")


@settings(deadline=None)
@given(st.lists(st.floats(0, 300), min_size=1, max_size=12))
def test_labels_are_pushed_apart_and_stay_inside(heights):
    placed = _lines.spread_apart(heights, 17, 360)
    ordered = np.sort(placed)
    assert (np.diff(ordered) >= 17 - 1e-9).all()
    assert ordered[0] >= 0
    assert ordered[-1] <= 360 + 1e-9
    assert (np.argsort(heights, kind="stable") == np.argsort(placed, kind="stable")).all()


def test_labels_far_apart_stay_where_they_are():
    assert _lines.spread_apart([300.0, 20.0, 100.0], 17, 360) == [300.0, 20.0, 100.0]


def test_short_numbers():
    values = (0.123456, 12.94, 999.4, 1290.0, 27_100, 164e6, 2.5e9, -3.0)
    assert [_lines.short_number(v) for v in values] == ["0.123", "12.9", "999", "1,290", "27.1k", "164M", "2.5G", "-3"]


@pytest.mark.parametrize(("value", "text"), [(999.6, "1,000"), (9_996.0, "10k"), (999_600.0, "1M"), (999.6e6, "1G")])
def test_a_number_that_is_rounded_up_to_the_next_unit_has_no_exponent(value, text):
    chart = plots.rank_curves({1: Interval(*(np.array([value]),) * 3)})
    assert f"R = 1 · {text}" in [row["text"] for row in end_labels(chart)]


def test_log_ticks():
    assert _lines.log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert _lines.log_ticks(1, 1e5) == pytest.approx([1, 10, 100, 1e3, 1e4, 1e5])


def test_empty_figures_are_refused():
    with pytest.raises(InputError, match="at least one curve"):
        plots.rank_curves({})
    with pytest.raises(InputError, match="no user has an out-edge"):
        plots.degree_distribution({"none": [0, 0]})
    with pytest.raises(InputError, match="positive values"):
        plots.runtime_over_size({"a": [0.0]}, [1])


def test_a_long_name_in_a_legend_is_not_cut(tmp_path):
    name = "a network whose name takes more room than a legend usually gives to one"
    figure = plots.degree_distribution({name: [0, 1, 1, 5, 80], "two": [2, 3, 900]})
    assert name in plots.save_figure(figure, tmp_path, "f")[1].read_text("utf-8")
