"""Learning: ``update(settings, state, …)`` gives a new state and leaves the old one as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError
from tensorucb.learner._check import check_features, check_groups, check_outcomes
from tensorucb.learner._settings import TensorSettings
from tensorucb.learner._state import TensorState

__all__ = ["UpdateReport", "update"]

F64 = NDArray[np.float64]


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
        φ_l: one ``(N, d_l)`` array a mode.
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
    scales = state.feature_scales or _scales_of(arrays)
    phi = np.concatenate([x * scale for x, scale in zip(arrays, scales, strict=True)], axis=1)
    w, S = _flat(state.means), _flat(state.covariances)
    mu, var = _flat(state.intercept_means), _flat(state.intercept_variances)
    offsets = np.concatenate([[0], np.cumsum(settings.intercepts)]).astype(np.int64)[: members.shape[1]]
    unconverged, sweeps = _kernel(settings.posterior)(
        phi, outcomes, members + offsets, np.array(settings.dims, dtype=np.int64), settings.rank,
        w, S, _flat(state.prior_means), np.array(settings.prior_variance), mu, var,
        float(settings.intercept_variance), state.n_samples, settings.likelihood == "logistic",
        float(settings.noise_variance), settings.second_moments == "full", float(settings.forgetting),
        float(settings.tolerance), settings.max_sweeps,
    )  # fmt: skip
    if not (np.isfinite(w).all() and np.isfinite(S).all()):
        raise InputError(
            "the update overflowed, so nothing was learned: the features or outcomes are too large. "
            "Scale them to about unit norm, or pass scale='first_batch'."
        )
    learned = replace(
        state,
        means=_split(w, state.means),
        covariances=_split(S, state.covariances),
        n_samples=state.n_samples + outcomes.size,
        feature_scales=scales,
        intercept_means=_split(mu, state.intercept_means),
        intercept_variances=_split(var, state.intercept_variances),
    )
    return learned, UpdateReport(samples=outcomes.size, sweeps=int(sweeps), unconverged=int(unconverged))


def _kernel(posterior: str) -> Any:
    if posterior == "joint":
        from tensorucb.learner.joint._kernels import learn_joint

        return learn_joint
    from tensorucb.learner._kernels import learn_factorised

    return learn_factorised


def _scales_of(arrays: Sequence[F64]) -> tuple[float, ...]:
    """One over the largest row norm of each mode (1 where a mode is all zeros)."""
    norms = [float(np.sqrt(np.einsum("ni,ni->n", x, x).max())) for x in arrays]
    return tuple(1.0 / norm if norm > 0.0 else 1.0 for norm in norms)


def _flat(parts: Sequence[F64]) -> F64:
    return np.concatenate([part.ravel() for part in parts]) if parts else np.empty(0)


def _split(flat: F64, like: Sequence[F64]) -> tuple[F64, ...]:
    ends = np.cumsum([part.size for part in like])
    return tuple(flat[end - part.size : end].reshape(part.shape) for part, end in zip(like, ends, strict=True))
