"""Eq. CB_ij edge by edge, in plain NumPy."""

from __future__ import annotations

import numpy as np


def score_edges(state, X, sources, targets, vectors, *, c, link):
    """The projected score of each edge from the posterior `state`, by a literal loop."""
    out = np.empty(len(sources))
    for e, (i, j) in enumerate(zip(sources, targets, strict=True)):
        phi = [X[i], X[j], *vectors]
        modes = range(len(phi))
        a = [state.means[m] @ phi[m] for m in modes]
        u = np.prod(a, axis=0).sum()
        variances = []
        if state.intercept_means:
            u += state.intercept_means[0][i] + state.intercept_means[1][j]
            variances = [state.intercept_variances[0][i], state.intercept_variances[1][j]]
        u += c * (edge_bonus(state, phi, a) + sum(np.sqrt(variances)))
        out[e] = 1 / (1 + np.exp(-u)) if link == "sigmoid" else min(max(u, 0.0), 1.0)
    return out


def edge_bonus(state, phi, a):
    total = 0.0
    for m, S in enumerate(state.covariances):
        beta = np.prod([a[o] for o in range(len(phi)) if o != m], axis=0)
        for r in range(len(beta)):
            psi = beta[r] * phi[m]
            total += np.sqrt(psi @ S[r] @ psi)
    return total
