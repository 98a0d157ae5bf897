"""Kernels of diffusion.

Glossary: ``off`` out-offsets, ``dst`` targets, ``p`` edge probabilities, ``rows`` the seeds, ``val`` node values
(empty: 1 each), ``mark`` the stamp of the run that last reached a node, ``queue`` the nodes reached, in order.

The coin of edge ``e`` in run ``r`` is draw number ``e`` of the stream ``(key, r)``; the edge is live when the coin
is below ``p[e]``. So ``p = 1`` always fires, ``p = 0`` never does, and a larger ``p`` keeps every live edge.

With redundancy ``rho`` a node has one coin for all its in-edges, in place of theirs, with probability ``rho``. Behind
the coins of all edges the stream has two draws for each node: whether it has one coin, and that coin.

With linear thresholds (``low`` not empty, and ``rho`` 1) a node's one coin makes that in-edge live whose interval holds
it: from ``low[e]``, the sum of the weights of in-edges before it, on for the length ``p[e]``.
"""

from __future__ import annotations

import numpy as np

from tensorucb._kernels import GOLDEN, inlined, kernel, mix64, stream, unit

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP = np.uint64(58)
# The top six bits of (1 << i)·_DE_BRUIJN differ for every i, so they find the position of a single set bit.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_POSITION = np.argsort((_DE_BRUIJN << np.arange(64, dtype=np.uint64)) >> _TOP)


@kernel
def _start(rows, mark, stamp, queue):  # type: ignore[no-untyped-def]
    for i in range(rows.size):
        queue[i] = rows[i]
        mark[rows[i]] = stamp
    return rows.size


@inlined
def _coin(z, e, dst, rho, low, state):  # type: ignore[no-untyped-def]
    """The coin of edge ``e``, whose own draw is at ``z``."""
    if rho > 0.0:
        w = state + np.uint64(dst.size + 2 * np.int64(dst[e])) * GOLDEN
        if unit(mix64(w)) < rho:
            x = unit(mix64(w + GOLDEN))
            if low.size > 0:
                x = x - low[e] if x >= low[e] else 2.0
            return x
    return unit(mix64(z))


@kernel
def _reach_hashed(off, dst, p, rho, low, state, mark, stamp, queue, count):  # type: ignore[no-untyped-def]
    head = 0
    while head < count:
        v = queue[head]
        head += 1
        z = state + np.uint64(off[v]) * GOLDEN
        for e in range(off[v], off[v + 1]):
            # Coin first: few edges are live, so this branch is the one that the processor guesses right.
            if _coin(z, e, dst, rho, low, state) < p[e] and mark[dst[e]] != stamp:
                mark[dst[e]] = stamp
                queue[count] = dst[e]
                count += 1
            z += GOLDEN
    return count


@kernel
def reach_hashed(off, dst, p, rho, low, rows, key, start, stop, val, out):  # type: ignore[no-untyped-def]
    """Value reached in runs ``start..stop - 1`` into ``out``, coins computed on the way."""
    n = off.size - 1
    mark, queue = np.zeros(n, np.int32), np.empty(n, np.int32)
    for run in range(start, stop):
        stamp = np.int32(run - start + 1)
        count = _start(rows, mark, stamp, queue)
        count = _reach_hashed(off, dst, p, rho, low, stream(key, run), mark, stamp, queue, count)
        out[run] = count
        if val.size:
            out[run] = 0.0
            for i in range(count):
                out[run] += val[queue[i]]


@kernel
def gains_hashed(off, dst, p, rho, low, rows, key, start, stop, out):  # type: ignore[no-untyped-def]
    """Nodes outside the seeds that each seed adds to those before it, in runs ``start..stop - 1``, into ``out``."""
    n = off.size - 1
    mark, queue = np.zeros(n, np.int32), np.empty(n, np.int32)
    for run in range(start, stop):
        stamp = np.int32(run - start + 1)
        _start(rows, mark, stamp, queue)
        state = stream(key, run)
        for i in range(rows.size):
            queue[0] = rows[i]
            out[run, i] = _reach_hashed(off, dst, p, rho, low, state, mark, stamp, queue, 1) - 1


