"""Ridge regression shared by all edges: a small precision matrix, solved afresh after each batch."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64
from tensorucb.threads import single_threaded_blas


def blank(dim: int, prior_variance: float) -> tuple[F64, F64]:
    """``M = I/τ`` and ``B = 0``."""
    return np.eye(dim) / prior_variance, np.zeros(dim)


def with_batch(precision: F64, moment: F64, features: F64, outcomes: F64, noise_variance: float) -> tuple[F64, F64]:
    """``M + Σxxᵀ/σ²`` and ``B + Σyx``, for the rows x of ``features``."""
    with single_threaded_blas():
        return precision + features.T @ features / noise_variance, moment + features.T @ outcomes


def covariance_of(precision: F64) -> F64:
    """The inverse of a precision matrix, also where features are so large that the prior is lost in rounding."""
    try:
        covariance = np.linalg.inv(precision)
    except np.linalg.LinAlgError:
        # Directions below the rounding are known by the rest alone.
        values, vectors = np.linalg.eigh(precision)
        floor = values[-1] * np.finfo(np.float64).eps * values.size
        covariance = (vectors / np.maximum(values, floor)) @ vectors.T
    return np.asarray((covariance + covariance.T) / 2.0)


def posterior(precision: F64, moment: F64, noise_variance: float) -> tuple[F64, F64]:
    """Coefficients ``θ = M⁻¹B/σ²`` and covariance ``M⁻¹``."""
    with single_threaded_blas():
        covariance = covariance_of(precision)
        return covariance @ moment / noise_variance, covariance
