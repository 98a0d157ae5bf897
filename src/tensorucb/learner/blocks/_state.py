"""Everything the block learner knows: frozen arrays, how they begin, and how new sources join."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tensorucb.learner.blocks._nodes import NodeFeatures
from tensorucb.learner.blocks._settings import BlockSettings

__all__ = ["BlockState", "Point", "Prior", "Round", "free_ranks", "scaled_product", "start", "with_sources"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
I32 = NDArray[np.int32]

_FIXED = 1e-6  # prior variance of a weight that is meant to stay
_BASE_VARIANCE = 4.0
_ANCHORED = 3
# Products whose first example has a norm outside these bounds are brought to norm 1, and none may exceed the upper one.
_SMALL, _LARGE = 0.1, 10.0


@dataclass(frozen=True)
class Round:
    """What was told of one product: pull q is ``sources[q]``, seen on ``targets[offsets[q]:offsets[q + 1]]``.

    Attributes
    ----------
    product
        The product's vectors side by side, scaled.
    sources, offsets, targets, outcomes, trials
        Distinct sources, where each one's rows begin, and the rows: distinct targets, the sum of what was seen of them,
        and how often they were seen.
    """

    product: F64
    sources: I64
    offsets: I64
    targets: I32
    outcomes: F64
    trials: F64


@dataclass(frozen=True)
class Point:
    """The parameters: what a block step moves.

    Attributes
    ----------
    weights
        ``(R, d_l)`` of each mode: sources, targets, then the product's modes.
    effects
        ``(sources seen, k + 1)``: d_i.
    responses
        ``(k, c)``: M, how features of a source change its response to each product feature.
    targets
        ``(n,)``: b_j.
    taste
        g.
    """

    weights: tuple[F64, ...]
    effects: F64
    responses: F64
    targets: F64
    taste: float

    def source_weights(self) -> F64:
        """All weights of the source block side by side: those of the tensor, then M."""
        return np.concatenate([self.weights[0].ravel(), self.responses.ravel()])


@dataclass(frozen=True)
class Prior:
    """Gaussian priors as precisions and natural means (precision times mean); absorbed rounds add to them.

    Attributes
    ----------
    precisions, naturals
        ``(R·d_l, R·d_l)`` and ``(R·d_l,)`` of each mode's weights; the first mode's hold M's as well. Weights in a
        group have a prior of their own on top.
    groups, group_means, group_variances
        Of all weights of the source block: 1 for main effects, 2 for M, 0 for none of these; their prior means; and
        the two groups' variances, which are learned.
    effect_precisions, effect_naturals
        Of each d_i, from absorbed rounds alone; ``variances`` comes on top.
    variances
        ``(k + 1,)``: τ² of the source effects, learned.
    target_precisions, target_naturals
        Of each b_j.
    taste_precision, taste_natural
        Of g.
    """

    precisions: tuple[F64, ...]
    naturals: tuple[F64, ...]
    groups: I64
    group_means: F64
    group_variances: F64
    effect_precisions: F64
    effect_naturals: F64
    variances: F64
    target_precisions: F64
    target_naturals: F64
    taste_precision: float
    taste_natural: float

    def group_precisions(self) -> F64:
        """What the groups add to the diagonal of the first mode's precision."""
        return np.append(0.0, 1.0 / self.group_variances)[self.groups]


@dataclass(frozen=True)
class BlockState:
    """Parameters, priors, the uncertainty of the source block, and the rounds kept.

    Attributes
    ----------
    scales
        Factor of each of the product's modes, set by the first product told.
    seen
        Sources with an effect of their own, ascending.
    weight_covariance
        Σ of the source weights of the free ranks and of M, effects integrated out.
    effect_covariances, gains
        Of each source seen: V of d_i given the weights, and how d_i follows the weights, ``V L_dw``.
    log
        What is kept for refits, one `Round` a product.
    rounds, next_fit
        Rounds learned, and the round of the next refit.
    """

    scales: tuple[float, ...]
    point: Point
    prior: Prior
    seen: I64
    weight_covariance: F64
    effect_covariances: F64
    gains: F64
    log: tuple[Round, ...] = ()
    rounds: int = 0
    next_fit: int = 1


def free_ranks(rank: int) -> I64:
    """Ranks whose source weights are learned: those of the base rate and of targets have a constant source."""
    return np.array([r for r in range(rank) if r not in (0, 2)], dtype=np.int64)


