"""Pure functions on a state: learning samples, prediction, the confidence bonus, and draws of W."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, Vectors
from tensorucb.errors import InputError
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState
from tensorucb.rng import RngLike, as_generator

# Rows read at a time, so that memory stays bounded.
_ROWS = 8192

Features = Sequence[ArrayLike]
Groups = Sequence[ArrayLike] | None


@dataclass(frozen=True)
class UpdateReport:
    """How the last update went: samples learned, Gauss–Seidel sweeps in total, samples stopped by ``max_sweeps``.

    Examples
    --------
    >>> from tensorucb.learner import TensorRegression
    >>> learner = TensorRegression((3, 2), 1, init="ones")
    >>> learner.update([[[1, 0, 0]], [[0, 1]]], [1.0])
    >>> learner.last_update.samples, learner.last_update.unconverged
    (1, 0)
    """

    samples: int = 0
    sweeps: int = 0
    unconverged: int = 0


def update(
    settings: TensorSettings, state: TensorState, features: Features, y: ArrayLike, groups: Groups = None
) -> tuple[TensorState, UpdateReport]:
    """Learn the samples in order, each exactly once (Eqs. online_updating_Sigma_SigmaInv and muOnline).

    See :meth:`TensorRegression.update` for the arguments. The result is a new state; the given one is never touched.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, update
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> state, report = update(settings, init(settings, "ones"), [[[1, 0, 0]], [[0, 1]]], [1.0])
    >>> state.n_samples
    1
    """
    from tensorucb.learner._kernels import learn_samples

    arrays, members = settings.checked_samples(features, groups)
    outcomes = settings.checked_outcomes(y, len(members))
    if not outcomes.size:
        return state, UpdateReport()
    w, S = _flat(state.means), _flat(state.covariances)
    mu, var = _flat(state.intercept_means), _flat(state.intercept_variances)
    # The kernel has the intercepts of all groups in one array.
    offsets = np.cumsum([0, *settings.intercepts], dtype=np.int64)[:-1]
    shape = np.array(settings.dims, dtype=np.int64), settings.rank
    prior = _flat(state.prior_means), np.array(settings.prior_variance), settings.intercept_variance
    unconverged, sweeps = learn_samples(
        np.concatenate(arrays, axis=1), outcomes, members + offsets, shape, (w, S, mu, var), prior, state.n_samples,
        settings.likelihood == "logistic", settings.noise_variance, settings.forgetting,
        (settings.tolerance, settings.max_sweeps),
    )  # fmt: skip
    if not (np.isfinite(w).all() and np.isfinite(S).all()):
        raise InputError(
            "the update overflowed, so nothing was learned: the features or outcomes are too large. "
            "Scale them to about unit norm."
        )
    learned = replace(
        state,
        means=_split(w, state.means),
        covariances=_split(S, state.covariances),
        n_samples=state.n_samples + outcomes.size,
        intercept_means=_split(mu, state.intercept_means),
        intercept_variances=_split(var, state.intercept_variances),
    )
    return learned, UpdateReport(samples=outcomes.size, sweeps=int(sweeps), unconverged=int(unconverged))


def _flat(parts: Vectors) -> F64:
    return np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)


def _split(flat: F64, like: Vectors) -> Vectors:
    ends = np.cumsum([part.size for part in like])
    return tuple(flat[end - part.size : end].reshape(part.shape) for part, end in zip(like, ends, strict=True))


def _moments(
    settings: TensorSettings, state: TensorState, features: Features, groups: Groups
) -> Iterator[tuple[F64, list[F64]]]:
    """Of blocks of n rows: ū, and the parts of its variance, (n, R) for each mode and (n, G) for the intercepts."""
    arrays, members = settings.checked_samples(features, groups)
    for at in range(0, max(len(members), 1), _ROWS):
        rows, a, V = slice(at, at + _ROWS), [], []
        for phi, w, S in zip((x[rows] for x in arrays), state.means, state.covariances, strict=True):
            half = np.tensordot(phi, S, axes=(1, 1))
            a.append(phi @ w.T)
            V.append(np.maximum(np.einsum("nrj,nj->nr", half, phi), 0.0))
        # β of a mode is the product of φᵀw̄ over the other modes; its part is (βφ)ᵀΣ(βφ).
        betas = [np.prod([x for other, x in enumerate(a) if other != mode], axis=0) for mode in range(len(a))]
        parts = [beta**2 * v for beta, v in zip(betas, V, strict=True)]
        mean, spread = np.prod(a, axis=0).sum(axis=1), np.empty(members[rows].shape)
        offset = np.zeros(len(mean))
        for g, column in enumerate(members[rows].T):
            offset += state.intercept_means[g][column]
            spread[:, g] = state.intercept_variances[g][column]
        yield mean + offset, [*parts, spread]


def predict(settings: TensorSettings, state: TensorState, features: Features, groups: Groups = None) -> tuple[F64, F64]:
    """Predictive mean ū and variance s̄² of each row (Eq. predictive_mean_variance).

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, predict
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> mean, variance = predict(settings, init(settings, "ones"), [[[1, 0, 0]], [[0, 1]]])
    >>> mean.tolist(), variance.round(3).tolist()
    ([1.0], [2.1])
    """
    means, variances = [], []
    for mean, (*modes, intercepts) in _moments(settings, state, features, groups):
        means.append(mean)
        variances.append(np.sum([v.sum(axis=1) for v in modes], axis=0) + intercepts.sum(axis=1))
    noise = settings.noise_variance if settings.likelihood == "gaussian" else 0.0
    return np.concatenate(means), np.concatenate(variances) + noise


def bonus(settings: TensorSettings, state: TensorState, features: Features, groups: Groups = None) -> F64:
    """Eq. CB_ij without c: Σ_l Σ_r √((βφ)ᵀΣ(βφ)), plus one square root per group of intercepts.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, bonus, init
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> bonus(settings, init(settings, "ones"), [[[1, 0, 0]], [[0, 1]]]).tolist()
    [2.0]
    """
    blocks = _moments(settings, state, features, groups)
    return np.concatenate([np.sqrt(np.concatenate(parts, axis=1)).sum(axis=1) for _, parts in blocks])


@dataclass(frozen=True)
class PosteriorDraw:
    """One W drawn from the posterior: ``(R, d_l)`` coefficients of each mode, and one array of intercepts per group.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, sample
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> draw = sample(settings, init(settings, "ones"), rng=0)
    >>> draw.score([[[1, 0, 0]], [[0, 1]]]).shape
    (1,)
    """

    settings: TensorSettings
    means: Vectors
    intercepts: Vectors

    def score(self, features: Features, groups: Groups = None) -> F64:
        """(W, X) of each row: Σ_r Π_l φ_lᵀ w^{l,r} plus the intercepts."""
        arrays, members = self.settings.checked_samples(features, groups)
        product = np.ones((len(members), self.settings.rank))
        for x, w in zip(arrays, self.means, strict=True):
            product *= x @ w.T
        total: F64 = product.sum(axis=1)
        for column, values in zip(members.T, self.intercepts, strict=True):
            total += values[column]
        return total


def sample(settings: TensorSettings, state: TensorState, rng: RngLike) -> PosteriorDraw:
    """One W drawn from q, and one value for each intercept.

    Examples
    --------
    >>> from tensorucb.learner import TensorSettings, init, sample
    >>> settings = TensorSettings.build((3, 2), 1)
    >>> draw = sample(settings, init(settings, "ones"), rng=0)
    >>> [w.shape for w in draw.means]
    [(1, 3), (1, 2)]
    """
    generator = as_generator(rng)
    means = [
        w + np.einsum("rij,rj->ri", np.linalg.cholesky(S), generator.standard_normal(w.shape))
        for w, S in zip(state.means, state.covariances, strict=True)
    ]
    intercepts = [
        mu + np.sqrt(var) * generator.standard_normal(mu.size)
        for mu, var in zip(state.intercept_means, state.intercept_variances, strict=True)
    ]
    return PosteriorDraw(settings, tuple(means), tuple(intercepts))
