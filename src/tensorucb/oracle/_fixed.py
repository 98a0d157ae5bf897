"""What TIM+ and IMM share: a number of sets fixed beforehand, then greedy, then a check on fresh sets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._direct import complete
from tensorucb.oracle._kernels import share_lower, share_upper
from tensorucb.oracle._opim import Outcome, Settings, sampled_gains
from tensorucb.oracle.greedy import greedy_cover
from tensorucb.oracle.rr import Collection, Sampler

NONE = np.empty(0, dtype=np.int64)
_HALVINGS = 20
_CHECK = 65536


def least_share(problem: SeedProblem, total: float) -> float:
    """The share of the total value that the best admissible set reaches in any case: that of its own best node."""
    if problem.values is None:
        return max(1, problem.forced.size) / total
    nodes = np.concatenate([problem.forced, np.flatnonzero(problem.allowed)])
    # A pair has the worth of its own user at least; the node that stands for it has no value itself.
    own = problem.values if problem.own is None else problem.own
    return max(float(own[nodes].max()) / total, 1e-9)


def finish(
    sampler: Sampler, problem: SeedProblem, settings: Settings, keys: NDArray[np.uint64], sets: float, used: int
) -> Outcome:
    """Greedy on ``sets`` fresh sets, or on the largest half, quarter … of them that memory admits; its certificate."""
    sampler.mark(problem.forced)
    collection = Collection(sampler, keys[0], settings.limit)
    for halving in range(_HALVINGS, -1, -1):
        if not collection.extend(math.ceil(sets * 0.5**halving)):
            break
    cover = greedy_cover(collection, problem, NONE)
    rows = complete(sampler.graph, sampler.probabilities, problem, np.concatenate([problem.forced, cover.rows]))
    sampler.mark(rows)
    size = max(64, min(_CHECK, collection.sets))
    hits = int(sampler.sample(keys[1], 0, size, store=False, limit=0).hits.sum())
    a = math.log(2.0 / settings.delta)
    upper = share_upper(cover.bound, collection.sets, a + (math.log(_HALVINGS + 1) if collection.full else 0.0))
    gains = sampled_gains(collection, cover, problem.forced.size, rows.size)
    total = used + collection.sets + size
    return Outcome(rows, gains, hits / size, share_lower(hits, size, a), upper, total, collection.full)