def scaled_product(scales: tuple[float, ...], vectors: tuple[F64, ...]) -> F64:
    """The product's vectors side by side, each by its mode's factor and at most of norm 10."""
    parts = []
    for scale, vector in zip(scales, vectors, strict=True):
        norm = _norm(vector) * scale
        parts.append(vector * (scale if norm <= _LARGE else scale * _LARGE / norm))
    return np.concatenate(parts)


def _norm(vector: F64) -> float:
    peak = float(np.abs(vector).max())
    return peak * float(np.linalg.norm(vector / peak)) if peak > 0.0 else 0.0


def _scale(vector: F64) -> float:
    norm = _norm(vector)
    # A norm below the smallest normal number has no finite inverse.
    return 1.0 if _SMALL <= norm <= _LARGE or norm < 1e-300 else 1.0 / norm


def start(
    settings: BlockSettings, nodes: NodeFeatures, vectors: tuple[F64, ...], generator: np.random.Generator
) -> BlockState:
    """The state before the first round; ``vectors``: the first product, whose sizes and scale it takes.

    Anchored ranks: a constant weight of 1 in all modes but the rank's own, so that there is neither a point where all
    gradients vanish nor a random main effect.
    """
    R, sizes = settings.rank, [vector.size for vector in vectors]
    dims = (nodes.source.shape[1], nodes.target.shape[1], *(size + 1 for size in sizes))
    means, variances = [np.zeros((R, d)) for d in dims], [np.full((R, d), _FIXED) for d in dims]
    for mean in means:
        mean[:_ANCHORED, -1] = 1.0
    means[2][0, -1], variances[2][0], variances[2][0, -1] = settings.base_logit, settings.main_variance, _BASE_VARIANCE
    for variance in variances[3:]:
        # Further modes multiply the base logit: in units of it their effects are as wide as the product's.
        variance[0, :-1] = settings.main_variance / max(settings.base_logit**2, 1.0)
    for mode in (0, 1):
        if mode + 1 < R:
            means[mode][mode + 1, -1], variances[mode][mode + 1, :-1] = 0.0, settings.main_variance
    if nodes.influence is not None and R > 1:
        column = dims[0] - 1 - nodes.slots
        means[0][1, column - 1] = settings.trust * nodes.influence.std()
        means[0][1, column] = settings.trust
    for mean, variance in zip(means, variances, strict=True):
        mean[_ANCHORED:] = generator.normal(0.0, settings.pair_scale, mean[_ANCHORED:].shape)
        variance[_ANCHORED:] = settings.pair_variance
    k, n = sum(sizes) + 1, nodes.n
    tau = np.append(np.full(k - 1, settings.product_deviation**2), settings.source_deviation**2)
    responses = np.zeros((k - 1, nodes.crossed(k - 1, slice(0)).shape[1]))
    group = np.zeros((R, dims[0]), dtype=np.int64)
    group[1:2, :-1] = 1
    groups = np.append(group, np.full(responses.size, 2))
    diagonals, flat = [1.0 / variance.ravel() for variance in variances], [mean.ravel() for mean in means]
    diagonals[0], flat[0] = (np.append(part, np.zeros(responses.size)) for part in (diagonals[0], flat[0]))
    diagonals[0][groups > 0] = 0.0
    widths = np.append(variances[0][free_ranks(R)], np.full(responses.size, settings.response_variance))
    prior = Prior(
        precisions=tuple(np.diag(diagonal) for diagonal in diagonals),
        naturals=tuple(mean * diagonal for mean, diagonal in zip(flat, diagonals, strict=True)),
        groups=groups,
        group_means=np.where(groups > 0, flat[0], 0.0),
        group_variances=np.array([settings.main_variance, settings.response_variance]),
        effect_precisions=np.zeros((0, k, k)),
        effect_naturals=np.zeros((0, k)),
        variances=tau,
        target_precisions=np.full(n, 1.0 / settings.target_variance),
        target_naturals=np.zeros(n),
        taste_precision=1.0 / settings.taste_variance,
        taste_natural=0.0,
    )
    return BlockState(
        scales=tuple(_scale(vector) for vector in vectors),
        point=Point(tuple(means), np.zeros((0, k)), responses, np.zeros(n), 0.0),
        prior=prior,
        seen=np.zeros(0, dtype=np.int64),
        weight_covariance=np.diag(widths),
        effect_covariances=np.zeros((0, k, k)),
        gains=np.zeros((0, k, widths.size)),
    )


def with_sources(state: BlockState, sources: I64) -> BlockState:
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
        effect_covariances=grown(state.effect_covariances, np.diag(state.prior.variances)),
        gains=grown(state.gains),
    )
