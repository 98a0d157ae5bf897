"""The model's parameters as a function of the log: Newton steps from the prior to the maximum of the posterior.

A sweep takes one step in each of three blocks (sources, targets, rounds), each exact given the other two and with a
line search, then learns how far the outcomes of one target in one round are the same, and the prior variances. The
number of sweeps is fixed and every fit starts from the prior, so neither the order of the rounds nor how the log grew
matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.learner.response._context import ContextFeatures, context_of
from tensorucb.learner.response._design import Design, design_of
from tensorucb.learner.response._log import Log
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.threads import map_chunks, thread_count

Move = Callable[[float], "Point"]

_SIZES = (1.0, 0.5, 0.25, 0.125)
# Few outcomes on contexts of very different size could let a variance grow without end.
_LARGEST_VARIANCE = 25.0
# Rows of one part of a pass; fixed, so that rounding does not depend on the number of threads.
_ROWS = 2**16


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
    saturation: float = 0.5  # prior mean of q, with variance 0.25
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


@dataclass(frozen=True)
class Prior:
    """Gaussian priors; the variances are learned."""

    means: F64  # of θ
    groups: I64  # the group of each weight of θ
    variances: F64  # of each group
    effect_variances: F64  # (1 + k,): of d_i
    target_variances: F64  # of each weight of γ
    offset_variance: float
    round_variance: float


def prior_of(settings: ResponseSettings, nodes: NodeFeatures, context: ContextFeatures) -> Prior:
    """What is believed before the first round."""
    d, crossed = nodes.as_source.shape[1], nodes.crossing(context.k).shape[1]
    groups = [
        (d, settings.source_variance),
        (1, settings.base_variance),
        *((size, settings.context_variance) for size in context.sizes),
        *((width, settings.joint_variance) for width in context.widths),
        *((size * crossed, settings.response_variance) for size in context.sizes),
    ]
    sizes, variances = zip(*groups, strict=True)
    means = np.zeros(sum(sizes))
    means[d] = settings.base_logit
    if nodes.influence is not None:
        # Past influence stands before the columns about the product, and is standardised.
        column = d - nodes.slots
        means[column - 1] = settings.trust * nodes.influence.overall.std()
        means[column] = settings.trust
    targets = np.full(nodes.as_target.shape[1], settings.target_variance)
    return Prior(
        means=means,
        groups=np.repeat(np.arange(len(sizes)), sizes),
        variances=np.array(variances),
        effect_variances=np.append(settings.own_variance, np.full(context.k, settings.own_response_variance)),
        target_variances=np.append(targets, [settings.taste_variance] * (nodes.taste is not None)),
        offset_variance=settings.offset_variance,
        round_variance=settings.round_variance,
    )


@dataclass(frozen=True)
class Fitted:
    """What the log says; before the first round, what the prior says."""

    context: ContextFeatures
    prior: Prior
    weights: F64  # θ
    covariance: F64  # (P, P): of θ with all d_i integrated out
    seen: I64  # the sources told about, ascending
    effects: F64  # d_i of each
    effect_covariances: F64  # V: the covariance of d_i given θ
    target_weights: F64
    offsets: F64  # (n,): b_j
    level_covariance: F64  # of the context's part of θ with all u_t integrated out
    redundancy: float  # r: how far the outcomes of one target in one round are one and the same
    saturation: float  # q
    pulls: Pulls

    @property
    def overlap(self) -> float:
        """ρ = r·q: how far a second contact of the same user brings nothing new."""
        return self.redundancy * max(self.saturation, 0.0)


@dataclass(frozen=True)
class Pulls:
    """Of each source in each round: its place among those seen, what multiplies θ and d_i, and its curvature."""

    place: I64
    X: F64
    Z: F64
    curvature: F64


def unfitted(settings: ResponseSettings, nodes: NodeFeatures, sizes: tuple[int, ...], vectors: F64) -> Fitted:
    """What is believed before the first round, for contexts like this one."""
    context = context_of(sizes, settings.rank, vectors[None])
    prior = prior_of(settings, nodes, context)
    variances, own = prior.variances[prior.groups], 1 + context.k
    part = context_part(nodes, context)
    return Fitted(
        context=context,
        prior=prior,
        weights=prior.means,
        covariance=np.diag(variances),
        seen=np.empty(0, dtype=np.int64),
        effects=np.empty((0, own)),
        effect_covariances=np.empty((0, own, own)),
        target_weights=np.zeros(prior.target_variances.size),
        offsets=np.zeros(nodes.n),
        level_covariance=np.diag(variances[part]),
        redundancy=0.0,
        saturation=settings.saturation,
        pulls=Pulls(np.empty(0, dtype=np.int64), np.empty((0, variances.size)), np.empty((0, own)), np.empty(0)),
    )


def context_part(nodes: NodeFeatures, context: ContextFeatures) -> slice:
    """Where the weights of c(x) stand in θ."""
    d = nodes.as_source.shape[1]
    return slice(d, d + 1 + context.k + sum(context.widths))


@dataclass(frozen=True)
class Sums:
    """One pass over the rows: the log-likelihood, and slopes and curvatures by pull and by cell."""

    value: float
    pulls: F64  # (pulls, 2): curvature and slope
    cells: F64  # (cells, 4): curvature and slope, Σp and Σy
    both: float  # over pairs of rows of one cell: how often both responded
    independent: float  # how often that is expected if outcomes are independent
    same: float  # and if they are as much the same as their probabilities let them be


@dataclass(frozen=True)
class Stand:
    """Where a fit stands."""

    settings: ResponseSettings
    data: Design
    prior: Prior
    part: slice  # of the context in θ
    point: Point
    redundancy: float = 0.0

    @cached_property
    def at(self) -> Sums:
        """The sums over the rows."""
        from tensorucb.learner.response._kernels import accumulate

        data, point = self.data, self.point
        a = data.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.pull_place], data.Z)
        a += point.rounds[data.pull_round]
        features = data.T.shape[1]
        targets = data.T @ point.target_weights[:features] + point.offsets
        more = self.redundancy * (data.dose - 1.0)
        h = targets[data.cell_place] + data.taste @ point.target_weights[features:]
        h += np.log1p((1.0 - point.saturation) * more)
        omega = 1.0 / (1.0 + more)
        pulls, cells = np.empty((a.size, 2)), np.zeros((h.size, 4))

        order = np.lexsort((a, data.pull_round))

        def run(start: int, stop: int) -> tuple[float, float, float, float]:
            rows = data.ptr, data.cell, data.outcome, data.weight, omega, data.whole
            sums = accumulate(order, *rows, a, h, data.first_pull[start], data.first_pull[stop], pulls, cells)
            return sums  # type: ignore[no-any-return]

        ends = data.ptr[data.first_pull]
        bounds = np.unique(np.searchsorted(ends, np.arange(0, ends[-1] + _ROWS, _ROWS)).clip(max=ends.size - 1))
        value, *pairs = map(sum, zip(*map_chunks(run, bounds.tolist(), thread_count()), strict=True))
        return Sums(value, pulls, cells, *pairs)

    @cached_property
    def value(self) -> float:
        """The log posterior up to a constant."""
        prior, point, settings = self.prior, self.point, self.settings
        squares = (
            float(np.sum((point.weights - prior.means) ** 2 / prior.variances[prior.groups])),
            float(np.sum(point.effects**2 / prior.effect_variances)),
            float(np.sum(point.target_weights**2 / prior.target_variances)),
            float(point.offsets @ point.offsets) / prior.offset_variance,
            float(point.rounds @ point.rounds) / prior.round_variance,
            (point.saturation - settings.saturation) ** 2 / settings.saturation_variance,
        )
        return self.at.value - 0.5 * sum(squares)


def fit(
    settings: ResponseSettings, nodes: NodeFeatures, sizes: tuple[int, ...], log: Log, passive_weight: float = 1.0
) -> Fitted:
    """The parameters at which the posterior of a log is largest, and their uncertainty."""
    context = context_of(sizes, settings.rank, np.array([r.vectors for r in log]))
    data, prior = design_of(nodes, context, log, passive_weight), prior_of(settings, nodes, context)
    point = Point(
        weights=prior.means,
        effects=np.zeros((data.seen.size, 1 + context.k)),
        target_weights=np.zeros(prior.target_variances.size),
        offsets=np.zeros(data.observed.size),
        rounds=np.zeros(len(log)),
        saturation=settings.saturation,
    )
    now = Stand(settings, data, prior, context_part(nodes, context), point)
    for _ in range(settings.sweeps):
        move, sources = source_step(now)
        now = _climb(now, move)
        move, targets = target_step(now)
        now = _climb(now, move)
        move, rounds = round_step(now)
        now = _climb(now, move)
        learned = _learned_prior(now, context, sources, targets, rounds)
        now = replace(now, prior=learned, redundancy=_same(now))
    _, sources = source_step(now)
    _, rounds = round_step(now)
    offsets = np.zeros(nodes.n)
    offsets[data.observed] = now.point.offsets
    return Fitted(
        context=context,
        prior=now.prior,
        weights=now.point.weights,
        covariance=sources.weight_covariance,
        seen=data.seen,
        effects=now.point.effects,
        effect_covariances=sources.effect_covariances,
        target_weights=now.point.target_weights,
        offsets=offsets,
        level_covariance=rounds.covariance,
        redundancy=now.redundancy,
        saturation=now.point.saturation,
        pulls=Pulls(data.pull_place, data.X, data.Z, now.at.pulls[:, 0]),
    )


def _climb(now: Stand, move: Move) -> Stand:
    """The longest of a few step sizes at which the log posterior does not fall; where we are if there is none."""
    slack = 1e-9 + 1e-13 * abs(now.value)
    for size in _SIZES:
        new = replace(now, point=move(size))
        # A value that is not a number fails the comparison.
        if new.value >= now.value - slack:
            return new
    return now


def _same(now: Stand) -> float:
    """r: how far two outcomes of one cell go together, between independent coins and one number for both."""
    at = now.at
    return float(np.clip((at.both - at.independent) / (at.same - at.independent + 1.0), 0.0, 1.0))


@dataclass(frozen=True)
class SourcePosterior:
    """Laplace approximation of θ and d_i; H of each pull says how d_i follows θ, K = Σ H_q x_qᵀ."""

    weight_covariance: F64
    effect_covariances: F64
    gains: F64


def source_step(now: Stand) -> tuple[Move, SourcePosterior]:
    """θ and all d_i jointly; the d_i are eliminated first (Schur complement), source by source.

    K is never formed for all sources: of each it has (1 + k)·P numbers, and most have been seen in a round or two.
    """
    from tensorucb.learner.response._kernels import learn_effects, without_effects

    data, prior, point = now.data, now.prior, now.point
    w, e = now.at.pulls.T
    V = np.empty((data.seen.size, prior.effect_variances.size, prior.effect_variances.size))
    V[:] = np.diag(prior.effect_variances)
    H, left = np.zeros(data.Z.shape), np.empty_like(data.X)
    learn_effects(data.pull_place, data.Z, w, V, H)
    # What is left of each x_q once the d_i follow θ; it makes the precision of θ with all d_i integrated out.
    without_effects(data.order, data.begin, H, data.X, data.Z, left)
    tight = 1.0 / prior.variances[prior.groups]
    left *= w[:, None]
    S = _inverse(data.X.T @ left + np.diag(tight))
    # Slopes of the log posterior in d_i and in θ, the latter with the d_i where they would then be.
    own_slope = _by_source(data, e[:, None] * data.Z) - point.effects / prior.effect_variances
    slope = (e - np.einsum("qk,qk->q", H, own_slope[data.pull_place])) @ data.X
    change = S @ (slope - tight * (point.weights - prior.means))
    own_change = np.einsum("ijk,ik->ij", V, own_slope) - _by_source(data, H * (data.X @ change)[:, None])

    def move(size: float) -> Point:
        return replace(point, weights=point.weights + size * change, effects=point.effects + size * own_change)

    return move, SourcePosterior(S, V, H)


def _inverse(precision: F64) -> F64:
    inverse = np.linalg.inv(0.5 * (precision + precision.T))
    return np.asarray(0.5 * (inverse + inverse.T))


def _by_source(data: Design, values: F64) -> F64:
    """The rows of all pulls summed by source."""
    return np.stack([_sums(data.pull_place, column, data.seen.size) for column in values.T], axis=1)


def _sums(place: I64, values: F64, size: int) -> F64:
    """The values summed by place."""
    return np.bincount(place, values, size).astype(np.float64, copy=False)


@dataclass(frozen=True)
class TargetPosterior:
    """How far the data determine each weight of γ, and how many of the b_j."""

    determined: F64
    offsets: float


def target_step(now: Stand) -> tuple[Move, TargetPosterior]:
    """γ, q and all b_j jointly; the b_j are eliminated first, and q enters by the derivative of the dose's term."""
    data, prior, point, settings = now.data, now.prior, now.point, now.settings
    w, e = now.at.cells[:, 0], now.at.cells[:, 1]
    more = now.redundancy * (data.dose - 1.0)
    # Columns of single cells; those of T belong to targets, so that sums over a target's cells are enough.
    own_columns = np.column_stack([data.taste, -more / (1.0 + (1.0 - point.saturation) * more)])

    def by_target(values: F64) -> F64:
        return _sums(data.cell_place, values, data.observed.size)

    curvature, slope = by_target(w), by_target(e)
    crossed = np.stack([by_target(w * column) for column in own_columns.T], axis=1)
    T = data.T
    # Σ w f fᵀ and Σ w f by target, f = (t_j, taste, dose).
    B = np.hstack([T * curvature[:, None], crossed])
    corner = T.T @ crossed
    precision = np.block([[(T * curvature[:, None]).T @ T, corner], [corner.T, (own_columns.T * w) @ own_columns]])
    tight = 1.0 / np.append(prior.target_variances, settings.saturation_variance)
    offset_precision = curvature + 1.0 / prior.offset_variance
    offset_slope = slope - point.offsets / prior.offset_variance
    C = _inverse(precision + np.diag(tight) - B.T @ (B / offset_precision[:, None]))
    weights = np.append(point.target_weights, point.saturation - settings.saturation)
    gradient = np.concatenate([slope @ T, e @ own_columns]) - tight * weights
    change = C @ (gradient - (offset_slope / offset_precision) @ B)
    own_change = (offset_slope - B @ change) / offset_precision
    determined = (1.0 - np.diag(C) * tight)[:-1]

    def move(size: float) -> Point:
        return replace(
            point,
            target_weights=point.target_weights + size * change[:-1],
            saturation=float(np.clip(point.saturation + size * change[-1], -1.0, 1.0)),
            offsets=point.offsets + size * own_change,
        )

    return move, TargetPosterior(determined, float(np.sum(curvature / offset_precision)))


