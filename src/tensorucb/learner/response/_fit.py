"""The model's parameters as a function of the log: Newton steps from the prior to the maximum of the posterior.

A sweep takes one step in each of three blocks (sources, targets, rounds), each exact given the other two and with a
line search, then learns how far the outcomes of one target in one round are the same, and the prior variances. The
number of sweeps is fixed and every fit starts from the prior, so neither the order of the rounds nor how the log grew
matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.learner.response._features import ContextFeatures, NodeFeatures, context_of
from tensorucb.learner.response._kernels import (
    accumulate,
    gain_squares,
    learn_effects,
    pairs,
    target_sums,
    without_effects,
)
from tensorucb.learner.response._log import Design, Log, Pulls, design_of

_SIZES = (1.0, 0.5, 0.25, 0.125)
# Few outcomes on contexts of very different size could let a variance grow without end.
_LARGEST_VARIANCE = 25.0
# Beyond, a probability is 0 or 1 to rounding, and odds leave the range of numbers.
_LARGEST_LOGIT = 300.0


@dataclass(frozen=True)
class ResponseSettings:
    """Every constant of the model; ``docs/model.md`` has the same table with the reasons.

    Variances are where learning starts from; that value counts as much as ``shared_weight`` weights (``unit_weight``
    for what belongs to a single source or target, ``round_weight`` for rounds, ``single_weight`` for one number).
    """

    base_logit: float = -3.0  # prior mean of an edge's logit; -3 is a probability of 4.7 %
    base_variance: float = 4.0  # its prior variance
    source_variance: float = 0.02  # of the weights of a user's features as a source
    context_variance: float = 1.0  # of the weights of a mode's features
    joint_variance: float = 0.5  # of the weights of the interactions between modes
    response_variance: float = 0.01  # of the weights of a source's features times a mode's features
    own_variance: float = 0.0225  # of each source's own effect
    own_response_variance: float = 0.0625  # of each source's own response to each feature of a mode
    target_variance: float = 0.02  # of the weights of a user's features as a target
    taste_variance: float = 0.002  # of the weight of a target's taste
    offset_variance: float = 0.3  # of each target's own effect
    round_variance: float = 1.0  # of each round's own effect
    trust: float = 0.5  # prior weight of a source's past influence, which is a log rate ratio
    redundancy: float = 0.0  # r before the first round
    saturation: float = 0.5  # prior mean of q
    saturation_variance: float = 0.25
    shared_weight: float = 10.0
    unit_weight: float = 5.0
    single_weight: float = 1.0
    round_weight: float = 4.0
    rank: int = 100  # most features of an interaction between modes; larger ones get a basis of that many contexts
    sweeps: int = 6
    growth: float = 1.1  # refit when the number of rounds has grown by this factor
    max_rows: int = 400_000  # kept for refits; of more, zeros of the oldest rounds are thinned


@dataclass(frozen=True)
class Point:
    """The parameters that are maximised over."""

    weights: F64  # (P,): θ, weights of source features, context features and their products
    effects: F64  # (sources seen, 1 + k): d_i, each source's own effect and own response to each mode's features
    target_weights: F64  # γ, of the target's features and (the last one) of its taste
    offsets: F64  # (targets observed,): b_j
    rounds: F64  # u_t
    saturation: float  # q: 1 if a second contact adds nothing, 0 if it adds as much as the first


Direction = Mapping[str, Any]
"""Numbers for some fields of a `Point`, such as a change."""


@dataclass(frozen=True)
class Prior:
    """Gaussian priors of all parameters by group; the variance of each group is learned."""

    means: F64  # of θ; all others are around 0
    groups: Mapping[str, I64]  # field of `Point` -> the group of each of its columns
    starts: F64  # where the variance of each group starts
    counts: F64  # how many weights the start counts for
    variances: F64  # of each group

    def variance(self, name: str) -> F64:
        """Of each column of a field."""
        return self.variances[self.groups[name]]

    def squares(self, point: Point) -> dict[str, F64]:
        """How far each number of each field is from its mean, squared."""
        apart = {name: getattr(point, name) for name in self.groups}
        apart["weights"] = point.weights - self.means
        return {name: values**2 for name, values in apart.items()}

    def learned(self, point: Point, determined: Direction) -> Prior:
        """With the variances that the parameters speak for; ``determined``: how many weights the data determine.

        Squares over that number, shrunk to the start: one step of MacKay's fixed point. Expectation maximisation has
        the same goal, but hardly moves where each weight is weakly determined, as the effects of most sources are.
        """
        total = self.counts * self.starts
        number = np.zeros(total.size)
        for name, squares in self.squares(point).items():
            groups = self.groups[name]
            total += np.bincount(groups, squares.reshape(-1, groups.size).sum(axis=0), total.size)
            number += np.bincount(groups, np.atleast_1d(determined[name]), total.size)
        return replace(self, variances=np.minimum(total / (np.maximum(number, 0.0) + self.counts), _LARGEST_VARIANCE))


def prior_of(settings: ResponseSettings, nodes: NodeFeatures, context: ContextFeatures) -> Prior:
    """What is believed before the first round."""
    d = nodes.as_source.shape[1]
    crossed = nodes.crossing(context.k).shape[1]
    shared, unit = settings.shared_weight, settings.unit_weight
    # Number of columns, start of their variance, and what it counts for.
    groups = {
        "weights": [
            (d, settings.source_variance, shared),
            (1, settings.base_variance, shared),
            *((size, settings.context_variance, shared) for size in context.sizes),
            *((width, settings.joint_variance, shared) for width in context.widths),
            *((size * crossed, settings.response_variance, shared) for size in context.sizes),
        ],
        "effects": [
            (1, settings.own_variance, unit),
            *((size, settings.own_response_variance, unit) for size in context.sizes),
        ],
        "target_weights": [
            (nodes.as_target.shape[1], settings.target_variance, shared),
            (int(nodes.taste is not None), settings.taste_variance, settings.single_weight),
        ],
        "offsets": [(1, settings.offset_variance, unit)],
        "rounds": [(1, settings.round_variance, settings.round_weight)],
    }
    sizes, starts, counts = zip(*(group for field in groups.values() for group in field), strict=True)
    ends = np.cumsum([len(field) for field in groups.values()])[:-1]
    numbers = np.split(np.arange(len(sizes)), ends)
    of = {name: np.repeat(part, np.array(sizes)[part]) for name, part in zip(groups, numbers, strict=True)}
    means = np.zeros(of["weights"].size)
    means[d] = settings.base_logit
    if nodes.influence is not None:
        # Past influence stands before the columns about the product, and is standardised.
        column = d - nodes.slots
        means[column - 1] = settings.trust * nodes.influence.overall.std()
        means[column] = settings.trust
    return Prior(means, of, np.array(starts), np.array(counts), np.array(starts))


@dataclass(frozen=True)
class Fitted:
    """What the log says; before the first round, what the prior says."""

    context: ContextFeatures
    prior: Prior
    point: Point
    redundancy: float  # r: how far the outcomes of one target in one round are one and the same
    covariance: F64  # (P, P): of θ with all d_i integrated out
    effect_covariances: F64  # V: the covariance of each d_i given θ
    level_covariance: F64  # of the context's part of θ with all u_t integrated out
    pulls: Pulls
    curvature: F64  # of each pull
    offsets: F64  # (n,): b_j of every user

    @property
    def overlap(self) -> float:
        """ρ = r·q: how far a second contact of the same user brings nothing new."""
        return self.redundancy * max(self.point.saturation, 0.0)


class Dose(NamedTuple):
    """What the redundancy r decides: rows of one cell weigh ω = 1 / (1 + r(m − 1))."""

    redundancy: float
    more: F64  # of each cell: r(m − 1)
    weight: F64  # of each row
    by_pull: F64  # responses of each pull, weighted
    by_cell: F64


def dose_of(data: Design, redundancy: float) -> Dose:
    """The weights of rows and responses."""
    more = redundancy * (data.dose - 1.0)
    hits = data.hits
    weight = data.weight
    if redundancy > 0.0:
        omega = 1.0 / (1.0 + more)
        hits = hits * omega[data.hit_cell]
        weight = weight * omega[data.cell]
    by_pull = _summed(data.hit_pull, hits, data.pulls.place.size)
    by_cell = _summed(data.hit_cell, hits, more.size)
    return Dose(redundancy, more, weight, by_pull, by_cell)


class Cells(NamedTuple):
    """What targets say: each cell's factor of the odds, and their part of the logits of all responses."""

    odds: F64
    responses: float


