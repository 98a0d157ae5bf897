"""The choice on RR sets: OPIM-C with sentinels, and TIM+.

OPIM-C stops as soon as a certificate, measured on the run, reaches the wanted ratio; `docs/oracle.md` has the proofs.
On a first collection of RR sets the seeds are chosen and the upper bound of the best admissible set is taken, on a
second one, independent of it, the chosen seeds' lower bound. The first is looked at only when its size is on a fixed
grid, and grows until a certificate is to be expected and the noise of the choice is at most ``1 / quality`` of what it
covers (9/14 of the quality is enough where *rivals*, the seeds of the largest direct gain, cover nearly as much). The
second is drawn for each attempt and not stored. *Sentinels* are seeds chosen beforehand, at which walks stop (HIST, Guo
et al., SIGMOD 2020); the certificate is valid for any. Candidates that samples do not tell apart go by direct gain.
Where walks are short, seeds are chosen by the chances of walks in place of hits (`_compensated`), which takes fewer.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.errors import InputError
from tensorucb.oracle._compensated import compensated_cover, is_possible
from tensorucb.oracle._constraints import SeedProblem
from tensorucb.oracle._greedy import Cover, Outcome, complete, greedy_cover, least_worth
from tensorucb.oracle._kernels import sets_for_lower, share_lower, share_upper
from tensorucb.oracle._records import Sampling
from tensorucb.oracle.rr import Collection, Sampler

Keys = NDArray[np.uint64]
_FIRST = 16
_STEPS = 4  # of the grid, for each doubling
_OVERFIT = 0.35  # of greedy's noise is found to be missing on fresh sets; 0.05 to 0.6 on the networks measured
_LARGER = (1.0, 1.5, 2.25, 4.0)  # sizes of the second collection, for one whose first size was not enough
_LEAST_HITS = 200.0  # so that the reported spread has a standard error of at most some 7 %

# Sentinels are found on the walks of a first look, and of a second one that already stops at what the first found.
_LOOKS = (128, 512)
_HORIZON = 1000
# Mean nodes per walk: below the first number sentinels do not pay. Between the two they must be certain (newly cover
# so many walks of each look); beyond, any frequent node will do, as seed sets differ little where walks cover much.
_LONG = 16.0
_HUGE = 64.0
# Among many picks a poor sentinel costs less and a missing one more.
_CERTAIN = (8, 12)
_FREQUENT = (5, 5)
_FREQUENT_AMONG_MANY = (4, 3)
_MANY = 32
_LOOK_LIMIT = 2**26
_NEAR = 1e-5
# Of the sets that the quality asks for this share is enough (by noise, not by number) if the picks are ahead of their
# rivals by no more than so much of what they cover.
_EARLY = 9.0 / 14.0
_MAY_LOSE = 0.008
_ROUNDING = 1e-6  # small graphs are sampled by 32-bit probabilities

# Of TIM+: how often the number of sets may be halved, and the most sets of its certificate.
_HALVINGS = 20
_CHECK = 65536
_NO_ROWS = np.empty(0, dtype=np.int64)


def _grid(sampler: Sampler, problem: SeedProblem, epsilon: float, delta: float) -> list[int]:
    """Sizes at which the first collection may be looked at, up to one that suffices in the worst case."""
    total = sampler.total
    best = least_worth(sampler.graph, sampler.probabilities, problem) or float(problem.direct_worth().max())
    a = math.log(6.0 / delta)
    factor = problem.promise[0]
    root = factor * math.sqrt(a) + math.sqrt(factor * (problem.log_count + a))
    worst = 2.0 * root * root * (total / max(best, total * 1e-9)) / epsilon**2
    points = max(1, math.ceil(_STEPS * math.log2(max(2.0, worst / _FIRST))))
    return [math.ceil(_FIRST * 2.0 ** (i / _STEPS)) for i in range(points + 1)]


def opim(sampler: Sampler, problem: SeedProblem, sampling: Sampling, delta: float, keys: Keys) -> Outcome:
    """Choose seeds by OPIM-C."""
    grid = _grid(sampler, problem, sampling.epsilon, delta)
    sentinels = _choose_sentinels(sampler, problem, keys[:2])
    if not sentinels.size:
        return _run(sampler, problem, sampling, grid, delta, keys[2:4], sentinels)
    outcome = _run(sampler, problem, sampling, grid, delta / 2.0, keys[2:4], sentinels)
    if not outcome.stopped and outcome.lower < (problem.promise[0] - sampling.epsilon) * outcome.upper:
        plain = _run(sampler, problem, sampling, grid, delta / 2.0, keys[4:6], sentinels[:0])
        if plain.lower * outcome.upper > outcome.lower * plain.upper:
            return plain
    return outcome


def _is_steady(cover: Cover, quality: float, scale: float) -> bool:
    """Whether the quality rule is expected to hold with ``scale`` times as many sets."""
    covered = cover.covered * scale
    wrong = (cover.noise + 3.0 * cover.deviation) * math.sqrt(scale) + cover.lost * scale
    return wrong * quality <= covered


def _choose_sentinels(sampler: Sampler, problem: SeedProblem, keys: Keys) -> I64:
    """Up to half of the picks, by greedy on a few hundred walks; none where walks are short.

    The walks have samples of their own and expand at most ``_HORIZON`` nodes, so the look ahead stays cheap on a graph
    where a walk covers everything. Nothing about validity hangs on their quality.
    """
    sentinels = np.empty(0, dtype=np.int64)
    if problem.picks < 2 or (problem.costs is not None and problem.groups is None):
        return sentinels
    least = _CERTAIN
    live = sampler.total / (sampler.total + float(sampler.own.sum()))
    for i, (walks, key) in enumerate(zip(_LOOKS, keys, strict=True)):
        sampler.mark(np.concatenate([problem.forced, sentinels]))
        look = sampler.collect(key, _LOOK_LIMIT)
        # So many of any root; those without a live in-edge are not drawn.
        look.extend(math.ceil(walks * live), horizon=_HORIZON)
        if i == 0 and look.work < _LONG * walks:
            break
        if i == 0 and look.work >= _HUGE * walks:
            least = _FREQUENT if problem.picks < _MANY else _FREQUENT_AMONG_MANY
        # So few walks do not tell the strategies of a user apart; their direct gains do.
        cover = greedy_cover(look, problem, sentinels, noisy=problem.worth is not None, sampled_only=True)
        worth = int((cover.gains >= least[i]).sum())
        seeds = problem.picks if problem.costs is None else sentinels.size + cover.rows.size
        sentinels = np.concatenate([sentinels, cover.rows[: min(worth, seeds // 2 - sentinels.size)]])
    return sentinels


def _run(
    sampler: Sampler,
    problem: SeedProblem,
    sampling: Sampling,
    grid: list[int],
    delta: float,
    keys: Keys,
    sentinels: I64,
) -> Outcome:
    """One run, whose certificate fails with probability ``delta``."""
    a_upper = math.log(2.0 * len(grid) / delta)
    target = max(0.0, problem.promise[0] - sampling.epsilon)
    marked = np.concatenate([problem.forced, sentinels])
    sampler.mark(marked)
    collection = sampler.collect(keys[0], sampling.most_members)
    value = _Value(sampler, problem)
    collection.traced = sampling.quality > 0.0 and is_possible(sampler, problem)
    rivals = _NO_ROWS
    if sampling.quality > 0.0 and problem.costs is None and problem.groups is None:
        rivals = complete(sampler.graph, sampler.probabilities, problem, marked)[marked.size :]
    at = looks = validated = 0
    look = 3 * _STEPS
    best: Outcome | None = None
    while True:
        look = min(look, len(grid) - 1)
        if collection.likely_fits(grid[look]) and collection.extend(grid[look]):
            at = look + 1
        while at <= look and collection.extend(grid[at]):
            at += 1
        last = collection.full or at >= len(grid)
        sets = max(1, collection.sets)
        cover = greedy_cover(collection, problem, sentinels, noisy=True, rivals=rivals)
        if collection.traced and cover.rows.size:
            compensated = compensated_cover(collection, problem, cover, rivals)
            collection.traced = compensated is not None
            cover = compensated or cover
        upper = value.upper(cover.bound, sets, a_upper)
        a_lower = math.log(2.0 * 2.0 ** (looks + 1) / delta)
        rows = np.concatenate([marked, cover.rows])
        wanted = _validation_size(cover, sets, value.share(rows, target * upper), a_lower)
        # A look that is due within two steps of the grid is not worth another greedy choice.
        looking = (value, cover, grid, max(0, at - 1), target, a_upper, a_lower)
        look = max(at + 1, _next_look(*looking, _EARLY * sampling.quality))
        if look == at + 1 and cover.ahead > _MAY_LOSE * cover.covered:
            look = max(at + 1, _next_look(*looking, sampling.quality))
        if not last and (look > at + 1 or wanted > 2 * sets):
            continue
        rows = complete(sampler.graph, sampler.probabilities, problem, rows)
        sampler.mark(rows)
        sizes = sorted({int(max(64, min(wanted * factor, 4 * sets))) for factor in _LARGER})
        least = [math.log(2.0 * 2.0 ** (looks + i + 1) / delta) for i in range(len(sizes))]
        hits, size, share = _validate(sampler, keys[1], validated, sizes, value.share(rows, target * upper), least)
        lower = (1.0 - _ROUNDING) * value.of(rows, share)
        validated += size
        looks += len(sizes)
        if best is None or lower * best.upper > best.lower * upper:
            gains = _sampled_gains(collection, cover, marked, rows.size)
            best = Outcome(rows, gains, value.of(rows, hits / size), lower, upper)
        if last or lower >= target * upper:
            return replace(best, rr_sets=collection.sets + validated, stopped=collection.full)
        sampler.mark(marked)
        look = at + 2


class _Value:
    """What seeds are worth by the share of sets that they cover: ``own`` of each seed and that share of ``total``."""

    def __init__(self, sampler: Sampler, problem: SeedProblem) -> None:
        self._own = sampler.own
        self._total = sampler.total
        allowed = np.flatnonzero(problem.allowed)
        self._most_own = float(sampler.own[problem.forced].sum()) + problem.best_sum(allowed, sampler.own[allowed])

    def of(self, rows: I64, share: float) -> float:
        """The value of seeds that cover this share."""
        return float(self._own[rows].sum()) + self._total * share

    def share(self, rows: I64, value: float) -> float:
        """The share that seeds must cover to be worth so much."""
        return max(0.0, (value - float(self._own[rows].sum())) / self._total)

    def upper(self, bound: float, sets: int, a: float) -> float:
        """The most that any admissible set is worth."""
        share = bound / sets

        def slack(x: float) -> float:
            return share_upper(x * sets, sets, a) - x

        high = min(1.0, share)
        low = min(high, max(0.0, share - self._most_own / self._total))
        if low < high and slack(high) >= slack((1.0 - _NEAR) * high):  # it grows up to here, as it mostly does
            low = max(low, (1.0 - _NEAR) * high)
        while high - low > _NEAR:
            one = (2.0 * low + high) / 3.0
            two = (low + 2.0 * high) / 3.0
            if slack(one) < slack(two):
                low = one
            else:
                high = two
        # The bound of a share grows with it, so that nowhere between the two the slack is more than this.
        largest = slack(high) + high - low
        return (1.0 + _ROUNDING) * min(self._total * (share + largest), self._total + self._most_own)


def _validate(
    sampler: Sampler, key: np.uint64, first: int, sizes: list[int], wanted: float, a: list[float]
) -> tuple[int, int, float]:
    """Grow a fresh collection from size to size until the lower bound of the marked seeds' share reaches ``wanted``.

    Returns hits, sets and the lower bound. What is out of reach is given up early.
    """
    hits = size = 0
    lower = 0.0
    for more, confidence in zip(sizes, a, strict=True):
        hits += int(sampler.sample(key, first + size, more - size, store=False, limit=0).hits.sum())
        size = more
        lower = share_lower(hits, size, confidence)
        if lower >= wanted or sets_for_lower(hits / size, wanted, confidence) > sizes[-1]:
            break
    return hits, size, lower


def _sampled_gains(collection: Collection, cover: Cover, marked: I64, seeds: int) -> F64:
    """What each seed gained, in values: marked ones, picked ones, then those that add nothing but themselves."""
    sampler = collection.sampler
    gains = np.zeros(seeds, dtype=np.float64)
    gains[: marked.size] = collection.hits[: marked.size]
    gains[marked.size : marked.size + cover.gains.size] = cover.gains
    gains *= sampler.total / max(1, collection.sets)
    gains[: marked.size] += sampler.own[marked]
    return gains


def _validation_size(cover: Cover, sets: int, wanted: float, a: float) -> float:
    """Sets of the second collection that should bring the lower bound of the seeds' share to ``wanted``."""
    share = max(1.0, cover.sets - _OVERFIT * cover.noise) / sets
    # Found in two steps: the size for the expected share, then for half a standard deviation less at that size.
    size = sets_for_lower(share, wanted, a)
    if not math.isinf(size):
        size = sets_for_lower(share - 0.5 * math.sqrt(share * (1.0 - share) / size), wanted, a)
    return max(size, _LEAST_HITS / max(share, _LEAST_HITS / (2.0 * sets)))


