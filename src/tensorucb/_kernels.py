"""What all kernels share: the compile options and the counter-based random stream (SplitMix64).

The stream of item ``i`` under ``key`` starts at ``state = stream(key, i)``; each draw is ``mix64(state)`` followed by
``state += GOLDEN``. In the code, ``z`` is such a 64-bit state on its way through the mixing steps.
"""

from __future__ import annotations

import numba
import numpy as np

KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S11 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(11)
_UNIT = 1.0 / 9007199254740992.0


@numba.njit(inline="always", cache=True)
def mix64(z):  # type: ignore[no-untyped-def]
    """SplitMix64's output function."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@numba.njit(inline="always", cache=True)
def stream(key, item):  # type: ignore[no-untyped-def]
    """First state of item's stream under key."""
    return mix64(key + (np.uint64(item) + np.uint64(1)) * GOLDEN)


@numba.njit(inline="always", cache=True)
def unit(z):  # type: ignore[no-untyped-def]
    """A uniform number in [0, 1) with 53 bits from 64 random ones."""
    return np.float64(z >> _S11) * _UNIT
