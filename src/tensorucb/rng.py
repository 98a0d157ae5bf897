"""Random numbers: generators for Python code, 64-bit keys for kernels.

A kernel never touches global random state. It takes a *key* and derives the stream of item ``i`` (an RR set, a
cascade, a world) from ``(key, i)``, so results do not depend on how the items are spread over threads.
"""

from __future__ import annotations

import numpy as np

from tensorucb.checks import check_instance, plain, refusal

__all__ = ["RngLike", "as_generator", "stream_key"]

RngLike = int | np.integer | np.random.Generator | None
"""A seed, a generator, or None for a seed of the system."""


def as_generator(rng: RngLike) -> np.random.Generator:
    """A generator from a seed, from a generator (returned as it is), or fresh from the system (SPEC 7).

    Examples
    --------
    >>> as_generator(0).random() == as_generator(0).random()
    True
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is None:
        return np.random.default_rng()
    seed = plain(rng)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**128:
        raise refusal(
            "rng",
            "a seed (a whole number of at least 0, below 2^128) or a numpy.random.Generator",
            rng,
            "Pass e.g. rng=0.",
        )
    return np.random.default_rng(seed)


def stream_key(rng: np.random.Generator) -> np.uint64:
    """The next 64-bit key for a kernel's counter-based streams.

    Examples
    --------
    >>> int(stream_key(as_generator(0))) == int(stream_key(as_generator(0)))
    True
    """
    generator = check_instance("rng", rng, np.random.Generator, "a numpy.random.Generator")
    return np.uint64(generator.integers(0, 2**64, dtype=np.uint64))
