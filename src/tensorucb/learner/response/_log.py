"""The rounds that are kept, and their likelihood at a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tensorucb.arrays import F64, I32, I64
from tensorucb.learner.response._context import ContextFeatures
from tensorucb.learner.response._nodes import NodeFeatures

if TYPE_CHECKING:
    from tensorucb.learner.response._state import Point


@dataclass(frozen=True)
class ToldContext:
    """All that was told about one context, in one round or several.

    Pull q is ``sources[q]``, seen on ``targets[offsets[q]:offsets[q + 1]]``.
    """

    own: F64  # the context's vectors side by side, scaled
    sources: I64  # distinct
    offsets: I64  # where each source's rows begin
    targets: I32  # of each row, distinct for a source
    outcomes: F64  # their sum
    trials: F64  # how often the row was seen
    gains: F64  # (sources, 1 + k): H_q, the part of each pull in how d_i follows θ; zero until it is learned


def make_told(own: F64, sources: I64, targets: I32, outcomes: F64, trials: F64 | None = None) -> ToldContext:
    """What a round told, from rows in any order; an edge seen twice becomes one row with two trials."""
    order = np.lexsort((targets, sources))
    sources, targets = sources[order], targets[order]
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
    rows = np.flatnonzero(new)
    counts = np.ones(order.size) if trials is None else trials[order]
    distinct, first = np.unique(sources[rows], return_index=True)
    return ToldContext(
        own,
        distinct.astype(np.int64),
        np.append(first, rows.size).astype(np.int64),
        targets[rows],
        np.add.reduceat(outcomes[order], rows) if rows.size else np.empty(0),
        np.add.reduceat(counts, rows) if rows.size else np.empty(0),
        np.zeros((distinct.size, 1 + own.size)),
    )


def with_told(log: tuple[ToldContext, ...], record: ToldContext) -> tuple[ToldContext, ...]:
    """The log with one more round, which joins an earlier one of the same context, unless that was absorbed."""
    for place, old in enumerate(log):
        if old.targets.size and np.array_equal(old.own, record.own):
            both = [(np.repeat(r.sources, np.diff(r.offsets)), r.targets, r.outcomes, r.trials) for r in (old, record)]
            merged = make_told(old.own, *(np.concatenate(parts) for parts in zip(*both, strict=True)))
            merged.gains[np.searchsorted(merged.sources, old.sources)] = old.gains
            return (*log[:place], merged, *log[place + 1 :])
    return (*log, record)


@dataclass(frozen=True)
class Pulls:
    """The pulls of some rounds, one after the other: their rounds, sources and gains."""

    round: I64
    sources: I64
    gains: F64


def pulls_of(rounds: Sequence[ToldContext]) -> Pulls:
    """The pulls of at least one round."""
    number = np.repeat(np.arange(len(rounds)), [r.sources.size for r in rounds])
    return Pulls(number, np.concatenate([r.sources for r in rounds]), np.concatenate([r.gains for r in rounds]))


def with_gains(rounds: Sequence[ToldContext], gains: F64) -> tuple[ToldContext, ...]:
    """The rounds with these gains of all their pulls, one after the other."""
    ends = np.cumsum([r.sources.size for r in rounds])[:-1]
    return tuple(replace(r, gains=part) for r, part in zip(rounds, np.split(gains, ends), strict=True))


def pull_rows(nodes: NodeFeatures, context: ContextFeatures, own: F64, features: F64, sources: I64) -> F64:
    """``(pulls, P)`` what multiplies θ in each pull's logits; ``own`` and ``features`` are those of its context."""
    products = (own[:, :, None] * nodes.crossed(context.k, sources)[:, None, :]).reshape(sources.size, -1)
    return np.hstack([nodes.pulls(sources, context.mixture(own)), features, products])


@dataclass(frozen=True)
class Data:
    """Rounds as flat arrays; see the glossary of the kernels."""

    ptr: I64  # where each pull's rows begin
    target_number: I32  # of each row, among ``observed``
    outcome: F64
    trials: F64
    liking: F64
    place: I64  # of each pull's source among the sources seen
    observed: I64  # the targets that occur, ascending
    X: F64  # (pulls, P): what multiplies θ in a pull's logits
    Z: F64  # (pulls, 1 + k): what multiplies d_i
    T: F64  # (observed, d_t): what multiplies γ
    order: I64  # the pulls sorted by source
    begin: I64  # where each source's pulls begin in ``order``


def load(nodes: NodeFeatures, context: ContextFeatures, seen: I64, rounds: Sequence[ToldContext]) -> Data:
    """Rounds as one set of rows; ``seen`` must hold all their sources."""
    from tensorucb.learner.response._kernels import row_likings

    own, pulls = np.array([r.own for r in rounds]), pulls_of(rounds)
    place = np.searchsorted(seen, pulls.sources)
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(r.offsets) for r in rounds]))])
    rows = np.concatenate([r.targets for r in rounds])
    met = np.zeros(nodes.n, dtype=np.bool_)
    met[rows] = True
    observed = np.flatnonzero(met)
    number = (np.cumsum(met, dtype=np.int32) - 1)[rows].astype(np.int32)
    liking = np.zeros(rows.size)
    if nodes.preference is not None:
        row_likings(pulls.round, ptr, number, nodes.preference[observed], context.mixture(own), liking)
    of_pulls = own[pulls.round]
    return Data(
        ptr=ptr,
        target_number=number,
        outcome=np.concatenate([r.outcomes for r in rounds]),
        trials=np.concatenate([r.trials for r in rounds]),
        liking=liking,
        place=place,
        observed=observed,
        X=pull_rows(nodes, context, of_pulls, context.features(own)[pulls.round], pulls.sources),
        Z=np.hstack([np.ones((place.size, 1)), of_pulls]),
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
    taste_curvature: float  # in the weight of taste
    taste_slope: float


def sums_at(data: Data, point: Point) -> Sums:
    """The sums over the rows at a point."""
    from tensorucb.learner.response._kernels import accumulate

    pulls = data.X @ point.weights + np.einsum("qk,qk->q", point.effects[data.place], data.Z)
    targets = data.T @ point.target_weights + point.targets[data.observed]
    w, e = np.zeros((2, data.place.size))
    target_w, target_e = np.zeros((2, data.observed.size))
    rows = data.ptr, data.target_number, data.outcome, data.trials, data.liking
    value, curvature, slope = accumulate(*rows, pulls, targets, point.taste_weight, w, e, target_w, target_e)
    return Sums(value, w, e, target_w, target_e, curvature, slope)
