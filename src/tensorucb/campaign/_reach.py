"""What a choice will bring: how many users respond and what that is worth, the intervals, and how earlier ones did.

The mean is the policy's and nothing else. What a campaign adds is the width: it compares the responders of its closed
rounds with the intervals that the policy stated, and makes the next one so many times as wide (on the scale of
logarithms) as would have been right for the promised share of them (conformal prediction). Before there are rounds to
look back on, the interval is the policy's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64
from tensorucb.campaign._round import LEVEL, Forecast, Reach, Revenue, Round
from tensorucb.campaign._told import of_rounds, responded, revenue_of
from tensorucb.campaign._value import Worth
from tensorucb.diffusion import simulate_cascades, simulate_gains
from tensorucb.graph import Graph
from tensorucb.policies.prediction import LEVELS, ROUNDS, Prediction
from tensorucb.work import Engine

if TYPE_CHECKING:
    from tensorucb.campaign._handle import View

_TAILS = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
"""The shares of numbers below the ends of an interval."""
_RUNS = 1000
_REVENUE_RUNS = 400
_LEAST_RUNS = 50
_REPEATS = 8  # simulated rounds for each draw of what is not known
_MANY = 2000  # responses from which on a sum of amounts is drawn as a normal number
_DRAWS = 32  # of what is not known of the sources
_CELLS = 1 << 17  # probabilities worked out at once: they fit into a processor's cache
# Rounds looked back on, so that an ask does not take longer as a campaign grows older.
_WINDOW = 200
# Misses in units of the stated half-width, as they are if the policy is right: those of a normal distribution.
_USUAL_MISSES = np.array([0.038, 0.115, 0.194, 0.276, 0.363, 0.459, 0.568, 0.7, 0.875, 1.192])
_THEIR_WEIGHT = 0.3  # of each of these, in rounds
_DISCOUNT = 0.98  # of older rounds, since the policy goes on learning


@dataclass(frozen=True)
class Beliefs:
    """What the policy believes of every edge in this round: each source with the strategy that it gets, or would."""

    graph: Graph
    predictions: Sequence[Prediction]  # one for each strategy
    places: I64  # for each user the place of the strategy

    @property
    def redundancy(self) -> float:
        """How far a second contact of the same user brings nothing new."""
        return self.predictions[0].redundancy

    @cached_property
    def means(self) -> F64:
        """(strategies, edges) the believed probability of every edge with each strategy."""
        return stacked([prediction.expected() for prediction in self.predictions])

    @cached_property
    def expected(self) -> F64:
        """The believed probability of every edge."""
        return of_sources(self.graph, self.means, self.places)

    def each_round(self) -> Iterator[tuple[float, F64]]:
        """Weights of a few rounds that stand for all, and the probability of every edge in each."""
        if all(prediction.level == 0.0 for prediction in self.predictions):
            yield 1.0, self.expected
            return
        for weight, *rows in zip(ROUNDS.tolist(), *(p.each_round() for p in self.predictions), strict=True):
            yield weight, of_sources(self.graph, stacked(rows), self.places)

    def rounds(self, edges: I64, draw: F64 | None = None) -> F64:
        """``(rounds, edges)`` the probability of some edges in each of these rounds; ``draw`` as in `Prediction`."""
        own = self.places[self.graph.sources[edges]]
        p = np.empty((*(() if draw is None else draw.shape[:-1]), ROUNDS.size, edges.size))
        for place in np.unique(own).tolist():
            here = own == place
            drawn = None if draw is None else draw[..., here]
            p[..., here] = self.predictions[place].rounds(edges[here], drawn)
        return p


@dataclass(frozen=True)
class Outlook:
    """What is expected of a choice.

    ``forecast`` is the policy's own statement, for later comparison with what was observed; None if the chosen have no
    followers. ``gains`` is what each seed adds to the expected number, in the given order. ``revenues`` is what each
    adds to the expected revenue, ``revenue_forecast`` the statement about that in units of the average response's
    worth, ``unit``.
    """

    reach: Reach
    forecast: Forecast | None
    gains: F64
    revenues: F64 | None = None
    unit: float = 0.0
    revenue_forecast: Forecast | None = None


@dataclass(frozen=True)
class Outcome:
    """A closed round: what was stated, and how many responded; ``revenue`` is the same of what that was worth."""

    forecast: Forecast
    responders: float
    revenue: Outcome | None = None


def past_outcomes(view: View) -> list[Outcome]:
    """What the last closed rounds were expected to bring, and what they brought by what is told now; oldest first."""
    last = view.ledger.next_number()
    numbered = (view.ledger.rounds.get(number) for number in range(max(1, last - _WINDOW), last))
    closed = [record for record in numbered if record is not None and record.status == "closed"]
    return of_rounds(view, "outcomes", [record for record in closed if record.forecast is not None], _outcome)


def _outcome(view: View, record: Round) -> Outcome:
    told = view.told(record.number)
    acted = responded(view.network, record, told)
    revenue = None
    if record.revenue_forecast is not None:
        worth = revenue_of(view.network, record, told)[acted]
        if not np.isnan(worth).any():
            revenue = Outcome(record.revenue_forecast, float(worth.sum()) / record.unit)
    assert record.forecast is not None
    return Outcome(record.forecast, int(np.count_nonzero(acted)), revenue)


def foresee(
    beliefs: Beliefs,
    rows: I64,
    objective: str,
    past: Sequence[Outcome],
    worth: Worth | None,
    rng: np.random.Generator,
    engine: Engine | None = None,
) -> Outlook:
    """What to expect if the users ``rows`` are contacted; ``past`` are the campaign's last rounds.

    With ``worth``, what a response is worth, also of the revenue.
    """
    audience = Audience.of(beliefs, rows, worth)
    if audience.size == 0:
        outlook = Outlook(Reach(0.0, 0.0, 0.0, objective=objective), None, np.zeros(rows.size))
    else:
        # Draws and doubts are about the width: the mean stays what is believed.
        mean = float(ROUNDS @ audience.chances.sum(axis=1))
        forecast = shown = stated(mean, audience.drawn[0], audience.size)
        if objective == "direct":
            gains, most = expected_gains(beliefs, rows), audience.size
        else:
            gains, shown = _cascades(beliefs, rows, rng, engine)
            most = beliefs.graph.n_nodes - rows.size
        low, high = shown.widened(width_factor(past), most)
        # The interval always holds the mean, which a rare large number moves further than the quantiles.
        ends = float(min(low, math.floor(shown.mean))), float(max(high, math.ceil(shown.mean)))
        outlook = Outlook(Reach(shown.mean, *ends, objective=objective), forecast, gains)
    return outlook if worth is None else _with_revenue(outlook, audience, rows, worth, past, engine)


def _cascades(beliefs: Beliefs, rows: I64, rng: np.random.Generator, engine: Engine | None) -> tuple[F64, Forecast]:
    """Users that each seed adds in simulated cascades, and the forecast of all of them."""

    def simulate(p: F64, runs: int) -> F64:
        return simulate_gains(beliefs.graph, p, rows, runs, rng, redundancy=beliefs.redundancy, engine=engine)

    shares, added = _in_all_rounds(beliefs, _RUNS, simulate)
    totals = added.sum(axis=1)
    return shares @ added, _weighted(float(shares @ totals), shares, totals)


def _in_all_rounds(beliefs: Beliefs, runs: int, simulate: Callable[[F64, int], F64]) -> tuple[F64, F64]:
    """About so many simulated cascades in the rounds that stand for all, and the weight of each."""
    weights = []
    results = []
    for weight, p in beliefs.each_round():
        count = max(_LEAST_RUNS, round(weight * runs))
        results.append(simulate(p, count))
        weights.append(np.full(count, weight / count))
    return np.concatenate(weights), np.concatenate(results)


def _weighted(mean: float, weights: F64, totals: F64, unit: float = 1.0) -> Forecast:
    """A forecast with this mean, and the interval of totals with these weights; in units."""
    order = np.argsort(totals, kind="stable")
    ends = np.searchsorted(np.cumsum(weights[order]), _TAILS)
    low, high = totals[order][np.minimum(ends, order.size - 1)].tolist()
    return Forecast(mean / unit, min(low, mean) / unit, max(high, mean) / unit)


@dataclass(frozen=True)
class Audience:
    """Who may respond: edges from the contacted users to others, sorted by the follower."""

    beliefs: Beliefs
    edges: I64
    starts: I64
    sources: I64  # of each edge, numbered from 0
    values: F64  # what a response of each user is worth, 0 if that is not known

    @classmethod
    def of(cls, beliefs: Beliefs, rows: I64, worth: Worth | None) -> Audience:
        graph = beliefs.graph
        contacted = np.zeros(graph.n_nodes, dtype=np.bool_)
        contacted[rows] = True
        edges = graph.out_edges(np.sort(rows))
        edges = edges[~contacted[graph.targets[edges]]]
        edges = edges[np.argsort(graph.targets[edges], kind="stable")]
        starts = np.flatnonzero(np.diff(graph.targets[edges], prepend=-1))
        values = np.zeros(starts.size) if worth is None else worth.means[graph.targets[edges[starts]]]
        return cls(beliefs, edges, starts, np.searchsorted(np.sort(rows), graph.sources[edges]), values)

    @property
    def size(self) -> int:
        """Number of users who may respond."""
        return int(self.starts.size)

    @cached_property
    def chances(self) -> F64:
        """``(rounds, users)`` how likely each responds in the rounds that stand for all."""
        return self._chances(self.beliefs.rounds(self.edges))

    def _chances(self, p: F64) -> F64:
        """The same by probabilities of the edges."""
        some = 1.0 - np.multiply.reduceat(1.0 - p, self.starts, axis=-1)
        redundancy = self.beliefs.redundancy
        if redundancy > 0.0:
            some = (1.0 - redundancy) * some + redundancy * np.maximum.reduceat(p, self.starts, axis=-1)
        return np.asarray(some)

    @cached_property
    def drawn(self) -> tuple[F64, F64]:
        """Expected responders, and what they are worth, in draws of what the policy does not know; equally likely."""
        # The same draws every time, so that the same question has the same answer.
        draws = np.random.default_rng(0).normal(size=(_DRAWS, int(self.sources.max()) + 1))
        wide = replace(self.beliefs, predictions=[prediction.doubted() for prediction in self.beliefs.predictions])
        usual = self._chances(wide.rounds(self.edges))
        counts = []
        sums = []
        at_once = max(1, _CELLS // (ROUNDS.size * self.edges.size))
        for start in range(0, _DRAWS, at_once):
            chances = self._chances(wide.rounds(self.edges, draws[start : start + at_once, self.sources]))
            counts.append(chances.sum(axis=-1))
            sums.append(chances @ self.values)
        responders = _between_levels(np.concatenate(counts), usual.sum(axis=1))
        money = _between_levels(np.concatenate(sums), usual @ self.values)
        return np.clip(responders, 1e-9, self.size).ravel(), money.ravel()


def _between_levels(sums: F64, usual: F64) -> F64:
    """Sums of each draw in the rounds that stand for all, as ``(draws, levels)`` that are equally likely.

    A few rounds that stand for all give the mean, not the quantiles. So each draw gets levels of its own, in between.
    What is not known of the sources moves no expectation: on average over the draws a level has its ``usual`` sum,
    although the sigmoid is bent, and of two contacts of one user the better one counts.
    """
    from scipy.special import ndtri

    strata = (np.arange(len(sums))[:, None] + 0.5) / len(sums)
    levels = ndtri((np.arange(LEVELS.size) + strata) / LEVELS.size)
    logs = np.log(np.maximum(sums, 1e-9))
    logs += np.log(np.maximum(usual, 1e-9) / np.maximum(sums.mean(axis=0), 1e-9))
    return np.exp([np.interp(own, LEVELS, log) for own, log in zip(levels, logs, strict=True)])


def stated(mean: float, counts: F64, audience: int) -> Forecast:
    """The policy's predictive distribution: its mean, and the interval of a mixture of binomials.

    The expected ``counts`` have what the round has of its own and what is not known of the sources; all are equally
    likely. Each user of the audience then throws a coin.
    """
    from scipy.special import bdtr

    rates = np.clip(counts / audience, 0.0, 1.0 - 1e-12)

    def share(responders: int) -> float:
        """Of rounds with at most so many responders."""
        return float(bdtr(responders, audience, rates).mean())

    low, high = (float(bisect_left(range(audience), tail, key=share)) for tail in _TAILS)
    return Forecast(mean, min(low, mean), max(high, mean))


def _with_revenue(
    outlook: Outlook, audience: Audience, rows: I64, worth: Worth, past: Sequence[Outcome], engine: Engine | None
) -> Outlook:
    """What is expected of a choice, with its revenue."""
    beliefs, forecast, direct = audience.beliefs, outlook.forecast, outlook.reach.objective == "direct"
    revenues = expected_gains(beliefs, rows, worth.means)
    outlook = replace(outlook, revenues=revenues if direct else None)
    mean = float(revenues.sum())
    if forecast is None or forecast.mean <= 0.0 or mean <= 0.0:
        return replace(outlook, reach=replace(outlook.reach, revenue=Revenue(0.0, 0.0, 0.0)))
    unit = mean / forecast.mean
    low, high = np.quantile(_simulated(audience, worth), _TAILS).tolist()
    own = Forecast(forecast.mean, min(low, mean) / unit, max(high, mean) / unit)
    shown = own if direct else _of_cascades(beliefs, rows, worth, unit, engine)
    low, high = shown.interval(width_factor([each.revenue for each in past if each.revenue is not None]))
    revenue = Revenue(shown.mean * unit, max(0.0, min(low, shown.mean)) * unit, max(high, shown.mean) * unit)
    return replace(outlook, reach=replace(outlook.reach, revenue=revenue), unit=unit, revenue_forecast=own)


def _simulated(audience: Audience, worth: Worth) -> F64:
    """Sums of amounts in simulated rounds: who responds, by the policy's own distribution, and what they spend."""
    values = audience.values
    usual = ROUNDS @ audience.chances
    # The same numbers every time, so that the same question has the same answer.
    rng = np.random.default_rng(0)
    expected, money = (np.repeat(each, _REPEATS) for each in audience.drawn)
    each = money / expected  # what a response is worth on average in this draw
    level = np.exp(worth.doubt * rng.standard_normal(each.size) - 0.5 * worth.doubt**2)
    responders = rng.binomial(audience.size, np.clip(expected / audience.size, 0.0, 1.0))
    average = float(usual @ values / usual.sum())
    square = float(usual @ values**2 / usual.sum()) * float(np.mean(worth.ratios**2))
    few = np.where(responders <= _MANY, responders, 0)
    who = np.searchsorted(np.cumsum(usual), rng.random(int(few.sum())) * usual.sum())
    spent = values[np.minimum(who, values.size - 1)] * rng.choice(worth.ratios, who.size)
    totals = np.bincount(np.repeat(np.arange(few.size), few), weights=spent, minlength=few.size)
    large = responders * average + np.sqrt(responders * max(square - average**2, 0.0)) * rng.standard_normal(few.size)
    totals = np.where(responders <= _MANY, totals, np.maximum(large, 0.0))
    return np.asarray(totals * level * each / average)


