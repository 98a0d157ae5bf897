"""The exact posterior of small tensor regressions by Markov chains, which shares no code with the learner.

Glossary
    B, C     problems of one shape, and chains a problem; everything runs over all B·C chains at once
    N, R, d  samples, rank, dimension of a mode
    phi      phi[l] (B, N, d) features;  w[l] (B, C, R, d) current coefficients;  w0[l] (B, 1, R, d) prior means
    a        a[l] (B, C, N, R) = φᵀw;  beta the product of a over the other modes

Given the other modes, u is linear in the R·d coefficients of a mode. With the Gaussian likelihood these are drawn from
their exact conditional (Gibbs); with the logistic one by elliptical slice sampling, which leaves it invariant. Flips of
two modes' signs, exchanges of ranks and changes of scale between modes leave the likelihood alone, so Metropolis moves
along them let a chain visit all the equivalent modes of the posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.calibration import apply_link
from studies.uncertainty.diagnostics import effective_sample_size, split_rhat
from studies.uncertainty.problems import RegressionProblem
from tensorucb.errors import InputError
from tensorucb.rng import RngLike, as_generator
from tensorucb.threads import single_threaded_blas

Floats = NDArray[np.float64]
_SCALE_STEP = 0.5


@dataclass(frozen=True)
class ChainModel:
    """Problems of one shape, stacked: what a sweep conditions on."""

    likelihood: str
    noise_variance: float
    prior_variance: float
    prior_means: list[Floats]
    features: list[Floats]
    outcomes: Floats

    @classmethod
    def stack(cls, problems: Sequence[RegressionProblem]) -> ChainModel:
        """The problems as one model; they must agree in everything but their numbers."""
        keys = {
            (p.likelihood, p.noise_variance, p.prior_variance, p.dims, p.rank, p.outcomes.size, p.truth.size)
            for p in problems
        }
        if len(keys) != 1:
            raise InputError(f"problems that are sampled together must be of one shape and prior; got {len(keys)}.")
        first, modes = problems[0], range(len(problems[0].dims))
        return cls(
            first.likelihood,
            first.noise_variance,
            first.prior_variance,
            [np.stack([p.prior_means[mode] for p in problems])[:, None] for mode in modes],
            [np.stack([p.features[mode] for p in problems]) for mode in modes],
            np.stack([p.outcomes for p in problems]),
        )


@dataclass(frozen=True)
class PosteriorDraws:
    """Draws of the score u at the test points of each problem, and how well the chains mixed.

    Attributes
    ----------
    scores
        ``(B, M, C, S)``: problem, test point, chain, draw.
    rhat, effective
        Split R-hat and effective sample size of each problem's worst test point.
    """

    scores: Floats
    rhat: Floats
    effective: Floats

    def flat(self, problem: int) -> Floats:
        """(M, C·S) draws of one problem."""
        draws: Floats = self.scores[problem].reshape(self.scores.shape[1], -1)
        return draws


def prior_draw(model: ChainModel, chains: int, rng: np.random.Generator) -> list[Floats]:
    """Coefficients of every chain from the prior."""
    root = model.prior_variance**0.5
    return [w0 + root * rng.standard_normal((w0.shape[0], chains, *w0.shape[2:])) for w0 in model.prior_means]


def sweep(model: ChainModel, w: list[Floats], rng: np.random.Generator) -> None:
    """One sweep over all modes and all moves, in place; it leaves the posterior invariant."""
    a = [_project(x, values) for x, values in zip(model.features, w, strict=True)]
    draw = _draw_gaussian if model.likelihood == "gaussian" else _slice_logistic
    for mode in range(len(w)):
        beta = np.prod([x for other, x in enumerate(a) if other != mode], axis=0) * np.ones_like(a[mode])
        w[mode] = draw(model, mode, w[mode], beta, rng)
        a[mode] = _project(model.features[mode], w[mode])
    if len(w) > 1:
        pair = rng.choice(len(w), size=2, replace=False)
        _flip_signs(model, w, int(pair[0]), int(pair[1]), rng)
        _rescale(model, w, int(pair[0]), int(pair[1]), rng)
    if w[0].shape[2] > 1:
        ranks = rng.choice(w[0].shape[2], size=2, replace=False)
        _exchange_ranks(model, w, int(ranks[0]), int(ranks[1]), rng)


def sample_posterior(
    problems: Sequence[RegressionProblem], *, chains: int = 4, warmup: int = 500, draws: int = 1000, rng: RngLike = None
) -> PosteriorDraws:
    """Draw the score u at each problem's test points from its exact posterior.

    Coefficients are known only up to signs, ranks and scales, so nothing but u is kept. Chains start from the prior.
    """
    model, generator = ChainModel.stack(problems), as_generator(rng)
    modes = range(len(problems[0].dims))
    tests = [np.stack([p.test_features[mode] for p in problems]) for mode in modes]
    scores = np.empty((draws, len(problems), chains, problems[0].truth.size))
    with single_threaded_blas():
        w = prior_draw(model, chains, generator)
        for step in range(warmup + draws):
            sweep(model, w, generator)
            if step >= warmup:
                products = [_project(x, values) for x, values in zip(tests, w, strict=True)]
                scores[step - warmup] = np.prod(products, axis=0).sum(axis=-1)
    found = np.ascontiguousarray(scores.transpose(1, 3, 2, 0))
    return PosteriorDraws(found, split_rhat(found).max(axis=1), effective_sample_size(found).min(axis=1))


def _project(phi: Floats, w: Floats) -> Floats:
    return np.asarray(np.matmul(phi[:, None], w.swapaxes(-1, -2)))


def _design(model: ChainModel, mode: int, beta: Floats) -> Floats:
    """Z (B, C, N, R·d): u = Z·vec(w) given the other modes."""
    phi = model.features[mode]
    return np.asarray((beta[..., None] * phi[:, None, :, None, :]).reshape(*beta.shape[:3], -1))


def _solve(P: Floats, h: Floats) -> Floats:
    return np.asarray(np.linalg.solve(P, h[..., None])[..., 0])


def _noise(P: Floats, rng: np.random.Generator) -> Floats:
    """A draw from N(0, P⁻¹)."""
    upper: Floats = np.asarray(np.linalg.cholesky(P).swapaxes(-1, -2), dtype=np.float64)
    return _solve(upper, rng.standard_normal(P.shape[:-1]))


def _prior_start(model: ChainModel, mode: int) -> Floats:
    w0 = model.prior_means[mode]
    return w0.reshape(w0.shape[0], 1, -1)


def _draw_gaussian(model: ChainModel, mode: int, w: Floats, beta: Floats, rng: np.random.Generator) -> Floats:
    """The mode's R·d coefficients from N(P⁻¹h, P⁻¹), P = ZᵀZ/σ² + I/v and h = Zᵀy/σ² + w₀/v."""
    Z = _design(model, mode, beta)
    Zt = Z.swapaxes(-1, -2)
    P = np.matmul(Zt, Z) / model.noise_variance + np.eye(Z.shape[-1]) / model.prior_variance
    h = np.matmul(Zt, model.outcomes[:, None, :, None])[..., 0] / model.noise_variance
    h = h + _prior_start(model, mode) / model.prior_variance
    return np.asarray((_solve(P, h) + _noise(P, rng)).reshape(w.shape))


