"""Direct gains of the sources of one partition.

Glossary: ``first`` row of the partition's first source, ``off`` where the out-edges of each begin, ``dst`` their
targets, ``p`` their probabilities, ``worth`` what is still to be won at every node (see `oracle.greedy._kernels`).
"""

from __future__ import annotations

import numba

from tensorucb._kernels import KERNEL


@numba.njit(**KERNEL)
def source_gains(first, off, dst, p, worth, gains):  # type: ignore[no-untyped-def]
    """What each source adds: its own worth, and what it adds at its targets."""
    for r in range(gains.size):
        gain = worth[0, first + r]
        for e in range(off[r], off[r + 1]):
            if dst[e] != first + r:
                gain += worth[0, dst[e]] * p[e]
        gains[r] = gain
    if worth.shape[0] > 1:
        for r in range(gains.size):
            gain = worth[1, first + r] * (1.0 - worth[2, first + r])
            for e in range(off[r], off[r + 1]):
                if dst[e] != first + r:
                    gain += worth[1, dst[e]] * max(0.0, p[e] - worth[2, dst[e]])
            gains[r] += gain
