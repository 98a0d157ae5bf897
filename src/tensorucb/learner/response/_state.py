"""Everything the response model knows: frozen arrays, how they begin, and how new sources join."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.learner.response._context import Context, context_of
from tensorucb.learner.response._log import Told
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._settings import ResponseSettings


@dataclass(frozen=True)
class Point:
    """The parameters.

    Attributes
    ----------
    weights
        ``(P,)``: θ = (α, β, M), weights of source features, of context features, and of source features times the
        features of each mode, ``(k, c)`` flat.
    effects
        ``(sources seen, 1 + k)``: d_i, each source's own effect and own response to each mode's features.
    target_weights, targets
        ``(d_t,)`` and ``(n,)``: γ and b_j.
    taste_weight
        g, the weight of a target's liking m_j(x).
    """

    weights: F64
    effects: F64
    target_weights: F64
    targets: F64
    taste_weight: float


@dataclass(frozen=True)
class Prior:
    """Gaussian priors. The variances are learned; absorbed rounds add precisions and naturals (precision times mean).

    Attributes
    ----------
    means, groups, variances
        Of θ: prior means, the group of each weight, and each group's variance.
    precision, natural
        ``(P, P)`` and ``(P,)`` of θ, from absorbed rounds.
    effect_variances
        ``(1 + k,)``: τ² of d_i.
    effect_precisions, effect_naturals
        Of each d_i, from absorbed rounds.
    target_variances
        Of γ and of b_j.
    target_precision, target_natural
        ``(d_t, d_t)`` and ``(d_t,)`` of γ, from absorbed rounds.
    offset_precisions, offset_naturals
        ``(n,)`` of b_j, from absorbed rounds.
    taste_precision, taste_natural
        Of g, absorbed rounds included.
    """

    means: F64
    groups: I64
    variances: F64
    precision: F64
    natural: F64
    effect_variances: F64
    effect_precisions: F64
    effect_naturals: F64
    target_variances: F64
    target_precision: F64
    target_natural: F64
    offset_precisions: F64
    offset_naturals: F64
    taste_precision: float
    taste_natural: float


@dataclass(frozen=True)
class ResponseState:
    """Parameters, priors, uncertainty and the rounds kept.

    Attributes
    ----------
    seen
        Sources with an effect of their own, ascending.
    weight_covariance
        ``(P, P)``: S, of θ with all d_i integrated out.
    effect_covariances, gains
        Of each source seen: V, the covariance of d_i given θ, and K, how d_i follows θ: ``(1 + k, P)``.
    log
        What is kept for refits, one `Told` per distinct context.
    rounds, next_fit
        Rounds learned, and the round of the next refit.
    """

    context: Context
    point: Point
    prior: Prior
    seen: I64
    weight_covariance: F64
    effect_covariances: F64
    gains: F64
    log: tuple[Told, ...] = ()
    rounds: int = 0
    next_fit: int = 1


def weight_groups(settings: ResponseSettings, nodes: NodeFeatures, context: Context) -> tuple[I64, F64]:
    """The group of each weight of θ, and the variance from which each group starts.

    The groups: the base rate; source features; each mode; each interaction of modes; source features times each mode.
    """
    c = nodes.crossed(context.k, slice(0)).shape[1]
    groups = [
        (1, settings.base_variance),
        *((size, settings.context_variance) for size in context.sizes),
        *((width, settings.joint_variance) for width in context.widths),
    ]
    groups.insert(0, (nodes.as_source.shape[1], settings.source_variance))
    groups += [(size * c, settings.response_variance) for size in context.sizes]
    sizes, variances = zip(*groups, strict=True)
    return np.repeat(np.arange(len(sizes)), sizes), np.array(variances)


def start(settings: ResponseSettings, nodes: NodeFeatures, vectors: tuple[F64, ...]) -> ResponseState:
    """The state before the first round; ``vectors``: the first context, whose sizes and scale it takes."""
    context = context_of(vectors, settings.rank)
    groups, variances = weight_groups(settings, nodes, context)
    d, P, k, n = nodes.as_source.shape[1], groups.size, context.k, nodes.n
    means = np.zeros(P)
    means[d] = settings.base_logit
    if nodes.influence is not None:
        column = d - nodes.slots
        means[column - 1] = settings.trust * nodes.influence.std()
        means[column] = settings.trust
    own = np.append(settings.own_variance, np.full(k, settings.own_response_variance))
    d_t = nodes.as_target.shape[1]
    prior = Prior(
        means=means,
        groups=groups,
        variances=variances,
        precision=np.zeros((P, P)),
        natural=np.zeros(P),
        effect_variances=own,
        effect_precisions=np.zeros((0, 1 + k, 1 + k)),
        effect_naturals=np.zeros((0, 1 + k)),
        target_variances=np.array([settings.target_variance, settings.offset_variance]),
        target_precision=np.zeros((d_t, d_t)),
        target_natural=np.zeros(d_t),
        offset_precisions=np.zeros(n),
        offset_naturals=np.zeros(n),
        taste_precision=1.0 / settings.taste_variance,
        taste_natural=0.0,
    )
    return ResponseState(
        context=context,
        point=Point(means.copy(), np.zeros((0, 1 + k)), np.zeros(d_t), np.zeros(n), 0.0),
        prior=prior,
        seen=np.zeros(0, dtype=np.int64),
        weight_covariance=np.diag(variances[groups]),
        effect_covariances=np.zeros((0, 1 + k, 1 + k)),
        gains=np.zeros((0, 1 + k, P)),
    )


def with_sources(state: ResponseState, sources: I64) -> ResponseState:
    """The state with effects for these sources as well, zero and as wide as the prior if they are new."""
    seen = np.union1d(state.seen, sources)
    if seen.size == state.seen.size:
        return state
    place = np.searchsorted(seen, state.seen)

    def grown(old: F64, fill: F64 | float = 0.0) -> F64:
        new = np.empty((seen.size, *old.shape[1:]))
        new[:] = fill
        new[place] = old
        return new

    prior = replace(
        state.prior,
        effect_precisions=grown(state.prior.effect_precisions),
        effect_naturals=grown(state.prior.effect_naturals),
    )
    return replace(
        state,
        seen=seen,
        point=replace(state.point, effects=grown(state.point.effects)),
        prior=prior,
        effect_covariances=grown(state.effect_covariances, np.diag(state.prior.effect_variances)),
        gains=grown(state.gains),
    )