def _gaussian_fit(model: ChainModel, Z: Floats, w0: Floats) -> tuple[Floats, Floats]:
    """Mean and precision of a Gaussian near the logistic conditional; a function of the other modes alone.

    One step of the Jaakkola–Jordan bound, which cannot overshoot, and two of Newton's method.
    """
    Zt, eye = Z.swapaxes(-1, -2), np.eye(Z.shape[-1]) / model.prior_variance
    y = model.outcomes[:, None]
    psi = np.sqrt(np.matmul(Z, w0[..., None])[..., 0] ** 2 + model.prior_variance * (Z**2).sum(axis=-1)) + 1e-9
    P = np.matmul(Zt * (np.tanh(0.5 * psi) / (2.0 * psi))[..., None, :], Z) + eye
    m = _solve(P, np.matmul(Zt, (y - 0.5)[..., None])[..., 0] + w0 / model.prior_variance)
    for _ in range(2):
        p = apply_link(np.matmul(Z, m[..., None])[..., 0], "sigmoid")
        P = np.matmul(Zt * (p * (1.0 - p))[..., None, :], Z) + eye
        m = m + _solve(P, np.matmul(Zt, (y - p)[..., None])[..., 0] - (m - w0) / model.prior_variance)
    return m, P


def _slice_logistic(model: ChainModel, mode: int, w: Floats, beta: Floats, rng: np.random.Generator) -> Floats:
    """Elliptical slice sampling (Murray, Adams, MacKay 2010) around a Gaussian fit, all chains side by side.

    The ellipse's Gaussian is divided out of the target, so that the fit's quality decides the speed alone.
    """
    Z, w0 = _design(model, mode, beta), _prior_start(model, mode)
    m, P = _gaussian_fit(model, Z, w0)
    here, there = w.reshape(m.shape) - m, _noise(P, rng)
    base, x, y = (np.matmul(Z, part[..., None])[..., 0] for part in (m, here, there))
    outcomes = np.broadcast_to(model.outcomes[:, None], base.shape)
    centre = m - w0
    forms = [np.einsum("bci,bcij,bcj->bc", f, P, g) for f, g in ((here, here), (here, there), (there, there))]

    def log_target(theta: Floats, at: NDArray[np.bool_]) -> Floats:
        c, s = np.cos(theta), np.sin(theta)
        score = base[at] + c[:, None] * x[at] + s[:, None] * y[at]
        away = centre[at] + c[:, None] * here[at] + s[:, None] * there[at]
        gaussian = c * c * forms[0][at] + 2.0 * c * s * forms[1][at] + s * s * forms[2][at]
        prior = (away**2).sum(axis=-1) / model.prior_variance
        return np.asarray(_log_likelihood(score, outcomes[at]) - 0.5 * prior + 0.5 * gaussian)

    theta = _slice_angles(log_target, base.shape[:2], rng)[..., None]
    return np.asarray((m + np.cos(theta) * here + np.sin(theta) * there).reshape(w.shape))


