"""Are stated probabilities and intervals true? Coverage, reliability, calibration error, Brier and log loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError, ShapeError

Floats = NDArray[np.float64]
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Coverage:
    """How often central intervals hold the truth.

    Attributes
    ----------
    levels
        Nominal levels.
    empirical
        Share of the points whose interval of that level holds the truth.
    low, high
        90 % binomial interval of ``empirical``, which takes the points as independent.
    width
        Mean width of the intervals, on the scale of the truth.
    count
        Number of points.
    """

    levels: Floats
    empirical: Floats
    low: Floats
    high: Floats
    width: Floats
    count: int


@dataclass(frozen=True)
class Reliability:
    """Mean prediction and observed rate of each (non-empty) bin, with a binomial interval of the rate."""

    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    count: NDArray[np.int64]


@dataclass(frozen=True)
class Decomposition:
    """A proper score and its parts: ``score = reliability − resolution + uncertainty + within``, exactly.

    ``reliability`` is what miscalibration costs (0 is best), ``resolution`` what telling cases apart gains,
    ``uncertainty`` the score of the constant base rate, and ``within`` what bins of finite width leave over.
    """

    score: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float


def normal_quantile(levels: ArrayLike) -> Floats:
    """Half-width z of a central normal interval of each level."""
    from scipy.special import ndtri

    values = np.asarray(levels, dtype=np.float64)
    if values.size == 0 or values.min() <= 0.0 or values.max() >= 1.0:
        raise InputError(f"levels must lie strictly between 0 and 1; got {levels!r}.")
    return np.asarray(ndtri(0.5 + 0.5 * values), dtype=np.float64)


def binomial_interval(successes: ArrayLike, trials: ArrayLike, *, level: float = 0.9) -> tuple[Floats, Floats]:
    """Clopper and Pearson's interval of a rate: never too narrow."""
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    if np.any(n < 1) or np.any(k < 0) or np.any(k > n) or not 0.0 < level < 1.0:
        raise InputError(f"need 0 ≤ successes ≤ trials, trials ≥ 1 and 0 < level < 1; got level {level!r}.")
    tail = 0.5 - 0.5 * level
    low = np.where(k > 0, betaincinv(np.maximum(k, 1e-9), n - k + 1, tail), 0.0)
    high = np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1e-9), 1.0 - tail), 1.0)
    return np.asarray(low), np.asarray(high)


def interval_coverage(
    mean: ArrayLike, variance: ArrayLike, truth: ArrayLike, *, levels: Sequence[float] = LEVELS, link: str = "identity"
) -> Coverage:
    """Coverage of ``link(mean ± z·√variance)`` over ``levels``.

    Parameters
    ----------
    mean, variance
        Of the latent score, one per point.
    truth
        The true score (``link="identity"``) or the true rate (``"sigmoid"`` and ``"clip"``).
    """
    mu, var, true = (np.asarray(x, dtype=np.float64) for x in (mean, variance, truth))
    if not mu.shape == var.shape == true.shape or mu.ndim != 1 or mu.size == 0:
        raise ShapeError(f"mean, variance and truth must be of one length; got {mu.shape}, {var.shape}, {true.shape}.")
    if var.min() < 0.0:
        raise InputError(f"variances cannot be negative; got {var.min():g}.")
    half = normal_quantile(levels)[:, None] * np.sqrt(var)
    low, high = (apply_link(mu + side * half, link) for side in (-1.0, 1.0))
    # A rate that went through a sigmoid and back is off by rounding, and must not count as outside.
    slack = 1e-12 * (1.0 + abs(true))
    inside = (low - slack <= true) & (true <= high + slack)
    bounds = binomial_interval(inside.sum(axis=1), true.size)
    return Coverage(
        np.asarray(levels, dtype=np.float64), inside.mean(axis=1), *bounds, (high - low).mean(axis=1), true.size
    )


def apply_link(score: Floats, link: str) -> Floats:
    """The latent score on the scale of the truth."""
    if link == "identity":
        return score
    if link == "clip":
        return np.clip(score, 0.0, 1.0)
    if link == "sigmoid":
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * score)))
    raise InputError(f"link must be 'identity', 'sigmoid' or 'clip'; got {link!r}.")


