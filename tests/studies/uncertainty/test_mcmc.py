from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from studies.uncertainty.diagnostics import effective_sample_size, split_rhat
from studies.uncertainty.mcmc import ChainModel, prior_draw, sample_posterior, sweep
from studies.uncertainty.problems import make_problem
from tensorucb.errors import InputError, ShapeError


def test_linear_gaussian_model_has_the_closed_form():
    problem = make_problem((4,), 1, 25, rng=0)
    found = sample_posterior([problem], chains=12, warmup=20, draws=1000, rng=1)
    X, v = problem.features[0], problem.prior_variance
    cov = np.linalg.inv(X.T @ X / problem.noise_variance + np.eye(4) / v)
    w = cov @ (X.T @ problem.outcomes / problem.noise_variance + problem.prior_means[0][0] / v)
    T = problem.test_features[0]
    draws, sd = found.flat(0), np.sqrt(np.einsum("ni,ij,nj->n", T, cov, T))
    assert abs((draws.mean(axis=1) - T @ w) / sd).max() < 0.05  # 12,000 draws: five standard errors
    assert abs(draws.std(axis=1) / sd - 1.0).max() < 0.04
    assert found.rhat[0] < 1.01
    assert found.effective[0] > 5000


def test_linear_logistic_model_equals_numerical_integration():
    problem = make_problem((1,), 1, 30, likelihood="logistic", rng=3)
    found = sample_posterior([problem], chains=16, warmup=50, draws=400, rng=1)
    grid = np.linspace(-8.0, 8.0, 20_001)
    u = problem.features[0] @ grid[None]
    y = problem.outcomes[:, None]
    log = (y * u - np.logaddexp(0.0, u)).sum(axis=0) - 0.5 * (grid - problem.prior_means[0][0, 0]) ** 2 / (
        problem.prior_variance
    )
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = (weight * grid).sum()
    sd = np.sqrt((weight * (grid - mean) ** 2).sum())
    at = problem.test_features[0][:, 0]
    draws = found.flat(0)
    assert abs((draws.mean(axis=1) - at * mean) / sd).max() < 0.06
    assert abs(draws.std(axis=1) / sd - 1.0).max() < 0.05


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
@pytest.mark.parametrize("shape", [((2, 3), 2), ((2, 1, 2), 2)])
def test_geweke_joint_distribution(likelihood, shape):
    """Outcomes given coefficients, then coefficients given outcomes: the coefficients stay draws from the prior.

    Every chain starts from the prior, so this is exact after any number of steps, however slowly chains mix.
    """
    (dims, rank), chains, steps = shape, 2500, 6
    rng = np.random.default_rng(5)
    problem = make_problem(dims, rank, 6, likelihood=likelihood, start_scale=0.6, rng=rng)
    model = ChainModel.stack([problem])
    # One problem a chain, since each has outcomes of its own.
    model = replace(
        model,
        prior_means=[np.repeat(w0, chains, axis=0) for w0 in model.prior_means],
        features=[np.repeat(x, chains, axis=0) for x in model.features],
    )
    w = prior_draw(model, 1, rng)
    for _ in range(steps):
        products = [np.einsum("bnd,bcrd->bnr", x, values) for x, values in zip(model.features, w, strict=True)]
        u = np.prod(products, axis=0).sum(axis=-1)
        if likelihood == "gaussian":
            y = u + problem.noise_variance**0.5 * rng.standard_normal(u.shape)
        else:
            y = (rng.random(u.shape) < 1.0 / (1.0 + np.exp(-u))).astype(float)
        model = replace(model, outcomes=y)
        sweep(model, w, rng)
    fresh = prior_draw(replace(model, prior_means=[np.repeat(x, 4, axis=0) for x in model.prior_means]), 1, rng)
    values = []
    for draw in (w, fresh):
        flat = np.concatenate([x.reshape(len(x), -1) for x in draw], axis=1)
        products = [draw[mode][:, 0, :, 0] for mode in range(len(dims))]
        extra = np.stack([np.prod(products, axis=0).sum(axis=1), (flat**2).sum(axis=1)], axis=1)
        values.append(np.concatenate([flat, extra], axis=1))
    p = [stats.ks_2samp(a, b).pvalue for a, b in zip(values[0].T, values[1].T, strict=True)]
    assert min(p) > 0.05 / len(p) / 5  # Bonferroni at 1 % over all quantities


def test_the_geweke_test_can_fail():
    """A sweep that believes in half the noise leaves the prior at once."""
    rng, chains = np.random.default_rng(5), 2500
    problem = make_problem((2, 2), 1, 6, start_scale=0.6, rng=rng)
    model = ChainModel.stack([problem])
    model = replace(
        model,
        prior_means=[np.repeat(w0, chains, axis=0) for w0 in model.prior_means],
        features=[np.repeat(x, chains, axis=0) for x in model.features],
    )
    w = prior_draw(model, 1, rng)
    before = (w[0] ** 2).sum(axis=(1, 2, 3))
    for _ in range(6):
        products = [np.einsum("bnd,bcrd->bnr", x, values) for x, values in zip(model.features, w, strict=True)]
        u = np.prod(products, axis=0).sum(axis=-1)
        y = u + problem.noise_variance**0.5 * rng.standard_normal(u.shape)
        model = replace(model, outcomes=y, noise_variance=problem.noise_variance / 4)
        sweep(model, w, rng)
    assert stats.ks_2samp((w[0] ** 2).sum(axis=(1, 2, 3)), before).pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_simulation_based_calibration(likelihood):
    """Truths come from the prior, so their ranks among posterior draws are uniform."""
    problems = [make_problem((2, 2), 2, 12, likelihood=likelihood, tests=1, rng=number) for number in range(400)]
    found = sample_posterior(problems, chains=1, warmup=200, draws=1000, rng=0)
    kept = found.scores[:, 0, 0, ::10]
    ranks = (kept < np.array([p.truth[0] for p in problems])[:, None]).sum(axis=1)
    counts = np.bincount(ranks * 10 // 101, minlength=10)
    assert stats.chisquare(counts).pvalue > 0.005


def test_problems_of_different_shapes_are_refused():
    with pytest.raises(InputError, match="one shape"):
        sample_posterior([make_problem((2,), 1, 5, rng=0), make_problem((2,), 1, 6, rng=0)], draws=10)


def test_the_same_seed_gives_the_same_draws():
    problems = [make_problem((2, 2), 1, 5, rng=number) for number in range(2)]
    one, two = (sample_posterior(problems, chains=2, warmup=5, draws=10, rng=4).scores for _ in range(2))
    np.testing.assert_array_equal(one, two)


def test_diagnostics_of_independent_and_of_correlated_draws():
    rng = np.random.default_rng(0)
    white = rng.standard_normal((3, 4, 2000))
    assert abs(split_rhat(white) - 1.0).max() < 0.01
    assert abs(effective_sample_size(white) / 8000 - 1.0).max() < 0.15
    rho, chain = 0.9, np.empty((4, 5000))
    chain[:, 0] = rng.standard_normal(4)
    for t in range(1, 5000):
        chain[:, t] = rho * chain[:, t - 1] + (1 - rho**2) ** 0.5 * rng.standard_normal(4)
    expected = 20_000 * (1 - rho) / (1 + rho)
    assert abs(effective_sample_size(chain) / expected - 1.0) < 0.25
    assert split_rhat(white[0] + np.arange(4)[:, None]) > 1.3
    with pytest.raises(ShapeError):
        split_rhat(np.zeros((2, 3)))