def _slice_angles(
    log_target: Callable[[Floats, NDArray[np.bool_]], Floats], shape: tuple[int, ...], rng: np.random.Generator
) -> Floats:
    """An angle on each chain's ellipse, by shrinking brackets; angle 0 is where the chain stands."""
    pending = np.ones(shape, dtype=bool)
    floor = log_target(np.zeros(pending.sum()), pending).reshape(shape) + np.log1p(-rng.random(shape))
    theta = rng.uniform(0.0, 2.0 * np.pi, shape)
    low, high = theta - 2.0 * np.pi, theta.copy()
    while pending.any():
        refused = pending.copy()
        refused[pending] = log_target(theta[pending], pending) < floor[pending]
        low = np.where(refused & (theta < 0.0), theta, low)
        high = np.where(refused & (theta >= 0.0), theta, high)
        theta = np.where(refused, rng.uniform(low, high), theta)
        pending = refused
    return theta


def _log_likelihood(score: Floats, outcomes: Floats) -> Floats:
    softplus = np.maximum(score, 0.0) + np.log1p(np.exp(-abs(score)))
    return np.asarray((outcomes * score - softplus).sum(axis=-1))


def _distance(model: ChainModel, mode: int, w: Floats) -> Floats:
    """−2·v·log prior of each rank of a mode: (B, C, R)."""
    return np.asarray(((w - model.prior_means[mode]) ** 2).sum(axis=-1))


def _accepts(
    model: ChainModel, change: Floats, rng: np.random.Generator, jacobian: Floats | float = 0.0
) -> NDArray[np.bool_]:
    """Metropolis for moves which leave the likelihood alone; ``change`` of the squared distance from w₀."""
    return np.asarray(np.log1p(-rng.random(change.shape)) < jacobian - 0.5 * change / model.prior_variance)


def _flip_signs(model: ChainModel, w: list[Floats], one: int, two: int, rng: np.random.Generator) -> None:
    change: Floats = np.sum(
        [_distance(model, mode, -w[mode]) - _distance(model, mode, w[mode]) for mode in (one, two)], axis=0
    )
    sign = np.where(_accepts(model, change, rng), -1.0, 1.0)[..., None]
    for mode in (one, two):
        w[mode] = sign * w[mode]


def _rescale(model: ChainModel, w: list[Floats], one: int, two: int, rng: np.random.Generator) -> None:
    step = _SCALE_STEP * rng.standard_normal(w[0].shape[:3])
    factors = {one: np.exp(step)[..., None], two: np.exp(-step)[..., None]}
    change: Floats = np.sum(
        [
            _distance(model, mode, w[mode] * factor) - _distance(model, mode, w[mode])
            for mode, factor in factors.items()
        ],
        axis=0,
    )
    jacobian = step * (w[one].shape[-1] - w[two].shape[-1])
    accepted = _accepts(model, change, rng, jacobian)[..., None]
    for mode, factor in factors.items():
        w[mode] = np.where(accepted, w[mode] * factor, w[mode])


def _exchange_ranks(model: ChainModel, w: list[Floats], one: int, two: int, rng: np.random.Generator) -> None:
    order = np.arange(w[0].shape[2])
    order[[one, two]] = two, one
    change: Floats = np.sum(
        [(_distance(model, m, x[:, :, order]) - _distance(model, m, x)).sum(axis=-1) for m, x in enumerate(w)], axis=0
    )
    accepted = _accepts(model, change, rng)[..., None, None]
    for mode, values in enumerate(w):
        w[mode] = np.where(accepted, values[:, :, order], values)
