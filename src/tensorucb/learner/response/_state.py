"""Priors and constants, and everything that is learned: how it begins, how new sources join, and as a file's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorucb.arrays import F64, I64, Arrays, Vectors
from tensorucb.errors import InputError, ShapeError
from tensorucb.learner.response._context import ContextFeatures, context_of
from tensorucb.learner.response._log import ToldContext
from tensorucb.learner.response._nodes import NodeFeatures


@dataclass(frozen=True)
class ResponseSettings:
    """Every constant of the model; ``docs/model.md`` has the same table with the reasons.

    All variances but ``target_variance`` and ``taste_variance`` are where learning starts from, and the value counts as
    much as ``variance_weight`` weights (``unit_weight`` for what belongs to a single source or target).
    """

    base_logit: float = -3.0  # prior mean of an edge's logit; -3 is a probability of 4.7 %
    base_variance: float = 4.0  # its prior variance
    source_variance: float = 0.02  # of the weights of a user's features as a source
    target_variance: float = 0.02  # of the weights of a user's features as a target
    context_variance: float = 1.0  # of the weights of a mode's features
    joint_variance: float = 0.5  # of the weights of the interactions between modes
    response_variance: float = 0.01  # of the weights of a source's features times a mode's features
    own_variance: float = 0.0225  # of each source's own effect
    own_response_variance: float = 0.0625  # of each source's own response to each feature of a mode
    offset_variance: float = 0.3  # of each target's own effect
    taste_variance: float = 0.1  # of the weight of a target's past taste
    trust: float = 0.5  # prior weight of a source's past influence, which is a log rate ratio
    variance_weight: float = 10.0
    unit_weight: float = 5.0
    rank: int = 100  # most features of an interaction between modes; larger ones get a basis of that many contexts
    growth: float = 1.15  # refit when the number of rounds has grown by this factor
    sweeps: int = 2  # over the blocks in a refit, after the first rounds
    max_rows: int = 400_000  # kept for refits; of more, the older half is absorbed into the Gaussian priors

    def sweeps_at(self, rounds: int) -> int:
        """More in the first rounds, which are cheap and move far."""
        return 8 if rounds <= 3 else 4 if rounds <= 10 else self.sweeps


@dataclass(frozen=True)
class Point:
    """The parameters."""

    weights: F64  # (P,): θ = (α, β, M), weights of source features, context features and their products, (k, c) flat
    effects: F64  # (sources seen, 1 + k): d_i, each source's own effect and own response to each mode's features
    target_weights: F64  # (d_t,): γ
    target_offsets: F64  # (n,): b_j
    taste_weight: float  # g, the weight of a target's past taste m_j(x)


@dataclass(frozen=True)
class Prior:
    """Gaussian priors. Variances are learned; absorbed rounds add precisions and naturals (precision times mean)."""

    means: F64  # of θ
    groups: I64  # the group of each weight of θ
    variances: F64  # of each group
    precision: F64  # (P, P), of θ
    natural: F64  # (P,)
    effect_variances: F64  # (1 + k,): τ² of d_i
    effect_precisions: F64  # of each d_i
    effect_naturals: F64
    target_variances: F64  # of γ and of b_j
    target_precision: F64  # (d_t, d_t), of γ
    target_natural: F64
    offset_precisions: F64  # (n,), of b_j
    offset_naturals: F64
    taste_precision: float  # of g, the settings' included
    taste_natural: float

    @cached_property
    def effect_covariances(self) -> F64:
        """The covariance of each d_i before the rounds kept; only absorbed ones need an inverse."""
        V = np.empty_like(self.effect_precisions)
        V[:] = np.diag(self.effect_variances)
        told = self.effect_precisions[:, 0, 0] != 0.0
        V[told] = np.linalg.inv(self.effect_precisions[told] + np.diag(1.0 / self.effect_variances))
        return np.asarray(0.5 * (V + V.transpose(0, 2, 1)))


@dataclass(frozen=True)
class ResponseState:
    """Parameters, priors, uncertainty and the rounds kept."""

    context: ContextFeatures
    point: Point
    prior: Prior
    seen: I64  # sources with an effect of their own, ascending
    weight_covariance: F64  # (P, P): S, of θ with all d_i integrated out
    effect_covariances: F64  # V of each source seen: the covariance of d_i given θ
    log: tuple[ToldContext, ...] = ()  # what is kept for refits, one for each distinct context
    rounds: int = 0
    next_fit: int = 1  # the round of the next refit


def weight_groups(settings: ResponseSettings, nodes: NodeFeatures, context: ContextFeatures) -> tuple[I64, F64]:
    """The group of each weight of θ, and the variance from which each group starts."""
    c = nodes.crossing(context.k).shape[1]
    groups = [
        (nodes.as_source.shape[1], settings.source_variance),
        (1, settings.base_variance),
        *((size, settings.context_variance) for size in context.sizes),
        *((width, settings.joint_variance) for width in context.widths),
        *((size * c, settings.response_variance) for size in context.sizes),
    ]
    sizes, variances = zip(*groups, strict=True)
    return np.repeat(np.arange(len(sizes)), sizes), np.array(variances)


def start(settings: ResponseSettings, nodes: NodeFeatures, vectors: Vectors) -> ResponseState:
    """The state before the first round; ``vectors``: the first context, whose sizes and scale it takes."""
    context = context_of(vectors, settings.rank)
    groups, variances = weight_groups(settings, nodes, context)
    d, P, k, n = nodes.as_source.shape[1], groups.size, context.k, nodes.n
    means = np.zeros(P)
    means[d] = settings.base_logit
    if nodes.influence is not None:
        # Past influence stands before the columns about the product, and is standardised.
        column = d - nodes.slots
        means[column - 1] = settings.trust * nodes.influence.overall.std()
        means[column] = settings.trust
    d_t = nodes.as_target.shape[1]
    prior = Prior(
        means=means,
        groups=groups,
        variances=variances,
        precision=np.zeros((P, P)),
        natural=np.zeros(P),
        effect_variances=np.append(settings.own_variance, np.full(k, settings.own_response_variance)),
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
    )


def with_sources(state: ResponseState, sources: I64) -> ResponseState:
    """The state with effects for these sources as well, zero and as wide as the prior if they are new."""
    seen = np.union1d(state.seen, sources)
    if seen.size == state.seen.size:
        return state
    place, prior = np.searchsorted(seen, state.seen), state.prior

    def grown(old: F64, fill: F64 | float = 0.0) -> F64:
        new = np.empty((seen.size, *old.shape[1:]))
        new[:] = fill
        new[place] = old
        return new

    precisions, naturals = grown(prior.effect_precisions), grown(prior.effect_naturals)
    return replace(
        state,
        seen=seen,
        point=replace(state.point, effects=grown(state.point.effects)),
        prior=replace(prior, effect_precisions=precisions, effect_naturals=naturals),
        effect_covariances=grown(state.effect_covariances, np.diag(prior.effect_variances)),
    )


# -- the state as named plain arrays, and back --

# Parts of the prior that are learned; its means and groups follow from the settings.
_LEARNED = [field.name for field in fields(Prior) if field.name not in ("means", "groups")]
_UNCERTAINTY = ("seen", "weight_covariance", "effect_covariances")
# Arrays whose first axis grows as rounds are told, and by what; and those of any length.
_GROWING = {
    **dict.fromkeys(("point_effects", "prior_effect_precisions", "prior_effect_naturals"), "seen"),
    "effect_covariances": "seen",
    "log_counts": "log_sources",
    "log_gains": "log_sources",
    "log_outcomes": "log_targets",
    "log_trials": "log_targets",
}
_FREE = ("seen", "landmarks", "log_own", "log_pulls", "log_sources", "log_targets")


def state_to_arrays(state: ResponseState) -> Arrays:
    """The state as arrays; rounds kept are flat, with offsets."""
    log, point = state.log, state.point

    def joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype=dtype)

    return {
        "point_weights": point.weights,
        "point_effects": point.effects,
        "point_target_weights": point.target_weights,
        "point_targets": point.target_offsets,
        "point_taste_weight": np.asarray(point.taste_weight),
        **{f"prior_{name}": np.asarray(getattr(state.prior, name)) for name in _LEARNED},
        **{name: getattr(state, name) for name in _UNCERTAINTY},
        "landmarks": state.context.landmarks,
        "scales": np.array(state.context.scales, dtype=np.float64),
        "counters": np.array([state.rounds, state.next_fit], dtype=np.int64),
        "log_own": np.array([r.own for r in log]).reshape(len(log), state.context.k),
        "log_pulls": _offsets([r.sources.size for r in log]),
        "log_sources": joined([r.sources for r in log], np.int64),
        "log_counts": joined([np.diff(r.offsets) for r in log], np.int64),
        "log_gains": joined([r.gains for r in log], np.float64).reshape(-1, 1 + state.context.k),
        "log_targets": joined([r.targets for r in log], np.int32),
        "log_outcomes": joined([r.outcomes for r in log], np.float64),
        "log_trials": joined([r.trials for r in log], np.float64),
    }


def _offsets(sizes: Sequence[int] | I64) -> I64:
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)


def state_from_arrays(fresh: ResponseState, arrays: Mapping[str, NDArray[Any]]) -> ResponseState:
    """The state of :func:`state_to_arrays`, which must fit ``fresh``, a start with the same settings and nodes."""
    _check(state_to_arrays(fresh), arrays)
    # Copies, so that the caller may go on with its arrays.
    a = {name: np.array(array, order="C") for name, array in arrays.items()}

    weights, effects = a["point_weights"], a["point_effects"]
    taste = float(a["point_taste_weight"])
    learned: dict[str, Any] = {name: a[f"prior_{name}"] for name in _LEARNED}
    learned |= {name: float(learned[name]) for name in ("taste_precision", "taste_natural")}
    return replace(
        fresh,
        context=replace(fresh.context, scales=tuple(a["scales"].tolist()), landmarks=a["landmarks"]),
        point=Point(weights, effects, a["point_target_weights"], a["point_targets"], taste),
        prior=replace(fresh.prior, **learned),
        log=_log_from_arrays(a),
        rounds=int(a["counters"][0]),
        next_fit=int(a["counters"][1]),
        **{name: a[name] for name in _UNCERTAINTY},
    )


def _log_from_arrays(a: Arrays) -> tuple[ToldContext, ...]:
    pulls, begins = a["log_pulls"], _offsets(a["log_counts"])
    if pulls.size != len(a["log_own"]) + 1 or pulls[-1] != begins.size - 1 or begins[-1] != a["log_targets"].size:
        raise ShapeError("the rounds kept in the state do not fit each other: sizes of log_… arrays differ.")
    log = []
    for own, first, last in zip(a["log_own"], pulls[:-1], pulls[1:], strict=True):
        span = slice(begins[first], begins[last])
        rows = {name: a[f"log_{name}"][span] for name in ("targets", "outcomes", "trials")}
        of_pulls = {name: a[f"log_{name}"][first:last] for name in ("sources", "gains")}
        log.append(ToldContext(own=own, offsets=begins[first : last + 1] - begins[first], **rows, **of_pulls))
    return tuple(log)


def _check(expected: Arrays, arrays: Mapping[str, NDArray[Any]]) -> None:
    if set(expected) != set(arrays):
        raise InputError(f"the state must hold arrays {sorted(expected)}; got {sorted(arrays)}.")
    for name, array in expected.items():
        shape, given = array.shape, arrays[name]
        if name in _GROWING:
            shape = (len(arrays[_GROWING[name]]), *shape[1:])
        elif name in _FREE:
            shape = (*given.shape[:1], *shape[1:])
        if given.shape != shape or given.dtype != array.dtype:
            got = f"{given.dtype} {given.shape}"
            raise ShapeError(f"array {name!r} of the state must be {array.dtype} {shape}; got {got}.")
