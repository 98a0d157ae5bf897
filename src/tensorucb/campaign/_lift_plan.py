"""How large a hold-out must be: how many rounds show which effect of contact, and how surely; before and during one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from tensorucb.arrays import F64, I64
from tensorucb.campaign._handle import View
from tensorucb.campaign._lift import FEW, Draw, draw_of, draws_of, is_extreme
from tensorucb.campaign._round import LEVEL
from tensorucb.checks import check_array, check_count, check_number, check_share
from tensorucb.errors import InputError, StateError
from tensorucb.graph import Graph

# Followers of one user resemble each other about so much in logs: an intraclass correlation between 0 and 0.045.
CLUSTERING = 0.02
MOST_ROUNDS = 1_000
_MOST_CONTACTS = 10_000  # of all rounds of a plan, which takes some ten seconds
_ROUNDS = 10
_CAMPAIGNS, _DRAWS = 1000, 799  # that are simulated, and hold-outs drawn in each
_CELLS = 1_000_000  # users in all of them: of long campaigns fewer are simulated
_MOST_FOLLOWERS = 1e6
_PAST = 400  # rounds made up where there are none to draw from


@dataclass(frozen=True)
class LiftPlan:
    """What a hold-out can show: in so many rounds, an effect of this size is shown with this power.

    Attributes
    ----------
    rounds
        How many rounds with a hold-out; None if more than 1,000 would be needed.
    users, holdout
        Users chosen in each round, and the share of them who are not contacted.
    followers
        Followers of one chosen user, on average, who follow no other chosen user: only these count.
    rate
        Share of them who respond without contact.
    clustering
        How far followers of one user act alike: the correlation between two of them in one round.
    effect
        What contact adds to the share who respond.
    power
        Probability that the interval of `Lift` then lies above 0.
    level
        Of that interval.
    """

    rounds: int | None
    users: int
    holdout: float
    followers: float
    rate: float
    clustering: float
    effect: float
    power: float
    level: float = LEVEL

    @property
    def text(self) -> str:
        """The plan in words."""
        effect = f"an effect of {100 * self.effect:.2f} percentage points"
        assumptions = (
            f"Assumed: {self.followers:,.1f} followers per chosen user count, {100 * self.rate:.2f} % of them respond "
            f"without contact, and two followers of one user act alike with a correlation of {self.clustering:.3f}."
        )
        held = f"{self.users:,} users per round, {100 * self.holdout:.0f} % of them held out"
        if self.rounds is None:
            most = f"{_most_rounds(self.users):,} rounds"
            return f"with {held}, {effect} needs more than {most}. Choose more users. {assumptions}"
        rounds = f"{self.rounds:,} round{'' if self.rounds == 1 else 's'}"
        return f"with {held}, {rounds} show {effect} with a probability of {100 * self.power:.0f} %. {assumptions}"


def plan_lift(
    followers: ArrayLike,
    rate: float,
    *,
    users: int = 10,
    holdout: float = 0.2,
    rounds: int | None = None,
    effect: float | None = None,
    power: float = 0.8,
    clustering: float = CLUSTERING,
) -> LiftPlan:
    """Say how many rounds with a hold-out show an effect, or which effect so many rounds show, or how surely.

    Parameters
    ----------
    followers
        Followers of a chosen user who follow no other chosen user: one number for all, or a list of usual ones. Numbers
        that differ much make a hold-out less telling, so a list is better.
    rate
        Share of them who respond without contact.
    users, holdout
        Users chosen in each round, and the share of them not contacted.
    rounds, effect
        What is asked for is left out. With ``effect`` alone: the rounds that it needs. With ``rounds`` alone (10 if
        both are left out): the smallest effect that they show. With both: the power.
    power
        Probability with which the effect shall be shown; not used if both are given.
    clustering
        How far followers of one user act alike, as a correlation.

    Examples
    --------
    >>> from tensorucb.campaign import plan_lift
    >>> plan_lift(followers=[10, 20, 90], rate=0.02, effect=0.02).rounds
    17
    """
    values = [followers] if np.isscalar(followers) else followers
    sizes = check_array("followers", values, ("n",), low=0.0, high=_MOST_FOLLOWERS)
    if not np.rint(sizes).any():
        raise InputError("must hold a number above 0: without followers nobody can respond.", argument="followers")
    chance = check_share("rate", rate, one=False)
    alike = check_share("clustering", clustering, one=False)
    rng = np.random.default_rng(0)
    m = np.rint(rng.choice(sizes, size=_PAST * 10))
    p = np.full(m.size, chance)
    if chance > 0.0 and alike > 0.0:
        # Two followers of a user with a probability drawn from this distribution correlate so much.
        p = rng.beta(chance * (1.0 / alike - 1.0), (1.0 - chance) * (1.0 / alike - 1.0), size=m.size)
    a = rng.binomial(m.astype(np.int64), p).astype(np.float64)
    held_out = np.zeros(10, dtype=np.bool_)
    past = [Draw(*arms, held_out) for arms in zip(m.reshape(-1, 10), a.reshape(-1, 10), strict=True)]
    plan = plan_from(past, users=users, holdout=holdout, rounds=rounds, effect=effect, power=power)
    return replace(plan, followers=float(sizes.mean()), rate=chance, clustering=alike)


def past_rounds(view: View) -> list[Draw] | None:
    """The rounds with a hold-out, for a plan of more of them; None if too few followers responded to learn from."""
    try:
        past = list(draws_of(view).values())
    except StateError:
        return None
    return past if sum(draw.responders.sum() for draw in past) >= FEW else None


def followers_of(graph: Graph, users: I64) -> F64:
    """The followers of each of some users who would count if these were chosen."""
    nobody = np.empty(0, dtype=np.int64)
    followers = draw_of(graph, users, users, nobody, np.zeros(graph.n_nodes, dtype=np.bool_)).followers
    if not followers.any():
        raise StateError("nobody follows exactly one of the users that would be chosen, so no hold-out shows anything.")
    return followers


def _clustering(past: Sequence[Draw]) -> float:
    """How far followers of one user act alike within a round: the intraclass correlation, at least 0."""
    above = below = 0.0
    for draw in past:
        m, a = draw.followers, draw.responders
        rate = float(a.sum() / max(m.sum(), 1.0))
        variance = rate * (1.0 - rate)
        # One number, the rate, was estimated of the same followers.
        above += float(((a - rate * m) ** 2).sum() - variance * (m.sum() - (m**2).sum() / max(m.sum(), 1.0)))
        below += float(variance * (m * (m - 1.0)).sum())
    return min(max(above / below, 0.0), 1.0) if below > 0.0 else 0.0


def _most_rounds(users: int) -> int:
    """How many rounds of so many users a plan may have."""
    return min(MOST_ROUNDS, _MOST_CONTACTS // users)


def plan_from(
    past: Sequence[Draw], *, users: int, holdout: float, rounds: int | None, effect: float | None, power: float
) -> LiftPlan:
    """A plan for rounds like those of the past; arguments as in `plan_lift`."""
    users = check_count("users", users, 2, 1_000)
    share = check_share("holdout", holdout, zero=False, one=False)
    held = round(share * users)
    if not 1 <= held < users:
        raise InputError(f"= {share:g} of {users} users is nobody, or all of them.", argument="holdout")
    wanted = check_share("power", power, zero=False, one=False)
    length = None if rounds is None else check_count("rounds", rounds, 1, _most_rounds(users))
    adds = None if effect is None else check_number("effect", effect, high=1.0, strict=True)
    if adds is None:
        some = length or min(_ROUNDS, _most_rounds(users))
        length = some
        adds = _smallest(lambda each: _power(past, users, held, some, each) >= wanted)
    elif length is None:
        length = _fewest(lambda each: _power(past, users, held, each, adds) >= wanted, _most_rounds(users))
    reached = wanted if length is None else _power(past, users, held, length, adds)
    followers = np.concatenate([draw.followers for draw in past])
    responders = np.concatenate([draw.responders for draw in past])
    rate = float(responders.sum() / max(followers.sum(), 1.0))
    return LiftPlan(length, users, share, float(followers.mean()), rate, _clustering(past), adds, reached)


def _smallest(enough: Callable[[float], bool]) -> float:
    """The smallest effect that is enough, to a hundredth of it; 1 if none is."""
    low, high = 0.0, 1.0
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of rounds that is enough; None if there are too many."""
    high = 1
    while not enough(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _power(past: Sequence[Draw], users: int, held: int, rounds: int, effect: float) -> float:
    """The share of simulated campaigns in which the interval of `Lift` lies above 0.

    A campaign is put together of past rounds, of users within these, and of an effect that makes each follower of a
    contacted user respond with this probability if they would not have anyway. The test is that of `compare_arms`.
    """
    rng = np.random.default_rng(0)
    campaigns = int(np.clip(_CELLS // (rounds * users), 50, _CAMPAIGNS))
    shape = (campaigns, rounds, users)
    which = rng.integers(len(past), size=shape[:2])
    sizes = np.array([draw.followers.size for draw in past])
    begins = np.cumsum(sizes) - sizes
    # The users of a round in any order, again from the first if more are wanted: the first may be those held out.
    keys = rng.random((*shape[:2], int(sizes.max())))
    keys[np.arange(sizes.max()) >= sizes[which][:, :, None]] = np.inf
    places = np.take_along_axis(keys.argsort(axis=2), np.arange(users) % sizes[which][:, :, None], 2)
    at = begins[which][:, :, None] + places
    m = np.concatenate([draw.followers for draw in past])[at]
    a = np.concatenate([draw.responders for draw in past])[at]
    silent = (m - a)[:, :, held:].astype(np.int64)
    a[:, :, held:] += rng.binomial(silent, effect)
    total = np.maximum(m.sum(axis=2, keepdims=True), 1.0)
    e = (a - a.sum(axis=2, keepdims=True) / total * m).reshape(campaigns, -1)
    again = np.argsort(rng.random((_DRAWS, rounds, users)), axis=2) < held
    ours = np.zeros((1, rounds, users), dtype=np.bool_)
    ours[:, :, :held] = True
    draws = np.concatenate([ours, again]).reshape(_DRAWS + 1, -1).astype(np.float64).T
    share = held / users
    variance = share**2 * (e**2).sum(axis=1)[:, None] + (1.0 - 2.0 * share) * (e**2 @ draws)
    statistic = -(e @ draws) / np.sqrt(np.maximum(variance, 1e-12))
    return float(is_extreme(statistic).mean())
