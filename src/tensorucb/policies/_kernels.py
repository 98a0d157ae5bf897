"""Kernels of the policies: learning in order of observation, and scores and bounds of every edge.

Glossary
    i, j     source and target of an edge e

Tensor models (one number per rank, unless said otherwise)
    A, B     φᵀw̄ of the source's mode times the modes 3..D, and of the target's mode
    P        |c₃|·√(xᵀΣx) of the source's mode + |a|·(roots of modes 3..D): what |B| is multiplied with in the bonus
    Q, T     |A|, and √(xᵀΣx) of the target's mode
    offset   one number per node: its intercept;  root its standard deviation

Linear models and factors
    P        (n, d, d) inverse of a node's precision matrix;  w (n, d) its coefficients P b
    x        a feature vector;  g = P x and s = xᵀ P x
    omega    the precision of an observation, 1/σ²
    Inner loops run along rows of P and accumulate into g, which the compiler turns into vector instructions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorucb._kernels import inlined, kernel, prefetch
from tensorucb.arrays import F32, F64, I32, I64

_AHEAD = 32  # edges

# -- tensor models --


@kernel
def tensor_moments(
    sources: I32, targets: I32, start: int, stop: int, source: Any, target: Any, mean: F64, deviation: F64
) -> None:
    """A_i·B_j and P_i·|B_j| + Q_i·T_j, the paper's sum of roots over modes and ranks; intercepts add to both.

    ``source`` is ``(A, P, Q, offset, root)`` and ``target`` ``(B, T, offset, root)``.
    """
    A, P, Q, offset_i, root_i = source
    B, T, offset_j, root_j = target
    for e in range(start, stop):
        i, j = sources[e], targets[e]
        u, x = offset_i[i] + offset_j[j], root_i[i] + root_j[j]
        for r in range(A.shape[1]):
            b = B[j, r]
            u += A[i, r] * b
            x += P[i, r] * abs(b) + Q[i, r] * T[j, r]
        mean[e] = u
        deviation[e] = x


@kernel
def probabilities_of_odds(
    offsets: I64, targets: I32, start: int, stop: int, odds: F64, weights: F64, factor: F32, p: F64
) -> None:
    """Of every out-edge of sources start .. stop: Σ weight · o / (1 + o), o = odds of the source × factor.

    ``odds`` is (sources, weights): a source may have several, one for each of a few rounds. What is known of targets
    is asked for some edges ahead: in a large network it comes from memory, which takes longer than all else.
    """
    last = offsets[stop] - 1
    for i in range(start, stop):
        for k in range(offsets[i], offsets[i + 1]):
            prefetch(factor, np.int64(targets[min(k + _AHEAD, last)]))
            total = 0.0
            for a in range(weights.size):
                o = odds[i, a] * factor[targets[k]]
                total += weights[a] * (o / (1.0 + o))
            p[k] = total


# -- linear models and factors --


@inlined
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


@inlined
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


@kernel
def learn_by_source(sources, targets, edges, outcomes, features, omega, P, w):  # type: ignore[no-untyped-def]
    """DILinUCB: source i learns from the target's features x_j."""
    g = np.empty(features.shape[1])
    for t in range(edges.size):
        i, j = sources[edges[t]], targets[edges[t]]
        _learn_one(P[i], w[i], features[j], outcomes[t], omega, g)


@kernel
def learn_factors(sources, targets, edges, outcomes, A, theta, C, beta):  # type: ignore[no-untyped-def]
    """IMFB: source i learns from β_j, then target j from the new θ_i, edge by edge."""
    g = np.empty(theta.shape[1])
    for t in range(edges.size):
        i = sources[edges[t]]
        j = targets[edges[t]]
        y = outcomes[t]
        _learn_one(A[i], theta[i], beta[j], y, 1.0, g)
        _learn_one(C[j], beta[j], theta[i], y, 1.0, g)


@kernel
def edge_dots(sources, targets, left, right, out):  # type: ignore[no-untyped-def]
    """``out[e] = left[i] · right[j]``."""
    d = left.shape[1]
    for e in range(sources.size):
        i, j = sources[e], targets[e]
        total = 0.0
        for a in range(d):
            total += left[i, a] * right[j, a]
        out[e] = total


@kernel
def add_node_bounds(order, owners, others, vectors, P, out):  # type: ignore[no-untyped-def]
    """``out[e] += √(xᵀ P x)``, P of the edge's owner and x of its other end; ``order`` groups edges by owner."""
    g = np.empty(vectors.shape[1])
    for t in range(order.size):
        e = order[t]
        s = _gain(P[owners[e]], vectors[others[e]], g)
        out[e] += math.sqrt(max(s, 0.0))


@kernel
def add_product_bounds(sources, targets, left, right, P, out):  # type: ignore[no-untyped-def]
    """``out[e] += √(xᵀ P x)`` with ``x = left[i] ⊙ right[j]`` and one P for all edges."""
    d = left.shape[1]
    g, x = np.empty(d), np.empty(d)
    for e in range(sources.size):
        i, j = sources[e], targets[e]
        for a in range(d):
            x[a] = left[i, a] * right[j, a]
        s = _gain(P, x, g)
        out[e] += math.sqrt(max(s, 0.0))


@kernel
def reached_sums(starts, offsets, heads, row_of, n_nodes, features, sums):  # type: ignore[no-untyped-def]
    """Sum the features of everyone that each start reaches over live edges, itself included.

    Live edges are compressed rows: those of ``starts[a]`` are ``heads[offsets[a]:offsets[a + 1]]``; ``row_of[v]`` is
    v's position in ``starts`` or -1.
    """
    seen = np.full(n_nodes, -1, dtype=np.int64)
    queue = np.empty(n_nodes, dtype=np.int64)
    d = features.shape[1]
    for a in range(starts.size):
        queue[0] = starts[a]
        size = 1
        head = 0
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


@kernel
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
