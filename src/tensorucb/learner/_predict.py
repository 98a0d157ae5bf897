"""Reading the posterior: predictive mean and variance, the confidence bonus, and draws of W."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.learner._check import check_features, check_groups, require_scales
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState
from tensorucb.rng import RngLike, as_generator

__all__ = ["Draw", "bonus", "predict", "sample"]

F64 = NDArray[np.float64]
_ROWS = 8192


@dataclass(frozen=True)
class Draw:
    """One W drawn from the posterior.

    Attributes
    ----------
    means
        ``(R, d_l)`` drawn coefficients of each mode.
    intercepts
        Drawn intercepts, one array a group.
    """

    settings: TensorSettings
    means: tuple[F64, ...]
    intercepts: tuple[F64, ...]
    feature_scales: tuple[float, ...]

    def score(self, features: Sequence[ArrayLike], groups: Sequence[ArrayLike] | None = None) -> F64:
        """(W, X) of each row: Σ_r Π_l φ_lᵀ w^{l,r} plus the intercepts."""
        arrays = check_features(self.settings, features)
        members = check_groups(self.settings, groups, len(arrays[0]))
        product = np.ones((len(arrays[0]), self.settings.rank))
        for x, w, scale in zip(arrays, self.means, self.feature_scales, strict=True):
            product *= (x * scale) @ w.T
        total: F64 = product.sum(axis=1)
        for column, values in zip(members.T, self.intercepts, strict=True):
            total += values[column]
        return total


@dataclass(frozen=True)
class _Rows:
    """Of some rows: a[l] (n, R) = φᵀw̄, V[l] = φᵀΣφ as (n, R) or (n, R, R), and intercept variances (n, G)."""

    a: list[F64]
    V: list[F64]
    offset: F64
    offset_variances: F64

    def betas(self) -> list[F64]:
        """β of each mode, (n, R)."""
        return [
            np.prod([x for other, x in enumerate(self.a) if other != mode], axis=0) * np.ones_like(self.a[mode])
            for mode in range(len(self.a))
        ]

    def mode_variances(self) -> list[F64]:
        """(βφ)ᵀΣ(βφ): (n, R) a mode if factorised, (n, 1) a mode if joint."""
        if self.V[0].ndim == 2:
            return [beta**2 * v for beta, v in zip(self.betas(), self.V, strict=True)]
        forms = [np.einsum("nr,nrs,ns->n", b, v, b)[:, None] for b, v in zip(self.betas(), self.V, strict=True)]
        return [np.maximum(form, 0.0) for form in forms]

    def full_variance(self) -> F64:
        """The exact variance of Σ_r Π_l φᵀw under q: Σ_{rr'} Π(a a' + V_{rr'}) − Π a a'."""
        if self.V[0].ndim == 2:
            squares = [x**2 for x in self.a]
            moments = [x + v for x, v in zip(squares, self.V, strict=True)]
        else:
            squares = [x[:, :, None] * x[:, None, :] for x in self.a]
            moments = [x + v for x, v in zip(squares, self.V, strict=True)]
        difference = np.prod(moments, axis=0) - np.prod(squares, axis=0)
        total: F64 = difference.reshape(len(difference), -1).sum(axis=1)
        return np.maximum(total, 0.0)


def _read(settings: TensorSettings, state: TensorState, arrays: Sequence[F64], members: NDArray[np.int64]) -> _Rows:
    a, V = [], []
    for x, scale, w, S in zip(arrays, require_scales(state), state.means, state.covariances, strict=True):
        phi = x * scale
        d = phi.shape[1]
        a.append(phi @ w.T)
        if settings.posterior == "joint":
            blocks = S.reshape(settings.rank, d, settings.rank, d)
            half = np.tensordot(phi, blocks, axes=(1, 1))
            V.append(np.einsum("nrsj,nj->nrs", half, phi))
        else:
            half = np.tensordot(phi, S, axes=(1, 1))
            V.append(np.maximum(np.einsum("nrj,nj->nr", half, phi), 0.0))
    pairs = list(zip(members.T, state.intercept_means, state.intercept_variances, strict=True))
    offset = np.sum([mu[column] for column, mu, _ in pairs], axis=0) if pairs else np.zeros(len(members))
    spread = np.stack([var[column] for column, _, var in pairs], axis=1) if pairs else np.zeros((len(members), 0))
    return _Rows(a, V, offset, spread)


def _over_rows(
    settings: TensorSettings,
    state: TensorState,
    features: Sequence[ArrayLike],
    groups: Sequence[ArrayLike] | None,
    read: Callable[[_Rows], F64],
) -> F64:
    """``read`` on blocks of rows, so that memory stays bounded; rows of the result follow the features."""
    arrays = check_features(settings, features)
    members = check_groups(settings, groups, len(arrays[0]))
    starts = range(0, max(len(arrays[0]), 1), _ROWS)
    parts = [
        read(_read(settings, state, [x[at : at + _ROWS] for x in arrays], members[at : at + _ROWS])) for at in starts
    ]
    return np.concatenate(parts, axis=-1)


def predict(
    settings: TensorSettings,
    state: TensorState,
    features: Sequence[ArrayLike],
    groups: Sequence[ArrayLike] | None = None,
) -> tuple[F64, F64]:
    """Predictive mean ū and variance s̄² of each row (Eq. predictive_mean_variance)."""

    def read(rows: _Rows) -> F64:
        mean = np.prod(rows.a, axis=0).sum(axis=1) + rows.offset
        if settings.second_moments == "full":
            latent = rows.full_variance()
        else:
            latent = np.sum([v.sum(axis=1) for v in rows.mode_variances()], axis=0)
        return np.stack([mean, latent + rows.offset_variances.sum(axis=1)])

    mean, variance = _over_rows(settings, state, features, groups, read)
    return mean, variance + (settings.noise_variance if settings.likelihood == "gaussian" else 0.0)


def bonus(
    settings: TensorSettings,
    state: TensorState,
    features: Sequence[ArrayLike],
    groups: Sequence[ArrayLike] | None = None,
) -> F64:
    """Eq. CB_ij without c: Σ_l Σ_r √((βφ)ᵀΣ(βφ)); one root a mode if joint; plus one a group of intercepts."""

    def read(rows: _Rows) -> F64:
        roots = np.concatenate([*rows.mode_variances(), rows.offset_variances], axis=1)
        total: F64 = np.sqrt(roots).sum(axis=1)
        return total

    return _over_rows(settings, state, features, groups, read)


def sample(settings: TensorSettings, state: TensorState, rng: RngLike) -> Draw:
    """One W drawn from q, and one value for each intercept."""
    generator = as_generator(rng)
    means = []
    for w, S in zip(state.means, state.covariances, strict=True):
        if settings.posterior == "joint":
            step = np.linalg.cholesky(S) @ generator.standard_normal(w.size)
        else:
            step = np.einsum("rij,rj->ri", np.linalg.cholesky(S), generator.standard_normal(w.shape))
        means.append(w + step.reshape(w.shape))
    intercepts = tuple(
        mu + np.sqrt(var) * generator.standard_normal(mu.size)
        for mu, var in zip(state.intercept_means, state.intercept_variances, strict=True)
    )
    return Draw(settings, tuple(means), intercepts, require_scales(state))
