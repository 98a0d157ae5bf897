"""Greedy maximum coverage over RR sets, and the direct objective's marginals.

Glossary
    c            a candidate: a node that may still be picked, by its number; ``nodes[c]`` is its row
    i, j         a set, and a place in its row of ``reduced``
    index        ``(offsets, reduced, rows, starts, sets)``: the candidates of each of ``rows`` sets, and the sets of
                 each candidate, both in compressed rows
    marginal[c]  the sets that c would newly cover
    floor        an upper bound of the marginal of every node that is no candidate
    quotas       ``(group, room)``: ``group[level, c]`` is a group of c on each level, ``room[g]`` is how many more
                 candidates group g may have
    network      ``(out_offsets, targets, p)``
    worth[:, j]  what is still to be won at node j by direct activation. Without redundancy one row: the value of j
                 times the probability that no seed activates it. With redundancy ρ three rows: 1 - ρ of that; ρ times
                 the value of j; and the largest probability of an edge to j from a seed (1 if j is a seed)

Sampling noise: a candidate that newly covers ``g`` sets does so with a standard error of ``√g``. Candidates within one
standard error of the best, or within ``NOISE`` sets of it where that is more, are not told apart by the samples: 16
sets are four standard errors, which is how far the luckiest of some thousand candidates lies above its mean.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tensorucb._kernels import KERNEL

NOISE = 16


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


@numba.njit(inline="always", cache=True)
def _gain_of_coins(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """What node ``i`` adds where each edge has a coin of its own: at itself, and at its targets."""
    gain = worth[0, i]
    for e in range(out_offsets[i], out_offsets[i + 1]):
        if targets[e] != i:
            gain += worth[0, targets[e]] * p[e]
    return gain


@numba.njit(inline="always", cache=True)
def _gain_of_strongest(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """The same where only the strongest edge into a node counts."""
    gain = worth[1, i] * (1.0 - worth[2, i])
    for e in range(out_offsets[i], out_offsets[i + 1]):
        if targets[e] != i:
            gain += worth[1, targets[e]] * max(0.0, p[e] - worth[2, targets[e]])
    return gain


@numba.njit(inline="always", cache=True)
def direct_gain(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """What node ``i`` adds by itself and by its edges."""
    gain = _gain_of_coins(i, out_offsets, targets, p, worth)
    if worth.shape[0] > 1:
        gain += _gain_of_strongest(i, out_offsets, targets, p, worth)
    return gain


@numba.njit(**KERNEL)
def direct_gains(out_offsets, targets, p, worth, rows, gains):  # type: ignore[no-untyped-def]
    """The gain of each of ``rows``; in two passes, since one that may do both is several times slower."""
    for r in range(rows.size):
        gains[r] = _gain_of_coins(rows[r], out_offsets, targets, p, worth)
    if worth.shape[0] > 1:
        for r in range(rows.size):
            gains[r] += _gain_of_strongest(rows[r], out_offsets, targets, p, worth)


@numba.njit(**KERNEL)
def direct_take(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """Seed ``i``."""
    for e in range(out_offsets[i], out_offsets[i + 1]):
        worth[0, targets[e]] *= 1.0 - p[e]
    worth[0, i] = 0.0
    if worth.shape[0] > 1:
        for e in range(out_offsets[i], out_offsets[i + 1]):
            worth[2, targets[e]] = max(worth[2, targets[e]], p[e])
        worth[2, i] = 1.0


@numba.njit(**KERNEL)
def _settle(tied, nodes, out_offsets, targets, p, worth, gain, age, now):  # type: ignore[no-untyped-def]
    """Which of the candidates ``tied`` has the largest direct gain; then the largest out-degree, then the lowest row.

    ``gain[c]`` was computed at step ``age[c]``. Gains only shrink, so an old one is an upper bound, and one that is
    below the best so far need not be computed again.
    """
    top = tied[0]
    if tied.size == 1:
        return top
    for t in range(1, tied.size):
        if gain[tied[t]] > gain[top]:
            top = tied[t]
    gain[top] = direct_gain(nodes[top], out_offsets, targets, p, worth)
    age[top] = now
    for t in range(tied.size):
        c = tied[t]
        if gain[c] < gain[top] or c == top:
            continue
        if age[c] != now:
            gain[c] = direct_gain(nodes[c], out_offsets, targets, p, worth)
            age[c] = now
        wider = (
            out_offsets[nodes[c] + 1] - out_offsets[nodes[c]] - out_offsets[nodes[top] + 1] + out_offsets[nodes[top]]
        )
        if gain[c] > gain[top] or (gain[c] == gain[top] and (wider > 0 or (wider == 0 and nodes[c] < nodes[top]))):
            top = c
    return top


@numba.njit(inline="always", cache=True)
def _fits(c, group, room):  # type: ignore[no-untyped-def]
    """Whether every group of the candidate has room."""
    fits = True
    for level in range(group.shape[0]):
        fits = fits and room[group[level, c]] > 0
    return fits


@numba.njit(**KERNEL)
def choose(marginal, floor, quotas, noisy, nodes, network, worth, run):  # type: ignore[no-untyped-def]
    """The next candidate within the ``room`` (consumed) of all ``group[:, c]`` (if any), -1 when there is none.

    Candidates whose marginals are equal, or with ``noisy`` within the sampling noise of the largest, go by their direct
    gain. With ``noisy`` it ends when the largest marginal is itself within the noise of none. ``run`` (see `Run`) keeps
    what the run knows. The caller takes the candidate's sets out of ``marginal``, wherever these sets are.
    """
    group, room = quotas
    out_offsets, targets, p = network
    chosen, gains, gain, age, tied, heap, tally, left = run
    picks, found = chosen.size, tally[0]
    if found % (1 + picks // 32) == 0 or found == picks:
        tally[2] = min(tally[2], tally[1] + top_sum(marginal, floor, heap.size, heap))
    if found == picks:
        return -1
    grouped = group.shape[0] > 0
    best = 0
    if grouped:
        for c in range(marginal.size):
            if marginal[c] > best and _fits(c, group, room):
                best = marginal[c]
    else:
        for c in range(marginal.size):
            best = max(best, marginal[c])
    if best < floor:
        tally[3] = 0
    if best <= (NOISE if noisy else 0):
        # The luckiest of many: half of the way back to what it would have without luck.
        left[0] = (picks - found) * max(0.0, best - 2.0 * math.sqrt(best))
        tally[2] = min(tally[2], tally[1] + top_sum(marginal, floor, heap.size, heap))
        return -1
    least = best - max(NOISE, math.sqrt(best)) if noisy else best
    count = 0
    for c in range(marginal.size):
        if marginal[c] >= least and (not grouped or _fits(c, group, room)):
            tied[count] = c
            count += 1
    c = _settle(tied[:count], nodes, out_offsets, targets, p, worth, gain, age, found)
    chosen[found] = c
    gains[found] = marginal[c]
    tally[0] += 1
    tally[1] += marginal[c]
    for level in range(group.shape[0]):
        room[group[level, c]] -= 1
    direct_take(nodes[c], out_offsets, targets, p, worth)
    return c


@numba.njit(**KERNEL)
def pick(index, covered, marginal, floor, quotas, noisy, nodes, network, worth, run):  # type: ignore[no-untyped-def]
    """`choose` to the end, on sets that are here."""
    offsets, reduced, _, starts, sets = index
    c = choose(marginal, floor, quotas, noisy, nodes, network, worth, run)
    while c >= 0:
        _take(c, starts, sets, offsets, reduced, covered, marginal)
        c = choose(marginal, floor, quotas, noisy, nodes, network, worth, run)


@numba.njit(**KERNEL)
def cover_sets(index, covered, c, marginal):  # type: ignore[no-untyped-def]
    """Cover the sets of candidate ``c``, and take them out of ``marginal``."""
    offsets, reduced, _, starts, sets = index
    _take(c, starts, sets, offsets, reduced, covered, marginal)


@numba.njit(**KERNEL)
def _best_value(marginal, cost, weight, budget):  # type: ignore[no-untyped-def]
    """The candidate of the largest marginal per weight that the budget buys; -1 if there is none."""
    best = -1
    for c in range(marginal.size):
        if marginal[c] == 0 or cost[c] > budget:
            continue
        if best < 0 or marginal[c] * weight[best] > marginal[best] * weight[c]:
            best = c
    return best


@numba.njit(**KERNEL)
def _best_dense(gain, cost, budget, density, least, group, room):  # type: ignore[no-untyped-def]
    """The largest gain among what budget and room allow and what gains at least ``density`` for its cost.

    When none is left the density falls by quarters, below ``least`` to 0. Of equal candidates the cheaper one; -1 if
    there is none at all. Returns the density too.
    """
    while True:
        best = -1
        for c in range(gain.size):
            if gain[c] <= 0 or (best >= 0 and gain[c] < gain[best]):
                continue
            if best >= 0 and gain[c] == gain[best] and cost[c] >= cost[best]:
                continue
            if cost[c] <= budget and gain[c] >= density * cost[c] and _fits(c, group, room):
                best = c
        if best >= 0 or density == 0.0:
            return best, density
        density = density / 4.0 if density > least else 0.0


@numba.njit(**KERNEL)
def choose_priced(marginal, cost, weight, quotas, first, run):  # type: ignore[no-untyped-def]
    """The next candidate among what the budget still buys, beginning with ``first`` (none if -1); -1 at the end.

    By marginal per weight; with quotas by marginal, within the ``room`` (consumed), from the least density on. ``run``
    is ``(chosen, gains, tally, money)``: ``tally`` counts picks, ``money`` is the budget left, the density, and the
    least one.
    """
    group, room = quotas
    chosen, gains, tally, money = run
    found = tally[0]
    if found == chosen.size:
        return -1
    best = first if found == 0 else -1
    if best < 0 and group.shape[0] == 0:
        best = _best_value(marginal, cost, weight, money[0])
    elif best < 0:
        best, money[1] = _best_dense(marginal, cost, money[0], money[1], money[2], group, room)
    if best >= 0:
        chosen[found] = best
        gains[found] = marginal[best]
        money[0] -= cost[best]
        tally[0] += 1
        for level in range(group.shape[0]):
            room[group[level, best]] -= 1
    return best


@numba.njit(**KERNEL)
def pick_priced(index, covered, marginal, cost, weight, quotas, first, run):  # type: ignore[no-untyped-def]
    """`choose_priced` to the end, on sets that are here."""
    offsets, reduced, _, starts, sets = index
    c = choose_priced(marginal, cost, weight, quotas, first, run)
    while c >= 0:
        _take(c, starts, sets, offsets, reduced, covered, marginal)
        c = choose_priced(marginal, cost, weight, quotas, first, run)


@numba.njit(**KERNEL)
def direct_dense(nodes, gain, cost, budget, picks, group, room, density, network, worth):  # type: ignore[no-untyped-def]
    """The same with quotas for direct gains: an old ``gain[c]`` is an upper bound, so only the best one is renewed."""
    out_offsets, targets, p = network
    chosen = np.empty(picks, np.int64)
    gains = np.zeros(picks)
    age = np.zeros(nodes.size, np.int64)
    found = 0
    least = density / 64.0
    while found < picks:
        best, density = _best_dense(gain, cost, budget, density, least, group, room)
        if best < 0:
            break
        if age[best] < found:
            gain[best] = direct_gain(nodes[best], out_offsets, targets, p, worth)
            age[best] = found
            continue
        chosen[found] = best
        gains[found] = gain[best]
        gain[best] = 0.0  # chosen once is enough, though its followers could still be won by it
        budget -= cost[best]
        found += 1
        for level in range(group.shape[0]):
            room[group[level, best]] -= 1
        direct_take(nodes[best], out_offsets, targets, p, worth)
    return chosen[:found], gains[:found]
