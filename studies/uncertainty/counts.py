"""How many of a source's edges respond: the predictive distribution of counts, and its randomised PIT."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from studies.uncertainty.calibration import apply_link
from tensorucb._kernels import kernel
from tensorucb.errors import InputError, ShapeError
from tensorucb.rng import RngLike, as_generator

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The trapezoidal rule converges faster than any power on a normal weight, and unlike Gauss-Hermite nodes of that number
# it is fine everywhere: with many edges the distribution given the shift is a steep step in the shift.
_REACH, _STEPS = 6.5, 104


def count_probabilities(offsets: ArrayLike, probabilities: ArrayLike, counts: ArrayLike) -> tuple[Floats, Floats]:
    """P(K < count) and P(K = count) for K successes of independent coins, by group; exact for any number of coins.

    Parameters
    ----------
    offsets
        Group g has the coins ``offsets[g]`` to ``offsets[g + 1] − 1``.
    probabilities
        Rate of each coin.
    counts
        One a group, from 0 to the group's number of coins.
    """
    p = np.ascontiguousarray(probabilities, dtype=np.float64)
    starts, asked = _checked(offsets, counts, p)
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise InputError(f"probabilities must lie in [0, 1]; got {p.min():g} to {p.max():g}.")
    return _masses(starts, p, asked)


def predictive_counts(
    offsets: ArrayLike, mean: ArrayLike, deviation: ArrayLike, counts: ArrayLike, *, link: str = "sigmoid"
) -> tuple[Floats, Floats]:
    """P(K < count) and P(K = count) when a group's scores share one normal error.

    An edge responds with probability ``link(mean + ε·deviation)``; ε ~ N(0, 1) is one for all edges of a group, and
    given it they respond independently. Deterministic: the trapezoidal rule over ε, exact counts at each node.

    Parameters
    ----------
    offsets, counts
        As in :func:`count_probabilities`.
    mean, deviation
        Of each edge's latent score.
    """
    mu, sd = (np.ascontiguousarray(x, dtype=np.float64) for x in (mean, deviation))
    starts, asked = _checked(offsets, counts, mu)
    if sd.shape != mu.shape:
        raise ShapeError(f"mean and deviation must be of one length; got {mu.shape} and {sd.shape}.")
    if not (np.isfinite(mu).all() and np.isfinite(sd).all() and (sd >= 0.0).all()):
        raise InputError("means and deviations must be finite, and deviations not negative.")
    nodes = np.linspace(-_REACH, _REACH, _STEPS + 1)
    weights = np.exp(-0.5 * nodes**2)
    below, at = np.zeros(asked.size), np.zeros(asked.size)
    for node, weight in zip(nodes, weights / weights.sum(), strict=True):
        lower, here = _masses(starts, apply_link(mu + node * sd, link), asked)
        below += weight * lower
        at += weight * here
    return below, at


def randomised_pit(below: ArrayLike, at: ArrayLike, *, rng: RngLike = 0) -> Floats:
    """``P(K < k) + U·P(K = k)`` with U uniform: uniform itself if the distribution is right, though K is discrete."""
    low, mass = (np.asarray(x, dtype=np.float64) for x in (below, at))
    if low.shape != mass.shape:
        raise ShapeError(f"below and at must be of one shape; got {low.shape} and {mass.shape}.")
    slack = 1e-9
    if low.size and (min(low.min(), mass.min()) < -slack or (low + mass).max() > 1.0 + slack):
        raise InputError("below and at must be probabilities whose sum is at most 1.")
    return np.clip(low + as_generator(rng).random(low.shape) * mass, 0.0, 1.0)


def _masses(offsets: Ints, p: Floats, counts: Ints) -> tuple[Floats, Floats]:
    below, at = np.empty(counts.size), np.empty(counts.size)
    count_masses(offsets, p, counts, np.empty(int(counts.max(initial=0)) + 1), below, at)
    return below, at


def _checked(offsets: ArrayLike, counts: ArrayLike, values: Floats) -> tuple[Ints, Ints]:
    starts, asked = np.ascontiguousarray(offsets, dtype=np.int64), np.ascontiguousarray(counts)
    if values.ndim != 1 or starts.ndim != 1 or asked.shape != (starts.size - 1,):
        raise ShapeError(f"need one count a group and offsets one longer; got {asked.shape} and {starts.shape}.")
    sizes = np.diff(starts)
    if starts[0] != 0 or starts[-1] != values.size or (sizes < 0).any():
        raise InputError(f"offsets must rise from 0 to the number of edges, {values.size}.")
    if (asked < 0).any() or (asked > sizes).any() or (asked != np.rint(asked)).any():
        raise InputError("counts must be whole numbers from 0 to the group's number of edges.")
    return starts, asked.astype(np.int64)


@kernel
def count_masses(offsets: Ints, p: Floats, counts: Ints, pmf: Floats, below: Floats, at: Floats) -> None:
    """``below[g] = P(K < c)`` and ``at[g] = P(K = c)``, exactly: counts beyond c are let go, as they never return.

    ``offsets`` splits the coins of rates ``p`` into groups; ``counts`` has one count c per group; ``pmf`` is scratch,
    P(k successes so far) for k = 0..c.
    """
    for group in range(counts.size):
        c, top = counts[group], 0
        pmf[0] = 1.0
        pmf[1 : c + 1] = 0.0
        for coin in range(offsets[group], offsets[group + 1]):
            q = p[coin]
            rest = 1.0 - q
            top = min(top + 1, c)
            for k in range(top, 0, -1):
                pmf[k] = rest * pmf[k] + q * pmf[k - 1]
            pmf[0] *= rest
        total = 0.0
        for k in range(c):
            total += pmf[k]
        below[group], at[group] = total, pmf[c]
