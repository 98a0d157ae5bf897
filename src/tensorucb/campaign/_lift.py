"""What contacting people changes: followers of contacted users against followers of those held out.

The hold-out is an experiment: in each round a fixed number of the chosen users, drawn at random, is not contacted. So
everything but the draw can be taken as given, and the draw alone tells how large a difference may be by chance. Three
rules keep that argument whole:

* Who counts is settled before the draw: followers of exactly one chosen user. A follower of several chosen users would
  be in the contacted arm more often than in the other one.
* Users in ``must_include`` are never held out. They were not drawn, so their followers do not count.
* Arms are compared within a round, never across rounds: products and seasons differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64
from tensorucb.campaign._handle import View
from tensorucb.campaign._round import LEVEL, Round
from tensorucb.campaign._told import acted_in_window, of_rounds, revenue_of
from tensorucb.checks import check_number
from tensorucb.errors import StateError
from tensorucb.graph import Graph

# An exact test needs no more draws than this; more would only make the ends of the interval smoother.
_DRAWS = 1999
_STREAM, _MONEY_STREAM = 0x11F7, 0x11F8
FEW = 10  # responders; with fewer, the draw alone does not tell what an effect may be
_FOUR_OF_FIVE = 0.84  # normal deviations that leave a fifth above
_LEAST_EFFECT = 0.01  # what one would like to see if nothing shows


@dataclass(frozen=True)
class RevenueLift:
    """What contact changes in the revenue per follower; counted and compared as response rates are in `Lift`.

    Where contact changes nothing, or adds the same amount to what each follower spends on average, the interval covers
    the truth with a probability of at least ``level``, however heavy the tail of amounts is. Where the draws exclude
    nothing, its ends are minus and plus the largest amount told.

    Attributes
    ----------
    contacted, held_out
        Revenue per follower in the two groups.
    difference
        ``contacted - held_out``.
    low, high
        Ends of its interval at ``level``.
    """

    contacted: float
    held_out: float
    difference: float
    low: float
    high: float
    level: float = LEVEL

    @property
    def text(self) -> str:
        """What contact changes, in words."""
        return (
            f"contact changes the revenue per follower by {self.difference:+z,.2f} ({100 * self.level:.0f} % interval "
            f"{self.low:+z,.2f} to {self.high:+z,.2f})."
        )


@dataclass(frozen=True)
class Lift:
    """Response rates of followers over all rounds with a hold-out that are not cancelled.

    A follower responds by a node event within the round's window; edge responses tell nothing about the followers of a
    user who was not contacted. Counted are the followers of exactly one chosen user, if that user was drawn for one of
    the arms and if the follower was not chosen. An open round counts once node events were told.

    ``difference`` is the mean of the differences of all rounds, weighted by
    ``1 / (1 / contacted followers + 1 / held-out followers)``: rounds with few followers in one arm say little. The
    two rates are averaged with the same weights. The interval holds every effect that the draw of the hold-outs does
    not contradict, drawn again 1,999 times in each round. Where contact changes nothing, or adds the same rate
    everywhere, it covers the truth with a probability of at least ``level``, exactly. With very few possible draws
    nothing can be excluded; the ends are then -1 and 1. With fewer than ten responders, of whom the draw alone would
    tell too much, it also holds the score interval of a difference (Newcombe).

    Attributes
    ----------
    contacted_rate, held_out_rate
        Share of the followers who acted.
    contacted_followers, held_out_followers
        How many followers these shares are of, counted once per round.
    responders
        How many of all these acted. Others who responded follow several chosen users, or none: they do not count.
    difference
        ``contacted_rate - held_out_rate``.
    low, high
        Ends of its interval at ``level``.
    rounds
        Rounds in which both arms have followers.
    revenue
        The same of what followers spend, see `RevenueLift`; None if nothing is known of that.
    """

    contacted_rate: float
    held_out_rate: float
    contacted_followers: int
    held_out_followers: int
    responders: int
    difference: float
    low: float
    high: float
    rounds: int
    level: float = LEVEL
    revenue: RevenueLift | None = None

    def rounds_for(self, effect: float) -> int:
        """About how many rounds like these show an effect in four of five campaigns; `Campaign.plan_lift` says more."""
        # The interval shrinks with the root of the number of rounds.
        wanted = check_number("effect", effect, strict=True)
        z = _deviations(self.level)
        deviation = (self.high - self.low) / (2.0 * z)
        longer = ((z + _FOUR_OF_FIVE) * deviation / wanted) ** 2
        return math.ceil(max(1.0, self.rounds * longer))

    @property
    def text(self) -> str:
        """What contact changes, in words."""
        measured = f"in {self.rounds:,} round{'' if self.rounds == 1 else 's'} with a hold-out"
        interval = f"{100 * self.level:.0f} % interval {100 * self.low:+z.2f} to {100 * self.high:+z.2f}"
        if self.responders == 0:
            followers = self.contacted_followers + self.held_out_followers
            said = (
                f"no countable responses yet: none of the {followers:,} followers who count has responded {measured}. "
                f"All that is known of what contact changes is its {interval} percentage points."
            )
        else:
            said = (
                "contact changes the share of followers who respond by "
                f"{100 * self.difference:+z.2f} percentage points ({interval}), measured {measured}."
            )
        if not self.low <= 0.0 <= self.high:
            return f"{said} The interval does not hold 0: contact changes something."
        effect = max(self.difference, _LEAST_EFFECT)
        return (
            f"{said} The interval holds 0: so far, contact may change nothing. An effect of {100 * effect:.2f} points "
            f"would show in about {self.rounds_for(effect):,} such rounds, in four of five campaigns."
        )

    def __repr__(self) -> str:
        return (
            f"Lift({100 * self.difference:+z.2f} points, {self.level:.0%} between {100 * self.low:+z.2f} and "
            f"{100 * self.high:+z.2f}: {self.contacted_rate:.2%} of {self.contacted_followers:,} followers of "
            f"contacted users, {self.held_out_rate:.2%} of {self.held_out_followers:,} of held-out users, "
            f"{self.rounds} rounds)"
        )


@dataclass(frozen=True)
class Draw:
    """One round: for each user who was drawn for an arm, the followers who count, and those of them who acted."""

    followers: F64
    responders: F64
    held_out: NDArray[np.bool_]
    heard: bool = True  # whether anybody was told to have acted, be it a follower or not

    def of(self, users: NDArray[np.bool_]) -> Draw:
        """The same of some of the users who were drawn."""
        return Draw(self.followers[users], self.responders[users], self.held_out[users])


def draw_of(
    graph: Graph,
    chosen: NDArray[np.int64],
    drawn: NDArray[np.int64],
    held_out: NDArray[np.int64],
    acted: NDArray[np.bool_],
    *,
    edges: NDArray[np.bool_] | None = None,
    worth: F64 | None = None,
) -> Draw:
    """Count the followers of the drawn users.

    ``chosen``, ``drawn`` and ``held_out`` are rows of all chosen users, of those who could have been held out, and of
    those who were. ``acted`` says it for each user, ``edges`` for each edge whether it counts (by default all do).
    With ``worth``, one number for each user, those who acted count that much.
    """
    out = graph.out_edges(chosen)
    out = out if edges is None else out[edges[out]]
    targets = graph.targets[out]
    times_reached = np.bincount(targets, minlength=graph.n_nodes)
    times_reached[chosen] = 0
    single = times_reached[targets] == 1
    sources, targets = graph.sources[out][single], targets[single]
    followers = np.bincount(sources, minlength=graph.n_nodes).astype(np.float64)
    hit = acted[targets]
    weights = None if worth is None else worth[targets[hit]]
    responders = np.bincount(sources[hit], weights=weights, minlength=graph.n_nodes).astype(np.float64)
    return Draw(followers[drawn], responders[drawn], np.isin(drawn, held_out))


def compare_arms(rounds: Sequence[Draw], rng: np.random.Generator, *, responders: int | None = None) -> Lift:
    """The difference between the arms, and its interval by drawing the hold-outs again.

    ``responders`` is how many there are, where the rounds hold shares of what they spent instead.
    """
    arms = np.array([[_by_arm(draw.followers, draw), _by_arm(draw.responders, draw)] for draw in rounds])
    followers, acted = arms.reshape(-1, 2, 2).transpose(1, 0, 2)
    count = int(acted.sum()) if responders is None else responders
    both = followers.all(axis=1)
    if not both.any():
        raise StateError("one of the groups has no followers of its own yet, so there is nothing to compare.")
    weights = 1.0 / (1.0 / followers[both]).sum(axis=1)
    contacted, held_out = np.average(acted[both] / followers[both], axis=0, weights=weights).tolist()
    low, high = _interval(rounds, contacted - held_out, rng)
    if count < FEW:
        # As many followers as tell a rate as well as these do with their weights.
        sizes = weights.sum() ** 2 / (weights[:, None] ** 2 / followers[both]).sum(axis=0)
        lowest, highest = _score_interval((contacted, held_out), sizes)
        low, high = min(low, lowest), max(high, highest)
    return Lift(
        contacted_rate=contacted,
        held_out_rate=held_out,
        contacted_followers=int(followers[:, 0].sum()),
        held_out_followers=int(followers[:, 1].sum()),
        responders=count,
        difference=contacted - held_out,
        low=low,
        high=high,
        rounds=int(both.sum()),
    )


def _score_interval(rates: tuple[float, float], sizes: F64) -> tuple[float, float]:
    """The interval of a difference of two rates, of so many independent followers each (Newcombe 1998, method 10)."""
    z = _deviations(LEVEL)
    rate = np.array(rates)
    shrunk = 1.0 + z**2 / sizes
    middle = (rate + z**2 / (2.0 * sizes)) / shrunk
    half = z * np.sqrt(rate * (1.0 - rate) / sizes + z**2 / (4.0 * sizes**2)) / shrunk
    below, above = rate - (middle - half), middle + half - rate
    difference = rate[0] - rate[1]
    return float(difference - np.hypot(below[0], above[1])), float(difference + np.hypot(above[0], below[1]))


def _deviations(level: float) -> float:
    """Half the width of an interval of a normal number at this level."""
    from scipy.special import ndtri

    return float(ndtri((1.0 + level) / 2.0))


def _by_arm(values: F64, draw: Draw) -> tuple[float, float]:
    return float(values[~draw.held_out].sum()), float(values[draw.held_out].sum())


def _interval(rounds: Sequence[Draw], difference: float, rng: np.random.Generator) -> tuple[float, float]:
    """The smallest and the largest effect that the draw does not contradict, to 1e-9."""
    sums = np.zeros((1 + _DRAWS, 5))  # of the observed draw, and of others
    for draw in rounds:
        terms, constant = _terms(draw)
        sums[0] += constant + draw.held_out @ terms
        keys, n_held = rng.random((_DRAWS, draw.held_out.size)), int(draw.held_out.sum())
        sums[1:] += constant + (keys <= np.partition(keys, n_held - 1)[:, n_held - 1 : n_held]) @ terms

    def end(outside: float, sign: float) -> float:
        """The last effect before this end of the scale of which what is left is not among the most extreme draws."""
        inside = difference if is_extreme(sign * _statistic(sums, outside)) else outside
        while abs(outside - inside) > 1e-9:
            middle = (inside + outside) / 2.0
            extreme = is_extreme(sign * _statistic(sums, middle))
            inside, outside = (inside, middle) if extreme else (middle, outside)
        return inside

    return end(-1.0, 1.0), end(1.0, -1.0)


def is_extreme(statistics: F64) -> NDArray[np.bool_]:
    """Whether the first number of each row, that of the observed draw, is among the largest 5 % of all draws."""
    ours = statistics[..., :1]
    # The observed draw is one of them. A draw that differs by rounding alone is as extreme.
    as_extreme = (statistics >= ours - 1e-9 * (1.0 + np.abs(ours))).sum(axis=-1)
    # 0.1 / 2 of 2,000 is 99.99… in floating point; one draw in twenty is rejected, so 100 must be as well.
    return np.asarray(as_extreme <= (1.0 - LEVEL) / 2.0 * statistics.shape[-1] + 1e-6)


def _terms(draw: Draw) -> tuple[F64, F64]:
    """What each user adds to the five sums of the statistic if held out, and what the round adds anyway.

    Notation: user s has m followers, and a of them acted; r = Σa / Σm over both arms, w = the contacted users' share of
    all followers, c and h = how many users were contacted and held out, n = c + h. With e = a − r·m, the sum of e
    over contacted users is the round's weight times its difference of rates. If contact adds the rate τ, then
    e − τ·f is what is left, with f = (1 − w)·m for contacted and −w·m for held-out users. Its sum over contacted
    users is compared with the root of its variance, Σ (h/n)² (e − τf)² over contacted plus Σ (c/n)² (e − τf)² over
    held-out users: an effect that differs from follower to follower makes the contacted users vary more, and so it
    does not mislead. Sums over contacted users are written as minus those over held-out users, since e and f sum to 0.
    """
    m = draw.followers
    a = draw.responders
    held = draw.held_out
    total = max(m.sum(), 1.0)
    n_held = held.sum()
    n = held.size
    e, f = a - a.sum() / total * m, m * (~held - m[~held].sum() / total)
    squares = np.stack([e * e, e * f, f * f], axis=1)
    constant = np.concatenate([np.zeros(2), (n_held / n) ** 2 * squares.sum(axis=0)])
    return np.column_stack([-e, -f, (n - 2 * n_held) / n * squares]), constant


def _statistic(sums: F64, effect: float) -> F64:
    """The difference that is left after an effect, in units of its deviation; 0 where nothing varies."""
    left = sums[..., 0] - effect * sums[..., 1]
    variance = sums[..., 2] - 2.0 * effect * sums[..., 3] + effect**2 * sums[..., 4]
    return np.asarray(left / np.sqrt(np.maximum(variance, 1e-12)), dtype=np.float64)


def lift_of(view: View, counts: Callable[[Round], bool] = lambda record: True) -> Lift:
    """Compare response rates of followers of contacted and of held-out users, in the rounds that count."""
    draws = draws_of(view, counts)
    measured = compare_arms(list(draws.values()), _rng(view, _STREAM))
    return replace(measured, revenue=_revenue_lift(view, list(draws), measured.responders))


def lift_by(view: View, counts: Callable[[Round], bool], codes: NDArray[np.int16]) -> dict[int, Lift]:
    """The same for the users of each code apart, of responders alone.

    Codes in which nothing can be compared are left out, and those whose interval excludes nothing.

    Given how many of a code's users were held out, each of them was as likely to be one of these: the draw is fair
    within a code as well.
    """
    draws = [(codes[_drawn(record)], draw) for record, draw in draws_of(view, counts).items()]
    lifts = {}
    for code in np.unique(codes).tolist():
        parts = [draw.of(own == code) for own, draw in draws]
        parts = [part for part in parts if part.held_out.any() and not part.held_out.all()]
        with suppress(StateError):
            lift = compare_arms(parts, _rng(view, _STREAM))
            if lift.low > -1.0 or lift.high < 1.0:
                lifts[code] = lift
    return lifts


def _rng(view: View, stream: int) -> np.random.Generator:
    """Random numbers that are the same each time."""
    return np.random.default_rng([int(view.handle.record.settings["seed"]), stream])


def draws_of(view: View, counts: Callable[[Round], bool] = lambda record: True) -> dict[Round, Draw]:
    """The rounds with a hold-out of which something was told, or which are closed, and the arms of each."""
    rounds = [record for record in view.rounds() if record.held_out.size and record.status != "cancelled"]
    # Of all of them, so that those of another selection need not be drawn up again.
    drawn = zip(rounds, of_rounds(view, "draws", rounds, _draw), strict=True)
    draws = {record: draw for record, draw in drawn if counts(record)}
    if not draws:
        raise StateError("no round has a hold-out. Open rounds with one, such as 0.2, to measure the lift.")
    if not any(draw.heard for draw in draws.values()):
        raise StateError(
            "the lift needs node events (user, time) of the followers of contacted and held-out users; none were told "
            "in rounds with a hold-out. Edge responses say nothing about those who were held out."
        )
    return {record: draw for record, draw in draws.items() if draw.heard or record.status != "open"}


def _drawn(record: Round) -> NDArray[np.int64]:
    """The chosen users who could have been held out."""
    return record.chosen[~np.isin(record.chosen, record.must_include)]


def _draw(view: View, record: Round, worth: F64 | None = None) -> Draw:
    """The arms of a round; ``worth`` as `draw_of` takes it."""
    network, told = view.network, view.told(record.number)
    acted = np.zeros(network.graph.n_nodes, dtype=np.bool_)
    acted[acted_in_window(record, told).targets] = True
    there = network.born <= record.number
    draw = draw_of(network.graph, record.chosen, _drawn(record), record.held_out, acted, edges=there, worth=worth)
    return replace(draw, heard=told.actions.size > 0)


def _revenue_lift(view: View, rounds: Sequence[Round], responders: int) -> RevenueLift | None:
    """The comparison of what followers spend; in units of the largest amount, so that it lies between -1 and 1."""
    if not any(record.is_valued(view.network) for record in rounds):
        return None
    worths = [revenue_of(view.network, record, view.told(record.number)) for record in rounds]
    largest = max((float(np.nanmax(worth, initial=0.0)) for worth in worths), default=0.0)
    if largest <= 0.0:
        return None
    draws = [_draw(view, record, np.nan_to_num(worth) / largest) for record, worth in zip(rounds, worths, strict=True)]
    shares = compare_arms(draws, _rng(view, _MONEY_STREAM), responders=responders)
    parts = (shares.contacted_rate, shares.held_out_rate, shares.difference, shares.low, shares.high)
    return RevenueLift(*(part * largest for part in parts))