@kernel
def pack_worlds(dst, p, rho, low, key, start, stop, bits):  # type: ignore[no-untyped-def]
    """Live edges of worlds ``start..stop - 1``, 64 per word."""
    m = p.size
    for world in range(start, stop):
        state = stream(key, world)
        z = state
        for word in range(bits.shape[1]):
            w = _ZERO
            for b in range(min(64, m - 64 * word)):
                if _coin(z, 64 * word + b, dst, rho, low, state) < p[64 * word + b]:
                    w |= _ONE << np.uint64(b)
                z += GOLDEN
            bits[world, word] = w


@kernel
def _reach_packed(off, dst, bits, mark, stamp, queue, count):  # type: ignore[no-untyped-def]
    head = 0
    while head < count:
        v = queue[head]
        head += 1
        a, b = off[v], off[v + 1]
        if a == b:
            continue
        last = (b - 1) >> 6
        for word in range(a >> 6, last + 1):
            w = bits[word]
            # The first and the last word hold edges of other nodes as well.
            if word == a >> 6:
                w &= _ALL << np.uint64(a & 63)
            if word == last:
                w &= _ALL >> np.uint64(63 - ((b - 1) & 63))
            while w != _ZERO:
                # The lowest set bit is the next live edge.
                low = w & (~w + _ONE)
                u = dst[(word << 6) + _POSITION[(low * _DE_BRUIJN) >> _TOP]]
                w ^= low
                if mark[u] != stamp:
                    mark[u] = stamp
                    queue[count] = u
                    count += 1
    return count


@kernel
def reach_packed(off, dst, bits, rows, start, stop, out):  # type: ignore[no-untyped-def]
    """Number of nodes reached in worlds ``start..stop - 1`` into ``out``, over packed live edges."""
    n = off.size - 1
    mark, queue = np.zeros(n, np.int32), np.empty(n, np.int32)
    for world in range(start, stop):
        stamp = np.int32(world - start + 1)
        count = _start(rows, mark, stamp, queue)
        out[world] = _reach_packed(off, dst, bits[world], mark, stamp, queue, count)


@kernel
def trace(off, dst, p, rho, low, rows, key, run, nodes, steps, parents):  # type: ignore[no-untyped-def]
    """One cascade with its story: nodes in order, the step of each, and the edge that fired first (-1: a seed)."""
    mark = np.zeros(off.size - 1, np.int32)
    count = _start(rows, mark, np.int32(1), nodes)
    steps[:count] = 0
    parents[:count] = -1
    state = stream(key, run)
    head = 0
    while head < count:
        v = nodes[head]
        z = state + np.uint64(off[v]) * GOLDEN
        for e in range(off[v], off[v + 1]):
            if _coin(z, e, dst, rho, low, state) < p[e] and mark[dst[e]] == 0:
                mark[dst[e]] = 1
                nodes[count] = dst[e]
                steps[count] = steps[head] + 1
                parents[count] = e
                count += 1
            z += GOLDEN
        head += 1
    return count


@kernel
def coins(off, dst, p, rho, low, nodes, key, run, edges, outcomes):  # type: ignore[no-untyped-def]
    """Every out-edge of ``nodes`` with the outcome of its coin, in order."""
    count = 0
    state = stream(key, run)
    for i in range(nodes.size):
        v = nodes[i]
        z = state + np.uint64(off[v]) * GOLDEN
        for e in range(off[v], off[v + 1]):
            edges[count] = e
            outcomes[count] = 1.0 if _coin(z, e, dst, rho, low, state) < p[e] else 0.0
            count += 1
            z += GOLDEN


@kernel
def direct(off, dst, p, rho, rows, val):  # type: ignore[no-untyped-def]
    """Value of the seeds and of what their own out-edges activate."""
    miss, best = np.ones(off.size - 1), np.zeros(off.size - 1)
    total = 0.0
    for i in range(rows.size):
        miss[rows[i]] = 0.0
        best[rows[i]] = 1.0
        total += val[rows[i]] if val.size else 1.0
    for i in range(rows.size):
        for e in range(off[rows[i]], off[rows[i] + 1]):
            u = dst[e]
            # Over the seeds so far miss[u] = Π(1 − p) and best[u] = max p; 0 and 1 for the seeds themselves.
            new = (1.0 - rho) * miss[u] * p[e] + rho * max(0.0, p[e] - best[u])
            total += new * (val[u] if val.size else 1.0)
            miss[u] *= 1.0 - p[e]
            best[u] = max(best[u], p[e])
    return total
