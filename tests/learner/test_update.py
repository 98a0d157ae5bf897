"""The kernels against literal NumPy, and the special cases that must hold to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from reference.learner import Reference, bilinear, linucb, paper_updates
from tensorucb.learner import TensorRegression

TIGHT = {"tolerance": 1e-14, "max_sweeps": 400}


def problem(seed, dims, n, scale=0.6):
    rng = np.random.default_rng(seed)
    features = [rng.normal(0, scale, (n, d)) for d in dims]
    return rng, features, rng.integers(0, 2, n).astype(float)


def assert_same(learner, reference, tolerance=1e-9):
    for got, want in zip(learner.state.means, reference.w, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)
    for got, want in zip(learner.state.covariances, reference.S, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)
    for got, want in zip(learner.state.intercept_means, reference.mu, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)
    for got, want in zip(learner.state.intercept_variances, reference.var, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
@pytest.mark.parametrize(("dims", "rank"), [((4,), 1), ((3, 2), 3), ((2, 4, 3), 2)])
def test_kernel_equals_literal_reference(likelihood, dims, rank):
    rng, features, y = problem(len(dims), dims, 8)
    start = [rng.normal(0, 0.7, (rank, d)) for d in dims]
    options = {"noise_variance": 0.4, "prior_variance": 0.8, **TIGHT}
    learner = TensorRegression(dims, rank, likelihood=likelihood, init=start, **options)
    logistic = likelihood == "logistic"
    reference = Reference(start, start, prior_variance=0.8, noise=0.4, logistic=logistic, tolerance=1e-13)
    learner.update(features, y)
    reference.update(features, y)
    assert learner.state.n_unconverged == 0
    assert_same(learner, reference)


@pytest.mark.parametrize("seed", range(10))
def test_random_shapes_equal_reference(seed):
    rng = np.random.default_rng(seed)
    dims = tuple(int(d) for d in rng.integers(1, 6, size=1 + seed % 5))
    rank = int(rng.integers(1, 5))
    _, features, y = problem(seed + 100, dims, 6, scale=0.9)
    start = [rng.normal(0, 0.8, (rank, d)) for d in dims]
    learner = TensorRegression(dims, rank, init=start, noise_variance=0.5, **TIGHT)
    reference = Reference(start, start, noise=0.5, tolerance=1e-13)
    learner.update(features, y)
    reference.update(features, y)
    assert_same(learner, reference)


@pytest.mark.parametrize("order", ["ranks", "modes"])
@pytest.mark.parametrize("sweeps", [1, 2, 7, 100])
def test_paper_start_equals_algorithm_1_to_the_letter(sweeps, order):
    dims, rank = (3, 2, 4), 2
    _, features, y = problem(3, dims, 6)
    stop = {"tolerance": 1e-300, "max_sweeps": sweeps}
    learner = TensorRegression(dims, rank, init="paper", noise_variance=0.1, order=order, **stop)
    assert all((w == 1.0).all() for w in learner.state.means)
    learner.update(features, y)
    means, covariances = paper_updates(dims, rank, features, y, 0.1, sweeps, order)
    for mode in range(3):
        np.testing.assert_allclose(learner.state.means[mode], means[mode], rtol=0, atol=1e-9)
        np.testing.assert_allclose(learner.state.covariances[mode], covariances[mode], rtol=0, atol=1e-9)


def test_one_mode_of_rank_one_is_linucb():
    _, (X,), y = problem(1, (6,), 200)
    learner = TensorRegression((6,), 1, init=[np.zeros((1, 6))], noise_variance=0.3)
    learner.update([X], y)
    theta, inverse = linucb(X, y, 0.3)
    np.testing.assert_allclose(learner.state.means[0][0], theta, atol=1e-9)
    np.testing.assert_allclose(learner.state.covariances[0][0], inverse, atol=1e-9)
    mean, variance = learner.predict([X])
    np.testing.assert_allclose(mean, X @ theta, atol=1e-9)
    np.testing.assert_allclose(variance, 0.3 + np.einsum("ni,ij,nj->n", X, inverse, X), atol=1e-9)
    np.testing.assert_allclose(learner.bonus([X]), np.sqrt(np.einsum("ni,ij,nj->n", X, inverse, X)), atol=1e-9)


def test_two_modes_are_the_bilinear_model():
    rng, (X, Z), y = problem(2, (3, 4), 12)
    u, v = rng.normal(size=3), rng.normal(size=4)
    learner = TensorRegression((3, 4), 1, init=[u[None], v[None]], noise_variance=0.5, tolerance=1e-14, max_sweeps=2000)
    learner.update([X, Z], y)
    want = bilinear(X, Z, y, u, v, 0.5)
    for got, expected in zip((*learner.state.means, *learner.state.covariances), want, strict=True):
        np.testing.assert_allclose(got[0], expected, atol=1e-9)


def test_one_hot_features_are_the_non_contextual_tensor():
    """Only the named entries of each factor learn, with diagonal covariances: a tensor of arms without context."""
    rng = np.random.default_rng(4)
    dims, rank = (3, 4, 2), 2
    index = [rng.integers(0, d, 30) for d in dims]
    start = [rng.normal(0, 0.8, (rank, d)) for d in dims]
    y = rng.random(30)
    learner = TensorRegression(dims, rank, init=start, noise_variance=0.5, **TIGHT)
    learner.update([np.eye(d)[i] for d, i in zip(dims, index, strict=True)], y)
    # Scalar Gaussians, one for each (mode, rank, entry), by precision and natural parameter.
    w = [x.copy() for x in start]
    precision = [np.ones_like(x) for x in start]
    for t in range(30):
        at = [int(i[t]) for i in index]
        w0, p0 = [x.copy() for x in w], [x.copy() for x in precision]
        for _ in range(400):
            for r in range(rank):
                for m in range(3):
                    beta = np.prod([w[o][:, at[o]] for o in range(3) if o != m], axis=0)
                    rest = (beta * w[m][:, at[m]]).sum() - beta[r] * w[m][r, at[m]]
                    precision[m][r, at[m]] = p0[m][r, at[m]] + beta[r] ** 2 / 0.5
                    natural = p0[m][r, at[m]] * w0[m][r, at[m]] + beta[r] * (y[t] - rest) / 0.5
                    w[m][r, at[m]] = natural / precision[m][r, at[m]]
    for m in range(3):
        np.testing.assert_allclose(learner.state.means[m], w[m], atol=1e-9)
        for r in range(rank):
            np.testing.assert_allclose(learner.state.covariances[m][r], np.diag(1 / precision[m][r]), atol=1e-9)


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_intercepts_equal_reference(likelihood):
    dims, rank = (2, 3, 2), 2
    rng, features, y = problem(6, dims, 12)
    groups = [rng.integers(0, 3, 12), rng.integers(0, 5, 12)]
    start = [rng.normal(0, 0.7, (rank, d)) for d in dims]
    learner = TensorRegression(
        dims, rank, likelihood=likelihood, init=start, noise_variance=0.5, prior_variance=0.5,
        intercepts=(3, 5), intercept_variance=0.4, **TIGHT,
    )  # fmt: skip
    reference = Reference(
        start, start, prior_variance=0.5, noise=0.5, logistic=likelihood == "logistic",
        sizes=(3, 5), intercept_variance=0.4, tolerance=1e-13,
    )  # fmt: skip
    learner.update(features, y, groups)
    reference.update(features, y, groups)
    assert_same(learner, reference)


def test_a_stopped_fixed_point_is_reported():
    _, features, y = problem(7, (3, 3), 10)
    learner = TensorRegression((3, 3), 2, rng=0, max_sweeps=1)
    learner.update(features, y)
    assert learner.state.n_unconverged == 10
    assert learner.state.n_samples == learner.state.n_sweeps == 10


def test_the_zero_trap_is_avoided():
    """Small features: zero prior means forget the signal, random ones find it."""
    rng = np.random.default_rng(0)
    features = [rng.normal(0, 0.3, (2000, 4)) for _ in range(3)]
    truth = [rng.normal(0, 3.0, (1, 4)) for _ in range(3)]
    y = np.prod([x @ w.T for x, w in zip(features, truth, strict=True)], axis=0)[:, 0]
    learner = TensorRegression((4, 4, 4), 2, rng=0)
    learner.update(features, y)
    mean, _ = learner.predict(features)
    assert np.corrcoef(mean, y)[0, 1] > 0.9
