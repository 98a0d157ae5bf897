"""Mean and interval over runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.checks import check_numbers, check_share
from tensorucb.errors import InputError


@dataclass(frozen=True)
class Interval:
    """A mean over runs with its interval; arrays of one shape, or numbers."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    def row(self) -> dict[str, Any]:
        """The three as plain numbers."""
        return {"mean": float(self.mean), "low": float(self.low), "high": float(self.high)}


def mean_interval(values: ArrayLike, *, level: float = 0.9) -> Interval:
    """Mean over the first axis (runs) and Student's interval for it.

    With one run there is nothing to estimate a spread from, and the interval is the mean itself.
    """
    samples = check_numbers("values", values)
    if samples.ndim == 0 or samples.shape[0] == 0:
        raise InputError("values must hold at least one run; got none.")
    level = check_share("level", level, zero=False, one=False)
    mean = samples.mean(axis=0)
    runs = samples.shape[0]
    if runs == 1:
        return Interval(mean, mean, mean)
    from scipy.special import stdtrit

    half = float(stdtrit(runs - 1, 0.5 + level / 2)) * samples.std(axis=0, ddof=1) / np.sqrt(runs)
    return Interval(mean, mean - half, mean + half)
