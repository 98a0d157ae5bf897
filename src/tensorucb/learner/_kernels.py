"""The online update, one sample after the other, on flat arrays.

Glossary (the paper's letters)
    l = mode, r = rank
    R, D     rank, number of modes;  d = dims[l] the dimension of mode l
    phi      (N, F) features, the modes side by side, F = Σ d
    w, S     posterior means and covariances, flat: mode by mode, rank by rank
    w0, v0   prior means (flat as w) and the prior variance of each mode
    a        a[r, l] = φ_lᵀ w̄^{l,r} of the current iterate;  m the same before the sample
    g, s     g = Σφ and s = φᵀΣφ before the sample;  v = φᵀΣφ after it
    beta     β^{l,r} = Π_{l'≠l} a[r, l'];  its square stands for the paper's γ (mean field)
    omega    precision ω of the (pseudo-)observation;  kappa its precision times its target
    push     what moves w̄ along g;  gain what Σ loses along ggᵀ;  information is ωβ²
    c, cv    intercepts of the sample's groups and their variances; mu, var hold those of all groups
    keep     the share λ that a sample leaves of what was known (forgetting)

Every fixed point restarts from the state before the sample, so a sample counts once however many sweeps it takes.
The scalars of the last visit of each (l, r) define its rank-one update, as in a literal loop over the equations.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from tensorucb._kernels import KERNEL
from tensorucb.arrays import F64, I64

# A covariance cannot hold variances below about 1e-16 of its largest. Blocks are checked from time to time, and at
# once after a sample that is _STIFF: its information ωγ‖φ‖² exceeds the prior's by that factor.
_CHECK_EVERY = 4096
_STIFF = 1e8
_PIVOT = 1e-13
_FLOOR = 1e-15
_LIFT = 1e-12


@numba.njit(inline="always", **KERNEL)
def _omega_of(second_moment: float) -> float:
    """ω(ψ) = tanh(ψ/2)/(2ψ) of the Jaakkola–Jordan bound, by its series near zero."""
    psi = math.sqrt(max(second_moment, 0.0))
    if psi < 1e-3:
        return 0.25 - psi * psi / 48.0
    return math.tanh(0.5 * psi) / (2.0 * psi)


@numba.njit(inline="always", **KERNEL)
def _norm2(x: F64, start: int, n: int) -> float:
    """‖φ‖² of the n features from start."""
    total = 0.0
    for i in range(start, start + n):
        total += x[i] * x[i]
    return total


@numba.njit(**KERNEL)
def _guard(S: F64, start: int, n: int, work: F64) -> None:
    """Lift the diagonal of a block whose Cholesky pivots have sunk into rounding."""
    top = 0.0
    for i in range(n):
        top = max(top, abs(S[start + i * n + i]))
    for i in range(n):
        for j in range(i + 1):
            total = S[start + i * n + j]
            for k in range(j):
                total -= work[i * n + k] * work[j * n + k]
            if i == j:
                if not total > _PIVOT * top:
                    lift = _LIFT * top - total
                    S[start + i * n + i] += lift
                    total += lift
                work[i * n + i] = math.sqrt(total)
            else:
                work[i * n + j] = total / work[j * n + j]


@numba.njit(**KERNEL)
def _forget(w: F64, S: F64, w0: F64, v0: F64, dims: I64, R: int, keep: float) -> None:
    """One step back towards the prior: Σ ← λΣ + (1−λ)Σ₀ and w̄ ← w₀ + √λ(w̄ − w₀)."""
    root = math.sqrt(keep)
    for i in range(w.size):
        w[i] = w0[i] + root * (w[i] - w0[i])
    q = 0
    for mode in range(dims.size):
        d = dims[mode]
        for _ in range(R):
            for i in range(d * d):
                S[q + i] *= keep
            for i in range(d):
                S[q + i * d + i] += (1.0 - keep) * v0[mode]
            q += d * d


@numba.njit(inline="always", **KERNEL)
def _open_intercepts(groups: I64, k: int, mu: F64, var: F64, prior: float, keep: float, c: F64, cv: F64) -> float:
    """Load the sample's intercepts, each one step forgotten on its own clock; returns their sum."""
    total = 0.0
    for q in range(groups.shape[1]):
        at = groups[k, q]
        if keep < 1.0:
            mu[at] *= math.sqrt(keep)
            var[at] = keep * var[at] + (1.0 - keep) * prior
        c[q] = mu[at]
        cv[q] = var[at]
        total += mu[at]
    return total