def _next_look(
    value: _Value, cover: Cover, grid: list[int], at: int, target: float, a_upper: float, a_lower: float, quality: float
) -> int:
    """The first grid point from ``at`` on where certificate and quality are to be expected, at most eightfold away."""
    sets = grid[at]
    last = min(at + 3 * _STEPS, len(grid) - 1)
    for look in range(at, last):
        scale = grid[look] / sets
        if not _is_steady(cover, quality, scale):
            continue
        upper = value.upper(cover.bound * scale, grid[look], a_upper)
        hits = cover.sets * scale - _OVERFIT * cover.noise * math.sqrt(scale)
        own_share = (cover.covered - cover.sets) / sets
        if value.of(_NO_ROWS, own_share + share_lower(hits, grid[look], a_lower)) >= target * upper:
            return look
    return last


def tim(sampler: Sampler, problem: SeedProblem, sampling: Sampling, delta: float, keys: Keys) -> Outcome:
    """Choose seeds by TIM+ (Tang, Xiao, Shi, SIGMOD 2014), the paper's oracle.

    The mean spread KPT of a random seed set is estimated, which bounds the best spread from below; greedy on the sets
    of that estimate then gives a better bound KPT+, which says how many sets to draw and to choose on. With candidates
    and forced seeds the random set is drawn from the candidates and joined to the forced ones, which keeps the bound.
    For quotas and budgets a random set is not admissible and KPT bounds nothing, so TIM+ refuses them.
    """
    if problem.groups is not None or problem.costs is not None:
        raise InputError("algorithm 'tim' takes neither quotas or minima nor a budget; use 'opim'.")
    epsilon = sampling.epsilon
    confidence = math.log(3.0 / delta)
    sampler.mark(problem.forced)
    collection = sampler.collect(keys[0], sampling.most_members)
    share = _mean_share(collection, problem, confidence)
    used = collection.sets
    level = confidence / math.log(max(3, problem.n))
    slack = min(1.0, 5.0 * (level * epsilon**2 / (level + problem.picks)) ** (1.0 / 3.0))
    size = math.ceil((2.0 + slack) * confidence / (slack**2 * share))
    # Where not even this many sets would fit the memory, it will decide how many there are.
    if not collection.full and used > 0 and size <= sampling.most_members:
        # KPT+: what greedy on the estimate's sets covers of fresh ones.
        sampler.mark(np.concatenate([problem.forced, greedy_cover(collection, problem).rows]))
        hits = int(sampler.sample(keys[1], 0, size, store=False, limit=0).hits.sum())
        share = max(share, hits / size / (1.0 + slack))
        used += size
    sets = (8.0 + 2.0 * epsilon) * (confidence + problem.log_count + math.log(2.0)) / (epsilon**2 * share)
    sampler.mark(problem.forced)
    # Greedy on fresh sets, or on the largest half, quarter … of them that memory admits.
    collection = sampler.collect(keys[2], sampling.most_members)
    for halving in range(_HALVINGS, -1, -1):
        if not collection.extend(math.ceil(sets * 0.5**halving)):
            break
    cover = greedy_cover(collection, problem)
    rows = complete(sampler.graph, sampler.probabilities, problem, np.concatenate([problem.forced, cover.rows]))
    sampler.mark(rows)
    size = max(64, min(_CHECK, collection.sets))
    hits = int(sampler.sample(keys[3], 0, size, store=False, limit=0).hits.sum())
    a = math.log(2.0 / delta)
    upper = share_upper(cover.bound, collection.sets, a + (math.log(_HALVINGS + 1) if collection.full else 0.0))
    gains = _sampled_gains(collection, cover, problem.forced, rows.size)
    number = used + collection.sets + size
    spread, lower, upper = (sampler.total * share for share in (hits / size, share_lower(hits, size, a), upper))
    return Outcome(rows, gains, spread, lower, upper, number, collection.full)


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
