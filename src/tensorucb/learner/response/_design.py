"""The rounds as flat rows: each connects a pull, one source in one round, and a cell, one target in one round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorucb.arrays import F64, I32, I64
from tensorucb.learner.response._context import ContextFeatures
from tensorucb.learner.response._log import Log
from tensorucb.learner.response._nodes import NodeFeatures


@dataclass(frozen=True)
class Design:
    """Everything in the likelihood but the parameters; see the glossary of the kernels."""

    # rows, sorted by pull
    ptr: I64  # where each pull's rows begin
    cell: I32  # of each row
    outcome: F64
    weight: F64
    # pulls, sorted by round
    pull_round: I64
    pull_place: I64  # of the pull's source among ``seen``
    X: F64  # (pulls, P): what multiplies θ
    Z: F64  # (pulls, 1 + k): what multiplies d_i
    order: I64  # the pulls sorted by source
    begin: I64  # where each source's pulls begin in ``order``
    seen: I64  # the sources that occur, ascending
    # cells, sorted by round
    cell_place: I64  # of the cell's target among ``observed``
    dose: F64  # m: how many contacted users the target follows
    taste: F64  # (cells, 0 or 1): the target's taste for the round's product
    whole: F64  # 1, or 0 in a round that was thinned
    observed: I64  # the targets that occur, ascending
    T: F64  # (observed, d_t): what multiplies γ
    # rounds
    contexts: F64  # (rounds, 1 + k + …): c(x)
    first_pull: I64  # where each round's pulls begin
    first_cell: I64


def design_of(nodes: NodeFeatures, context: ContextFeatures, log: Log, passive_weight: float = 1.0) -> Design:
    """The rounds of a log, each with at least one row; outcomes of passive rounds count less."""
    own = context.scaled(np.array([r.vectors for r in log]))
    rows = _begins([r.edges.size for r in log])
    first_pull = _begins([r.pulls[0].size for r in log])
    first_cell = _begins([r.cells[0].size for r in log])
    pull_round = np.repeat(np.arange(len(log)), np.diff(first_pull))
    cell_round = np.repeat(np.arange(len(log)), np.diff(first_cell))
    pull_source = np.concatenate([r.pulls[0] for r in log])
    cell_target = np.concatenate([r.cells[0] for r in log])
    seen, place = _numbered(pull_source, nodes.n)
    observed, cell_place = _numbered(cell_target, nodes.n)
    return Design(
        ptr=np.concatenate([*(r.pulls[1] + start for r, start in zip(log, rows, strict=False)), rows[-1:]]),
        cell=np.concatenate([r.cells[2] + start for r, start in zip(log, first_cell, strict=False)]).astype(np.int32),
        outcome=np.concatenate([r.outcomes for r in log]),
        weight=np.concatenate([r.weights * (passive_weight if r.passive else 1.0) for r in log]),
        pull_round=pull_round,
        pull_place=place,
        X=source_rows(nodes, context, own[pull_round], pull_source),
        Z=np.hstack([np.ones((place.size, 1)), own[pull_round]]),
        order=np.argsort(place, kind="stable"),
        begin=_begins(np.bincount(place, minlength=seen.size)),
        seen=seen,
        cell_place=cell_place,
        dose=np.concatenate([r.doses[r.cells[1]] for r in log]).astype(np.float64),
        taste=nodes.tastes(context.mixture(own)[cell_round], cell_target),
        whole=(np.array([r.level for r in log]) == 0).astype(np.float64)[cell_round],
        observed=observed,
        T=nodes.as_target[observed],
        contexts=context.features(own),
        first_pull=first_pull,
        first_cell=first_cell,
    )


def _begins(sizes: Sequence[int] | I64) -> I64:
    """Where each of several parts begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _numbered(values: I64, n: int) -> tuple[I64, I64]:
    """The distinct values in 0..n-1, ascending, and the place of each value among them."""
    occurs = np.zeros(n, dtype=np.bool_)
    occurs[values] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[values]


def source_rows(nodes: NodeFeatures, context: ContextFeatures, own: F64, sources: I64) -> F64:
    """``(pulls, P)`` what multiplies θ: s_i(x), c(x), and the products of x and s̃_i, for each source in its context."""
    products = (own[:, :, None] * nodes.crossed(context.k, sources)[:, None, :]).reshape(sources.size, -1)
    return np.hstack([nodes.sources(context.mixture(own), sources), context.features(own), products])
