"""`Collection`: the stored RR sets of a selection, within a bound on their members."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle.rr._kernels import count_members
from tensorucb.oracle.rr._sampler import Sampler


class Collection:
    """RR sets ``0 .. sets`` under one key: stored members, how often each node occurs, and hits of marked nodes.

    Parameters
    ----------
    sampler
        Loaded with the round's probabilities, its marks set.
    key
        Stream key of this collection.
    limit
        The most members ever stored. An extension that would pass it is undone, so that the number of sets never
        depends on what they hold.
    """

    def __init__(self, sampler: Sampler, key: np.uint64, limit: int) -> None:
        self.sampler = sampler
        self.key = key
        self.limit = limit
        self.sets = 0
        self.stored = 0
        self.work = 0
        self.full = False
        self.members: list[NDArray[np.int32]] = []
        self.lengths: list[NDArray[np.int32]] = []
        self.counts = np.zeros(sampler.graph.n_nodes, dtype=np.int32)
        self._touched = np.empty(sampler.graph.n_nodes, dtype=np.int32)
        self._seen = 0
        self.hits = np.zeros(1, dtype=np.int64)

    def extend(self, sets: int, horizon: int | None = None) -> bool:
        """Grow to ``sets`` sets; false, and nothing changed, if they do not fit the limit."""
        pieces = []
        at, stored, work = self.sets, self.stored, self.work
        while at < sets:
            # Small steps while sets are large, so that several threads together stay near the limit too.
            mean = (stored + 1) / at if at else float(self.sampler.graph.n_nodes)
            step = min(sets - at, max(16, int(self.limit / (8.0 * mean))))
            batch = self.sampler.sample(self.key, at, step, store=True, limit=self.limit - stored, horizon=horizon)
            if batch.done < step:
                self.full = True
                return False
            pieces.append(batch)
            at += step
            stored += sum(m.size for m in batch.members)
            work += batch.work
        for batch in pieces:
            self.members += batch.members
            self.lengths += batch.lengths
            self.hits = self.hits + batch.hits
            for members in batch.members:
                self._seen = count_members(members, self.counts, self._touched, self._seen)
        self.sets, self.stored, self.work = sets, stored, work
        return True

    def likely_fits(self, sets: int) -> bool:
        """Whether ``sets`` sets will stay within the limit, by a wide margin."""
        mean = self.stored / self.sets if self.sets >= 64 else float(self.sampler.graph.n_nodes)
        return 4.0 * mean * sets < self.limit

    @property
    def touched(self) -> NDArray[np.int32]:
        """The nodes that are in any stored set."""
        return self._touched[: self._seen]

    @property
    def base(self) -> int:
        """Sets that a marked node covers."""
        return int(self.hits.sum())
