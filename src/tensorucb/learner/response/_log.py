"""The rounds that are kept, and their likelihood at a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorucb.arrays import F64, I32, I64
from tensorucb.learner.response._context import Context
from tensorucb.learner.response._nodes import NodeFeatures


@dataclass(frozen=True)
class Told:
    """All that was told about one context, in one round or several.

    Pull q is ``sources[q]``, seen on ``targets[offsets[q]:offsets[q + 1]]``.

    Attributes
    ----------
    own
        The context's vectors side by side, scaled.
    sources, offsets, targets, outcomes, trials
        Distinct sources, where each one's rows begin, and the rows: distinct targets, the sum of their outcomes, and
        how often they were seen.
    """

    own: F64
    sources: I64
    offsets: I64
    targets: I32
    outcomes: F64
    trials: F64


def make_told(own: F64, sources: I64, targets: I32, outcomes: F64, trials: F64 | None = None) -> Told:
    """What a round told, from rows in any order; an edge seen twice becomes one row with two trials."""
    order = np.lexsort((targets, sources))
    sources, targets = sources[order], targets[order]
    new = np.ones(order.size, dtype=np.bool_)
    new[1:] = (np.diff(sources) != 0) | (np.diff(targets) != 0)
    rows = np.flatnonzero(new)
    counts = np.ones(order.size) if trials is None else trials[order]
    distinct, first = np.unique(sources[rows], return_index=True)
    return Told(
        own,
        distinct.astype(np.int64),
        np.append(first, rows.size).astype(np.int64),
        targets[rows],
        np.add.reduceat(outcomes[order], rows) if rows.size else np.empty(0),
        np.add.reduceat(counts, rows) if rows.size else np.empty(0),
    )


def with_told(log: tuple[Told, ...], record: Told) -> tuple[Told, ...]:
    """The log with one more round, which joins an earlier one of the same context."""
    for place, old in enumerate(log):
        if np.array_equal(old.own, record.own):
            both = (old, record)
            sources = np.concatenate([np.repeat(r.sources, np.diff(r.offsets)) for r in both])
            targets = np.concatenate([r.targets for r in both])
            outcomes = np.concatenate([r.outcomes for r in both])
            trials = np.concatenate([r.trials for r in both])
            merged = make_told(old.own, sources, targets, outcomes, trials)
            return (*log[:place], merged, *log[place + 1 :])
    return (*log, record)


@dataclass(frozen=True)
class Data:
    """Rounds as flat arrays; see the glossary of the kernels.

    Attributes
    ----------
    ptr, target_number, outcome, trials, liking
        Where each pull's rows begin, and the rows; targets are numbered among ``observed``.
    place
        Place of each pull's source among the sources seen.
    observed
        The targets that occur, ascending.
    X, Z
        ``(pulls, P)`` and ``(pulls, 1 + k)``: what multiplies θ and d_i in a pull's logits.
    T
        ``(observed, d_t)``: what multiplies γ.
    """

    ptr: I64
    target_number: I32
    outcome: F64
    trials: F64
    liking: F64
    place: I64
    observed: I64
    X: F64
    Z: F64
    T: F64


def load(nodes: NodeFeatures, context: Context, seen: I64, rounds: Sequence[Told]) -> Data:
    """Rounds as one set of rows; ``seen`` must hold all their sources."""
    from tensorucb.learner.response._kernels import row_likings

    own = np.array([r.own for r in rounds])
    sources = np.concatenate([r.sources for r in rounds])
    pull_round = np.repeat(np.arange(len(rounds)), [r.sources.size for r in rounds])
    ptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(r.offsets) for r in rounds]))])
    rows = np.concatenate([r.targets for r in rounds])
    met = np.zeros(nodes.n, dtype=np.bool_)
    met[rows] = True
    observed = np.flatnonzero(met)
    number = (np.cumsum(met, dtype=np.int32) - 1)[rows].astype(np.int32)
    mix, liking = context.mixture(own), np.zeros(rows.size)
    if nodes.preference is not None:
        row_likings(pull_round, ptr, number, nodes.preference[observed], mix, liking)
    crossed = nodes.crossed(context.k, sources)
    products = (own[pull_round][:, :, None] * crossed[:, None, :]).reshape(sources.size, -1)
    source = nodes.pulls(sources, mix[pull_round])
    return Data(
        ptr=ptr,
        target_number=number,
        outcome=np.concatenate([r.outcomes for r in rounds]),
        trials=np.concatenate([r.trials for r in rounds]),
        liking=liking,
        place=np.searchsorted(seen, sources),
        observed=observed,
        X=np.hstack([source, context.features(own)[pull_round], products]),
        Z=np.hstack([np.ones((sources.size, 1)), own[pull_round]]),
        T=nodes.as_target[observed],
    )


@dataclass(frozen=True)
class Sums:
    """One pass over the rows: the log-likelihood, and its slopes and curvatures by pull, by target and in g.

    Attributes
    ----------
    value
        The log-likelihood.
    pull_curvature, pull_slope
        Σ p(1 − p) and Σ (y − p) over the rows of each pull.
    target_curvature, target_slope
        The same over the rows of each observed target.
    taste_curvature, taste_slope
        In the weight of taste.
    """

    value: float
    pull_curvature: F64
    pull_slope: F64
    target_curvature: F64
    target_slope: F64
    taste_curvature: float
    taste_slope: float


def sums(data: Data, pull_logits: F64, target_logits: F64, taste_weight: float) -> Sums:
    """The sums where row (q, j) has the logit ``pull_logits[q] + target_logits[j] + taste_weight · m``."""
    from tensorucb.learner.response._kernels import accumulate

    pull_curvature, pull_slope = np.zeros((2, data.place.size))
    target_curvature, target_slope = np.zeros((2, data.observed.size))
    value, curvature, slope = accumulate(
        data.ptr,
        data.target_number,
        data.outcome,
        data.trials,
        data.liking,
        pull_logits,
        target_logits,
        taste_weight,
        pull_curvature,
        pull_slope,
        target_curvature,
        target_slope,
    )
    return Sums(value, pull_curvature, pull_slope, target_curvature, target_slope, curvature, slope)
