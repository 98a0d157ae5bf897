from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.uncertainty.calibration import (
    binomial_interval,
    brier_score,
    expected_calibration_error,
    interval_coverage,
    log_loss,
    normal_quantile,
    reliability,
)
from tensorucb.errors import InputError, ShapeError


def test_coverage_of_a_true_normal_is_nominal_and_of_half_its_deviation_is_not():
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=20_000), rng.uniform(0.1, 2.0, 20_000)
    truth = mean + sd * rng.standard_normal(20_000)
    right = interval_coverage(mean, sd**2, truth)
    assert abs(right.empirical - right.levels).max() < 0.012  # more than three standard errors of 20,000 points
    assert np.all(right.low <= right.empirical)
    assert np.all(right.empirical <= right.high)
    narrow = interval_coverage(mean, (0.5 * sd) ** 2, truth, levels=(0.9,))
    assert abs(narrow.empirical[0] - 0.589) < 0.015  # P(|z| < 1.645/2)


def test_coverage_through_the_sigmoid_equals_coverage_of_the_score():
    rng = np.random.default_rng(1)
    mean, var, truth = rng.normal(size=500), rng.uniform(0.1, 1.0, 500), rng.normal(size=500)
    plain = interval_coverage(mean, var, truth)
    rates = interval_coverage(mean, var, 1.0 / (1.0 + np.exp(-truth)), link="sigmoid")
    np.testing.assert_array_equal(plain.empirical, rates.empirical)
    assert np.all(rates.width < plain.width)


def test_a_certain_and_right_score_is_covered_a_certain_and_wrong_one_is_not():
    found = interval_coverage([0.0, 0.0], [0.0, 0.0], [0.0, 0.1], levels=(0.5, 0.99))
    np.testing.assert_array_equal(found.empirical, [0.5, 0.5])


def test_binomial_interval_is_clopper_pearson():
    low, high = binomial_interval([0, 3, 10], 10, level=0.95)
    # scipy.stats.binomtest(k, 10).proportion_ci(0.95, method="exact")
    np.testing.assert_allclose(low, [0.0, 0.06673951, 0.69150289], atol=1e-7)
    np.testing.assert_allclose(high, [0.30849711, 0.65245285, 1.0], atol=1e-7)


def test_reliability_by_hand():
    found = reliability([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 1], bins=2, strategy="uniform")
    np.testing.assert_allclose(found.predicted, [0.15, 0.85])
    np.testing.assert_allclose(found.observed, [0.5, 1.0])
    np.testing.assert_array_equal(found.count, [2, 2])
    assert expected_calibration_error([0.1, 0.2, 0.8, 0.9], [0, 1, 1, 1], bins=2, strategy="uniform") == pytest.approx(
        0.5 * 0.35 + 0.5 * 0.15
    )


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_calibrated_predictions_have_little_calibration_error_and_shifted_ones_have_their_shift(strategy):
    rng = np.random.default_rng(2)
    p = rng.beta(1.0, 5.0, 50_000)
    y = (rng.random(p.size) < p).astype(float)
    assert expected_calibration_error(p, y, strategy=strategy) < 0.008
    assert abs(expected_calibration_error(np.minimum(p + 0.2, 1.0), y, strategy=strategy) - 0.2) < 0.01
    inside = reliability(p, y, strategy=strategy)
    assert np.mean((inside.low <= inside.predicted) & (inside.predicted <= inside.high)) > 0.6


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10_000), bins=st.integers(1, 15), strategy=st.sampled_from(["quantile", "uniform"]))
def test_scores_decompose_exactly(seed, bins, strategy):
    rng = np.random.default_rng(seed)
    p = rng.random(40)
    y = (rng.random(40) < 0.4).astype(float)
    brier = brier_score(p, y, bins=bins, strategy=strategy)
    assert brier.score == pytest.approx(np.mean((p - y) ** 2))
    loss = log_loss(p, y, bins=bins, strategy=strategy)
    assert loss.score == pytest.approx(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))
    for found in (brier, loss):
        total = found.reliability - found.resolution + found.uncertainty + found.within
        assert total == pytest.approx(found.score, abs=1e-12)
        assert min(found.reliability, found.resolution, found.uncertainty) >= -1e-12


def test_a_few_distinct_predictions_leave_nothing_within_bins():
    rng = np.random.default_rng(3)
    p = rng.choice([0.1, 0.4, 0.7], 300)
    y = (rng.random(300) < p).astype(float)
    assert brier_score(p, y, strategy="uniform").within == pytest.approx(0.0, abs=1e-12)
    assert log_loss(p, y, strategy="uniform").within == pytest.approx(0.0, abs=1e-12)


def test_certain_and_wrong_costs_infinity():
    assert log_loss([0.0, 0.5], [1.0, 0.0]).score == np.inf
    assert log_loss([0.0, 1.0], [0.0, 1.0]).score == 0.0


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: normal_quantile([0.0]), InputError),
        (lambda: interval_coverage([0.0], [-1.0], [0.0]), InputError),
        (lambda: interval_coverage([0.0], [1.0], [0.0, 1.0]), ShapeError),
        (lambda: interval_coverage([0.0], [1.0], [0.0], link="probit"), InputError),
        (lambda: reliability([1.2], [0.0]), InputError),
        (lambda: reliability([np.nan], [0.0]), InputError),
        (lambda: reliability([0.5], [0.0], bins=0), InputError),
        (lambda: reliability([0.5], [0.0], strategy="equal"), InputError),
        (lambda: binomial_interval(2, 1), InputError),
    ],
)
def test_bad_input_is_refused(call, error):
    with pytest.raises(error):
        call()
