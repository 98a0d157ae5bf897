"""Kernels of the topic model: batch variational inference for latent Dirichlet allocation (Hoffman et al. 2010).

Glossary: ``gamma[d, k]`` Dirichlet parameters of the topics of item ``d``; ``theta = exp(E[log])`` of its shares under
them, ``beta[u, k]`` the same of user ``u`` in topic ``k``; ``phi = Σ_k theta_k beta_uk``, what an action's topic
probabilities are divided by; ``alpha`` the prior of every topic of an item.
"""

from __future__ import annotations

import math

import numpy as np

from tensorucb._kernels import kernel

_EULER = 0.5772156649015329
_EPSILON = 2.220446049250313e-16


@kernel
def _psi(x):  # type: ignore[no-untyped-def]
    """The digamma function for positive numbers (Bernardo's algorithm AS 103), as scikit-learn takes it."""
    if x <= 1e-6:
        return -_EULER - 1.0 / x
    result = 0.0
    while x < 6.0:
        result -= 1.0 / x
        x += 1.0
    r = 1.0 / x
    result += math.log(x) - 0.5 * r
    r = r * r
    return result - r * ((1.0 / 12.0) - r * ((1.0 / 120.0) - r * (1.0 / 252.0)))


@kernel
def expected_shares(parameters, out):  # type: ignore[no-untyped-def]
    """``exp(E[log])`` of the shares under Dirichlet ``parameters``, row by row."""
    for row in range(parameters.shape[0]):
        total = 0.0
        for k in range(parameters.shape[1]):
            total += parameters[row, k]
        at_total = _psi(total)
        for k in range(parameters.shape[1]):
            out[row, k] = math.exp(_psi(parameters[row, k]) - at_total)


@kernel
def expect_items(off, user, beta, alpha, most, tolerance, start, stop, gamma, theta):  # type: ignore[no-untyped-def]
    """The E-step of items ``start..stop - 1``: ``gamma`` from where it stands to its fixed point, and its ``theta``."""
    K = beta.shape[1]
    weight = np.empty(K)
    expected_shares(gamma[start:stop], theta[start:stop])
    for d in range(start, stop):
        for _ in range(most):
            weight[:] = 0.0
            for a in range(off[d], off[d + 1]):
                phi = 0.0
                for k in range(K):
                    phi += theta[d, k] * beta[user[a], k]
                share = 1.0 / (phi + _EPSILON)
                for k in range(K):
                    weight[k] += share * beta[user[a], k]
            change = 0.0
            for k in range(K):
                new = theta[d, k] * weight[k] + alpha
                change += abs(new - gamma[d, k])
                gamma[d, k] = new
            expected_shares(gamma[d : d + 1], theta[d : d + 1])
            if change / K < tolerance:
                break


@kernel
def count_users(off, user, beta, theta, out):  # type: ignore[no-untyped-def]
    """Add up, over all items, how much of each user's actions belongs to each topic (before the factor ``beta``)."""
    for d in range(off.size - 1):
        for a in range(off[d], off[d + 1]):
            phi = 0.0
            for k in range(beta.shape[1]):
                phi += theta[d, k] * beta[user[a], k]
            for k in range(beta.shape[1]):
                out[user[a], k] += theta[d, k] / (phi + _EPSILON)
