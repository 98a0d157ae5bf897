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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64
from tensorucb.campaign._handle import Handle, View
from tensorucb.campaign._round import LEVEL, Round
from tensorucb.errors import StateError
from tensorucb.graph import Graph

# An exact test needs no more draws than this; more would only make the ends of the interval smoother.
_DRAWS = 1999
_STREAM = 0x11F7


@dataclass(frozen=True)
class Lift:
    """Response rates of followers over all rounds with a hold-out that are not cancelled.

    A follower responds by a node event within the round's window; edge responses tell nothing about the followers of a
    user who was not contacted. Counted are the followers of exactly one chosen user, if that user was drawn for one of
    the arms and if the follower was not chosen. An open round counts once node events were told.

    Each round gives one difference of rates, contacted minus held out. ``difference`` is their mean, weighted by
    ``1 / (1 / contacted followers + 1 / held-out followers)``: rounds with few followers in one arm say little. The
    two rates are averaged with the same weights.

    The interval holds every effect that the draw of the hold-outs does not contradict. For an assumed effect, the
    responses that it would explain are taken away from the contacted users; what is left must look the same however
    the hold-outs were drawn. They are drawn again 1,999 times in each round, and the effect is kept if the observed
    difference, divided by its standard deviation, is not among the most extreme 5 % on either side. Where contact
    changes nothing, or adds the same rate everywhere, the interval covers the truth with a probability of at least
    ``level``, exactly. With very few possible draws nothing can be excluded; the ends are then -1 and 1.

    Attributes
    ----------
    contacted_rate, held_out_rate
        Share of the followers who acted.
    contacted_followers, held_out_followers
        How many followers these shares are of, counted once per round.
    difference
        ``contacted_rate - held_out_rate``.
    low, high
        Ends of its interval at ``level``.
    rounds
        Rounds in which both arms have followers.

    Examples
    --------
    >>> from tensorucb.campaign import Lift
    >>> lift = Lift(0.15, 0.05, 900, 300, difference=0.10, low=0.07, high=0.13, rounds=20)
    >>> f"{lift.difference:+.0%} ({lift.low:+.0%} to {lift.high:+.0%})"
    '+10% (+7% to +13%)'
    """

    contacted_rate: float
    held_out_rate: float
    contacted_followers: int
    held_out_followers: int
    difference: float
    low: float
    high: float
    rounds: int
    level: float = LEVEL

    @property
    def text(self) -> str:
        """What contact changes, in words."""
        verdict = "The interval does not hold 0: contact changes something."
        if self.low <= 0.0 <= self.high:
            verdict = "The interval holds 0: so far, contact may change nothing."
        return (
            f"contact changes the share of followers who respond by {100 * self.difference:+.2f} percentage points "
            f"({100 * self.level:.0f} % interval {100 * self.low:+.2f} to {100 * self.high:+.2f}), measured in "
            f"{self.rounds:,} round{'' if self.rounds == 1 else 's'} with a hold-out. {verdict}"
        )

    def __repr__(self) -> str:
        return (
            f"Lift({100 * self.difference:+.2f} points, {self.level:.0%} between {100 * self.low:+.2f} and "
            f"{100 * self.high:+.2f}: {self.contacted_rate:.2%} of {self.contacted_followers:,} followers of contacted "
            f"users, {self.held_out_rate:.2%} of {self.held_out_followers:,} of held-out users, {self.rounds} rounds)"
        )


@dataclass(frozen=True)
class Draw:
    """One round: for each user who was drawn for an arm, the followers who count, and those of them who acted."""

    followers: F64
    responders: F64
    held_out: NDArray[np.bool_]


def draw_of(
    graph: Graph,
    chosen: NDArray[np.int64],
    drawn: NDArray[np.int64],
    held_out: NDArray[np.int64],
    acted: NDArray[np.bool_],
    *,
    edges: NDArray[np.bool_] | None = None,
) -> Draw:
    """Count the followers of the drawn users.

    ``chosen``, ``drawn`` and ``held_out`` are rows of all chosen users, of those who could have been held out, and of
    those who were. ``acted`` says it for each user, ``edges`` for each edge whether it counts (by default all do).
    """
    out = graph.out_edges(chosen)
    out = out if edges is None else out[edges[out]]
    targets = graph.targets[out]
    times_reached = np.bincount(targets, minlength=graph.n_nodes)
    times_reached[chosen] = 0
    single = times_reached[targets] == 1
    sources, targets = graph.sources[out][single], targets[single]
    followers = np.bincount(sources, minlength=graph.n_nodes).astype(np.float64)
    responders = np.bincount(sources[acted[targets]], minlength=graph.n_nodes).astype(np.float64)
    return Draw(followers[drawn], responders[drawn], np.isin(drawn, held_out))


