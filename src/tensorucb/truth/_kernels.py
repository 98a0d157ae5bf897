"""Kernels of the log and of the EM.

Glossary: ``p[e, k]`` activation probability of edge ``e`` for topic ``k``; ``γ[i, k]`` share of topic ``k`` in item
``i``; ``q = Σ_k γ_k p_ek`` probability of a trial; ``P = 1 − Π(1 − q)`` probability that at least one of a group's
trials fires; ``U[e, k] = Σ γ_k r`` over successes with ``r = 1/P``; ``V[e, k] = Σ γ_k s`` with ``s = 1/(1 − q)`` for a
failure and ``s = P_others/P`` for a success. The expected counts are then ``A = p·U`` (fired) and ``B = (1 − p)·V``.
"""

from __future__ import annotations

import math

import numpy as np

from tensorucb._kernels import kernel

_TINY = 1e-250


@kernel
def count_trials(src, dst, off, item, when, start, stop, out):  # type: ignore[no-untyped-def]
    """Number of trials of edges ``start..stop - 1``: a merge of the two users' actions, sorted by item."""
    for e in range(start, stop):
        j, last = off[dst[e]], off[dst[e] + 1]
        count = 0
        for i in range(off[src[e]], off[src[e] + 1]):
            while j < last and item[j] < item[i]:
                j += 1
            if not (j < last and item[j] == item[i] and when[j] <= when[i]):
                count += 1
        out[e] = count


@kernel
def list_trials(  # type: ignore[no-untyped-def]
    src, dst, off, item, when, window, place, start, stop, out_item, out_edge, out_success
):
    """The trials of edges ``start..stop - 1``, those of edge ``e`` from ``place[e]`` on."""
    for e in range(start, stop):
        j, last = off[dst[e]], off[dst[e] + 1]
        t = place[e]
        for i in range(off[src[e]], off[src[e] + 1]):
            while j < last and item[j] < item[i]:
                j += 1
            acted = j < last and item[j] == item[i]
            if acted and when[j] <= when[i]:
                continue
            out_item[t] = item[i]
            out_edge[t] = e
            out_success[t] = acted and when[j] - when[i] <= window
            t += 1


@kernel
def expect_edges(  # type: ignore[no-untyped-def]
    fail_off, fail_item, hit_off, hit_item, gamma, p, more, less, start, stop, q, V, fit, penalty
):
    """Failures of each edge into ``V`` and the log-likelihood, ``q`` of its successes, and its log-prior."""
    Z = p.shape[1]
    for e in range(start, stop):
        product, total = 1.0, 0.0
        V[e, :] = 0.0
        for t in range(fail_off[e], fail_off[e + 1]):
            i = fail_item[t]
            qt = 0.0
            for k in range(Z):
                qt += gamma[i, k] * p[e, k]
            s = 1.0 / (1.0 - qt)
            for k in range(Z):
                V[e, k] += gamma[i, k] * s
            # One logarithm for many factors.
            product *= 1.0 - qt
            if product < _TINY:
                total += math.log(product)
                product = 1.0
        fit[e] = total + math.log(product)
        for t in range(hit_off[e], hit_off[e + 1]):
            qt = 0.0
            for k in range(Z):
                qt += gamma[hit_item[t], k] * p[e, k]
            q[t] = qt
        total = 0.0
        if more > 0.0:
            for k in range(Z):
                total += more * math.log(p[e, k])
        if less > 0.0:
            for k in range(Z):
                total += less * math.log1p(-p[e, k])
        penalty[e] = total


@kernel
def expect_groups(group_off, member, q, start, stop, r, s, fit):  # type: ignore[no-untyped-def]
    """Weights ``r`` and ``s`` of the successes, group by group of candidate causes."""
    for g in range(start, stop):
        before = 0.0
        for a in range(group_off[g], group_off[g + 1]):
            t = member[a]
            s[t] = before
            # P ← P + (1 − P)q: no cancellation however small q is.
            before += (1.0 - before) * q[t]
        after = 0.0
        for a in range(group_off[g + 1] - 1, group_off[g] - 1, -1):
            t = member[a]
            others = s[t] + (1.0 - s[t]) * after
            after += (1.0 - after) * q[t]
            r[t] = 1.0 / before
            s[t] = others / before
        fit[g] = math.log(before)


@kernel
def maximise(hit_off, hit_item, gamma, r, s, V, more, less, floor, start, stop, p):  # type: ignore[no-untyped-def]
    """The M-step of edges ``start..stop - 1``, kept inside ``[floor, 1 − floor]``."""
    Z = p.shape[1]
    U = np.empty(Z)
    for e in range(start, stop):
        U[:] = 0.0
        for t in range(hit_off[e], hit_off[e + 1]):
            for k in range(Z):
                U[k] += gamma[hit_item[t], k] * r[t]
                V[e, k] += gamma[hit_item[t], k] * s[t]
        for k in range(Z):
            fired = p[e, k] * U[k] + more
            tried = fired + (1.0 - p[e, k]) * V[e, k] + less
            p[e, k] = min(max(fired / tried, floor), 1.0 - floor) if tried > 0.0 else floor
