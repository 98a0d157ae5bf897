"""What the class promises around the update: prediction, draws, files, validation, and sound covariances."""

from __future__ import annotations

import enum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.learner import latent_variance
from tensorucb.errors import FileFormatError, InputError, ShapeError
from tensorucb.files import read_state, write_state
from tensorucb.learner import TensorRegression


def trained(n=60, dims=(3, 2, 4), rank=2, seed=0, **options):
    rng = np.random.default_rng(seed)
    features = [rng.normal(0, 0.7, (n, d)) for d in dims]
    y = rng.integers(0, 2, n).astype(float)
    groups = [rng.integers(0, size, n) for size in options.get("intercepts", ())]
    learner = TensorRegression(dims, rank, rng=seed, **options)
    learner.update(features, y, groups)
    return learner, features, y, groups


@pytest.mark.parametrize("likelihood", ["gaussian", "logistic"])
def test_predict_and_bonus_equal_the_formulas_row_by_row(likelihood):
    learner, features, _, groups = trained(likelihood=likelihood, intercepts=(5, 6), noise_variance=0.2)
    state = learner.state
    mean, variance = learner.predict(features, groups)
    bonus = learner.bonus(features, groups)
    for t in range(12):
        phi = [x[t] for x in features]
        a = [w @ x for w, x in zip(state.means, phi, strict=True)]
        var = [v[g[t]] for v, g in zip(state.intercept_variances, groups, strict=True)]
        want = np.prod(a, axis=0).sum() + sum(m[g[t]] for m, g in zip(state.intercept_means, groups, strict=True))
        assert mean[t] == pytest.approx(want, abs=1e-12)
        latent = latent_variance(phi, state.means, state.covariances)
        noise = 0.2 if likelihood == "gaussian" else 0.0
        assert variance[t] == pytest.approx(latent + sum(var) + noise, abs=1e-12)
        total = sum(np.sqrt(var))
        for m in range(3):
            beta = np.prod([a[o] for o in range(3) if o != m], axis=0)
            total += sum(np.sqrt(b * phi[m] @ S @ phi[m] * b) for b, S in zip(beta, state.covariances[m], strict=True))
        assert bonus[t] == pytest.approx(total, abs=1e-12)


def test_predict_over_many_rows_equals_predict_in_pieces():
    learner, *_ = trained()
    rng = np.random.default_rng(1)
    features = [rng.normal(size=(9000, d)) for d in (3, 2, 4)]
    mean, variance = learner.predict(features)
    part, spread = learner.predict([x[8000:] for x in features])
    np.testing.assert_allclose(mean[8000:], part, rtol=1e-13)
    np.testing.assert_allclose(variance[8000:], spread, rtol=1e-13)
    assert learner.predict([x[:0] for x in features])[0].shape == (0,)


def test_draws_have_the_posterior_moments():
    """20,000 draws: means within 5 standard errors, covariances within 5 % of the largest variance."""
    learner, features, _, groups = trained(intercepts=(3,), dims=(2, 2), rank=2)
    rng = np.random.default_rng(0)
    draws = [learner.sample(rng) for _ in range(20_000)]
    for mode in range(2):
        values = np.array([d.state.means[mode].ravel() for d in draws])
        S = learner.state.covariances[mode]
        full = np.block([[S[0], np.zeros((2, 2))], [np.zeros((2, 2)), S[1]]])
        error = 5 * np.sqrt(np.diag(full) / len(draws))
        assert (abs(values.mean(axis=0) - learner.state.means[mode].ravel()) < error).all()
        assert abs(np.cov(values.T) - full).max() < 0.05 * full.max()
    intercepts = np.array([d.state.intercept_means[0] for d in draws])
    np.testing.assert_allclose(intercepts.var(axis=0), learner.state.intercept_variances[0], rtol=0.05)
    scores = np.array([d.predict([x[:1] for x in features], [g[:1] for g in groups])[0][0] for d in draws])
    assert scores.mean() == pytest.approx(learner.predict(features, groups)[0][0], abs=5 * scores.std() / 141)
    same = [learner.sample(7).state.means[0] for _ in range(2)]
    assert (same[0] == same[1]).all()


@pytest.mark.parametrize("options", [{}, {"likelihood": "logistic", "intercepts": (4, 2)}])
def test_save_and_load_are_bit_identical_and_go_on_alike(tmp_path, options):
    learner, features, y, groups = trained(**options)
    learner.save(tmp_path / "learner.npz")
    again = TensorRegression.load(tmp_path / "learner.npz")
    assert again.settings() == learner.settings()
    for one in (learner, again):
        one.update(features, y, groups)
    for name in ("means", "covariances", "prior_means", "intercept_means", "intercept_variances"):
        for got, want in zip(getattr(again.state, name), getattr(learner.state, name), strict=True):
            assert got.tobytes() == want.tobytes()
    assert again.state.n_samples == learner.state.n_samples == 120


