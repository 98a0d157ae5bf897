"""Columns of features: standardised, and what users did in the past as logarithms.

Features and learner both need these, and neither may import the other.
"""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64

# Credits a user must have earned before the ratio to what was expected counts by half.
_SMOOTHING = 2.0


def standardised(values: F64) -> F64:
    """Columns with mean 0 and standard deviation 1, whatever their scale; constant columns become 0."""
    if not len(values):
        return values
    # The largest entry first, so that squares neither overflow nor vanish.
    peak = np.abs(values).max(axis=0)
    scaled = values / np.where(peak > 0.0, peak, 1.0)
    centred = scaled - scaled.mean(axis=0)
    deviation = centred.std(axis=0)
    # Rounding leaves a constant column with a deviation of about 1e-16.
    varies = deviation > 1e-12
    standard: F64 = np.where(varies, centred / np.where(varies, deviation, 1.0), 0.0)
    return standard


def expected_credit(credit: F64, exposure: F64) -> F64:
    """Credit that users of average influence would have earned with this exposure."""
    expected: F64 = exposure * (float(credit.sum()) / max(float(exposure.sum()), 1e-9))
    return expected


def log_ratio(credit: F64, expected: F64) -> F64:
    """Log of credit over what was expected, drawn to 0 while both are small."""
    ratio: F64 = np.log((credit + _SMOOTHING) / (expected + _SMOOTHING))
    return ratio


def taste_beyond_activity(taste: F64) -> F64:
    """``(n, k)``: log(1 + actions) by topic, beyond what the user's activity predicts."""
    activity, liking = np.log1p(taste.sum(axis=1, keepdims=True)), np.log1p(taste)
    beyond: F64 = liking - activity * (liking.mean(axis=0) / max(float(activity.mean()), 1e-9))
    return beyond