@numba.njit(inline="always", **KERNEL)
def _sweep_intercepts(
    groups: I64, k: int, mu: F64, var: F64, c: F64, cv: F64, u: float, omega: float, kappa: float, tol: float
) -> tuple[float, bool]:
    """One Gauss–Seidel visit to each intercept; returns the new u and whether anything moved."""
    moving = False
    for q in range(groups.shape[1]):
        at = groups[k, q]
        shrink = 1.0 / (1.0 + omega * var[at])
        new = (mu[at] + var[at] * (kappa - omega * (u - c[q]))) * shrink
        moving |= abs(new - c[q]) > tol * (1.0 + abs(new))
        u += new - c[q]
        c[q] = new
        cv[q] = var[at] * shrink
    return u, moving


@numba.njit(inline="always", **KERNEL)
def _second_moment(a: F64, v: F64, u: float, cv: F64) -> float:
    """E[u²]: ū² plus the mean-field variance of the score."""
    R, D = a.shape
    total = u * u
    for q in range(cv.size):
        total += cv[q]
    for r in range(R):
        for mode in range(D):
            beta = 1.0
            for other in range(D):
                if other != mode:
                    beta *= a[r, other]
            total += beta * beta * v[r, mode]
    return total


@numba.njit(inline="always", **KERNEL)
def _sweep_ranks(
    a: F64, v: F64, m: F64, s: F64, push: F64, gain: F64, information: F64, suffix: F64,
    u: float, omega: float, kappa: float, tol: float,
) -> tuple[float, bool]:  # fmt: skip
    """One Gauss–Seidel visit to each (l, r); returns the new u and whether anything moved."""
    R, D = a.shape
    moving = False
    for r in range(R):
        # β is the product of the modes before l, already visited, and of those after it.
        suffix[D] = 1.0
        for mode in range(D - 1, -1, -1):
            suffix[mode] = suffix[mode + 1] * a[r, mode]
        prefix = 1.0
        for mode in range(D):
            beta = prefix * suffix[mode + 1]
            known = omega * (beta * beta)
            pull = beta * (kappa - omega * (u - a[r, mode] * beta))
            shrink = 1.0 / (1.0 + known * s[r, mode])
            new = (m[r, mode] + s[r, mode] * pull) * shrink
            moving |= abs(new - a[r, mode]) > tol * (1.0 + abs(new))
            u += (new - a[r, mode]) * beta
            a[r, mode] = new
            v[r, mode] = s[r, mode] * shrink
            push[r, mode] = (pull - known * m[r, mode]) * shrink
            gain[r, mode] = known * shrink
            information[r, mode] = known
            prefix *= new
    return u, moving


@numba.njit(**KERNEL)
def _project(x: F64, dims: I64, R: int, w: F64, S: F64, v0: F64, g: F64, m: F64, s: F64) -> None:
    """Per (l, r): g = Σφ, s = φᵀΣφ and m = φᵀw."""
    f, p, q = 0, 0, 0
    for mode in range(dims.size):
        d = dims[mode]
        least = _FLOOR * v0[mode] * _norm2(x, f, d)
        for r in range(R):
            for i in range(d):
                g[p + i] = 0.0
            # Σ is symmetric: summing its rows vectorises, and keeps the order of additions.
            for j in range(d):
                xj = x[f + j]
                if xj != 0.0:
                    for i in range(d):
                        g[p + i] += S[q + j * d + i] * xj
            inner, score = 0.0, 0.0
            for i in range(d):
                inner += g[p + i] * x[f + i]
                score += w[p + i] * x[f + i]
            s[r, mode] = max(inner, least)
            m[r, mode] = score
            p += d
            q += d * d
        f += d


