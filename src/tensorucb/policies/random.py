"""`Random`: seeds drawn uniformly, the floor of every comparison."""

from __future__ import annotations

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.policies._base import Oracle
from tensorucb.policies._pooled import PooledRatePolicy

__all__ = ["Random"]


class Random(PooledRatePolicy):
    """K users drawn uniformly without replacement; learns only the average success rate.

    The draw depends on the seed, the product and the number of rounds told: asking again before the next
    `update` repeats the answer.
    """

    name = "Random"

    def _choose(self, modes: tuple[F64, ...], k: int, oracle: Oracle) -> I64:
        rows = self._allowed(oracle, k)
        return np.asarray(self._generator("choose", modes).choice(rows, size=k, replace=False), dtype=np.int64)
