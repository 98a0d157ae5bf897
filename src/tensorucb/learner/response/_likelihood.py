"""The rounds kept as flat rows, and the log posterior at a point of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensorucb.arrays import F64, I32, I64
from tensorucb.learner.response._context import ContextFeatures
from tensorucb.learner.response._log import ToldContext
from tensorucb.learner.response._nodes import NodeFeatures
from tensorucb.learner.response._state import Point, Prior


@dataclass(frozen=True)
class Pulls:
    """The pulls of some rounds, one after the other. A pull is one source in one context."""

    context: ContextFeatures
    own: F64  # (rounds, k): x of each round
    features: F64  # (rounds, 1 + k + …): c(x) of each round
    round: I64  # of each pull
    sources: I64
    gains: F64

    def rows(self, nodes: NodeFeatures, of: I64 | slice = slice(None)) -> F64:
        """``(pulls, P)`` what multiplies θ in the logits of some pulls: s_i(x), c(x), and the products of x and s̃_i."""
        t, sources = self.round[of], self.sources[of]
        own = self.own[t]
        products = (own[:, :, None] * nodes.crossed(self.context.k, sources)[:, None, :]).reshape(sources.size, -1)
        return np.hstack([nodes.sources(self.context.mixture(own), sources), self.features[t], products])


def pulls_of(context: ContextFeatures, rounds: Sequence[ToldContext]) -> Pulls:
    """The pulls of at least one round."""
    own = np.array([r.own for r in rounds])
    number = np.repeat(np.arange(len(rounds)), [r.sources.size for r in rounds])
    sources, gains = (np.concatenate([getattr(r, name) for r in rounds]) for name in ("sources", "gains"))
    return Pulls(context, own, context.features(own), number, sources, gains)


@dataclass(frozen=True)
class Data:
    """Rounds as flat arrays; see the glossary of the kernels."""

    ptr: I64  # where each pull's rows begin
    target_number: I32  # of each row, among ``observed``
    outcome: F64
    trials: F64
    taste: F64  # m_j(x) of each row
    place: I64  # of each pull's source among the sources seen
    observed: I64  # the targets that occur, ascending
    X: F64  # (pulls, P): what multiplies θ in a pull's logits
    Z: F64  # (pulls, 1 + k): what multiplies d_i
    T: F64  # (observed, d_t): what multiplies γ
    order: I64  # the pulls sorted by source
    begin: I64  # where each source's pulls begin in ``order``


def load(nodes: NodeFeatures, context: ContextFeatures, seen: I64, rounds: Sequence[ToldContext]) -> Data:
    """Rounds as one set of rows; ``seen`` must hold all their sources."""
    from tensorucb.learner.response._kernels import row_tastes

    pulls = pulls_of(context, rounds)
    place = np.searchsorted(seen, pulls.sources)
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(r.offsets) for r in rounds]))])
    rows = np.concatenate([r.targets for r in rounds])
    met = np.zeros(nodes.n, dtype=np.bool_)
    met[rows] = True
    observed = np.flatnonzero(met)
    number = (np.cumsum(met, dtype=np.int32) - 1)[rows].astype(np.int32)
    taste = np.zeros(rows.size)
    if nodes.taste is not None:
        row_tastes(pulls.round, ptr, number, nodes.taste[observed], context.mixture(pulls.own), taste)
    return Data(
        ptr=ptr,
        target_number=number,
        outcome=np.concatenate([r.outcomes for r in rounds]),
        trials=np.concatenate([r.trials for r in rounds]),
        taste=taste,
        place=place,
        observed=observed,
        X=pulls.rows(nodes),
        Z=np.hstack([np.ones((place.size, 1)), pulls.own[pulls.round]]),
        T=nodes.as_target[observed],
        order=np.argsort(place, kind="stable"),
        begin=np.concatenate([[0], np.cumsum(np.bincount(place, minlength=seen.size))]),
    )


@dataclass(frozen=True)
class Sums:
    """One pass over the rows: the log-likelihood, and its slopes Σ(y − p) and curvatures Σp(1 − p)."""

    value: float  # the log-likelihood
    pull_curvature: F64
    pull_slope: F64
    target_curvature: F64  # of each observed target
    target_slope: F64
    taste_curvature: float  # in g
    taste_slope: float


def sums_at(data: Data, point: Point) -> Sums:
    """The sums over the rows at a point."""
    from tensorucb.learner.response._kernels import accumulate

    pulls = data.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.place], data.Z)
    targets = data.T @ point.target_weights + point.target_offsets[data.observed]
    w, e = np.zeros((2, data.place.size))
    target_w, target_e = np.zeros((2, data.observed.size))
    rows = data.ptr, data.target_number, data.outcome, data.trials, data.taste
    value, curvature, slope = accumulate(*rows, pulls, targets, point.taste_weight, w, e, target_w, target_e)
    return Sums(value, w, e, target_w, target_e, curvature, slope)


@dataclass(frozen=True)
class Stand:
    """Where a refit stands: the rows, the priors and a point."""

    data: Data
    prior: Prior
    point: Point

    @cached_property
    def at(self) -> Sums:
        """The sums over the rows."""
        return sums_at(self.data, self.point)

    @cached_property
    def value(self) -> float:
        """The log posterior up to a constant."""
        prior, point = self.prior, self.point
        theta, d, g = point.weights, point.effects, point.taste_weight
        gamma, b = point.target_weights, point.target_offsets
        total = self.at.value
        total -= 0.5 * float(np.sum((theta - prior.means) ** 2 / prior.variances[prior.groups]))
        total -= float(0.5 * theta @ prior.precision @ theta - prior.natural @ theta)
        total -= 0.5 * float(np.sum(d**2 / prior.effect_variances))
        total -= float(np.sum((0.5 * times(prior.effect_precisions, d) - prior.effect_naturals) * d))
        total -= 0.5 * float(gamma @ gamma / prior.target_variances[0] + b @ b / prior.target_variances[1])
        total -= float(0.5 * gamma @ prior.target_precision @ gamma - prior.target_natural @ gamma)
        total -= float(np.sum(0.5 * prior.offset_precisions * b**2 - prior.offset_naturals * b))
        return total - 0.5 * prior.taste_precision * g**2 + prior.taste_natural * g


def times(matrices: F64, vectors: F64) -> F64:
    """The product of each source's matrix and vector."""
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])