def test_a_file_with_foreign_arrays_or_settings_is_refused(tmp_path):
    learner, *_ = trained()
    learner.save(tmp_path / "a.npz")
    values, arrays = read_state(tmp_path / "a.npz", "tensor_regression")
    write_state(tmp_path / "b.npz", "tensor_regression", values, {**arrays, "means_0": np.zeros((1, 1))})
    with pytest.raises(FileFormatError, match="means_0"):
        TensorRegression.load(tmp_path / "b.npz")
    write_state(tmp_path / "c.npz", "tensor_regression", {**values, "rank": 0}, arrays)
    with pytest.raises(FileFormatError, match="rank"):
        TensorRegression.load(tmp_path / "c.npz")


def test_batches_do_not_matter():
    """Samples are learned one by one, so the cut into batches changes no bit."""
    one, features, y, _ = trained(n=50)
    other = TensorRegression((3, 2, 4), 2, rng=0)
    for piece in np.array_split(np.arange(50), 7):
        other.update([x[piece] for x in features], y[piece])
    for got, want in zip(
        one.state.means + one.state.covariances, other.state.means + other.state.covariances, strict=True
    ):
        assert got.tobytes() == want.tobytes()


def test_an_update_replaces_the_state_and_never_changes_it():
    learner, features, y, _ = trained()
    before = learner.state
    copies = [w.copy() for w in before.means + before.covariances]
    learner.update(features, y)
    assert (before.n_samples, learner.state.n_samples) == (60, 120)
    assert learner.state.n_sweeps > before.n_sweeps >= 60
    for got, want in zip(before.means + before.covariances, copies, strict=True):
        assert (got == want).all()


BAD = [
    (lambda f, y: (f[:2], y), ShapeError, "3 arrays"),
    (lambda f, y: ([f[0], f[1], f[2][:, :3]], y), ShapeError, r"\(N, 4\)"),
    (lambda f, y: ([f[0], f[1], f[2][:5]], y), ShapeError, "one length"),
    (lambda f, y: (f, y[:3]), ShapeError, "y must have shape"),
    (lambda f, y: ([f[0] * np.nan, f[1], f[2]], y), InputError, "finite"),
    (lambda f, y: (f, y * np.inf), InputError, "finite"),
    (lambda f, y: (f, y + 1), InputError, "logistic"),
    (lambda f, y: (f, ["x"] * len(y)), InputError, "numbers"),
    (lambda f, y: ([x * 1e200 for x in f], y), InputError, "in \\[-1e\\+12, 1e\\+12\\]"),
]


@pytest.mark.parametrize(("spoil", "error", "message"), BAD)
def test_bad_input_is_refused_and_nothing_is_learned(spoil, error, message):
    learner, features, y, _ = trained(likelihood="logistic")
    before = learner.state
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        learner.update(*spoil(features, y))
    assert learner.state is before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": ()}, "dims"),
        ({"dims": (0, 2)}, "dims"),
        ({"rank": 0}, "rank"),
        ({"likelihood": "probit"}, "likelihood"),
        ({"noise_variance": 0}, "noise_variance"),
        ({"prior_variance": -1.0}, "prior_variance"),
        ({"prior_variance": [1.0]}, "prior_variance"),
        ({"init": "zeros"}, "init"),
        ({"init": [np.zeros((2, 2))]}, "one per mode"),
        ({"init": [np.full((2, 2), np.nan), np.zeros((2, 3))]}, "finite"),
        ({"intercepts": (0,)}, "intercepts"),
        ({"order": "random"}, "order"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_sweeps": 0}, "max_sweeps"),
        ({"rng": -1}, "rng"),
        ({"dims": 5}, "dims must be a sequence"),
        ({"dims": "abc"}, "dims must be a sequence"),
        ({"dims": (2, 3.0)}, r"dims\[1\] must be a whole number"),
        ({"rank": "a"}, "rank"),
        ({"likelihood": np.ones(2)}, "likelihood"),
        ({"noise_variance": "a"}, "noise_variance"),
        ({"prior_variance": "a"}, "prior_variance"),
        ({"init": 5}, "init must be"),
        ({"init": ["a", "b"]}, r"init\[0\] must be"),
        ({"intercepts": 5}, "intercepts must be a sequence"),
        ({"intercepts": "ab"}, "intercepts must be a sequence"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        TensorRegression(**{"dims": (2, 3), "rank": 2, **options})


def test_settings_may_be_arrays(tmp_path):
    options = {"prior_variance": np.float64(2.0), "rank": np.int64(2), "noise_variance": np.float32(0.5)}
    learner = TensorRegression(dims=np.array([2, 3]), rng=0, **options)
    assert np.array_equal(np.diagonal(learner.state.covariances[1][0]), [2.0, 2.0, 2.0])
    learner.save(tmp_path / "a.npz")
    assert TensorRegression.load(tmp_path / "a.npz").settings() == learner.settings()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 1), "features must be a sequence"),
        (("ab", [1.0]), "features must be a sequence"),
        (([1.0, 1.0], [1.0]), r"features\[0\]"),
        (([[["a", "b"]], np.ones((1, 3))], [1.0]), r"features\[0\] must be an array of numbers"),
        (([np.ones((1, 2)), np.ones((1, 3))], "a"), "y must be an array of numbers"),
        (([np.ones((1, 2)), np.ones((1, 3))], [1.0], 5), "groups must be a sequence"),
    ],
)
def test_samples_that_are_no_arrays_are_refused(arguments, message):
    learner = TensorRegression((2, 3), 1, rng=0)
    before = learner.state
    with pytest.raises(InputError, match=message):
        learner.update(*arguments)
    assert learner.state is before


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    learner = TensorRegression((2, 3), 1, rng=0)
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file" / "a.npz", tmp_path):
        with pytest.raises(FileFormatError, match="cannot write"):
            learner.save(path)
    for call in (learner.save, TensorRegression.load):
        with pytest.raises(InputError, match="path must be"):
            call(5)


