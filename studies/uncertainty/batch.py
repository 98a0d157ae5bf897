"""Variational Bayes over all data at once: what the online learner would reach if it could look back.

Glossary
    phi, Y   features (N, d) of a mode, outcomes;  squares  φφᵀ as (N, d²)
    w, S     mean (R, d) and covariance (R·d, R·d) of a mode
    A, B     E[a] and E[aaᵀ] of a mode, (N, R) and (N, R, R), with a_r = φᵀw_r
    omega    precision of each (pseudo-)observation;  kappa its precision times its target
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from studies.uncertainty.problems import RegressionProblem

Floats = NDArray[np.float64]


def batch_posterior(
    problem: RegressionProblem, *, max_sweeps: int = 200, tolerance: float = 1e-6
) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Coordinate ascent of the posterior that is joint over ranks with full second moments, from the prior means.

    Returns the means ``(R, d_l)`` and covariances ``(R·d_l, R·d_l)`` of the modes, as the learner's state holds them.
    """
    v, R, Y = problem.prior_variance, problem.rank, problem.outcomes
    w = [start.copy() for start in problem.prior_means]
    S = [v * np.eye(start.size) for start in w]
    squares = [(phi[:, :, None] * phi[:, None, :]).reshape(len(phi), -1) for phi in problem.features]
    moments = [_moments(phi, q, m, C) for phi, q, m, C in zip(problem.features, squares, w, S, strict=True)]
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
            d = phi.shape[1]
            P = ((omega[:, None, None] * gamma).reshape(-1, R * R).T @ squares[mode]).reshape(R, R, d, d)
            h = (kappa[:, None] * beta).T @ phi + problem.prior_means[mode] / v
            S[mode] = np.linalg.inv(P.transpose(0, 2, 1, 3).reshape(R * d, R * d) + np.eye(R * d) / v)
            new = (S[mode] @ h.ravel()).reshape(h.shape)
            moved = max(moved, float(abs(new - w[mode]).max()))
            w[mode] = new
            moments[mode] = _moments(phi, squares[mode], new, S[mode])
        if moved < tolerance:
            break
    return tuple(w), tuple(S)


def _moments(phi: Floats, squares: Floats, w: Floats, S: Floats) -> tuple[Floats, Floats]:
    R, d = w.shape
    a = phi @ w.T
    V = squares @ S.reshape(R, d, R, d).transpose(1, 3, 0, 2).reshape(d * d, R * R)
    return a, a[:, :, None] * a[:, None, :] + V.reshape(-1, R, R)