@numba.njit(**KERNEL)
def _absorb(
    x: F64, dims: I64, w: F64, S: F64, v0: F64, g: F64, push: F64, gain: F64, information: F64, check: bool,
    step: F64, work: F64,
) -> None:  # fmt: skip
    """w̄ += g·push and Σ −= gain·ggᵀ for every (l, r)."""
    R = push.shape[0]
    f, p, q = 0, 0, 0
    for mode in range(dims.size):
        d = dims[mode]
        limit = _STIFF / max(v0[mode] * _norm2(x, f, d), 1e-300)
        for r in range(R):
            root = math.sqrt(gain[r, mode])
            for i in range(d):
                w[p + i] += g[p + i] * push[r, mode]
                step[i] = root * g[p + i]
            for i in range(d):
                si = step[i]
                for j in range(d):
                    S[q + i * d + j] -= si * step[j]
            if check or information[r, mode] > limit:
                _guard(S, q, d, work)
            p += d
            q += d * d
        f += d


@numba.njit(**KERNEL)
def learn_samples(
    phi: F64, y: F64, groups: I64, shape: Any, posterior: Any, prior: Any, seen: int, logistic: bool, noise: float,
    keep: float, stop: Any,
) -> tuple[int, int]:  # fmt: skip
    """Learn the samples in order, changing ``posterior`` in place; returns (unconverged samples, sweeps).

    ``seen`` counts the samples learned before.
    """
    dims, R = shape
    w, S, mu, var = posterior
    w0, v0, intercept_v0 = prior
    tol, max_sweeps = stop
    D, wide = dims.size, dims.max()
    a, v, m, s = np.empty((R, D)), np.empty((R, D)), np.empty((R, D)), np.empty((R, D))
    push, gain, information = np.empty((R, D)), np.empty((R, D)), np.empty((R, D))
    suffix, c, cv = np.empty(D + 1), np.empty(groups.shape[1]), np.empty(groups.shape[1])
    g, work, step = np.empty(w.size), np.empty(wide * wide), np.empty(wide)
    unconverged, sweeps = 0, 0
    for k in range(phi.shape[0]):
        if keep < 1.0 and seen + k > 0:
            _forget(w, S, w0, v0, dims, R, keep)
        u = _open_intercepts(groups, k, mu, var, intercept_v0, keep, c, cv)
        # Before the first sample the iterate (w) and the prior mean (w0) may differ: the paper's start.
        if seen + k == 0:
            _project(phi[k], dims, R, w, S, v0, g, a, s)
            _project(phi[k], dims, R, w0, S, v0, g, m, s)
            w[:] = w0
        else:
            _project(phi[k], dims, R, w, S, v0, g, m, s)
            a[:] = m
        v[:] = s
        for r in range(R):
            product = 1.0
            for mode in range(D):
                product *= a[r, mode]
            u += product
        kappa = y[k] - 0.5 if logistic else y[k] / noise
        omega = _omega_of(_second_moment(a, v, u, cv)) if logistic else 1.0 / noise
        settled = False
        for _ in range(max_sweeps):
            sweeps += 1
            u, moving = _sweep_ranks(a, v, m, s, push, gain, information, suffix, u, omega, kappa, tol)
            u, moved = _sweep_intercepts(groups, k, mu, var, c, cv, u, omega, kappa, tol)
            fresh = _omega_of(_second_moment(a, v, u, cv)) if logistic else omega
            settled = not (moving or moved or abs(fresh - omega) > tol)
            if settled:
                break
            omega = fresh
        unconverged += not settled
        check = (seen + k + 1) % _CHECK_EVERY == 0
        _absorb(phi[k], dims, w, S, v0, g, push, gain, information, check, step, work)
        for i in range(groups.shape[1]):
            mu[groups[k, i]] = c[i]
            var[groups[k, i]] = cv[i]
    return unconverged, sweeps
