"""Kernels of the graph: counting sorts.

Glossary: ``n`` nodes, ``m`` edges, ``s``/``t`` source and target rows, ``e`` an edge number, ``offsets`` the n + 1
bounds of compressed rows. Inputs are read-only, so that each kernel compiles for one type only.
"""

from __future__ import annotations

import numpy as np

from tensorucb._kernels import kernel


@kernel
def row_offsets(rows, n):  # type: ignore[no-untyped-def]
    """The n + 1 bounds of each row's run, were ``rows`` sorted."""
    offsets = np.zeros(n + 1, np.int64)
    for i in range(rows.size):
        offsets[rows[i] + 1] += 1
    for v in range(n):
        offsets[v + 1] += offsets[v]
    return offsets


@kernel
def sort_edges(s, t, n, with_order):  # type: ignore[no-untyped-def]
    """Two stable counting sorts, by target and then by source; ``order`` is the old position of each edge."""
    m = s.size
    k = m if with_order else 0
    starts = row_offsets(t, n)
    cursor = starts[:-1].copy()
    s_by_t = np.empty(m, np.int32)
    order_by_t = np.empty(k, np.int32)
    for e in range(m):
        p = cursor[t[e]]
        cursor[t[e]] = p + 1
        s_by_t[p] = s[e]
        if with_order:
            order_by_t[p] = e
    ends = row_offsets(s, n)
    cursor = ends[:-1].copy()
    t_sorted = np.empty(m, np.int32)
    order = np.empty(k, np.int32)
    for v in range(n):
        for p in range(starts[v], starts[v + 1]):
            q = cursor[s_by_t[p]]
            cursor[s_by_t[p]] = q + 1
            t_sorted[q] = v
            if with_order:
                order[q] = order_by_t[p]
    s_sorted = s_by_t
    for v in range(n):
        s_sorted[ends[v] : ends[v + 1]] = v
    return s_sorted, t_sorted, order


@kernel
def transpose(t, out_offsets, in_offsets):  # type: ignore[no-untyped-def]
    """Edge numbers and source rows sorted by target, then source."""
    edges = np.empty(t.size, np.int64)
    sources = np.empty(t.size, np.int32)
    cursor = in_offsets[:-1].copy()
    for v in range(out_offsets.size - 1):
        for e in range(out_offsets[v], out_offsets[v + 1]):
            p = cursor[t[e]]
            cursor[t[e]] = p + 1
            edges[p] = e
            sources[p] = v
    return edges, sources
