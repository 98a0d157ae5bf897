from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb import plots
from tensorucb.errors import InputError
from tensorucb.experiments import Experiment, Interval, RunResult
from tensorucb.plots._lines import log_ticks, short_number, spread_apart
from tensorucb.plots._theme import colours, sequential


def small_experiment(rounds: int = 6) -> Experiment:
    rng = np.random.default_rng(0)
    results = [
        RunResult(
            policy,
            run,
            np.zeros(rounds, dtype=np.int64),
            np.full(rounds, 20.0) - gap - rng.random(rounds),
            np.full(rounds, 20.0),
            np.full((rounds, 3), 0.001),
        )
        for policy, gap in (("TensorUCB", 1.0), ("HighDegree", 5.0), ("my own", 3.0))
        for run in range(3)
    ]
    return Experiment(tuple(results))


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


def test_policies_keep_their_colours():
    assert colours(["Random", "TensorUCB"]) == colours(["TensorUCB", "Random"])[::-1]
    many = colours([f"policy {i}" for i in range(8)])
    assert len(set(many)) == 8
    assert len(set(sequential(7))) == 7


@settings(deadline=None)
@given(st.lists(st.floats(0, 300), min_size=1, max_size=12))
def test_labels_are_pushed_apart_and_stay_inside(heights):
    placed = spread_apart(heights, 17, 360)
    ordered = np.sort(placed)
    assert (np.diff(ordered) >= 17 - 1e-9).all()
    assert ordered[0] >= 0
    assert ordered[-1] <= 360 + 1e-9
    assert (np.argsort(heights, kind="stable") == np.argsort(placed, kind="stable")).all()


def test_labels_far_apart_stay_where_they_are():
    assert spread_apart([300.0, 20.0, 100.0], 17, 360) == [300.0, 20.0, 100.0]


def test_short_numbers():
    values = (0.123456, 12.94, 999.4, 1290.0, 27_100, 164e6, 2.5e9, -3.0)
    assert [short_number(v) for v in values] == ["0.123", "12.9", "999", "1,290", "27.1k", "164M", "2.5G", "-3"]


def test_log_ticks():
    assert log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert log_ticks(1, 1e5) == pytest.approx([1, 10, 100, 1e3, 1e4, 1e5])


def test_empty_figures_are_refused():
    with pytest.raises(InputError, match="at least one curve"):
        plots.line_chart({}, x_title="", y_title="", title="")
    with pytest.raises(InputError, match="no user has an out-edge"):
        plots.degree_distribution({"none": [0, 0]})
    with pytest.raises(InputError, match="positive values"):
        plots.runtime_over_size({"a": [0.0]}, [1])


def test_a_long_name_in_a_legend_is_not_cut(tmp_path):
    name = "a network whose name takes more room than a legend usually gives to one"
    figure = plots.degree_distribution({name: [0, 1, 1, 5, 80], "two": [2, 3, 900]})
    assert name in plots.save_figure(figure, tmp_path, "f")[1].read_text("utf-8")