def _of_cascades(beliefs: Beliefs, rows: I64, worth: Worth, unit: float, engine: Engine | None) -> Forecast:
    """The revenue of whole cascades, in units; amounts scatter around the sum as they do around each of its parts."""
    values = worth.means.copy()
    values[rows] = 0.0
    rng = np.random.default_rng(0)

    def simulate(p: F64, runs: int) -> F64:
        return simulate_cascades(
            beliefs.graph, p, rows, runs, rng, values=values, redundancy=beliefs.redundancy, engine=engine
        )

    shares, sums = _in_all_rounds(beliefs, _REVENUE_RUNS, simulate)
    scatter = np.sqrt(sums * unit * float(np.mean(worth.ratios**2))) * rng.standard_normal(sums.size)
    spent = np.maximum(sums + scatter, 0.0) * np.exp(worth.doubt * rng.standard_normal(sums.size))
    return _weighted(float(shares @ sums), shares, spent, unit)


def width_factor(past: Sequence[Outcome]) -> float:
    """How many times as wide as stated an interval must be to hold what it promises; rounds oldest first."""
    misses = np.array([*_USUAL_MISSES, *(outcome.forecast.miss(outcome.responders) for outcome in past)])
    weights = np.append(np.full(_USUAL_MISSES.size, _THEIR_WEIGHT), _DISCOUNT ** np.arange(len(past))[::-1])
    order = np.argsort(misses, kind="stable")
    # Each miss stands for the middle of its share.
    middle = (np.cumsum(weights[order]) - 0.5 * weights[order]) / weights.sum()
    return float(np.interp(LEVEL, middle, misses[order]))


