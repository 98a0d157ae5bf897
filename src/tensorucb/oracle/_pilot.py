"""A look ahead: whether RR sets are large enough for sentinels to pay, and which nodes they should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle.greedy import greedy_cover
from tensorucb.oracle.rr import Collection, Sampler

# Walks of a first look, and of a second one that already stops at what the first found.
LOOKS = (128, 512)
HORIZON = 1000
# Mean nodes a walk: below the first number sentinels do not pay. Between the two they must be certain (newly cover
# so many walks of each look); beyond, any frequent node will do, as seed sets differ little where walks cover much.
LONG, HUGE = 16.0, 64.0
# Among many picks a poor sentinel costs less and a missing one more.
CERTAIN, FREQUENT, FREQUENT_AMONG_MANY = (8, 12), (5, 5), (4, 3)
MANY = 32
_LIMIT = 2**26


def choose_sentinels(sampler: Sampler, problem: SeedProblem, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Up to half of the picks, by greedy on a few hundred walks; none where walks are short.

    The walks have samples of their own and expand at most ``HORIZON`` nodes, so the look ahead stays cheap on a graph
    where a walk covers everything. Nothing about validity hangs on their quality.
    """
    sentinels = np.empty(0, dtype=np.int64)
    if problem.picks < 2 or (problem.costs is not None and problem.groups is None):
        return sentinels
    least = CERTAIN
    for i, (walks, key) in enumerate(zip(LOOKS, keys, strict=True)):
        sampler.mark(np.concatenate([problem.forced, sentinels]))
        look = Collection(sampler, key, _LIMIT)
        look.extend(walks, horizon=HORIZON)
        if i == 0 and look.work < LONG * walks:
            break
        if i == 0 and look.work >= HUGE * walks:
            least = FREQUENT if problem.picks < MANY else FREQUENT_AMONG_MANY
        # So few walks do not tell the strategies of a user apart; their direct gains do.
        cover = greedy_cover(look, problem, sentinels, noisy=problem.worth is not None)
        worth = int((cover.gains >= least[i]).sum())
        seeds = problem.picks if problem.costs is None else sentinels.size + cover.rows.size
        sentinels = np.concatenate([sentinels, cover.rows[: min(worth, seeds // 2 - sentinels.size)]])
    return sentinels
