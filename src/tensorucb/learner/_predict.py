"""Reading the posterior: predictive mean and variance, the confidence bonus, and draws of W."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.arrays import F64
from tensorucb.learner._check import check_features, check_groups
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState
from tensorucb.rng import RngLike, as_generator

_ROWS = 8192


@dataclass(frozen=True)
class Draw:
    """One W drawn from the posterior.

    Attributes
    ----------
    means
        ``(R, d_l)`` drawn coefficients of each mode.
    intercepts
        Drawn intercepts, one array per group.
    """

    settings: TensorSettings
    means: tuple[F64, ...]
    intercepts: tuple[F64, ...]

    def score(self, features: Sequence[ArrayLike], groups: Sequence[ArrayLike] | None = None) -> F64:
        """(W, X) of each row: Σ_r Π_l φ_lᵀ w^{l,r} plus the intercepts."""
        arrays = check_features(self.settings, features)
        members = check_groups(self.settings, groups, len(arrays[0]))
        product = np.ones((len(arrays[0]), self.settings.rank))
        for x, w in zip(arrays, self.means, strict=True):
            product *= x @ w.T
        total: F64 = product.sum(axis=1)
        for column, values in zip(members.T, self.intercepts, strict=True):
            total += values[column]
        return total


@dataclass(frozen=True)
class _Rows:
    """Of some rows: a[l] = φᵀw̄ and V[l] = φᵀΣφ, each (n, R), and the intercepts' sum (n,) and variances (n, G)."""

    a: list[F64]
    V: list[F64]
    offset: F64
    offset_variances: F64

    def variances(self) -> list[F64]:
        """(βφ)ᵀΣ(βφ) of each mode and rank, (n, R) per mode."""
        return [
            np.prod([x for other, x in enumerate(self.a) if other != mode], axis=0) ** 2 * v
            for mode, v in enumerate(self.V)
        ]


def _read(state: TensorState, arrays: Sequence[F64], members: NDArray[np.int64]) -> _Rows:
    a, V = [], []
    for phi, w, S in zip(arrays, state.means, state.covariances, strict=True):
        half = np.tensordot(phi, S, axes=(1, 1))
        a.append(phi @ w.T)
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
    parts = [read(_read(state, [x[at : at + _ROWS] for x in arrays], members[at : at + _ROWS])) for at in starts]
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
        latent = np.sum([v.sum(axis=1) for v in rows.variances()], axis=0)
        return np.stack([mean, latent + rows.offset_variances.sum(axis=1)])

    mean, variance = _over_rows(settings, state, features, groups, read)
    return mean, variance + (settings.noise_variance if settings.likelihood == "gaussian" else 0.0)


def bonus(
    settings: TensorSettings,
    state: TensorState,
    features: Sequence[ArrayLike],
    groups: Sequence[ArrayLike] | None = None,
) -> F64:
    """Eq. CB_ij without c: Σ_l Σ_r √((βφ)ᵀΣ(βφ)), plus one square root per group of intercepts."""

    def read(rows: _Rows) -> F64:
        roots = np.concatenate([*rows.variances(), rows.offset_variances], axis=1)
        total: F64 = np.sqrt(roots).sum(axis=1)
        return total

    return _over_rows(settings, state, features, groups, read)


def sample(settings: TensorSettings, state: TensorState, rng: RngLike) -> Draw:
    """One W drawn from q, and one value for each intercept."""
    generator = as_generator(rng)
    means = []
    for w, S in zip(state.means, state.covariances, strict=True):
        means.append(w + np.einsum("rij,rj->ri", np.linalg.cholesky(S), generator.standard_normal(w.shape)))
    intercepts = tuple(
        mu + np.sqrt(var) * generator.standard_normal(mu.size)
        for mu, var in zip(state.intercept_means, state.intercept_variances, strict=True)
    )
    return Draw(settings, tuple(means), intercepts)
