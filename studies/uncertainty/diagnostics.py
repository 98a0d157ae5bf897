"""Have the chains converged? Split R-hat and effective sample size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import ShapeError

Floats = NDArray[np.float64]


def _halves(draws: ArrayLike) -> Floats:
    """(…, chains, draws) -> (…, 2·chains, draws/2)."""
    values = np.asarray(draws, dtype=np.float64)
    if values.ndim < 2 or values.shape[-1] < 8:
        raise ShapeError(f"draws must be (…, chains, draws) with at least 8 draws; got {values.shape}.")
    half = values.shape[-1] // 2
    return np.concatenate([values[..., :half], values[..., -half:]], axis=-2)


def _variances(values: Floats) -> tuple[Floats, Floats]:
    """Mean variance within the chains, and the estimate of the total variance."""
    n = values.shape[-1]
    within = values.var(axis=-1, ddof=1).mean(axis=-1)
    between = values.mean(axis=-1).var(axis=-1, ddof=1)
    return within, within * (n - 1) / n + between


def split_rhat(draws: ArrayLike) -> Floats:
    """Gelman and Rubin's R-hat over the halves of chains; (…, chains, draws) in, one number a quantity out."""
    within, total = _variances(_halves(draws))
    return np.asarray(np.sqrt(total / np.where(within > 0.0, within, 1.0)))


def effective_sample_size(draws: ArrayLike) -> Floats:
    """Effective sample size from split chains, by Geyer's initial monotone sequence."""
    values = _halves(draws)
    chains, n = values.shape[-2:]
    within, total = _variances(values)
    centred = values - values.mean(axis=-1, keepdims=True)
    spectrum = abs(np.fft.rfft(centred, 2 * n, axis=-1)) ** 2
    covariance = np.fft.irfft(spectrum, 2 * n, axis=-1)[..., :n].mean(axis=-2) / n
    safe = np.where(total > 0.0, total, 1.0)[..., None]
    rho = 1.0 - (within[..., None] - covariance * n / (n - 1)) / safe
    rho[..., 0] = 1.0
    pairs = rho[..., : n - n % 2].reshape(*rho.shape[:-1], -1, 2).sum(axis=-1)
    # Sums of neighbouring autocorrelations are positive and falling in theory: cut where they are not.
    alive = np.cumprod(pairs > 0.0, axis=-1)
    tau = 2.0 * (np.minimum.accumulate(pairs, axis=-1) * alive).sum(axis=-1) - 1.0
    size = chains * n
    return np.asarray(size / np.maximum(tau, 1.0 / np.log10(size)))
