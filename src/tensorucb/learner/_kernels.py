"""The online update, one sample after the other, on flat arrays.

Glossary (the paper's letters)
    l = mode, r = rank
    R, D     rank, number of modes;  d = dims[l] the dimension of mode l
    phi      (N, F) features, the modes side by side, F = Σ d;  x those of one sample, norms the ‖φ_l‖² of its modes
    w, S     posterior means and covariances, flat: mode by mode, rank by rank
    w0, v0   prior means (flat as w) and the prior variance of every coefficient
    a        a[r, l] = φ_lᵀ w̄^{l,r} of the current iterate;  m the same before the sample
    g, s     g = Σφ and s = φᵀΣφ before the sample;  v = φᵀΣφ after it
    beta     β^{l,r} = Π_{l'≠l} a[r, l'] (Eq. 12);  its square stands for the paper's γ (mean field, Eq. 13)
    omega    precision ω of the (pseudo-)observation;  kappa its precision times its target
    push     what moves w̄ along g;  information is ωβ²
    c, cv    intercepts of the sample's groups and their variances; c0, cv0 before it; mu, var hold those of all groups

Gaussian likelihood: ω = 1/σ² and κ = y/σ². Logistic: ω = tanh(ψ/2)/(2ψ) with ψ² = E[u²], and κ = y − ½.
Every fixed point restarts from the state before the sample, so a sample counts once however many sweeps it takes.
The scalars of the last visit of each (l, r) define its rank-one update, as in a literal loop over the equations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tensorucb._kernels import inlined, kernel
from tensorucb.arrays import F64, I64

# A covariance cannot hold variances below about 1e-16 of its largest. Blocks are checked from time to time, and at
# once after a sample that is _STIFF: its information ωγ‖φ‖² exceeds the prior's by that factor.
_CHECK_EVERY = 4096
_STIFF = 1e8
_PIVOT = 1e-13
_FLOOR = 1e-15
_LIFT = 1e-12


@inlined
def _omega_of(second_moment: float) -> float:
    """ω(ψ) = tanh(ψ/2)/(2ψ) of the Jaakkola–Jordan bound, by its series near zero."""
    psi = math.sqrt(max(second_moment, 0.0))
    if psi < 1e-3:
        return 0.25 - psi * psi / 48.0
    return math.tanh(0.5 * psi) / (2.0 * psi)


@inlined
def _beta(a: F64, r: int, mode: int) -> float:
    """β^{l,r} = Π_{l'≠l} φ_l'ᵀ w̄^{l',r} (Eq. 12)."""
    product = 1.0
    for other in range(a.shape[1]):
        if other != mode:
            product *= a[r, other]
    return product


@inlined
def _second_moment(a: F64, v: F64, u: float, cv: F64) -> float:
    """E[u²]: ū² plus the mean-field variance of the score (Eq. 17 without σ²)."""
    total = u * u
    for q in range(cv.size):
        total += cv[q]
    for r in range(a.shape[0]):
        for mode in range(a.shape[1]):
            beta = _beta(a, r, mode)
            total += beta * beta * v[r, mode]
    return total


@kernel
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


@kernel
def _project(x: F64, dims: I64, w: F64, S: F64, v0: float, g: F64, m: F64, s: F64, norms: F64) -> None:
    """Per (l, r): g = Σφ, s = φᵀΣφ and m = φᵀw; per mode ‖φ‖²."""
    f = 0
    p = 0
    q = 0
    for mode in range(dims.size):
        d = dims[mode]
        norms[mode] = 0.0
        for i in range(f, f + d):
            norms[mode] += x[i] * x[i]
        for r in range(m.shape[0]):
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
            s[r, mode] = max(inner, _FLOOR * v0 * norms[mode])
            m[r, mode] = score
            p += d
            q += d * d
        f += d


@inlined
def _sweep(
    a: F64, v: F64, m: F64, s: F64, push: F64, information: F64, c: F64, cv: F64, c0: F64, cv0: F64,
    u: float, omega: float, kappa: float, tol: float, by_rank: bool,
) -> tuple[float, bool]:  # fmt: skip
    """One Gauss–Seidel visit to each (l, r) and to each intercept; returns the new u and whether anything moved."""
    R, D = a.shape
    moving = False
    for visit in range(R * D):
        r, mode = (visit // D, visit % D) if by_rank else (visit % R, visit // R)
        beta = _beta(a, r, mode)
        precision = omega * (beta * beta)
        # Eqs. 14 and 15 along φ: y^{l,r} is the outcome without the scores of the other ranks.
        pull = beta * (kappa - omega * (u - a[r, mode] * beta))
        shrink = 1.0 / (1.0 + precision * s[r, mode])
        new = (m[r, mode] + s[r, mode] * pull) * shrink
        moving |= abs(new - a[r, mode]) > tol * (1.0 + abs(new))
        u += (new - a[r, mode]) * beta
        a[r, mode] = new
        v[r, mode] = s[r, mode] * shrink
        push[r, mode] = (pull - precision * m[r, mode]) * shrink
        information[r, mode] = precision
    for q in range(c.size):
        shrink = 1.0 / (1.0 + omega * cv0[q])
        new = (c0[q] + cv0[q] * (kappa - omega * (u - c[q]))) * shrink
        moving |= abs(new - c[q]) > tol * (1.0 + abs(new))
        u += new - c[q]
        c[q] = new
        cv[q] = cv0[q] * shrink
    return u, moving


@kernel
def _absorb(
    dims: I64, w: F64, S: F64, v0: float, g: F64, s: F64, push: F64, information: F64, norms: F64, check: bool,
    step: F64, work: F64,
) -> None:  # fmt: skip
    """Eqs. 14 and 15 for every (l, r): Σ −= ggᵀ·ωβ²/(1 + ωβ²s) and w̄ += g·push."""
    p, q = 0, 0
    for mode in range(dims.size):
        d = dims[mode]
        limit = _STIFF / max(v0 * norms[mode], 1e-300)
        for r in range(push.shape[0]):
            precision = information[r, mode]
            root = math.sqrt(precision * (1.0 / (1.0 + precision * s[r, mode])))
            for i in range(d):
                w[p + i] += g[p + i] * push[r, mode]
                step[i] = root * g[p + i]
            for i in range(d):
                si = step[i]
                for j in range(d):
                    S[q + i * d + j] -= si * step[j]
            if check or precision > limit:
                _guard(S, q, d, work)
            p += d
            q += d * d


@kernel
def learn_samples(
    phi: F64, y: F64, groups: I64, shape: Any, posterior: Any, prior: Any, seen: int, logistic: bool, noise: float,
    by_rank: bool, stop: Any,
) -> tuple[int, int]:  # fmt: skip
    """Learn the samples in order, changing ``posterior`` in place; returns (sweeps, unconverged samples).

    ``seen`` counts the samples learned before.
    """
    dims, R = shape
    w, S, mu, var = posterior
    w0, v0 = prior
    tol, max_sweeps = stop
    D, wide = dims.size, dims.max()
    a = np.empty((R, D))
    v = np.empty((R, D))
    m = np.empty((R, D))
    s = np.empty((R, D))
    push = np.empty((R, D))
    information = np.empty((R, D))
    size = groups.shape[1]
    c = np.empty(size)
    cv = np.empty(size)
    c0 = np.empty(size)
    cv0 = np.empty(size)
    norms, step = np.empty(D), np.empty(wide)
    g, work = np.empty(w.size), np.empty(wide * wide)
    sweeps, unconverged = 0, 0
    for k in range(phi.shape[0]):
        _project(phi[k], dims, w, S, v0, g, a, s, norms)
        for r in range(R):
            for mode in range(D):
                m[r, mode] = a[r, mode]
        if seen + k == 0:
            # Before the first sample the iterate (w) and the prior mean (w0) may differ: the paper's start.
            for i in range(w.size):
                w[i] = w0[i]
            _project(phi[k], dims, w, S, v0, g, m, s, norms)
        for r in range(R):
            for mode in range(D):
                v[r, mode] = s[r, mode]
        u = 0.0
        for q in range(c.size):
            c0[q] = mu[groups[k, q]]
            cv0[q] = var[groups[k, q]]
            c[q] = c0[q]
            cv[q] = cv0[q]
            u += c0[q]
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
            u, moving = _sweep(a, v, m, s, push, information, c, cv, c0, cv0, u, omega, kappa, tol, by_rank)
            fresh = _omega_of(_second_moment(a, v, u, cv)) if logistic else omega
            settled = not (moving or abs(fresh - omega) > tol)
            if settled:
                break
            omega = fresh
        unconverged += not settled
        check = (seen + k + 1) % _CHECK_EVERY == 0
        _absorb(dims, w, S, v0, g, s, push, information, norms, check, step, work)
        for q in range(c.size):
            mu[groups[k, q]] = c[q]
            var[groups[k, q]] = cv[q]
    return sweeps, unconverged
