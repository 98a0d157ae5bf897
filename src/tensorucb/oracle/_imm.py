"""IMM (Tang, Shi, Xiao, SIGMOD 2015), with fresh sets for the final choice.

The final sets are drawn again rather than kept from the search for a lower bound: reusing them breaks the proof,
because their number then depends on what they hold (Chen, 2018). With any family of admissible sets the search
stays valid if ``ln C(n, k)`` is replaced by the logarithm of the family's size, and the final number if ``1 -
1/e`` is replaced by the greedy factor.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._fixed import NONE, finish, least_share
from tensorucb.oracle._opim import Outcome, Settings
from tensorucb.oracle.greedy import greedy_cover
from tensorucb.oracle.rr import Collection, Sampler


def imm(sampler: Sampler, problem: SeedProblem, settings: Settings, keys: NDArray[np.uint64]) -> Outcome:
    """Choose seeds by IMM."""
    confidence = math.log(2.0 / settings.delta)
    share, used = _lower_bound(sampler, problem, settings, keys[0], confidence)
    alpha = math.sqrt(confidence + math.log(2.0))
    beta = math.sqrt(problem.factor * (problem.log_count + confidence + math.log(2.0)))
    sets = 2.0 * (problem.factor * alpha + beta) ** 2 / (share * settings.epsilon**2)
    return finish(sampler, problem, settings, keys[1:3], sets, used)


def _lower_bound(
    sampler: Sampler, problem: SeedProblem, settings: Settings, key: np.uint64, confidence: float
) -> tuple[float, int]:
    """A share that the best admissible set reaches, by halving a guess until greedy confirms it."""
    least = least_share(problem, sampler.total)
    rounds = max(1, math.ceil(math.log2(1.0 / least)))
    slack = math.sqrt(2.0) * settings.epsilon
    unit = (2.0 + 2.0 / 3.0 * slack) * (problem.log_count + confidence + math.log(max(1.0, rounds))) / slack**2
    sampler.mark(problem.forced)
    collection = Collection(sampler, key, settings.limit)
    for i in range(1, rounds + 1):
        if not collection.extend(math.ceil(unit * 2.0**i)):
            break
        covered = greedy_cover(collection, problem, NONE).covered / collection.sets
        if covered >= (1.0 + slack) * 0.5**i:
            return max(least, covered / (1.0 + slack)), collection.sets
    return least, collection.sets