def test_numbers_of_other_kinds_become_plain_ones():
    # Otherwise kernels would compile again for each kind, and keep the kind in their cache on disk.
    class Rank(enum.IntEnum):
        TWO = 2

    learner = TensorRegression((np.int8(2), Rank.TWO), Rank.TWO, tolerance=np.float32(0.5), rng=0)
    assert [type(value) for value in (*learner.dims, learner.rank)] == [int, int, int]
    assert type(learner.tolerance) is float


def test_groups_are_checked():
    learner = TensorRegression((2,), 1, intercepts=(3,), rng=0)
    with pytest.raises(ShapeError, match="groups must be a sequence of 1"):
        learner.update([np.ones((2, 2))], [0.0, 1.0])
    with pytest.raises(InputError, match=r"0\.\.2"):
        learner.update([np.ones((2, 2))], [0.0, 1.0], [[0, 3]])
    with pytest.raises(InputError, match="whole numbers"):
        learner.update([np.ones((2, 2))], [0.0, 1.0], [[0.0, 1.0]])


def assert_sound(learner):
    for S in learner.state.covariances:
        assert (np.swapaxes(S, -1, -2) == S).all()
        np.linalg.cholesky(S)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    exponent=st.integers(-6, 7),
    likelihood=st.sampled_from(["gaussian", "logistic"]),
)
def test_covariances_stay_symmetric_positive_definite(seed, exponent, likelihood):
    """For features of any scale, repeated directions included; hopeless scales may be refused, never half-learned."""
    rng = np.random.default_rng(seed)
    features = [10.0**exponent * rng.normal(size=(3, d))[rng.integers(0, 3, 40)] for d in (3, 4)]
    learner = TensorRegression((3, 4), 2, likelihood=likelihood, rng=seed)
    try:
        learner.update(features, rng.integers(0, 2, 40))
    except InputError:
        assert exponent >= 4
        assert learner.state.n_samples == 0
    assert_sound(learner)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_more_data_never_widens_and_the_order_of_a_linear_model_is_free(seed):
    """With one mode the posterior is exact, so order is free; a sample never adds variance anywhere."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 4)), rng.random(20)
    order = rng.permutation(20)
    one, other = (TensorRegression((4,), 1, init=[np.zeros((1, 4))]) for _ in range(2))
    one.update([X], y)
    other.update([X[order]], y[order])
    np.testing.assert_allclose(one.state.means[0], other.state.means[0], atol=1e-10)
    before = one.state.covariances[0][0]
    one.update([X[:3]], y[:3])
    assert np.linalg.eigvalsh(before - one.state.covariances[0][0]).min() > -1e-12


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_the_order_of_modes_is_free_at_the_fixed_point_of_one_sample(seed):
    """The MAP fixed point near a strong prior mean is unique, so modes may be swapped."""
    rng = np.random.default_rng(seed)
    features = [rng.normal(0, 0.3, (1, d)) for d in (3, 4)]
    start = [rng.normal(1, 0.1, (1, d)) for d in (3, 4)]
    options = {"prior_variance": 0.01, "tolerance": 1e-14, "max_sweeps": 500}
    one = TensorRegression((3, 4), 1, init=start, **options)
    other = TensorRegression((4, 3), 1, init=start[::-1], **options)
    one.update(features, [1.0])
    other.update(features[::-1], [1.0])
    np.testing.assert_allclose(one.state.means[0], other.state.means[1], atol=1e-10)
    np.testing.assert_allclose(one.state.covariances[1], other.state.covariances[0], atol=1e-10)


def long_run(n, **options):
    rng = np.random.default_rng(0)
    learner = TensorRegression((5, 5, 5), 3, rng=0, **options)
    for _ in range(n // 50_000):
        features = [rng.normal(size=(50_000, 5)) for _ in range(3)]
        learner.update(features, rng.integers(0, 2, 50_000))
    assert learner.state.n_samples == n
    assert_sound(learner)
    assert all(np.isfinite(w).all() for w in learner.state.means)
    smallest = min(np.linalg.eigvalsh(S).min() for S in learner.state.covariances)
    assert smallest > 0.0


def test_covariances_stay_sound_over_many_updates():
    long_run(100_000)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"likelihood": "logistic"}])
def test_covariances_stay_sound_over_a_million_updates(options):
    long_run(1_000_000, **options)
