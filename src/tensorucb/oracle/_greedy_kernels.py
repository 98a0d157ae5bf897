"""The greedy loop of both objectives, and what a pick takes: RR sets, or what is to be won directly.

Glossary
    c            a candidate: a node that may be picked, by its number; ``nodes[c]`` is its row
    i, j         a set, and a place in its row of ``reduced``
    index        ``(offsets, reduced, starts, sets, covered)``: the candidates of each set and the sets of each
                 candidate, both in compressed rows, and which sets are covered; no set where they are elsewhere
    gain[c]      what c would add: the sets that it would newly cover, and ``own[c]``, what it is worth without samples
                 in units of sets; or its direct gain. Direct gains are *lazy*: an old one is an upper bound, and only
                 that of the best candidate is computed again
    floor        an upper bound of the gain of every node that is no candidate
    direct[c]    the direct gain of c at step ``age[c]``
    group, room  ``group[level, c]`` is a group of c on each level, ``room[g]`` is how many more group g may have
    need, free   how many more group g must have, and how many of the places left are not kept for such groups
    purse        money left, how much of it is reserved, the least gain per cost, and when that falls to 0
    reserve      the cheapest nodes that fill all needs: ``amount[i]`` is the cost of the i-th (0 once its place was
                 taken), ``owner[i]`` its group, ``entry[c]`` its number if c is it (or another strategy of the same
                 user), else -1, and ``spare[g]`` the largest amount of group g
    network      ``(out_offsets, targets, p)``
    worth[:, j]  what is still to be won at node j by direct activation. Without redundancy one row: the value of j
                 times the probability that no seed activates it. With redundancy ρ three rows: 1 - ρ of that; ρ times
                 the value of j; and the largest probability of an edge to j from a seed (1 if j is a seed)

Sampling noise: a candidate that newly covers ``g`` sets does so with a standard error of ``√g``. Candidates within one
standard error of the best, or within ``NOISE`` sets of it where that is more, are not told apart by the samples: 16
sets are four standard errors, which is how far the luckiest of some thousand candidates lies above its mean. What is
worth something without samples is no luck: of a gain no more than the sets can be.
"""

from __future__ import annotations

import math

import numpy as np

from tensorucb._kernels import inlined, kernel
from tensorucb.oracle._compensated_kernels import end_walks, given_away
from tensorucb.oracle.rr._kernels import cover

NOISE = 16
ROUNDING = 1e-12  # direct gains that differ by less are equal


@kernel
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


@kernel
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
    total = 0.0
    for i in range(k):
        total += heap[i]
    return total


