"""Mean and interval over runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorucb.errors import InputError

__all__ = ["Interval", "mean_interval"]


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
    samples = np.asarray(values, dtype=np.float64)
    if samples.ndim == 0 or samples.shape[0] == 0:
        raise InputError("mean_interval needs at least one run.")
    if not 0.0 < level < 1.0:
        raise InputError(f"level must lie between 0 and 1; got {level!r}.")
    mean = samples.mean(axis=0)
    runs = samples.shape[0]
    if runs == 1:
        return Interval(mean, mean, mean)
    from scipy.special import stdtrit

    half = float(stdtrit(runs - 1, 0.5 + level / 2)) * samples.std(axis=0, ddof=1) / np.sqrt(runs)
    return Interval(mean, mean - half, mean + half)