def cells_at(data: Design, point: Point, dose: Dose) -> Cells:
    """γ·(t_j, taste_j(x)) + a_j + b_j + log(1 + r(1 − q)(m − 1)) of each cell."""
    features = data.T.shape[1]
    h = (data.T @ point.target_weights[:features] + point.offsets + data.readiness)[data.cell_place]
    for taste_weight in point.target_weights[features:]:
        h += taste_weight * data.taste
    if dose.redundancy > 0.0:
        h += np.log1p((1.0 - point.saturation) * dose.more)
    np.clip(h, -_LARGEST_LOGIT, _LARGEST_LOGIT, out=h)
    responses = float(dose.by_cell @ h)
    return Cells(np.exp(h, out=h), responses)


class RowPass(NamedTuple):
    """What one pass over all rows says of the parameters."""

    dose: Dose
    cells: Cells
    pull_odds: F64
    likelihood: float  # its logarithm
    curvature: F64  # of each pull
    slope: F64


def rows_at(data: Design, point: Point, dose: Dose, cells: Cells | None = None) -> RowPass:
    """One pass over the rows. Exponentials are taken of pulls and cells: a row costs a product and a division.

    ``cells`` if the targets' parameters are those of another pass.
    """
    cells = cells or cells_at(data, point, dose)
    a = data.pulls.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.pulls.place], data.pulls.Z)
    a = np.clip(a + point.rounds[data.pulls.round], -_LARGEST_LOGIT, _LARGEST_LOGIT)
    odds = np.exp(a)
    curvature, expected = np.empty((2, a.size))
    accumulate(data.ptr, data.cell, dose.weight, odds, cells.odds, curvature, expected, data.scratch)
    likelihood = dose.by_pull @ a + cells.responses - dose.weight @ np.log(data.scratch, out=data.scratch)
    return RowPass(dose, cells, odds, float(likelihood), curvature, dose.by_pull - expected)


