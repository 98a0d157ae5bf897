"""TIM+ (Tang, Xiao, Shi, SIGMOD 2014): the paper's oracle.

First the mean spread KPT of a random seed set is estimated, which bounds the best spread from below; greedy on
the sets of that estimate then gives a better bound KPT+; their inverse fixes the number of sets for the choice.
With candidates and forced seeds the random set is drawn from the candidates and joined to the forced ones,
which keeps the bound. For quotas and budgets a random set is not admissible and KPT bounds nothing, so TIM+
refuses them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorucb.errors import InputError
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._fixed import NONE, finish, least_share
from tensorucb.oracle._opim import Outcome, Settings
from tensorucb.oracle.greedy import greedy_cover
from tensorucb.oracle.rr import Collection, Sampler


def tim(sampler: Sampler, problem: SeedProblem, settings: Settings, keys: NDArray[np.uint64]) -> Outcome:
    """Choose seeds by TIM+."""
    if problem.groups is not None or problem.costs is not None:
        raise InputError("algorithm 'tim' takes neither quotas nor a budget; use 'opim' or 'imm'.")
    epsilon = settings.epsilon
    confidence = math.log(3.0 / settings.delta)
    share, pilot = _mean_share(sampler, problem, settings, keys[0], confidence)
    share, used = _refined(sampler, problem, pilot, keys[1], share, epsilon, confidence)
    sets = (8.0 + 2.0 * epsilon) * (confidence + problem.log_count + math.log(2.0)) / (epsilon**2 * share)
    return finish(sampler, problem, settings, keys[2:4], sets, used)


def _mean_share(
    sampler: Sampler, problem: SeedProblem, settings: Settings, key: np.uint64, confidence: float
) -> tuple[float, Collection]:
    """KPT: half of the mean share that a random seed set covers, found by doubling the samples."""
    least = least_share(problem, sampler.total)
    rounds = max(1, math.ceil(math.log2(1.0 / least)) - 1)
    odds = sampler.graph.in_degree * problem.allowed.astype(np.float64)
    if odds.sum() == 0.0:
        odds = problem.allowed.astype(np.float64)
    odds = odds / max(1.0, odds.sum())
    sampler.mark(problem.forced)
    collection = Collection(sampler, key, settings.limit)
    for i in range(1, rounds + 1):
        if not collection.extend(math.ceil(6.0 * (confidence + math.log(max(1.0, rounds))) * 2.0**i)):
            break
        covered = float(collection.base)
        for members, lengths in zip(collection.members, collection.lengths, strict=True):
            starts = np.cumsum(lengths) - lengths
            inside = np.add.reduceat(odds[members], starts) if starts.size else np.empty(0)
            covered += float((1.0 - (1.0 - np.minimum(inside, 1.0)) ** problem.picks).sum())
        if covered / collection.sets > 0.5**i:
            return max(least, covered / (2.0 * collection.sets)), collection
    return least, collection


def _refined(
    sampler: Sampler,
    problem: SeedProblem,
    pilot: Collection,
    key: np.uint64,
    share: float,
    epsilon: float,
    confidence: float,
) -> tuple[float, int]:
    """KPT+: what greedy on the estimate's sets covers of fresh ones."""
    level = confidence / math.log(max(3, problem.n))
    slack = min(1.0, 5.0 * (level * epsilon**2 / (level + problem.picks)) ** (1.0 / 3.0))
    size = math.ceil((2.0 + slack) * confidence / (slack**2 * share))
    if pilot.full or pilot.sets == 0:
        return share, pilot.sets
    cover = greedy_cover(pilot, problem, NONE)
    sampler.mark(np.concatenate([problem.forced, cover.rows]))
    hits = int(sampler.sample(key, 0, size, store=False, limit=0).hits.sum())
    return max(share, hits / size / (1.0 + slack)), pilot.sets + size
