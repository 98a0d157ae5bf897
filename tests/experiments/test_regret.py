from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorucb.errors import InputError, ShapeError
from tensorucb.experiments import (
    ETA,
    Experiment,
    average_regret,
    exploration_condition,
    mean_interval,
    regret_bound,
    round_regret,
)


def test_regret_is_counted_in_users():
    np.testing.assert_allclose(round_regret([10.0, 4.0], [8.0, 5.0]), [2.0, -1.0])


def test_the_papers_figures_divide_by_its_guarantee():
    assert pytest.approx(1 - 1 / math.e - 0.1) == ETA


def test_regret_refuses_two_shapes():
    with pytest.raises(ShapeError, match="one shape"):
        round_regret([1.0], [1.0, 2.0])


def test_average_regret_is_the_running_mean():
    np.testing.assert_allclose(average_regret([[2.0, 4.0, 0.0], [1.0, 1.0, 1.0]]), [[2, 3, 2], [1, 1, 1]])


def test_bound_matches_the_formula_by_hand():
    # T=4, K=2, D=3, d=5, R=2, c=0.5, σ²=0.1, |V|=100, B=2
    inner = 4 * 2 * 5 * math.log(1 + 4 * 2 / (5 * 0.1)) / math.log(1 + 10)
    expected = 0.5 * 2 * 100 * 3 * 2 * math.sqrt(inner)
    found = regret_bound(4, n_nodes=100, k=2, dims=(5, 4, 3), rank=2, exploration=0.5, smoothness=2.0)
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_condition_matches_the_formula_by_hand():
    expected = 3 * 2 * math.sqrt(2 * 5 * math.log(1 + 4 * 2 / (5 * 0.1)) / math.log(11)) + 1.5
    found = exploration_condition(4, k=2, dims=(5, 5, 5), rank=2, largest_weight=1.5)
    assert float(found) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 50), st.integers(1, 20), st.integers(1, 10))
def test_bound_grows_slower_than_rounds_and_with_rank(rounds, k, d, rank):
    def bound(t: int, r: int) -> float:
        return float(regret_bound(t, n_nodes=10, k=k, dims=(d, d, d), rank=r, exploration=1.0))

    assert bound(rounds, rank) < bound(4 * rounds, rank) < 4 * bound(rounds, rank) * 1.5
    assert bound(rounds, rank + 1) == pytest.approx(bound(rounds, rank) * (rank + 1) / rank)


def test_bound_refuses_nonsense():
    with pytest.raises(InputError, match="rounds must be a finite number of at least 1"):
        regret_bound(0, n_nodes=1, k=1, dims=(1,), rank=1, exploration=1.0)
    with pytest.raises(InputError, match="noise_variance"):
        regret_bound(1, n_nodes=1, k=1, dims=(1,), rank=1, exploration=1.0, noise_variance=0.0)
    with pytest.raises(InputError, match="largest_weight"):
        exploration_condition(1, k=1, dims=(1,), rank=1, largest_weight=-1.0)


def test_interval_is_students():
    # Five runs: t(0.95, 4) = 2.1318, standard deviation √2.5.
    interval = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.131846786 * math.sqrt(2.5) / math.sqrt(5)
    assert float(interval.mean) == 3.0
    assert float(interval.high) == pytest.approx(3 + half, rel=1e-8)
    assert float(interval.low) == pytest.approx(3 - half, rel=1e-8)


def test_interval_of_one_run_is_the_run():
    assert mean_interval([[1.0, 2.0]]).low.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match="at least one run"):
        mean_interval([])


def test_interval_covers_the_mean_as_often_as_promised():
    draws = np.random.default_rng(0).normal(size=(5, 20_000))
    interval = mean_interval(draws)
    assert np.mean((interval.low <= 0) & (interval.high >= 0)) == pytest.approx(0.9, abs=0.01)


def test_a_regret_of_almost_nothing_is_printed_without_a_sign():
    """Spread and optimum are sums, which may differ in their last bits."""
    columns = {"policy": ["Oracle"], "run": [0], "round": [1], "regret": [-1e-17], "spread": [3.0], "optimum": [3.0]}
    assert str(Experiment(pl.DataFrame(columns))).splitlines()[2].split() == ["Oracle", "0.00", "100.0"]
