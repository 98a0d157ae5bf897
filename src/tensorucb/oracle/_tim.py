"""TIM+: estimate how much the best choice covers, sample as many sets as that asks for, then choose greedily.

TIM+ (Tang, Xiao, Shi, SIGMOD 2014) is the paper's oracle. The mean spread KPT of a random seed set is estimated,
which bounds the best spread from below; greedy on the sets of that estimate then gives a better bound KPT+. With
candidates and forced seeds the random set is drawn from the candidates and joined to the forced ones, which keeps the
bound. For quotas and budgets a random set is not admissible and KPT bounds nothing, so TIM+ refuses them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._direct import complete, least_worth
from tensorucb.oracle._greedy import greedy_cover
from tensorucb.oracle._kernels import share_lower, share_upper
from tensorucb.oracle._opim import Outcome, sampled_gains
from tensorucb.oracle._sampling import Plan
from tensorucb.oracle.rr import Collection, Sampler

_HALVINGS = 20
_CHECK = 65536


def tim(sampler: Sampler, problem: SeedProblem, plan: Plan, keys: NDArray[np.uint64]) -> Outcome:
    """Choose seeds by TIM+."""
    if problem.groups is not None or problem.costs is not None:
        raise InputError("algorithm 'tim' takes neither quotas or minima nor a budget; use 'opim'.")
    epsilon = plan.epsilon
    confidence = math.log(3.0 / plan.delta)
    sampler.mark(problem.forced)
    collection = sampler.collect(keys[0], plan.limit)
    share = _mean_share(collection, problem, confidence)
    used = collection.sets
    level = confidence / math.log(max(3, problem.n))
    slack = min(1.0, 5.0 * (level * epsilon**2 / (level + problem.picks)) ** (1.0 / 3.0))
    size = math.ceil((2.0 + slack) * confidence / (slack**2 * share))
    # Where not even this many sets would fit the memory, it will decide how many there are.
    if not collection.full and used > 0 and size <= plan.limit:
        # KPT+: what greedy on the estimate's sets covers of fresh ones.
        sampler.mark(np.concatenate([problem.forced, greedy_cover(collection, problem).rows]))
        hits = int(sampler.sample(keys[1], 0, size, store=False, limit=0).hits.sum())
        share = max(share, hits / size / (1.0 + slack))
        used += size
    sets = (8.0 + 2.0 * epsilon) * (confidence + problem.log_count + math.log(2.0)) / (epsilon**2 * share)
    return _finish(sampler, problem, plan, keys[2:4], sets, used)


def _mean_share(collection: Collection, problem: SeedProblem, confidence: float) -> float:
    """KPT: half of the mean share that a random seed set covers, found by doubling the samples."""
    sampler = collection.sampler
    least = max(least_worth(sampler.graph, sampler.probabilities, problem) / sampler.total, 1e-9)
    rounds = max(1, math.ceil(math.log2(1.0 / least)) - 1)
    odds = sampler.graph.in_degree * problem.allowed.astype(np.float64)
    if odds.sum() == 0.0:
        odds = problem.allowed.astype(np.float64)
    odds = odds / max(1.0, odds.sum())
    for i in range(1, rounds + 1):
        if not collection.extend(math.ceil(6.0 * (confidence + math.log(max(1.0, rounds))) * 2.0**i)):
            break
        covered = collection.base + collection.mean_cover(odds, problem.picks)
        if covered / collection.sets > 0.5**i:
            return max(least, covered / (2.0 * collection.sets))
    return least


def _finish(
    sampler: Sampler, problem: SeedProblem, plan: Plan, keys: NDArray[np.uint64], sets: float, used: int
) -> Outcome:
    """Greedy on ``sets`` fresh sets, or on the largest half, quarter … of them that memory admits; its certificate."""
    sampler.mark(problem.forced)
    collection = sampler.collect(keys[0], plan.limit)
    for halving in range(_HALVINGS, -1, -1):
        if not collection.extend(math.ceil(sets * 0.5**halving)):
            break
    cover = greedy_cover(collection, problem)
    rows = complete(sampler.graph, sampler.probabilities, problem, np.concatenate([problem.forced, cover.rows]))
    sampler.mark(rows)
    size = max(64, min(_CHECK, collection.sets))
    hits = int(sampler.sample(keys[1], 0, size, store=False, limit=0).hits.sum())
    a = math.log(2.0 / plan.delta)
    upper = share_upper(cover.bound, collection.sets, a + (math.log(_HALVINGS + 1) if collection.full else 0.0))
    gains = sampled_gains(collection, cover, problem.forced, rows.size)
    number = used + collection.sets + size
    spread, lower, upper = (sampler.total * share for share in (hits / size, share_lower(hits, size, a), upper))
    return Outcome(rows, gains, spread, lower, upper, number, collection.full)