def _summed(places: I64, values: F64, size: int) -> F64:
    """The values summed by place."""
    return np.bincount(places, values, size).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Stand:
    """Where a fit stands."""

    settings: ResponseSettings
    data: Design
    part: slice  # of the context in θ
    prior: Prior
    point: Point
    rows: RowPass

    @property
    def value(self) -> float:
        """The log posterior up to a constant."""
        squares = self.prior.squares(self.point)
        penalty = sum(float(np.sum(square / self.prior.variance(name))) for name, square in squares.items())
        penalty += (self.point.saturation - self.settings.saturation) ** 2 / self.settings.saturation_variance
        return self.rows.likelihood - 0.5 * penalty

    def moved(self, direction: Direction, size: float) -> Stand:
        """Some way along a direction."""
        changed: dict[str, Any] = {name: getattr(self.point, name) + size * way for name, way in direction.items()}
        if "saturation" in changed:
            changed["saturation"] = float(np.clip(changed["saturation"], -1.0, 1.0))
        point = replace(self.point, **changed)
        cells = None if "offsets" in changed else self.rows.cells
        return replace(self, point=point, rows=rows_at(self.data, point, self.rows.dose, cells))


def fit(
    settings: ResponseSettings,
    nodes: NodeFeatures,
    sizes: tuple[int, ...],
    log: Log,
    passive_weight: float = 1.0,
    *,
    like: F64 | None = None,
) -> Fitted:
    """The parameters at which the posterior of a log is largest, and their uncertainty.

    Of no round it is the prior, for contexts ``like`` this one.
    """
    contexts: list[Any] = [r.vectors for r in log] or [like]
    context = context_of(sizes, settings.rank, np.array(contexts))
    data, prior = design_of(nodes, context, log, passive_weight), prior_of(settings, nodes, context)
    point = Point(
        weights=prior.means,
        effects=np.zeros((data.pulls.seen.size, 1 + context.k)),
        target_weights=np.zeros(prior.groups["target_weights"].size),
        offsets=np.zeros(data.observed.size),
        rounds=np.zeros(len(log)),
        saturation=settings.saturation,
    )
    d = nodes.as_source.shape[1]
    part = slice(d, d + data.contexts.shape[1])
    now = Stand(settings, data, part, prior, point, rows_at(data, point, dose_of(data, 0.0)))
    for _ in range(settings.sweeps if log else 0):
        determined: dict[str, F64] = {}
        for step in (source_step, target_step, round_step):
            taken = step(now)
            determined |= taken.determined
            now = _climb(now, taken.direction)
        now = replace(now, prior=now.prior.learned(now.point, determined))
        redundancy = _same(now)
        if redundancy != now.rows.dose.redundancy:
            now = replace(now, rows=rows_at(data, now.point, dose_of(data, redundancy)))
    sources = source_step(now)
    assert sources.effect_covariances is not None
    offsets = np.zeros(nodes.n)
    offsets[data.observed] = now.point.offsets
    return Fitted(
        context=context,
        prior=now.prior,
        point=now.point,
        redundancy=now.rows.dose.redundancy if log else settings.redundancy,
        covariance=sources.covariance,
        effect_covariances=sources.effect_covariances,
        level_covariance=round_step(now).covariance,
        pulls=data.pulls,
        curvature=now.rows.curvature,
        offsets=offsets,
    )