@dataclass(frozen=True)
class Covered:
    """What contacted users leave to be won: of each user the probability of not responding, and the strongest edge."""

    free: F64
    strongest: F64

    @classmethod
    def nobody(cls, graph: Graph, gone: I64 | None = None) -> Covered:
        """Before anybody is contacted; the users ``gone`` are not there to be won."""
        free, strongest = np.ones(graph.n_nodes), np.zeros(graph.n_nodes)
        if gone is not None:
            free[gone], strongest[gone] = 0.0, 1.0
        return cls(free, strongest)

    @classmethod
    def of(cls, graph: Graph, p: F64, rows: I64, *, gone: bool = True) -> Covered:
        """After ``rows`` are contacted, who are no longer there to be won, unless they are not ``gone``."""
        covered, edges = cls.nobody(graph, rows if gone else None), graph.out_edges(rows)
        np.multiply.at(covered.free, graph.targets[edges], 1.0 - p[edges])
        np.maximum.at(covered.strongest, graph.targets[edges], p[edges])
        return covered

    def own(self, redundancy: float, rows: I64 | int | slice = slice(None)) -> F64:
        """How much is left of some users."""
        return np.asarray((1.0 - redundancy) * self.free[rows] + redundancy * (1.0 - self.strongest[rows]))

    def take(self, p: F64, targets: NDArray[np.int32]) -> None:
        """Contact one more user, whose edges have these probabilities."""
        self.free[targets] *= 1.0 - p
        self.strongest[targets] = np.maximum(self.strongest[targets], p)

    def added(self, p: F64, targets: NDArray[np.int32], redundancy: float) -> F64:
        """What each of some edges adds."""
        added = (1.0 - redundancy) * p * self.free[targets]
        if redundancy > 0.0:
            added += redundancy * np.maximum(p - self.strongest[targets], 0.0)
        return np.asarray(added)