@dataclass(frozen=True)
class RoundPosterior:
    """The covariance of the context's weights with all u_t integrated out; how many of the u_t the data determine."""

    covariance: F64
    determined: float


def round_step(now: Stand) -> tuple[Move, RoundPosterior]:
    """The context's weights in θ and all u_t jointly; the u_t are eliminated first."""
    data, prior, point, part = now.data, now.prior, now.point, now.part
    w, e = (_sums(data.pull_round, column, point.rounds.size) for column in now.at.pulls.T)
    C = data.contexts
    tight = 1.0 / prior.variances[prior.groups][part]
    own_precision = w + 1.0 / prior.round_variance
    own_slope = e - point.rounds / prior.round_variance
    share = w / own_precision
    covariance = _inverse((C.T * (w * (1.0 - share))) @ C + np.diag(tight))
    slope = (e - share * own_slope) @ C - tight * (point.weights - prior.means)[part]
    change = covariance @ slope
    own_change = own_slope / own_precision - share * (C @ change)

    def move(size: float) -> Point:
        weights = point.weights.copy()
        weights[part] += size * change
        return replace(point, weights=weights, rounds=point.rounds + size * own_change)

    return move, RoundPosterior(covariance, float(share.sum()))


def _learned(squares: float, determined: float, start: float, weight: float) -> float:
    """A variance: squares over the number of weights that the data determine, shrunk to where it starts.

    One step of MacKay's fixed point. Expectation maximisation has the same goal, but hardly moves where each weight is
    only weakly determined, as the effects of most sources are.
    """
    return min((squares + weight * start) / (max(determined, 0.0) + weight), _LARGEST_VARIANCE)


