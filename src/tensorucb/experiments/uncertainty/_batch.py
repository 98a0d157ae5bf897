"""Variational Bayes over all data at once: what the online learner would reach if it could look back.

Glossary
    phi, Y   features (N, d) of a mode, outcomes;  w, S  mean (R, d) and covariance (R·d, R·d) of a mode
    A, B     E[a] and E[aaᵀ] of a mode, (N, R) and (N, R, R), with a_r = φᵀw_r
    omega    precision of each (pseudo-)observation;  kappa its precision times its target
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tensorucb.experiments.uncertainty._problems import Problem

__all__ = ["batch_posterior"]

Floats = NDArray[np.float64]


def batch_posterior(
    problem: Problem, *, max_sweeps: int = 200, tolerance: float = 1e-6
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Coordinate ascent of the posterior that is joint over ranks with full second moments, from the prior means.

    Returns the means ``(R, d_l)`` and covariances ``(R·d_l, R·d_l)`` of the modes, as the learner's state holds them.
    """
    v, R, Y = problem.prior_variance, problem.rank, problem.outcomes
    w = [start.copy() for start in problem.prior_means]
    S = [v * np.eye(start.size) for start in w]
    moments = [_moments(phi, m, C) for phi, m, C in zip(problem.features, w, S, strict=True)]
    logistic = problem.likelihood == "logistic"
    for _ in range(max_sweeps):
        moved = 0.0
        for mode, phi in enumerate(problem.features):
            omega, kappa = np.full(Y.size, 1.0 / problem.noise_variance), Y / problem.noise_variance
            if logistic:
                psi = np.sqrt(np.prod([B for _, B in moments], axis=0).sum(axis=(1, 2)))
                omega, kappa = np.tanh(0.5 * psi) / (2.0 * np.maximum(psi, 1e-9)), Y - 0.5
            others = [pair for other, pair in enumerate(moments) if other != mode]
            beta = np.prod([A for A, _ in others], axis=0) * np.ones((Y.size, R))
            gamma = np.prod([B for _, B in others], axis=0) * np.ones((Y.size, R, R))
            P = np.einsum("n,nrs,ni,nj->risj", omega, gamma, phi, phi, optimize=True)
            h = np.einsum("n,nr,ni->ri", kappa, beta, phi) + problem.prior_means[mode] / v
            S[mode] = np.linalg.inv(P.reshape(h.size, h.size) + np.eye(h.size) / v)
            new = (S[mode] @ h.ravel()).reshape(h.shape)
            moved = max(moved, float(abs(new - w[mode]).max()))
            w[mode] = new
            moments[mode] = _moments(phi, new, S[mode])
        if moved < tolerance:
            break
    return tuple(w), tuple(S)


def _moments(phi: Floats, w: Floats, S: Floats) -> tuple[Floats, Floats]:
    R, d = w.shape
    a = phi @ w.T
    V = np.einsum("ni,risj,nj->nrs", phi, S.reshape(R, d, R, d), phi, optimize=True)
    return a, a[:, :, None] * a[:, None, :] + V
