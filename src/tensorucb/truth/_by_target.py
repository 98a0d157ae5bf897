"""EM by ranges of targets, for an engine.

The candidate causes of an action are in-edges of one user. So an iteration of EM splits by target: a piece needs the
trials of its targets' in-edges and their probabilities, and gives back the next ones. Trials travel once, and
probabilities with each iteration. Sums are taken in the order of one machine, so the fit is the same to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorucb.arrays import F64, I64
from tensorucb.graph import Graph
from tensorucb.graph._ids import frozen
from tensorucb.work import Engine

if TYPE_CHECKING:
    from tensorucb.truth._model import _Expectation


class ExpectationByTarget:
    """`_Expectation` whose steps an engine makes: the E-step brings the M-step's result along."""

    def __init__(self, graph: Graph, em: _Expectation, engine: Engine, floor: float) -> None:
        self.trials, self.successes = em.trials, em.successes
        self._engine, self._graph, self._order = engine, graph, graph.in_edges
        failed, _ = _sorted_trials(*em.failed, self._order)
        fired, place = _sorted_trials(*em.fired, self._order)
        edge_of = np.repeat(np.arange(graph.n_edges), np.diff(em.fired[0]))
        sizes = np.diff(em.group_offsets)
        target = graph.targets[edge_of[em.members[em.group_offsets[:-1]]]]
        self._groups = np.argsort(target, kind="stable")
        starts = np.append(0, np.cumsum(sizes[self._groups]))
        within = np.arange(starts[-1]) - np.repeat(starts[:-1], sizes[self._groups])
        members = place[em.members[np.repeat(em.group_offsets[:-1][self._groups], sizes[self._groups]) + within]]
        first = np.searchsorted(target[self._groups], np.arange(graph.n_nodes + 1))
        arrays = (graph.in_offsets, *failed, *fired, starts, members, first, em.shares)
        self._shared = (*(frozen(array) for array in arrays), em.more, em.less, floor)
        self._next: F64 = np.empty(0)

    def expect(self, p: F64) -> tuple[float, float]:
        """The E-step; returns the log-likelihood and the log-prior at ``p``."""
        bounds = self._engine.pieces(self._graph.n_nodes)
        parts = self._engine.map(step, (*self._shared, p[self._order]), bounds)
        fit, penalty, group_fit, following = (np.concatenate(part) for part in zip(*parts, strict=True))
        self._next = following[np.argsort(self._order)]
        totals = np.empty((2, fit.size))
        totals[:, self._order] = fit, penalty
        groups = np.empty(group_fit.size)
        groups[self._groups] = group_fit
        return float(totals[0].sum() + groups.sum()), float(totals[1].sum())

    def maximise(self, p: F64) -> None:
        """The M-step, in place."""
        p[:] = self._next


def _sorted_trials(offsets: I64, items: Any, order: I64) -> tuple[tuple[I64, Any], I64]:
    """Trials sorted by the place of their edge in ``order``, and the new place of each."""
    sizes = np.diff(offsets)[order]
    starts = np.append(0, np.cumsum(sizes))
    old = np.repeat(offsets[:-1][order], sizes) + np.arange(starts[-1]) - np.repeat(starts[:-1], sizes)
    place = np.empty(old.size, dtype=np.int64)
    place[old] = np.arange(old.size)
    return (starts, items[old]), place


def step(shared: tuple[Any, ...], start: int, stop: int) -> tuple[F64, F64, F64, F64]:
    """One iteration for targets ``start .. stop``: fit and log-prior of edges, fit of groups, the next ``p``."""
    from tensorucb.truth import _kernels

    in_offsets, fail_off, fail_item, hit_off, hit_item, starts, members, first, shares, more, less, floor, p = shared
    a, b = int(in_offsets[start]), int(in_offsets[stop])
    failed, fired = slice(fail_off[a], fail_off[b]), slice(hit_off[a], hit_off[b])
    groups = starts[first[start] : first[stop] + 1]
    member = members[groups[0] : groups[-1]] - fired.start
    fails = (fail_off[a : b + 1] - failed.start, fail_item[failed])
    hits = (hit_off[a : b + 1] - fired.start, hit_item[fired])
    q, r, s = np.empty((3, member.size))
    v, fit, penalty = np.empty((b - a, p.shape[1])), np.empty(b - a), np.empty(b - a)
    group_fit, following = np.empty(groups.size - 1), p[a:b].copy()
    _kernels.expect_edges(*fails, *hits, shares, following, more, less, 0, b - a, q, v, fit, penalty)
    _kernels.expect_groups(groups - groups[0], member, q, 0, group_fit.size, r, s, group_fit)
    _kernels.maximise(*hits, shares, r, s, v, more, less, floor, 0, b - a, following)
    return fit, penalty, group_fit, following
