"""Random numbers: generators for Python code, 64-bit keys for kernels.

A kernel never touches global random state. It takes a *key* and derives the stream of item ``i`` (an RR set, a
cascade, a world) from ``(key, i)``, so results do not depend on how the items are spread over threads.
"""

from __future__ import annotations

import numpy as np

from tensorucb.errors import InputError

__all__ = ["RngLike", "as_generator", "stream_key"]

RngLike = int | np.integer | np.random.Generator | None


def as_generator(rng: RngLike) -> np.random.Generator:
    """A generator from a seed, from a generator (returned as it is), or fresh from the system (SPEC 7)."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InputError(
            f"rng must be a non-negative integer seed or a numpy.random.Generator; got {rng!r}. Pass e.g. rng=0."
        )
    return np.random.default_rng(int(rng))


def stream_key(rng: np.random.Generator) -> np.uint64:
    """The next 64-bit key for a kernel's counter-based streams."""
    return np.uint64(rng.integers(0, 2**64, dtype=np.uint64))