def _learned_prior(
    now: Stand, context: ContextFeatures, sources: SourcePosterior, targets: TargetPosterior, rounds: RoundPosterior
) -> Prior:
    """The prior with the variances that the parameters speak for."""
    from tensorucb.learner.response._kernels import gain_squares

    data, point, prior, settings = now.data, now.point, now.prior, now.settings
    begin = [
        settings.source_variance,
        settings.base_variance,
        *(settings.context_variance for _ in context.sizes),
        *(settings.joint_variance for _ in context.widths),
        *(settings.response_variance for _ in context.sizes),
    ]
    S, V = sources.weight_covariance, sources.effect_covariances
    squares = np.bincount(prior.groups, (point.weights - prior.means) ** 2)
    determined = np.bincount(prior.groups, 1.0 - np.diag(S) / prior.variances[prior.groups])
    variances = [_learned(s, d, b, settings.shared_weight) for s, d, b in zip(squares, determined, begin, strict=True)]
    # Of d_i: one variance of the own effects, and one of the own responses to the features of each mode.
    squares = np.einsum("ik,ik->k", point.effects, point.effects)
    left = np.einsum("ikk->k", V).copy()
    gain_squares(data.order, data.begin, sources.gains, data.X, data.X @ S, left)
    determined = len(point.effects) - left / prior.effect_variances
    own = np.empty(squares.size)
    own[0] = _learned(squares[0], determined[0], settings.own_variance, settings.unit_weight)
    for part in context.parts:
        sums = float(squares[1:][part].sum()), float(determined[1:][part].sum())
        own[1:][part] = _learned(*sums, settings.own_response_variance, settings.unit_weight)
    # Of γ: one of the features', one of the taste's.
    gamma, features = point.target_weights, data.T.shape[1]
    of = np.empty(gamma.size)
    for part, begin_at, weight in (
        (slice(0, features), settings.target_variance, settings.shared_weight),
        (slice(features, None), settings.taste_variance, settings.single_weight),
    ):
        of[part] = _learned(float(gamma[part] @ gamma[part]), float(targets.determined[part].sum()), begin_at, weight)
    return replace(
        prior,
        variances=np.array(variances),
        effect_variances=own,
        target_variances=of,
        offset_variance=_learned(
            float(point.offsets @ point.offsets), targets.offsets, settings.offset_variance, settings.unit_weight
        ),
        round_variance=_learned(
            float(point.rounds @ point.rounds), rounds.determined, settings.round_variance, settings.round_weight
        ),
    )
