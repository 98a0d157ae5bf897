"""How many followers will respond: the policy's own predictive distribution, and how wide its interval has to be.

The mean is the policy's and nothing else. What a campaign adds is the width: it compares the responders of its closed
rounds with the intervals that the policy stated, and makes the next one so many times as wide (on the scale of
logarithms) as would have been right for the promised share of them (conformal prediction). Before there are rounds to
look back on, the interval is the policy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorucb.arrays import F64

# Misses in units of the stated half-width, as they are if the policy is right: those of a normal distribution.
_USUAL_MISSES = np.array([0.038, 0.115, 0.194, 0.276, 0.363, 0.459, 0.568, 0.7, 0.875, 1.192])
_THEIR_WEIGHT = 0.3  # of each of these, in rounds
_DISCOUNT = 0.98  # of older rounds, since the policy goes on learning
_HALF = 0.5
_ROUNDING = 1e-9
_LEAST_WIDTH = 0.05  # on the scale of logarithms


@dataclass(frozen=True)
class Forecast:
    """What a policy states of a round: expected responders, and the interval of the promised level."""

    mean: float
    low: float
    high: float

    def miss(self, responders: int) -> float:
        """How far the number was from the mean, in units of the half-width on that side."""
        below, above = self._widths()
        apart = float(np.log(responders + _HALF) - np.log(self.mean + _HALF))
        return apart / above if apart >= 0.0 else -apart / below

    def widened(self, factor: float, audience: int) -> tuple[float, float]:
        """The interval with both half-widths so many times as large; nobody but the audience can respond."""
        below, above = self._widths()
        centre = np.log(self.mean + _HALF)
        low, high = np.exp(centre - factor * below) - _HALF, np.exp(min(centre + factor * above, 50.0)) - _HALF
        # Numbers of users are whole: these are the smallest and the largest in between.
        first, last = np.ceil(low - _ROUNDING), np.floor(high + _ROUNDING)
        return float(np.clip(first, 0.0, audience)), float(np.clip(last, 0.0, audience))

    def _widths(self) -> tuple[float, float]:
        low, mean, high = (np.log(max(value, 0.0) + _HALF) for value in (self.low, self.mean, self.high))
        return max(float(mean - low), _LEAST_WIDTH), max(float(high - mean), _LEAST_WIDTH)


@dataclass(frozen=True)
class Outcome:
    """A closed round: what was stated, and how many responded."""

    forecast: Forecast
    responders: int


def stated(mean: float, weights: F64, counts: F64, audience: int, level: float) -> Forecast:
    """A forecast with this mean, and the interval of a mixture of binomials with these weights and expected counts."""
    low, high = (_quantile(weights, counts, audience, share) for share in ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return Forecast(mean, min(low, mean), max(high, mean))


def _quantile(weights: F64, counts: F64, audience: int, share: float) -> float:
    from scipy.special import bdtr

    rates = np.clip(counts / audience, 0.0, 1.0 - 1e-12)
    low, high = 0, audience
    while low < high:
        middle = (low + high) // 2
        if float(weights @ bdtr(middle, audience, rates)) >= share:
            high = middle
        else:
            low = middle + 1
    return float(low)


def width_factor(past: Sequence[Outcome], level: float) -> float:
    """How many times as wide as stated an interval must be to hold ``level`` of the numbers; rounds oldest first."""
    misses = np.array([*_USUAL_MISSES, *(outcome.forecast.miss(outcome.responders) for outcome in past)])
    weights = np.append(np.full(_USUAL_MISSES.size, _THEIR_WEIGHT), _DISCOUNT ** np.arange(len(past))[::-1])
    order = np.argsort(misses, kind="stable")
    # Each miss stands for the middle of its share.
    middle = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    return float(np.interp(level, middle, misses[order]))