def _climb(now: Stand, direction: Direction) -> Stand:
    """The longest of a few step sizes at which the log posterior does not fall; where we are if there is none."""
    value = now.value
    slack = 1e-9 + 1e-13 * abs(value)
    for size in _SIZES:
        new = now.moved(direction, size)
        # A value that is not a number fails the comparison.
        if new.value >= value - slack:
            return new
    return now


def _same(now: Stand) -> float:
    """r: how far two outcomes of one cell go together, between independent coins and one number for both."""
    data, rows = now.data, now.rows
    order = np.lexsort((rows.pull_odds, data.pulls.round))
    order = order[data.whole[data.pulls.round[order]]]
    independent, same = pairs(order, data.ptr, data.cell, rows.pull_odds, rows.cells.odds, np.zeros(data.dose.size))
    # The prior counts as much as one pair.
    both = data.both + now.settings.redundancy
    return float(np.clip((both - independent) / (same - independent + 1.0), 0.0, 1.0))


class Step(NamedTuple):
    """A Newton step in one block: where to go, how many weights the data determine, and covariances."""

    direction: Direction
    determined: Direction
    covariance: F64  # of the shared weights
    effect_covariances: F64 | None = None  # of each source's effects


def source_step(now: Stand) -> Step:
    """θ and all d_i jointly; the d_i are eliminated first (Schur complement), source by source.

    K is never formed for all sources: of each it has (1 + k)·P numbers, and most have been seen in a round or two.
    """
    pulls, point = now.data.pulls, now.point
    w, e = now.rows.curvature, now.rows.slope
    own_variance = now.prior.variance("effects")
    V = np.empty((pulls.seen.size, own_variance.size, own_variance.size))
    V[:] = np.diag(own_variance)
    H, left = np.zeros(pulls.Z.shape), np.empty_like(pulls.X)
    learn_effects(pulls.place, pulls.Z, w, V, H)
    # What is left of each x_q once the d_i follow θ; it makes the precision of θ with all d_i integrated out.
    without_effects(pulls.order, pulls.begin, H, pulls.X, pulls.Z, left)
    left *= w[:, None]
    tight = 1.0 / now.prior.variance("weights")
    S = _inverse(pulls.X.T @ left + np.diag(tight))
    # Slopes of the log posterior in d_i and in θ, the latter with the d_i where they would then be.
    own_slope = pulls.by_source(e[:, None] * pulls.Z) - point.effects / own_variance
    slope = (e - np.einsum("qk,qk->q", H, own_slope[pulls.place])) @ pulls.X
    change = S @ (slope - tight * (point.weights - now.prior.means))
    own_change = np.einsum("ijk,ik->ij", V, own_slope) - pulls.by_source(H * (pulls.X @ change)[:, None])
    spread = np.einsum("ikk->k", V).copy()
    gain_squares(pulls.order, pulls.begin, H, pulls.X, pulls.X @ S, spread)
    determined = {"weights": 1.0 - np.diag(S) * tight, "effects": pulls.seen.size - spread / own_variance}
    return Step({"weights": change, "effects": own_change}, determined, S, V)


