"""Which sets hold which candidates: all that a greedy run asks of a collection, wherever its sets are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tensorucb.arrays import I32, I64
from tensorucb.oracle.greedy._kernels import cover_sets, invert, reduce_sets


class Index(Protocol):
    """The sets of some candidates."""

    def run(self, kernels: tuple[Callable[..., None], Callable[..., int]], marginal: I64, *state: Any) -> None:
        """Pick candidates until none is left, and take what they cover out of ``marginal``.

        ``kernels`` are two forms of one greedy rule: the first runs to the end on sets that are here, the second makes
        one pick and leaves the sets to the caller.
        """


class LocalIndex:
    """Candidates of the stored sets in this process; ``number[v]`` is the candidate number of node ``v``, or -1."""

    def __init__(self, members: list[I32], lengths: list[I32], number: I32, marginal: I64) -> None:
        reduced = np.empty(int(marginal.sum()) + 1, dtype=np.int32)
        offsets = np.zeros(sum(x.size for x in lengths) + 1, dtype=np.int64)
        row = at = 0
        for part, sizes in zip(members, lengths, strict=True):
            row, at = reduce_sets(part, sizes, number, offsets, reduced, row, at)
        self._index = (offsets, reduced, row, *invert(offsets, reduced, row, marginal))
        self._covered = np.zeros(row, dtype=np.uint8)

    def run(self, kernels: tuple[Callable[..., None], Callable[..., int]], marginal: I64, *state: Any) -> None:
        """All picks in one call."""
        self.restart()
        kernels[0](self._index, self._covered, marginal, *state)

    def restart(self) -> None:
        """No set is covered."""
        self._covered.fill(0)

    def cover(self, candidate: int, marginal: I64) -> None:
        """Cover the sets of one candidate, and take them out of ``marginal``."""
        cover_sets(self._index, self._covered, candidate, marginal)
