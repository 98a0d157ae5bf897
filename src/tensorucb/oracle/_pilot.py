"""A look ahead: whether RR sets are large enough for sentinels to pay, and which nodes they should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import Problem
from tensorucb.oracle.greedy import greedy_cover
from tensorucb.oracle.rr import Collection, Sampler

__all__ = ["choose_sentinels"]

PILOT_SETS = 128
HORIZON = 1000
MEAN_WORK = 16.0


def choose_sentinels(sampler: Sampler, problem: Problem, key: np.uint64) -> NDArray[np.int64]:
    """Up to half of the picks: the nodes that short-sighted walks meet most; none where walks are short.

    The walks have samples of their own and expand at most ``HORIZON`` nodes, so the look ahead stays cheap on a graph
    where a walk covers everything. Nothing about validity hangs on their quality.
    """
    none = np.empty(0, dtype=np.int64)
    if problem.costs is not None or problem.picks < 2:
        return none
    sampler.mark(problem.forced)
    pilot = Collection(sampler, key, limit=2**26)
    pilot.extend(PILOT_SETS, horizon=HORIZON)
    if pilot.work < MEAN_WORK * PILOT_SETS:
        return none
    cover = greedy_cover(pilot, problem, none)
    worth = int((cover.gains >= 4).sum())
    return cover.rows[: max(1, min(worth, problem.picks // 2))]
