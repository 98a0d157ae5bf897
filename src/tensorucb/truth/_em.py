"""EM of the topic-aware model, by ranges of targets.

The candidate causes of an action are in-edges of one user. So an iteration splits by target: a piece needs the trials
of its targets' in-edges and their probabilities, and gives back the next ones. Pieces run on threads of this machine,
or where an engine says; trials travel there once, and probabilities with each iteration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorucb.arrays import F64
from tensorucb.graph import Graph
from tensorucb.graph._ids import frozen
from tensorucb.truth import _kernels
from tensorucb.truth._activations import Activations, even_bounds, offsets_of
from tensorucb.work import Engine, map_pieces

# Probabilities stay this far from 0 and 1: a constrained maximum, so EM still never falls.
_FLOOR = 1e-9


class EM:
    """Trials in the order of `Graph.in_edges`, as the pieces of an iteration share them."""

    def __init__(
        self, graph: Graph, trials: Activations, shares: F64, prior: list[float], threads: int, engine: Engine | None
    ) -> None:
        n, m = graph.n_nodes, graph.n_edges
        # Where each edge is in the order of targets.
        self.place = np.empty(m, dtype=np.int64)
        self.place[graph.in_edges] = np.arange(m)
        order = np.argsort(self.place[trials.edges], kind="stable")
        edge = self.place[trials.edges][order]
        item = trials.items[order]
        hit = trials.successes[order]
        failed, fired = (
            (offsets_of(edge[part], m), item[part].astype(np.int32), np.bincount(edge[part], minlength=m))
            for part in (~hit, hit)
        )
        self.successes = fired[2][self.place]
        self.trials = failed[2][self.place] + self.successes
        # Candidate causes of one action: the successes with the same target and item.
        target, cause = graph.targets[graph.in_edges[edge[hit]]].astype(np.int64), item[hit]
        members = np.lexsort((cause, target))
        target, cause = target[members], cause[members]
        new = (np.diff(target, prepend=-1) != 0) | (np.diff(cause, prepend=-1) != 0)
        starts = np.append(np.flatnonzero(new), members.size)
        first = np.searchsorted(target[new], np.arange(n + 1))
        # Sums are taken in the order of edges, and of items: the same to the bit however the work is split.
        self._groups = np.argsort(cause[new], kind="stable")
        arrays = (graph.in_offsets, *failed[:2], *fired[:2], starts, members, first, shares)
        self._shared = (*(frozen(array) for array in arrays), *prior)
        self._engine = engine
        self._threads = threads
        self._bounds = even_bounds(n, threads)

    def iterate(self, p: F64) -> tuple[tuple[float, float], F64]:
        """The log-likelihood and the log-prior at ``p``, and the next ``p``; both in the order of targets."""
        parts = map_pieces(self._engine, step, (*self._shared, p), self._bounds, self._threads)
        fit, penalty, group_fit, following = (np.concatenate(part) for part in zip(*parts, strict=True))
        likelihood = fit[self.place].sum() + group_fit[self._groups].sum()
        return (float(likelihood), float(penalty[self.place].sum())), following


def step(shared: tuple[Any, ...], start: int, stop: int) -> tuple[F64, F64, F64, F64]:
    """One iteration for targets ``start .. stop``: fit and log-prior of edges, fit of groups, the next ``p``."""
    in_offsets, fail_off, fail_item, hit_off, hit_item, starts, members, first, shares, more, less, p = shared
    a, b = int(in_offsets[start]), int(in_offsets[stop])
    failed, fired = slice(fail_off[a], fail_off[b]), slice(hit_off[a], hit_off[b])
    groups = starts[first[start] : first[stop] + 1]
    member = members[groups[0] : groups[-1]] - fired.start
    fails = (fail_off[a : b + 1] - failed.start, fail_item[failed])
    hits = (hit_off[a : b + 1] - fired.start, hit_item[fired])
    # The kernels' glossary says what these are.
    q, r, s = np.empty((3, member.size))
    v = np.empty((b - a, p.shape[1]))
    fit = np.empty(b - a)
    penalty = np.empty(b - a)
    group_fit, following = np.empty(groups.size - 1), p[a:b].copy()
    _kernels.expect_edges(*fails, *hits, shares, following, more, less, 0, b - a, q, v, fit, penalty)
    _kernels.expect_groups(groups - groups[0], member, q, 0, group_fit.size, r, s, group_fit)
    _kernels.maximise(*hits, shares, r, s, v, more, less, _FLOOR, 0, b - a, following)
    return fit, penalty, group_fit, following