def reliability(
    probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 10, strategy: str = "quantile", level: float = 0.9
) -> Reliability:
    """Predicted probability against observed rate.

    Parameters
    ----------
    outcomes
        0 or 1, or rates in [0, 1]; for rates the binomial interval is wider than need be.
    strategy
        ``"quantile"``: bins of equal counts, which suit small rates. ``"uniform"``: bins of equal width.
    """
    p, y = _pairs(probabilities, outcomes)
    number = _bin_numbers(p, bins, strategy)
    count = np.bincount(number)
    used = count > 0
    n = count[used]
    predicted, hits = (np.bincount(number, weights=x)[used] for x in (p, y))
    low, high = binomial_interval(np.minimum(hits, n), n, level=level)
    return Reliability(predicted / n, hits / n, low, high, n)


def expected_calibration_error(
    probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 10, strategy: str = "quantile"
) -> float:
    """Mean distance between predicted probability and observed rate over bins, weighted by their counts."""
    found = reliability(probabilities, outcomes, bins=bins, strategy=strategy)
    return float(np.average(abs(found.predicted - found.observed), weights=found.count))


def brier_score(
    probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 10, strategy: str = "quantile"
) -> Decomposition:
    """Mean of ``(p − y)²`` and Murphy's decomposition over bins."""
    p, y = _pairs(probabilities, outcomes)
    found = reliability(p, y, bins=bins, strategy=strategy)
    base = y.mean()
    calibration = float(np.average((found.predicted - found.observed) ** 2, weights=found.count))
    resolution = float(np.average((found.observed - base) ** 2, weights=found.count))
    return _decomposed(float(np.mean((p - y) ** 2)), calibration, resolution, float(np.mean((y - base) ** 2)))


def log_loss(
    probabilities: ArrayLike, outcomes: ArrayLike, *, bins: int = 10, strategy: str = "quantile"
) -> Decomposition:
    """Mean of ``−y·ln p − (1−y)·ln(1−p)`` in nats and its decomposition over bins.

    A certain prediction that fails costs infinity: nothing is clipped.
    """
    p, y = _pairs(probabilities, outcomes)
    found = reliability(p, y, bins=bins, strategy=strategy)
    base = np.full(found.observed.shape, y.mean())
    calibration = float(np.average(_divergence(found.observed, found.predicted), weights=found.count))
    resolution = float(np.average(_divergence(found.observed, base), weights=found.count))
    uncertainty = float(_cross_entropy(base[0], base[0]))
    return _decomposed(float(np.mean(_cross_entropy(y, p))), calibration, resolution, uncertainty)


def _decomposed(score: float, calibration: float, resolution: float, uncertainty: float) -> Decomposition:
    rest = score - (calibration - resolution + uncertainty) if np.isfinite(score) else 0.0
    return Decomposition(score, calibration, resolution, uncertainty, rest)


def _cross_entropy(y: ArrayLike, p: ArrayLike) -> Floats:
    from scipy.special import xlog1py, xlogy

    return np.asarray(-xlogy(y, p) - xlog1py(1.0 - np.asarray(y), -np.asarray(p)), dtype=np.float64)


def _divergence(y: Floats, p: Floats) -> Floats:
    return _cross_entropy(y, p) - _cross_entropy(y, y)


def _pairs(probabilities: ArrayLike, outcomes: ArrayLike) -> tuple[Floats, Floats]:
    p, y = (np.asarray(x, dtype=np.float64) for x in (probabilities, outcomes))
    if p.shape != y.shape or p.ndim != 1 or p.size == 0:
        raise ShapeError(f"probabilities and outcomes must be of one length; got {p.shape} and {y.shape}.")
    for what, values in (("probabilities", p), ("outcomes", y)):
        if not (values.min() >= 0.0 and values.max() <= 1.0):
            raise InputError(f"{what} must lie in [0, 1]; got {values.min():g} to {values.max():g}.")
    return p, y


def _bin_numbers(p: Floats, bins: int, strategy: str) -> NDArray[np.int64]:
    if bins < 1:
        raise InputError(f"bins must be positive; got {bins!r}.")
    if strategy == "uniform":
        return np.minimum((p * bins).astype(np.int64), bins - 1)
    if strategy != "quantile":
        raise InputError(f"strategy must be 'quantile' or 'uniform'; got {strategy!r}.")
    # Equal predictions stay in one bin.
    edges = np.unique(np.quantile(p, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
    return np.searchsorted(edges, p, side="right").astype(np.int64)
