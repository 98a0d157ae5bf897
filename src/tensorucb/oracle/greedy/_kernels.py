"""Greedy maximum coverage over RR sets, and the direct objective's marginals.

Glossary: a *candidate* is a node that may still be picked, numbered ``0 .. c``; ``marginal[c]`` the sets that
it would newly cover; ``floor`` an upper bound of the marginal of every node that is no candidate;
``survive[j]`` the probability that no seed activates ``j``.
"""

from __future__ import annotations

import numba
import numpy as np

from tensorucb._kernels import KERNEL


@numba.njit(**KERNEL)
def frequent_nodes(touched, counts, allowed, wanted, number):  # type: ignore[no-untyped-def]
    """The about ``wanted`` allowed nodes in most sets, and the most sets that any other allowed node is in.

    ``touched`` are the nodes in any set. ``number[v]`` becomes the candidate number of ``v``; it must come in as -1
    and be reset by the caller.
    """
    largest = 0
    for i in range(touched.size):
        if counts[touched[i]] > largest and allowed[touched[i]]:
            largest = counts[touched[i]]
    histogram = np.zeros(largest + 2, np.int64)
    for i in range(touched.size):
        if allowed[touched[i]]:
            histogram[counts[touched[i]]] += 1
    taken = 0
    floor = largest
    while floor > 0 and (taken + histogram[floor] <= wanted or taken == 0):
        taken += histogram[floor]
        floor -= 1
    nodes = np.empty(taken, np.int64)
    at = 0
    for i in range(touched.size):
        v = touched[i]
        if counts[v] > floor and allowed[v]:
            nodes[at] = v
            number[v] = at
            at += 1
    return nodes, floor


@numba.njit(**KERNEL)
def reduce_sets(members, lengths, number, offsets, reduced, row, at):  # type: ignore[no-untyped-def]
    """Append the candidates of each set; sets without any are dropped. Returns the next row and position.

    ``reduced`` has room for one more than it will hold: every member is written, only candidates are kept.
    """
    start = 0
    for i in range(lengths.size):
        before = at
        for j in range(start, start + lengths[i]):
            c = number[members[j]]
            reduced[at] = c
            at += c >= 0
        start += lengths[i]
        row += at > before
        offsets[row] = at
    return row, at


@numba.njit(**KERNEL)
def invert(offsets, reduced, rows, marginal):  # type: ignore[no-untyped-def]
    """The sets of each candidate, in compressed rows."""
    starts = np.zeros(marginal.size + 1, np.int64)
    for c in range(marginal.size):
        starts[c + 1] = starts[c] + marginal[c]
    fill = starts[:-1].copy()
    sets = np.empty(starts[-1], np.int32)
    for i in range(rows):
        for j in range(offsets[i], offsets[i + 1]):
            c = reduced[j]
            sets[fill[c]] = i
            fill[c] += 1
    return starts, sets


@numba.njit(**KERNEL)
def top_sum(values, floor, k, heap):  # type: ignore[no-untyped-def]
    """Sum of the ``k`` largest of ``values`` and of as many copies of ``floor`` as wanted."""
    for i in range(k):
        heap[i] = floor
    for i in range(values.size):
        x = values[i]
        if x > heap[0]:
            at = 0
            while True:
                child = 2 * at + 1
                if child >= k:
                    break
                if child + 1 < k and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= x:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = x
    total = 0
    for i in range(k):
        total += heap[i]
    return total


@numba.njit(inline="always", cache=True)
def _take(c, starts, sets, offsets, reduced, covered, marginal):  # type: ignore[no-untyped-def]
    for q in range(starts[c], starts[c + 1]):
        i = sets[q]
        if covered[i] == 0:
            covered[i] = 1
            for j in range(offsets[i], offsets[i + 1]):
                marginal[reduced[j]] -= 1


