"""Kernels of the baselines: rank-one learning in order of observation, and bounds of every edge.

Glossary: ``P`` (n, d, d) inverse of a node's precision matrix; ``w`` (n, d) its coefficients ``P b``; ``x`` a feature
vector; ``omega`` the precision of an observation, 1/σ²; ``g = P x``; ``s = xᵀ P x``; ``c`` the exploration factor.
Inner loops run along rows of ``P`` and accumulate into ``g``, which the compiler turns into vector instructions.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from tensorucb._kernels import KERNEL


@numba.njit(inline="always", cache=True, error_model="numpy")
def _gain(P, x, g):  # type: ignore[no-untyped-def]
    """Write ``g = P x`` for symmetric P and return ``s = xᵀ P x``."""
    d = x.size
    for a in range(d):
        g[a] = 0.0
    for b in range(d):
        xb = x[b]
        for a in range(d):
            g[a] += P[b, a] * xb
    s = 0.0
    for a in range(d):
        s += g[a] * x[a]
    return s


@numba.njit(inline="always", cache=True, error_model="numpy")
def _learn_one(P, w, x, y, omega, g):  # type: ignore[no-untyped-def]
    """Sherman–Morrison: ``P⁻¹ += ω x xᵀ``, ``b += ω y x``, ``w = P b``."""
    d = x.size
    s = _gain(P, x, g)
    m = 0.0
    for a in range(d):
        m += w[a] * x[a]
    shrink = omega / (1.0 + omega * s)
    step = shrink * (y - m)
    for a in range(d):
        w[a] += step * g[a]
        for b in range(a + 1):
            # Both halves get the same number, so that P stays exactly symmetric.
            value = P[a, b] - shrink * g[a] * g[b]
            P[a, b] = value
            P[b, a] = value


@numba.njit(**KERNEL)
def learn_by_source(sources, targets, edges, outcomes, features, omega, P, w):  # type: ignore[no-untyped-def]
    """DILinUCB: source i learns from the target's features x_j."""
    g = np.empty(features.shape[1])
    for t in range(edges.size):
        i, j = sources[edges[t]], targets[edges[t]]
        _learn_one(P[i], w[i], features[j], outcomes[t], omega, g)


@numba.njit(**KERNEL)
def learn_factors(sources, targets, edges, outcomes, A, theta, C, beta):  # type: ignore[no-untyped-def]
    """IMFB: source i learns from β_j, then target j from the new θ_i, edge by edge."""
    g = np.empty(theta.shape[1])
    for t in range(edges.size):
        i, j, y = sources[edges[t]], targets[edges[t]], outcomes[t]
        _learn_one(A[i], theta[i], beta[j], y, 1.0, g)
        _learn_one(C[j], beta[j], theta[i], y, 1.0, g)


@numba.njit(**KERNEL)
def edge_dots(sources, targets, left, right, out):  # type: ignore[no-untyped-def]
    """``out[e] = left[i] · right[j]``."""
    d = left.shape[1]
    for e in range(sources.size):
        i, j = sources[e], targets[e]
        total = 0.0
        for a in range(d):
            total += left[i, a] * right[j, a]
        out[e] = total


@numba.njit(**KERNEL)
def add_node_bounds(order, owners, others, vectors, P, c, out):  # type: ignore[no-untyped-def]
    """``out[e] += c·√(xᵀ P x)``, P of the edge's owner and x of its other end; ``order`` groups edges by owner."""
    g = np.empty(vectors.shape[1])
    for t in range(order.size):
        e = order[t]
        s = _gain(P[owners[e]], vectors[others[e]], g)
        out[e] += c * math.sqrt(max(s, 0.0))


@numba.njit(**KERNEL)
def add_product_bounds(sources, targets, left, right, P, c, out):  # type: ignore[no-untyped-def]
    """``out[e] += c·√(xᵀ P x)`` with ``x = left[i] ⊙ right[j]`` and one P for all edges."""
    d = left.shape[1]
    g, x = np.empty(d), np.empty(d)
    for e in range(sources.size):
        i, j = sources[e], targets[e]
        for a in range(d):
            x[a] = left[i, a] * right[j, a]
        s = _gain(P, x, g)
        out[e] += c * math.sqrt(max(s, 0.0))


@numba.njit(**KERNEL)
def reached_sums(starts, offsets, heads, row_of, n_nodes, features, sums):  # type: ignore[no-untyped-def]
    """Sum the features of everyone that each start reaches over live edges, itself included.

    Live edges are compressed rows: those of ``starts[a]`` are ``heads[offsets[a]:offsets[a + 1]]``; ``row_of[v]`` is
    v's position in ``starts`` or -1.
    """
    seen = np.full(n_nodes, -1, dtype=np.int64)
    queue = np.empty(n_nodes, dtype=np.int64)
    d = features.shape[1]
    for a in range(starts.size):
        queue[0], size, head = starts[a], 1, 0
        seen[starts[a]] = a
        while head < size:
            v = queue[head]
            head += 1
            for b in range(d):
                sums[a, b] += features[v, b]
            row = row_of[v]
            if row < 0:
                continue
            for t in range(offsets[row], offsets[row + 1]):
                if seen[heads[t]] != a:
                    seen[heads[t]] = a
                    queue[size] = heads[t]
                    size += 1


@numba.njit(**KERNEL)
def greedy_maximum(q, k):  # type: ignore[no-untyped-def]
    """Rows of ``q`` that greedily maximise ``Σ_v max_u q[u, v]``; gains only shrink, so old ones bound new ones."""
    rows, columns = q.shape
    best = np.zeros(columns)
    bound = np.full(rows, np.inf)
    fresh = np.full(rows, -1, dtype=np.int64)
    chosen = np.empty(k, dtype=np.int64)
    for step in range(k):
        u = np.argmax(bound)
        while fresh[u] != step:
            gain = 0.0
            for v in range(columns):
                gain += max(q[u, v] - best[v], 0.0)
            bound[u], fresh[u] = gain, step
            u = np.argmax(bound)
        chosen[step] = u
        bound[u] = -1.0
        for v in range(columns):
            best[v] = max(best[v], q[u, v])
    return chosen
