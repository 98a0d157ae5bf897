"""Sampling of reverse-reachable (RR) sets.

An RR set of a root ``v`` holds every node that reaches ``v`` over live edges, so the walk follows in-edges backwards.

Glossary: ``p`` edge probabilities in the graph's order; ``peak[v]`` an upper bound of the probabilities into ``v``;
``plan[v] = (peak, 1 / log(1 - peak))``, the second 0 where edges are tossed one by one and not skipped geometrically;
``state[u]`` 0 free, 1 in the current set, 2 marked: a walk that meets a marked node stops there.

Resolution: three ways decide an edge, by its target's peak. Below 0.48, eight edges share a draw: a byte each,
and 53 more bits for an edge whose byte lets it hope. From 0.48 on, two edges share a draw of 32 bits each, so
``p`` counts as rounded up to a multiple of 2**-32. Large in-degrees with small peaks are skipped over
geometrically, with 53 bits. ``p = 0`` is never live and ``p = 1`` always.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tensorucb._kernels import GOLDEN, KERNEL, mix64, stream, unit

_LOW, _S32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_TWO32, _STEP32 = 4294967296.0, 1.0 / 4294967296.0
_BYTE, _S8, _STEP8 = np.uint64(0xFF), np.uint64(8), 1.0 / 256.0
_BYTE_ONES, _BYTE_SIGNS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_ROUND_UP = 1.0 + 2.0**-23
_SKIP = 25.0  # a geometric skip costs about as much as 25 edges tossed eight at a draw


@numba.njit(**KERNEL)
def scan_probabilities(targets, p, first, last, peak):  # type: ignore[no-untyped-def]
    """Raise ``peak`` (32-bit) to the largest probability into each node; the first invalid edge, or -1."""
    for e in range(first, last):
        q = p[e]
        if not (q >= 0.0 and q <= 1.0):
            return e
        t = targets[e]
        if q > peak[t]:
            peak[t] = q
    return -1


@numba.njit(**KERNEL)
def plan_nodes(in_offsets, peak, first, last, plan):  # type: ignore[no-untyped-def]
    """Decide for each node whether geometric skipping pays."""
    for v in range(first, last):
        # Rounded up, so that the 32-bit peak still bounds the 64-bit probabilities.
        top = min(1.0, np.float64(peak[v]) * _ROUND_UP)
        degree = in_offsets[v + 1] - in_offsets[v]
        plan[v, 0] = top
        plan[v, 1] = 0.0
        if degree > 16 and top < 0.5 and _SKIP * (1.0 + degree * top) < degree:
            plan[v, 1] = 1.0 / math.log1p(-top) if top > 0.0 else -1e300


@numba.njit(inline="always", cache=True)
def _root(draw, n, cumulative):  # type: ignore[no-untyped-def]
    if cumulative.size == 0:
        return np.int64(((draw >> _S32) * np.uint64(n)) >> _S32)
    row = np.searchsorted(cumulative, unit(draw) * cumulative[-1], side="right")
    return min(np.int64(row), n - 1)


@numba.njit(**KERNEL)
def sample_sets(  # type: ignore[no-untyped-def]
    in_offsets, in_edges, in_sources, p, plan, cumulative, key, first, count, state, credit, hits, store, limit, horizon
):
    """RR sets ``first .. first + count``: the members and lengths of those that meet no marked node.

    ``hits[credit[u]]`` counts the sets that stopped at the marked node ``u``. With ``store`` false only hits
    are counted. Sampling ends before the set whose members would exceed ``limit``. A walk expands at most
    ``horizon`` nodes. Returns members, lengths, the number of sets done, and the number of nodes expanded.
    """
    n = in_offsets.size - 1
    capacity = n + 1024
    members = np.empty(capacity, np.int32)
    lengths = np.empty(count if store else 0, np.int32)
    size = 0
    kept = 0
    work = 0
    done = 0
    while done < count:
        s = stream(key, first + done)
        root = _root(mix64(s), n, cumulative)
        s += GOLDEN
        if state[root] == 2:
            hits[credit[root]] += 1
            done += 1
            continue
        start = size
        if size + n > capacity:
            capacity = max(2 * capacity, size + n)
            grown = np.empty(capacity, np.int32)
            grown[:size] = members[:size]
            members = grown
        members[size] = root
        size += 1
        state[root] = 1
        cursor = start
        met = np.int64(-1)
        end = start + horizon
        while cursor < size and cursor < end and met < 0:
            v = members[cursor]
            cursor += 1
            e = in_offsets[v]
            stop = in_offsets[v + 1]
            top = plan[v, 0]
            inverse = plan[v, 1]
            if inverse == 0.0 and top < 0.48:
                # The leading byte of each edge's uniform number; rarely is any of the eight small enough.
                need = np.uint64(top * 256.0) + np.uint64(1)
                spread = need * _BYTE_ONES
                while e < stop:
                    r = mix64(s)
                    s += GOLDEN
                    if (r - spread) & ~r & _BYTE_SIGNS:
                        for i in range(e, min(e + 8, stop)):
                            x = r & _BYTE
                            r >>= _S8
                            if x < need:
                                fine = mix64(s)
                                s += GOLDEN
                                if (np.float64(x) + unit(fine)) * _STEP8 < p[in_edges[i]]:
                                    u = in_sources[i]
                                    if state[u] == 0:
                                        state[u] = 1
                                        members[size] = u
                                        size += 1
                                    elif state[u] == 2:
                                        met = u
                                        break
                        if met >= 0:
                            break
                    e += 8
            elif inverse == 0.0:
                ceiling = np.uint64(top * _TWO32) + np.uint64(1)
                while e < stop:
                    r = mix64(s)
                    s += GOLDEN
                    x = r & _LOW
                    if x < ceiling and np.float64(x) * _STEP32 < p[in_edges[e]]:
                        u = in_sources[e]
                        if state[u] == 0:
                            state[u] = 1
                            members[size] = u
                            size += 1
                        elif state[u] == 2:
                            met = u
                            break
                    e += 1
                    x = r >> _S32
                    if x < ceiling and e < stop and np.float64(x) * _STEP32 < p[in_edges[e]]:
                        u = in_sources[e]
                        if state[u] == 0:
                            state[u] = 1
                            members[size] = u
                            size += 1
                        elif state[u] == 2:
                            met = u
                            break
                    e += 1
            else:
                position = np.float64(e) - 1.0
                last = np.float64(stop)
                while True:
                    r = mix64(s)
                    s += GOLDEN
                    # log of a number in (0, 1]: never of zero.
                    position += 1.0 + math.floor(math.log(1.0 - unit(r)) * inverse)
                    if position >= last:
                        break
                    e = np.int64(position)
                    r = mix64(s)
                    s += GOLDEN
                    if unit(r) * top < p[in_edges[e]]:
                        u = in_sources[e]
                        if state[u] == 0:
                            state[u] = 1
                            members[size] = u
                            size += 1
                        elif state[u] == 2:
                            met = u
                            break
        for j in range(start, size):
            state[members[j]] = 0
        work += cursor - start
        if met >= 0:
            hits[credit[met]] += 1
            size = start
        elif not store:
            size = start
        elif size > limit:
            size = start
            break
        else:
            lengths[kept] = size - start
            kept += 1
        done += 1
    return members[:size].copy(), lengths[:kept].copy(), done, work


@numba.njit(**KERNEL)
def count_members(members, counts):  # type: ignore[no-untyped-def]
    """Add one to ``counts`` for every member."""
    for i in range(members.size):
        counts[members[i]] += 1