@numba.njit(**KERNEL)
def pick_uniform(offsets, reduced, rows, starts, sets, marginal, floor, picks, bound_picks):  # type: ignore[no-untyped-def]
    """Plain greedy: ``picks`` candidates, their gains, those of the runners-up, and the least prefix bound.

    The bound is for ``bound_picks`` nodes more than a prefix.

    The last value tells whether every pick was certainly the best of all nodes, not only of the candidates.
    """
    covered = np.zeros(rows, np.uint8)
    chosen = np.empty(picks, np.int64)
    gains = np.zeros(picks, np.int64)
    rivals = np.zeros(picks, np.int64)
    heap = np.empty(bound_picks, np.int64)
    bound = top_sum(marginal, floor, bound_picks, heap)
    total = 0
    found = 0
    exact = True
    while found < picks:
        best = 0
        rival = 0
        for c in range(1, marginal.size):
            if marginal[c] > marginal[best]:
                rival = marginal[best]
                best = c
            elif marginal[c] > rival:
                rival = marginal[c]
        if marginal.size == 0 or marginal[best] == 0:
            exact = exact and floor == 0
            break
        if marginal[best] < floor:
            exact = False
        chosen[found] = best
        gains[found] = marginal[best]
        rivals[found] = max(rival, min(floor, marginal[best]))
        total += marginal[best]
        found += 1
        _take(best, starts, sets, offsets, reduced, covered, marginal)
        bound = min(bound, total + top_sum(marginal, floor, bound_picks, heap))
    return chosen[:found], gains[:found], rivals[:found], bound, exact


@numba.njit(**KERNEL)
def pick_grouped(offsets, reduced, rows, starts, sets, marginal, group, room, picks):  # type: ignore[no-untyped-def]
    """Greedy under group quotas ``room`` (consumed) and ``picks`` in all."""
    covered = np.zeros(rows, np.uint8)
    chosen = np.empty(picks, np.int64)
    gains = np.zeros(picks, np.int64)
    found = 0
    while found < picks:
        best = -1
        for c in range(marginal.size):
            if marginal[c] > 0 and room[group[c]] > 0 and (best < 0 or marginal[c] > marginal[best]):
                best = c
        if best < 0:
            break
        chosen[found] = best
        gains[found] = marginal[best]
        room[group[best]] -= 1
        found += 1
        _take(best, starts, sets, offsets, reduced, covered, marginal)
    return chosen[:found], gains[:found]


@numba.njit(**KERNEL)
def pick_priced(offsets, reduced, rows, starts, sets, marginal, cost, weight, budget, picks, first):  # type: ignore[no-untyped-def]
    """Greedy by marginal per weight among what the budget still buys, after the candidate ``first`` (none if -1)."""
    covered = np.zeros(rows, np.uint8)
    chosen = np.empty(picks, np.int64)
    gains = np.zeros(picks, np.int64)
    found = 0
    while found < picks:
        best = first if found == 0 else -1
        if best < 0:
            for c in range(marginal.size):
                if marginal[c] == 0 or cost[c] > budget:
                    continue
                if best < 0 or marginal[c] * weight[best] > marginal[best] * weight[c]:
                    best = c
        if best < 0:
            break
        chosen[found] = best
        gains[found] = marginal[best]
        budget -= cost[best]
        found += 1
        _take(best, starts, sets, offsets, reduced, covered, marginal)
    return chosen[:found], gains[:found]


@numba.njit(inline="always", cache=True)
def direct_gain(i, out_offsets, targets, p, values, survive):  # type: ignore[no-untyped-def]
    """What node ``i`` adds: its own value if not yet certain, and what it adds at its targets."""
    gain = values[i] * survive[i]
    for e in range(out_offsets[i], out_offsets[i + 1]):
        j = targets[e]
        if j != i:
            gain += values[j] * survive[j] * p[e]
    return gain


@numba.njit(**KERNEL)
def direct_gains(out_offsets, targets, p, values, survive, rows, gains):  # type: ignore[no-untyped-def]
    """The gain of each of ``rows``."""
    for r in range(rows.size):
        gains[r] = direct_gain(rows[r], out_offsets, targets, p, values, survive)


@numba.njit(**KERNEL)
def direct_take(i, out_offsets, targets, p, survive):  # type: ignore[no-untyped-def]
    """Seed ``i``."""
    for e in range(out_offsets[i], out_offsets[i + 1]):
        survive[targets[e]] *= 1.0 - p[e]
    survive[i] = 0.0