def target_step(now: Stand) -> Step:
    """γ, q and all b_j jointly; q enters by the derivative of the dose's term."""
    data = now.data
    dose = now.rows.dose
    point = now.point
    settings = now.settings
    # Taste and dose belong to single cells; columns of T to targets, so that sums over a target's rows are enough.
    more = -dose.more / (1.0 + (1.0 - point.saturation) * dose.more)
    sums, totals = np.zeros((data.observed.size, 4)), np.empty(5)
    odds = now.rows.pull_odds, now.rows.cells.odds
    target_sums(data.ptr, data.cell, dose.weight, *odds, data.cell_place, data.taste, more, sums, totals)
    columns = slice(0 if now.prior.groups["target_weights"].size > data.T.shape[1] else 1, 2)
    square = totals[[2, 3, 3, 4]].reshape(2, 2)[columns, columns]
    by_cell = np.array([dose.by_cell @ data.taste, dose.by_cell @ more]) - totals[:2]
    curvature, crossed = sums[:, 0], sums[:, 2:][:, columns]
    slope = _summed(data.cell_place, dose.by_cell, data.observed.size) - sums[:, 1]
    T = data.T
    # Σ w f fᵀ and Σ w f by target, f = (t_j, taste, dose).
    weighted = T * curvature[:, None]
    corner = T.T @ crossed
    precision = np.block([[weighted.T @ T, corner], [corner.T, square]])
    tight = 1.0 / np.append(now.prior.variance("target_weights"), settings.saturation_variance)
    weights = np.append(point.target_weights, point.saturation - settings.saturation)
    gradient = np.concatenate([slope @ T, by_cell[columns]]) - tight * weights
    by_target = np.hstack([weighted, crossed])
    own_precision = curvature + 1.0 / now.prior.variance("offsets")
    own_slope = slope - point.offsets / now.prior.variance("offsets")
    precision += np.diag(tight)
    change, own_change, C = _with_own_effects(precision, gradient, by_target, own_precision, own_slope)
    direction = {"target_weights": change[:-1], "saturation": change[-1], "offsets": own_change}
    determined = {"target_weights": (1.0 - np.diag(C) * tight)[:-1], "offsets": np.sum(curvature / own_precision)}
    return Step(direction, determined, C)


def round_step(now: Stand) -> Step:
    """The context's weights in θ and all u_t jointly."""
    data = now.data
    point = now.point
    part = now.part
    w, e = (_summed(data.pulls.round, column, point.rounds.size) for column in (now.rows.curvature, now.rows.slope))
    C = data.contexts
    weighted = C * w[:, None]
    tight = 1.0 / now.prior.variance("weights")[part]
    slope = e @ C - tight * (point.weights - now.prior.means)[part]
    own_precision = w + 1.0 / now.prior.variance("rounds")
    own_slope = e - point.rounds / now.prior.variance("rounds")
    precision = weighted.T @ C + np.diag(tight)
    change, own_change, covariance = _with_own_effects(precision, slope, weighted, own_precision, own_slope)
    weights = np.zeros(point.weights.size)
    weights[part] = change
    return Step({"weights": weights, "rounds": own_change}, {"rounds": np.sum(w / own_precision)}, covariance)


def _with_own_effects(
    precision: F64, slope: F64, by_unit: F64, own_precision: F64, own_slope: F64
) -> tuple[F64, F64, F64]:
    """Newton's step in shared weights and in one effect per unit, which are eliminated first; the covariance.

    ``by_unit`` is Σ w f over each unit's part of the data, f what multiplies the shared weights.
    """
    C = _inverse(precision - by_unit.T @ (by_unit / own_precision[:, None]))
    change = C @ (slope - (own_slope / own_precision) @ by_unit)
    return change, (own_slope - by_unit @ change) / own_precision, C


def _inverse(precision: F64) -> F64:
    inverse = np.linalg.inv(0.5 * (precision + precision.T))
    return np.asarray(0.5 * (inverse + inverse.T))