def direct_gains(graph: Graph, p: F64, rows: I64, redundancy: float, values: F64 | None = None) -> F64:
    """Expected responders that each seed adds to those before it, in the given order; no seed is a responder.

    With ``values``, one for each user, what their responses are worth.
    """
    covered, gains = Covered.nobody(graph, rows), np.empty(rows.size)
    for i, row in enumerate(rows.tolist()):
        edges = slice(int(graph.out_offsets[row]), int(graph.out_offsets[row + 1]))
        targets, own = graph.targets[edges], p[edges]
        added = covered.added(own, targets, redundancy)
        gains[i] = float(added.sum() if values is None else added @ values[targets])
        covered.take(own, targets)
    return gains


def expected_gains(beliefs: Beliefs, rows: I64, values: F64 | None = None) -> F64:
    """The same on average over the rounds that stand for all."""
    graph = beliefs.graph
    rounds = beliefs.each_round()
    return np.asarray(sum(weight * direct_gains(graph, p, rows, beliefs.redundancy, values) for weight, p in rounds))


def added_by_all(beliefs: Beliefs, rows: I64, values: F64 | None = None) -> F64:
    """For each user the expected responders that it would add to those of ``rows``, or what these are worth."""
    graph, total = beliefs.graph, np.zeros(beliefs.graph.n_nodes)
    for weight, p in beliefs.each_round():
        added = Covered.of(graph, p, rows).added(p, graph.targets, beliefs.redundancy)
        added = added if values is None else added * values[graph.targets]
        total += weight * np.bincount(graph.sources, weights=added, minlength=graph.n_nodes)
    return total


def of_sources(graph: Graph, values: F64, strategies: I64) -> F64:
    """Of (strategies, edges) values the one of each edge for its source's strategy; (edges,) values as they are."""
    if values.ndim == 1:
        return values
    return np.asarray(values[0] if len(values) == 1 else values[strategies[graph.sources], np.arange(graph.n_edges)])


def stacked(rows: Sequence[F64]) -> F64:
    """One row for each strategy; of a single one a view, not a copy."""
    return rows[0][None] if len(rows) == 1 else np.stack(rows)
