from __future__ import annotations

import numpy as np
import pytest

from studies.uncertainty.batch import batch_posterior
from studies.uncertainty.bonus import bonus_study, collapse_study, covered_share, smallest_factor, standardised_errors
from studies.uncertainty.compare import VARIANTS, compare, learn, predicted
from studies.uncertainty.problems import make_problem, tensor_score
from tensorucb.errors import InputError
from tensorucb.learner import TensorRegression


def test_problems_are_what_they_say():
    problem = make_problem((2, 3), 2, 50, rng=0)
    assert problem.dims == (2, 3)
    assert problem.rank == 2
    np.testing.assert_allclose(np.linalg.norm(problem.features[1], axis=1), 1.0)
    np.testing.assert_allclose(problem.truth, tensor_score(problem.test_features, problem.weights))
    residual = problem.outcomes - tensor_score(problem.features, problem.weights)
    assert abs(residual.std() - 0.1**0.5) < 0.1
    np.testing.assert_array_equal(problem.first(7).outcomes, problem.outcomes[:7])
    binary = make_problem((2,), 1, 30, likelihood="logistic", rng=0)
    assert set(binary.outcomes) <= {0.0, 1.0}
    for options in ({"likelihood": "poisson"}, {"start_scale": 2.0}):
        with pytest.raises(InputError):
            make_problem((2,), 1, 5, **options)


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_batch_posterior_of_a_linear_model_is_the_online_one(likelihood):
    problem = make_problem((3,), 1, 40, likelihood=likelihood, rng=1)
    means, covariances = batch_posterior(problem)
    online = learn(problem)
    # The logistic bound is refreshed over all data at once here, and sample by sample there.
    tolerance = 1e-8 if likelihood == "gaussian" else 0.25
    np.testing.assert_allclose(means[0], online.state.means[0], atol=tolerance)
    np.testing.assert_allclose(covariances[0], online.state.covariances[0][0], atol=tolerance)


def test_batch_posterior_is_a_fixed_point_of_its_equations():
    """Monte Carlo: no mode's Gaussian can be improved given the others."""
    problem = make_problem((2, 2), 1, 30, rng=2)
    (w0, w1), (_, S1) = batch_posterior(problem, max_sweeps=2000, tolerance=1e-12)
    phi, psi = problem.features
    second = (psi @ w1[0]) ** 2 + np.einsum("ni,ij,nj->n", psi, S1, psi)
    P = (phi * second[:, None]).T @ phi / problem.noise_variance + np.eye(2) / problem.prior_variance
    h = phi.T @ ((psi @ w1[0]) * problem.outcomes) / problem.noise_variance
    h += problem.prior_means[0][0] / problem.prior_variance
    np.testing.assert_allclose(np.linalg.solve(P, h), w0[0], atol=1e-7)


def test_a_linear_model_is_exact_and_a_tensor_model_is_not():
    rows = compare((3,), 1, (20,), likelihood="gaussian", problems=2, chains=8, warmup=20, draws=500)
    for row in rows:
        # The paper's start has the paper's prior, which differs a little from the problem's.
        loose = 5.0 if row["variant"] == "paper, b = 0" else 1.0
        assert row["mean_error"] < 0.06 * loose
        assert abs(row["ratio"] - 1.0) < 0.05 * loose
    rows = compare((3, 3, 3), 2, (60,), likelihood="gaussian", problems=4, warmup=150, draws=250)
    coverage = {
        name: np.mean([r["coverage"] for r in rows if r["variant"] == name]) for name in ("factorised, mean field",)
    }
    exact = np.mean([r["coverage"] for r in rows if r["variant"] == "exact (MCMC)"])
    assert exact > 0.75
    assert coverage["factorised, mean field"] < exact - 0.15


def test_the_smallest_factor_is_the_first_that_covers():
    errors = np.array([-1.0, 0.5, 2.0, np.inf])
    assert smallest_factor(errors, 0.5) == 0.5
    assert smallest_factor(errors, 0.75) == 2.0
    assert smallest_factor(errors, 0.76) == np.inf
    assert smallest_factor([-3.0, -2.0], 0.9) == 0.0
    np.testing.assert_array_equal(covered_share(errors, [0.0, 0.5, 10.0]), [0.25, 0.5, 0.75])
    np.testing.assert_array_equal(
        standardised_errors([1, 1, -1, 0], 0.0, [2, 0, 0, 0]), [0.5, np.inf, -np.inf, -np.inf]
    )
    with pytest.raises(InputError):
        smallest_factor(errors, 0.0)
    with pytest.raises(InputError):
        standardised_errors([0.0], [0.0], [-1.0])


def test_the_bonus_of_a_linear_model_is_the_textbooks_and_meets_theorem_1():
    rows, curve = bonus_study(
        (4,), 1, (10, 100), likelihood="gaussian", problems=120, variants=("factorised, mean field",)
    )
    assert len(rows) == 4
    for row in rows:
        assert abs(row["c90"] - 1.2816) < 0.15  # 4,800 points of 120 problems
        assert row["theorem"] == 1.0
        assert row["uniform"] == 1.0
    shares = [row["covered"] for row in curve if row["samples"] == 100 and row["bonus"] == "sum of roots"]
    assert shares == sorted(shares)


def test_data_in_pieces_equal_data_at_once():
    rows, _ = bonus_study((3, 3), 1, (10, 40), likelihood="gaussian", problems=1, variants=("factorised, mean field",))
    problem = make_problem((3, 3), 1, 40, rng=np.random.default_rng([0, 7, 0]))
    guess = predicted(learn(problem, **VARIANTS["factorised, mean field"]), problem.test_features)
    errors = standardised_errors(problem.truth, guess.mean, guess.bonus)
    assert rows[2]["c95"] == pytest.approx(smallest_factor(errors, 0.95))


def test_one_early_zero_ends_the_papers_start_with_three_modes():
    features = [np.random.default_rng(mode).standard_normal((50, 3)) / 2 for mode in range(3)]
    learner = TensorRegression((3, 3, 3), 2, init="paper")
    learner.update(features, np.r_[0.0, np.ones(49)])
    guess = predicted(learner, features)
    assert max(abs(guess.mean).max(), guess.bonus.max()) < 1e-6
    rows = collapse_study(modes=(1, 3), rates=(0.2,), runs=25)
    share = {(row["modes"], row["start"]): row["collapsed"] for row in rows}
    first = {row["modes"]: row["first_zero"] for row in rows}
    assert abs(share[3, "paper"] - first[3]) <= 0.08
    assert share[1, "paper"] == share[3, "ones"] == share[3, "random"] == 0.0