@inlined
def _gain_of_coins(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """What node ``i`` adds where each edge has a coin of its own: at itself, and at its targets."""
    gain = worth[0, i]
    for e in range(out_offsets[i], out_offsets[i + 1]):
        if targets[e] != i:
            gain += worth[0, targets[e]] * p[e]
    return gain


@inlined
def _gain_of_strongest(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """The same where only the strongest edge into a node counts."""
    gain = worth[1, i] * (1.0 - worth[2, i])
    for e in range(out_offsets[i], out_offsets[i + 1]):
        if targets[e] != i:
            gain += worth[1, targets[e]] * max(0.0, p[e] - worth[2, targets[e]])
    return gain


@inlined
def direct_gain(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """What node ``i`` adds by itself and by its edges."""
    gain = _gain_of_coins(i, out_offsets, targets, p, worth)
    if worth.shape[0] > 1:
        gain += _gain_of_strongest(i, out_offsets, targets, p, worth)
    return gain


@kernel
def direct_gains(out_offsets, targets, p, worth, rows, gains):  # type: ignore[no-untyped-def]
    """The gain of each of ``rows``; in two passes, since one that may do both is several times slower."""
    for r in range(rows.size):
        gains[r] = _gain_of_coins(rows[r], out_offsets, targets, p, worth)
    if worth.shape[0] > 1:
        for r in range(rows.size):
            gains[r] += _gain_of_strongest(rows[r], out_offsets, targets, p, worth)


@kernel
def first_gains(out_offsets, targets, p, rows, gains):  # type: ignore[no-untyped-def]
    """The gain of each of ``rows`` while every node is worth 1; looking that up would take most of the time."""
    for r in range(rows.size):
        i = rows[r]
        gain = 1.0
        for e in range(out_offsets[i], out_offsets[i + 1]):
            if targets[e] != i:
                gain += p[e]
        gains[r] = gain


@kernel
def direct_take(i, out_offsets, targets, p, worth):  # type: ignore[no-untyped-def]
    """Seed ``i``."""
    for e in range(out_offsets[i], out_offsets[i + 1]):
        worth[0, targets[e]] *= 1.0 - p[e]
    worth[0, i] = 0.0
    if worth.shape[0] > 1:
        for e in range(out_offsets[i], out_offsets[i + 1]):
            worth[2, targets[e]] = max(worth[2, targets[e]], p[e])
        worth[2, i] = 1.0


@inlined
def _fits(c, places):  # type: ignore[no-untyped-def]
    """Whether every group of the candidate has room, and a place is left that no other group needs."""
    group, room, need, free = places
    fits, needed = True, False
    for level in range(group.shape[0]):
        fits = fits and room[group[level, c]] > 0
        needed = needed or need[group[level, c]] > 0
    return fits and (needed or free[0] > 0)


@inlined
def _needed(c, places):  # type: ignore[no-untyped-def]
    group, _, need, _ = places
    needed = False
    for level in range(group.shape[0]):
        needed = needed or need[group[level, c]] > 0
    return needed


@inlined
def _affordable(c, cost, places, purse, reserve):  # type: ignore[no-untyped-def]
    """Whether the money left buys the candidate and still fills all needs: a needed pick frees what is kept for it."""
    group = places[0]
    entry, _, amount, spare = reserve
    freed = 0.0
    if purse[1] > 0.0 and _needed(c, places):
        own = entry[c]
        freed = amount[own] if own >= 0 and amount[own] > 0.0 else spare[group[group.shape[0] - 1, c]]
    return cost[c] <= max(0.0, purse[0] - purse[1]) + freed  # at least 0 but for rounding


@inlined
def _worth_it(c, candidates, places, purse, reserve, lazy, least):  # type: ignore[no-untyped-def]
    """Whether places and money allow the candidate, and it gains enough; one that fills a need may gain nothing."""
    _, gain, _, _, _, _, cost, _ = candidates
    grouped = places[0].shape[0] > 0
    if grouped and not _fits(c, places):
        return False
    if cost.size > 0 and not (gain[c] >= purse[2] * cost[c] and _affordable(c, cost, places, purse, reserve)):
        return False
    return gain[c] > least or (lazy and grouped and _needed(c, places))


@kernel
def _settle(tied, candidates, lazy, network, worth, now):  # type: ignore[no-untyped-def]
    """Which of the candidates ``tied`` is the cheapest; then by direct gain, by out-degree, and the lowest row.

    The direct gains of ``lazy`` candidates are what they tie in. Others only shrink, so an old one is an upper bound,
    and one that is below the best so far need not be computed again.
    """
    nodes, _, _, direct, age, _, cost, _ = candidates
    out_offsets, targets, p = network
    count = tied.size
    if count == 1:
        return tied[0]
    if cost.size > 0:
        cheapest = cost[tied].min()
        count = 0
        for t in range(tied.size):
            if cost[tied[t]] == cheapest:
                tied[count] = tied[t]
                count += 1
    top = tied[0]
    if not lazy:
        for t in range(1, count):
            if direct[tied[t]] > direct[top]:
                top = tied[t]
        direct[top] = direct_gain(nodes[top], out_offsets, targets, p, worth)
        age[top] = now
    for t in range(count):
        c = tied[t]
        if c == top or (not lazy and direct[c] < direct[top]):
            continue
        if not lazy and age[c] != now:
            direct[c] = direct_gain(nodes[c], out_offsets, targets, p, worth)
            age[c] = now
        wider = (
            out_offsets[nodes[c] + 1] - out_offsets[nodes[c]] - out_offsets[nodes[top] + 1] + out_offsets[nodes[top]]
        )
        ahead = 0.0 if lazy else direct[c] - direct[top]
        if ahead > 0.0 or (ahead == 0.0 and (wider > 0 or (wider == 0 and nodes[c] < nodes[top]))):
            top = c
    return top


@kernel
def _next(candidates, places, purse, reserve, rule, floor, network, worth, run):  # type: ignore[no-untyped-def]
    """The best candidate that may be picked, -1 if none is worth it."""
    _, gain, own, _, _, free_to_pick, _, weight = candidates
    by_value, single, noisy, lazy, least = rule
    tied = run[2]
    tally = run[4]
    left = run[5]
    picks, n_picked = run[0].size, np.int64(tally[0])
    weighted = by_value and not (single and n_picked == 0)
    while True:
        best = -1.0
        top = 0
        for c in range(gain.size):
            if gain[c] <= (best * weight[c] if weighted else best) or not free_to_pick[c]:
                continue
            if not _worth_it(c, candidates, places, purse, reserve, lazy, least):
                continue
            best = gain[c] / weight[c] if weighted else gain[c]
            top = c
        if best >= 0.0 or purse[2] == 0.0:
            break
        purse[2] = purse[2] / 4.0 if purse[2] > purse[3] else 0.0
    if best < floor:
        tally[3] = 0
    if best < 0.0:
        return -1
    lowest = best
    if noisy:
        if best <= NOISE:
            # The luckiest of many: half of the way back to what it would have without luck.
            left[0] = (picks - n_picked) * max(0.0, best - 2.0 * math.sqrt(best))
            return -1
        sampled = max(0.0, gain[top] - own[top])
        lowest = best - max(min(NOISE, sampled), math.sqrt(sampled))
    elif lazy:
        lowest = best - ROUNDING * best
    count = 0
    for c in range(gain.size):
        if (gain[c] / weight[c] if weighted else gain[c]) < lowest or not free_to_pick[c]:
            continue
        if _worth_it(c, candidates, places, purse, reserve, lazy, least):
            tied[count] = c
            count += 1
    return _settle(tied[:count], candidates, lazy, network, worth, n_picked)


@kernel
def _commit(c, candidates, places, purse, reserve, run):  # type: ignore[no-untyped-def]
    """Write down a pick, and what it takes of places and money."""
    _, gain, _, _, _, free_to_pick, cost, _ = candidates
    group, room, need, free = places
    entry, owner, amount, spare = reserve
    chosen = run[0]
    gains = run[1]
    tally = run[4]
    n_picked = np.int64(tally[0])
    chosen[n_picked] = c
    gains[n_picked] = gain[c]
    tally[0] += 1
    tally[1] += gain[c]
    free_to_pick[c] = 0
    if cost.size > 0:
        purse[0] -= cost[c]
    needed = False
    for level in range(group.shape[0]):
        g = group[level, c]
        room[g] -= 1
        if need[g] > 0:
            needed = True
            need[g] -= 1
            if amount.size > 0:
                freed = entry[c]
                if freed < 0 or amount[freed] == 0.0:
                    freed = -1
                    for i in range(amount.size):
                        if owner[i] == g and (freed < 0 or amount[i] > amount[freed]):
                            freed = i
                purse[1] -= amount[freed]
                amount[freed] = 0.0
                spare[g] = 0.0
                for i in range(amount.size):
                    if owner[i] == g:
                        spare[g] = max(spare[g], amount[i])
    if not needed:
        free[0] -= 1


@kernel
def advance(candidates, places, purse, reserve, rule, floor, network, worth, index, walks, remote, run):  # type: ignore[no-untyped-def]
    """Pick candidates until none is left, and return -1; or one only, where the sets that it takes are elsewhere.

    Then (``remote``) the caller takes its sets out of the gains and calls again. ``rule`` is ``(by_value, single,
    noisy, lazy, least)``: by gain per weight or by gain, the first pick by gain in any case, whether candidates within
    the sampling noise of the best go by direct gain, whether gains are lazy, and what a gain must exceed.
    ``run`` is ``(chosen, gains, tied, heap, tally, left)``: the picks, their gains, scratch, ``tally`` (picks, the sets
    they cover, a bound of what as many picks as ``heap`` has places can cover, and whether every pick was made in view
    of the best of all nodes), and an estimate of what picks that were lost in noise might add.
    """
    nodes, gain, _, _, age, _, _, _ = candidates
    lazy = rule[3]
    heap = run[3]
    tally = run[4]
    out_offsets, targets, p = network
    picks = run[0].size
    while True:
        n_picked = np.int64(tally[0])
        c = np.int64(-1)
        if n_picked < picks:
            c = _next(candidates, places, purse, reserve, rule, floor, network, worth, run)
        if heap.size > 0 and (c < 0 or n_picked % (1 + picks // 32) == 0):
            tally[2] = min(tally[2], tally[1] + top_sum(gain, floor, heap.size, heap))
        if c < 0:
            return c
        if lazy and age[c] < n_picked:
            age[c] = n_picked
            gain[c] = direct_gain(nodes[c], out_offsets, targets, p, worth)
            if walks[0].size > 0:
                gain[c] -= given_away(c, nodes[c], network, walks)
            continue
        _commit(c, candidates, places, purse, reserve, run)
        if walks[0].size > 0:
            end_walks(c, nodes[c], network, walks, worth)
        direct_take(nodes[c], out_offsets, targets, p, worth)
        if remote:
            return c
        if not lazy:
            cover(c, index, gain)
