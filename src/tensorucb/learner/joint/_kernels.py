"""The online update of the posterior that is joint over ranks: one Gaussian of dimension R·d for each mode.

Glossary: as in ``learner/_kernels.py``, and
    M, V     R×R matrices of a mode, φᵀΣ_{rr'}φ before and after the sample
    G        G[r] = Σ(e_r ⊗ φ), a row of R·d numbers for each rank
    Gamma    E[ββᵀ] over the other modes: ββᵀ (mean field) or Π_{l'≠l}(a aᵀ + V), positive semi-definite by Schur
    T        T Tᵀ = ω(I + ωΓM)⁻¹Γ, so that Σ ← Σ − (GT)(GT)ᵀ and V = M − (MT)(MT)ᵀ

Given the other modes, u = Σ_r β_r φᵀw_r + offset, so E over them gives the mode's exact Gaussian update
    Σ⁻¹ ← Σ⁻¹ + ω Γ⊗φφᵀ,    Σ⁻¹w̄ ← Σ⁻¹w̄ + (κ − ω·offset) β⊗φ.
With h = (κ − ω·offset)β − ωΓm, Woodbury turns this into w̄ += Gᵀ(I − TTᵀM)h: R×R algebra inside the sweeps, and one
update of rank 1 (mean field) or R (full) at the end.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from tensorucb._kernels import KERNEL
from tensorucb.learner._kernels import (
    CHECK_EVERY,
    FLOOR,
    PIVOT,
    STIFF,
    forget,
    guard,
    norm2,
    omega_of,
    open_intercepts,
    sweep_intercepts,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


@numba.njit(**KERNEL)
def _project_joint(x: F64, dims: I64, R: int, w: F64, S: F64, G: F64, m: F64, M: F64) -> None:
    """G[r] = Σ(e_r ⊗ φ), M[r, r'] = φᵀΣ_{rr'}φ and m = φᵀw of every mode; G is flat, (R, R·d) a mode."""
    f, p, q, t = 0, 0, 0, 0
    for mode in range(dims.size):
        d = dims[mode]
        n = R * d
        for r in range(R):
            row = t + r * n
            for i in range(n):
                G[row + i] = 0.0
            for j in range(d):
                xj = x[f + j]
                if xj != 0.0:
                    at = q + (r * d + j) * n
                    for i in range(n):
                        G[row + i] += S[at + i] * xj
            score = 0.0
            for i in range(d):
                score += w[p + r * d + i] * x[f + i]
            m[r, mode] = score
        for r in range(R):
            for other in range(r + 1):
                inner = 0.0
                for i in range(d):
                    inner += G[t + r * n + other * d + i] * x[f + i]
                M[mode, r, other] = inner
                M[mode, other, r] = inner
        f += d
        p += n
        q += n * n
        t += R * n


@numba.njit(**KERNEL)
def _root_update(Gamma: F64, M: F64, omega: float, T: F64) -> None:
    """T = √ω L P⁻ᵀ with Γ = LLᵀ and I + ωLᵀML = PPᵀ."""
    R = Gamma.shape[0]
    L = np.zeros((R, R))
    top = 0.0
    for i in range(R):
        top = max(top, Gamma[i, i])
    for j in range(R):
        pivot = Gamma[j, j]
        for k in range(j):
            pivot -= L[j, k] * L[j, k]
        # A semi-definite Γ has pivots of zero: their column is empty.
        if pivot > PIVOT * top:
            L[j, j] = math.sqrt(pivot)
            for i in range(j + 1, R):
                total = Gamma[i, j]
                for k in range(j):
                    total -= L[i, k] * L[j, k]
                L[i, j] = total / L[j, j]
    ML = np.zeros((R, R))
    for i in range(R):
        for k in range(R):
            for j in range(R):
                ML[i, j] += M[i, k] * L[k, j]
    P = np.eye(R)
    for i in range(R):
        for j in range(i + 1):
            for k in range(R):
                P[i, j] += omega * L[k, i] * ML[k, j]
    for j in range(R):
        for k in range(j):
            P[j, j] -= P[j, k] * P[j, k]
        P[j, j] = math.sqrt(max(P[j, j], 1.0))
        for i in range(j + 1, R):
            for k in range(j):
                P[i, j] -= P[i, k] * P[j, k]
            P[i, j] /= P[j, j]
    root = math.sqrt(omega)
    for i in range(R):
        for j in range(R):
            total = root * L[i, j]
            for k in range(j):
                total -= T[i, k] * P[j, k]
            T[i, j] = total / P[j, j]


@numba.njit(**KERNEL)
def _visit_mode(
    mode: int, a: F64, m: F64, M: F64, V: F64, T: F64, push: F64, Gamma: F64, MT: F64,
    least: float, offset: float, omega: float, kappa: float, tol: float, full: bool,
) -> tuple[float, bool]:  # fmt: skip
    """Update all ranks of mode l together; V becomes φᵀΣφ after the sample. Returns (Σ_r Π_l a, moved)."""
    R, D = a.shape
    beta, h = np.ones(R), np.empty(R)
    for r in range(R):
        for other in range(D):
            if other != mode:
                beta[r] *= a[r, other]
    target, columns = kappa - omega * offset, 1
    if full:
        columns = R
        Gamma[:] = 1.0
        for other in range(D):
            if other != mode:
                for i in range(R):
                    for j in range(R):
                        Gamma[i, j] *= a[i, other] * a[j, other] + V[other, i, j]
        _root_update(Gamma, M[mode], omega, T[mode])
        for i in range(R):
            h[i] = target * beta[i]
            for j in range(R):
                h[i] -= omega * Gamma[i, j] * m[j, mode]
            push[i, mode] = h[i]
    else:
        inner, score, size = 0.0, 0.0, 0.0
        for i in range(R):
            size += beta[i] * beta[i]
            score += beta[i] * m[i, mode]
            for j in range(R):
                inner += beta[i] * M[mode, i, j] * beta[j]
        shrink = 1.0 / (1.0 + omega * max(inner, least * size))
        root = math.sqrt(omega * shrink)
        for i in range(R):
            T[mode, i, 0] = root * beta[i]
            # (I − TTᵀM)h in closed form, without the cancellation.
            push[i, mode] = beta[i] * (target - omega * score) * shrink
            h[i] = 0.0
    for k in range(columns):
        lean = 0.0
        for i in range(R):
            total = 0.0
            for j in range(R):
                total += M[mode, i, j] * T[mode, j, k]
            MT[i, k] = total
            lean += total * h[i]
        for i in range(R):
            push[i, mode] -= T[mode, i, k] * lean
    moved, u = False, 0.0
    for i in range(R):
        new = m[i, mode]
        for j in range(R):
            new += M[mode, i, j] * push[j, mode]
            V[mode, i, j] = M[mode, i, j]
            for k in range(columns):
                V[mode, i, j] -= MT[i, k] * MT[j, k]
        moved |= abs(new - a[i, mode]) > tol * (1.0 + abs(new))
        a[i, mode] = new
        u += beta[i] * new
    return u, moved


@numba.njit(**KERNEL)
def _second_moment_joint(a: F64, V: F64, u: float, cv: F64, full: bool) -> float:
    """E[u²] of the posterior that is joint over ranks."""
    R, D = a.shape
    total = u * u
    for q in range(cv.size):
        total += cv[q]
    for i in range(R):
        for j in range(R):
            if full:
                square, moment = 1.0, 1.0
                for mode in range(D):
                    square *= a[i, mode] * a[j, mode]
                    moment *= a[i, mode] * a[j, mode] + V[mode, i, j]
                total += moment - square
            else:
                for mode in range(D):
                    term = V[mode, i, j]
                    for other in range(D):
                        if other != mode:
                            term *= a[i, other] * a[j, other]
                    total += term
    return total


@numba.njit(**KERNEL)
def learn_joint(
    phi: F64, y: F64, groups: I64, dims: I64, R: int, w: F64, S: F64, w0: F64, v0: F64, mu: F64, var: F64,
    mu_v0: float, seen: int, logistic: bool, noise: float, full: bool, keep: float, tol: float, max_sweeps: int,
) -> tuple[int, int]:  # fmt: skip
    """As :func:`learn_factorised`, with one Gaussian of dimension R·d for each mode."""
    D, wide = dims.size, R * dims.max()
    a, m, push = np.empty((R, D)), np.empty((R, D)), np.empty((R, D))
    M, V, T = np.empty((D, R, R)), np.empty((D, R, R)), np.zeros((D, R, R))
    Gamma, MT = np.empty((R, R)), np.empty((R, R))
    c, cv = np.empty(groups.shape[1]), np.empty(groups.shape[1])
    G, work, step = np.empty(R * w.size), np.empty(wide * wide), np.empty(wide)
    least = np.empty(D)
    columns = R if full else 1
    unconverged, sweeps = 0, 0
    for k in range(phi.shape[0]):
        if keep < 1.0 and seen + k > 0:
            forget(w, S, w0, v0, dims, 1, R, keep)
        offset = open_intercepts(groups, k, mu, var, mu_v0, keep, c, cv)
        if seen + k == 0:
            _project_joint(phi[k], dims, R, w, S, G, a, M)
            _project_joint(phi[k], dims, R, w0, S, G, m, M)
            w[:] = w0
        else:
            _project_joint(phi[k], dims, R, w, S, G, m, M)
            a[:] = m
        V[:] = M
        f = 0
        for mode in range(D):
            least[mode] = FLOOR * v0[mode] * norm2(phi[k], f, dims[mode])
            f += dims[mode]
        score = 0.0
        for r in range(R):
            product = 1.0
            for mode in range(D):
                product *= a[r, mode]
            score += product
        kappa = y[k] - 0.5 if logistic else y[k] / noise
        omega = omega_of(_second_moment_joint(a, V, score + offset, cv, full)) if logistic else 1.0 / noise
        settled = False
        for _ in range(max_sweeps):
            sweeps += 1
            moving = False
            for mode in range(D):
                score, moved = _visit_mode(
                    mode, a, m, M, V, T, push, Gamma, MT, least[mode], offset, omega, kappa, tol, full
                )
                moving |= moved
            u, moved = sweep_intercepts(groups, k, mu, var, c, cv, score + offset, omega, kappa, tol)
            offset = u - score
            fresh = omega_of(_second_moment_joint(a, V, u, cv, full)) if logistic else omega
            settled = not (moving or moved or abs(fresh - omega) > tol)
            if settled:
                break
            omega = fresh
        unconverged += not settled
        _absorb_joint(
            dims, R, w, S, G, a, V, push, T, columns, omega, least, (seen + k + 1) % CHECK_EVERY == 0, step, work
        )
        for i in range(groups.shape[1]):
            mu[groups[k, i]] = c[i]
            var[groups[k, i]] = cv[i]
    return unconverged, sweeps


@numba.njit(**KERNEL)
def _absorb_joint(
    dims: I64, R: int, w: F64, S: F64, G: F64, a: F64, V: F64, push: F64, T: F64, columns: int, omega: float,
    least: F64, check: bool, step: F64, work: F64,
) -> None:  # fmt: skip
    """w̄ += G·push and Σ −= (GT)(GT)ᵀ for every mode."""
    p, q, t = 0, 0, 0
    for mode in range(dims.size):
        n = R * dims[mode]
        for r in range(R):
            for i in range(n):
                w[p + i] += G[t + r * n + i] * push[r, mode]
        information = 0.0
        for r in range(R):
            gamma = omega
            for other in range(dims.size):
                if other != mode:
                    gamma *= a[r, other] * a[r, other] + max(V[other, r, r], 0.0)
            information += gamma
        stiff = check or information * least[mode] > STIFF * FLOOR
        for k in range(columns):
            for i in range(n):
                step[i] = 0.0
            for r in range(R):
                for i in range(n):
                    step[i] += G[t + r * n + i] * T[mode, r, k]
            for i in range(n):
                si = step[i]
                for j in range(n):
                    S[q + i * n + j] -= si * step[j]
        if stiff:
            guard(S, q, n, work)
        p += n
        q += n * n
        t += R * n