def compare_arms(rounds: Sequence[Draw], rng: np.random.Generator, *, level: float = LEVEL) -> Lift:
    """The difference between the arms, and its interval by drawing the hold-outs again."""
    arms = np.array([[_by_arm(draw.followers, draw), _by_arm(draw.responders, draw)] for draw in rounds])
    followers, responders = arms.reshape(-1, 2, 2).transpose(1, 0, 2)
    both = followers.all(axis=1)
    if not both.any():
        raise StateError("one of the groups has no followers of its own yet, so there is nothing to compare.")
    weights = 1.0 / (1.0 / followers[both]).sum(axis=1)
    contacted, held_out = np.average(responders[both] / followers[both], axis=0, weights=weights).tolist()
    low, high = _interval(rounds, contacted - held_out, rng, level)
    return Lift(
        contacted_rate=contacted,
        held_out_rate=held_out,
        contacted_followers=int(followers[:, 0].sum()),
        held_out_followers=int(followers[:, 1].sum()),
        difference=contacted - held_out,
        low=low,
        high=high,
        rounds=int(both.sum()),
        level=level,
    )


def _by_arm(values: F64, draw: Draw) -> tuple[float, float]:
    return float(values[~draw.held_out].sum()), float(values[draw.held_out].sum())


def _interval(rounds: Sequence[Draw], found: float, rng: np.random.Generator, level: float) -> tuple[float, float]:
    """The smallest and the largest effect that the draw does not contradict, to 1e-9."""
    observed, again = np.zeros(5), np.zeros((_DRAWS, 5))
    for draw in rounds:
        terms, constant = _terms(draw)
        observed += constant + draw.held_out @ terms
        keys, n_held = rng.random((_DRAWS, draw.held_out.size)), int(draw.held_out.sum())
        again += constant + (keys <= np.partition(keys, n_held - 1)[:, n_held - 1 : n_held]) @ terms

    def kept(effect: float, sign: float) -> bool:
        ours, theirs = sign * _statistic(observed, effect), sign * _statistic(again, effect)
        # The observed draw is one of them. A draw that differs by rounding alone is as extreme.
        as_extreme = 1 + np.count_nonzero(theirs >= ours - 1e-9 * (1.0 + abs(ours)))
        # 0.1 / 2 of 2,000 is 99.99… in floating point; one draw in twenty is rejected, so 100 must be as well.
        return bool(as_extreme > (1.0 - level) / 2.0 * (_DRAWS + 1) + 1e-6)

    ends = []
    for outside, sign in ((-1.0, 1.0), (1.0, -1.0)):
        inside = outside if kept(outside, sign) else found
        while abs(outside - inside) > 1e-9:
            middle = (inside + outside) / 2.0
            inside, outside = (middle, outside) if kept(middle, sign) else (inside, middle)
        ends.append(inside)
    return ends[0], ends[1]


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
    m, a, held = draw.followers, draw.responders, draw.held_out
    total, n_held, n = max(m.sum(), 1.0), held.sum(), held.size
    e, f = a - a.sum() / total * m, m * (~held - m[~held].sum() / total)
    squares = np.stack([e * e, e * f, f * f], axis=1)
    constant = np.concatenate([np.zeros(2), (n_held / n) ** 2 * squares.sum(axis=0)])
    return np.column_stack([-e, -f, (n - 2 * n_held) / n * squares]), constant


def _statistic(sums: F64, effect: float) -> F64:
    """The difference that is left after an effect, in units of its deviation; 0 where nothing varies."""
    left = sums[..., 0] - effect * sums[..., 1]
    variance = sums[..., 2] - 2.0 * effect * sums[..., 3] + effect**2 * sums[..., 4]
    return np.asarray(left / np.sqrt(np.maximum(variance, 1e-12)), dtype=np.float64)


def lift(handle: Handle) -> Lift:
    """Compare response rates of followers of contacted and of held-out users."""
    with handle.read() as view:
        return lift_of(view, int(handle.record.settings["seed"]))


def lift_of(view: View, seed: int) -> Lift:
    """The same of a campaign as a session shows it; ``seed`` is the campaign's."""
    rounds = [r for r in view.ledger.rounds.values() if r.held_out.size and r.status != "cancelled"]
    if not rounds:
        raise StateError("no round has a hold-out. Open rounds with one, such as 0.2, to measure the lift.")
    heard = [_draw(view, record) for record in rounds]
    if not any(events for events, _ in heard):
        raise StateError(
            "the lift needs node events (user, time) of the followers of contacted and held-out users; none were told "
            "in rounds with a hold-out. Edge responses say nothing about those who were held out."
        )
    counted = [draw for record, (events, draw) in zip(rounds, heard, strict=True) if events or record.status != "open"]
    return compare_arms(counted, np.random.default_rng([seed, _STREAM]))


def _draw(view: View, record: Round) -> tuple[int, Draw]:
    """How many node events a round has, and its arms."""
    network, told = view.network, view.told(record.number)
    acted = np.zeros(network.graph.n_nodes, dtype=np.bool_)
    acted[told.users[record.in_window(told.times)]] = True
    drawn = record.chosen[~np.isin(record.chosen, record.must_include)]
    there = network.born <= record.number
    return told.users.size, draw_of(network.graph, record.chosen, drawn, record.held_out, acted, edges=there)
