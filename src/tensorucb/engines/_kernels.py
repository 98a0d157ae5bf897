"""Direct gains of the sources of one partition.

Glossary: ``first`` row of the partition's first source, ``off`` where the out-edges of each begin, ``dst`` their
targets, ``p`` their probabilities, ``worth`` of every node (its value times the chance that no seed activates it).
"""

from __future__ import annotations

import numba

from tensorucb._kernels import KERNEL


@numba.njit(**KERNEL)
def source_gains(first, off, dst, p, worth, gains):  # type: ignore[no-untyped-def]
    """What each source adds: its own worth, and what it adds at its targets."""
    for r in range(gains.size):
        gain = worth[first + r]
        for e in range(off[r], off[r + 1]):
            if dst[e] != first + r:
                gain += worth[dst[e]] * p[e]
        gains[r] = gain
