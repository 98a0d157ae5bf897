"""Learning: ``update(settings, state, …)`` gives a new state and leaves the old one as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64
from tensorucb.errors import InputError
from tensorucb.learner._check import check_features, check_groups, check_outcomes
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState


@dataclass(frozen=True)
class UpdateReport:
    """How the last update went: samples learned, Gauss–Seidel sweeps in total, samples stopped by ``max_sweeps``."""

    samples: int = 0
    sweeps: int = 0
    unconverged: int = 0


def update(
    settings: TensorSettings,
    state: TensorState,
    features: Sequence[ArrayLike],
    y: ArrayLike,
    groups: Sequence[ArrayLike] | None = None,
) -> tuple[TensorState, UpdateReport]:
    """Learn the samples in order, each exactly once (Eqs. online_updating_Sigma_SigmaInv and muOnline).

    Parameters
    ----------
    settings, state
        The model and what it knows.
    features
        φ_l: one ``(N, d_l)`` array per mode.
    y
        ``(N,)`` outcomes.
    groups
        One array of ``N`` members for each group of intercepts.

    Returns
    -------
    tuple of TensorState and UpdateReport
        A new state; the given one is never touched.
    """
    arrays = check_features(settings, features)
    outcomes = check_outcomes(settings, y, len(arrays[0]))
    members = check_groups(settings, groups, len(arrays[0]))
    if not outcomes.size:
        return state, UpdateReport()
    w, S = _flat(state.means), _flat(state.covariances)
    mu, var = _flat(state.intercept_means), _flat(state.intercept_variances)
    offsets = np.concatenate([[0], np.cumsum(settings.intercepts)]).astype(np.int64)[: members.shape[1]]
    shape = np.array(settings.dims, dtype=np.int64), settings.rank
    posterior = w, S, mu, var
    prior = _flat(state.prior_means), np.array(settings.prior_variance), settings.intercept_variance
    stop = settings.tolerance, settings.max_sweeps
    from tensorucb.learner._kernels import learn_samples

    unconverged, sweeps = learn_samples(
        np.concatenate(arrays, axis=1), outcomes, members + offsets, shape, posterior, prior, state.n_samples,
        settings.likelihood == "logistic", settings.noise_variance, settings.forgetting, stop,
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


def _flat(parts: Sequence[F64]) -> F64:
    return np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)


def _split(flat: F64, like: Sequence[F64]) -> tuple[F64, ...]:
    ends = np.cumsum([part.size for part in like])
    return tuple(flat[end - part.size : end].reshape(part.shape) for part, end in zip(like, ends, strict=True))
