"""Plain NumPy references of the learner: precision matrices, explicit inverses, loops until convergence."""

from __future__ import annotations

import numpy as np


def omega_of(second_moment):
    psi = np.sqrt(max(second_moment, 0.0))
    return 0.25 if psi < 1e-7 else np.tanh(psi / 2) / (2 * psi)


def paper_updates(dims, rank, features, y, noise, sweeps, order="ranks"):
    """Algorithm 1's update to the letter: Σ⁻¹ = I, b = 0, w̄ = ones, Eqs. online_updating_Sigma_SigmaInv, muOnline."""
    modes, ranks = range(len(dims)), range(rank)
    visits = [(m, r) for r in ranks for m in modes] if order == "ranks" else [(m, r) for m in modes for r in ranks]
    precision = {(m, r): np.eye(dims[m]) for m in modes for r in ranks}
    b = {(m, r): np.zeros(dims[m]) for m in modes for r in ranks}
    w = {(m, r): np.ones(dims[m]) for m in modes for r in ranks}
    for t in range(len(y)):
        phi = [x[t] for x in features]
        before_precision, before_b = dict(precision), dict(b)
        for _ in range(sweeps):
            for m, r in visits:
                beta = {q: np.prod([phi[o] @ w[o, q] for o in modes if o != m]) for q in ranks}
                y_lr = y[t] - sum((phi[m] @ w[m, q]) * beta[q] for q in ranks if q != r)
                precision[m, r] = before_precision[m, r] + (beta[r] ** 2 / noise) * np.outer(phi[m], phi[m])
                b[m, r] = before_b[m, r] + phi[m] * beta[r] * y_lr
                w[m, r] = np.linalg.inv(precision[m, r]) @ b[m, r] / noise
    means = [np.array([w[m, r] for r in ranks]) for m in modes]
    covariances = [np.array([np.linalg.inv(precision[m, r]) for r in ranks]) for m in modes]
    return means, covariances


class Reference:
    """The general model by natural parameters P = Σ⁻¹ and h = Σ⁻¹w̄, one Gauss–Seidel visit after the other."""

    def __init__(
        self, start, prior, *, prior_variance=1.0, noise=0.1, logistic=False, sizes=(),
        intercept_variance=0.3, sweeps=400, tolerance=0.0,
    ):  # fmt: skip
        self.w = [np.array(w, dtype=float) for w in start]
        self.prior = [np.array(w, dtype=float) for w in prior]
        self.rank, self.modes = len(start[0]), len(start)
        self.noise, self.logistic = noise, logistic
        self.sweeps, self.tolerance, self.seen = sweeps, tolerance, 0
        self.S = [np.array([np.eye(w.shape[1]) * prior_variance for _ in w]) for w in self.w]
        self.mu = [np.zeros(n) for n in sizes]
        self.var = [np.full(n, intercept_variance) for n in sizes]

    def update(self, features, y, groups=()):
        for t in range(len(y)):
            self._learn([x[t] for x in features], float(y[t]), [int(g[t]) for g in groups])

    def _learn(self, phi, y, members):
        base = self.prior if self.seen == 0 else self.w
        self.seen += 1
        w, S = [x.copy() for x in self.w], [x.copy() for x in self.S]
        c = [self.mu[q][at] for q, at in enumerate(members)]
        cv = [self.var[q][at] for q, at in enumerate(members)]
        kappa = y - 0.5 if self.logistic else y / self.noise
        for _ in range(self.sweeps):
            omega = omega_of(self._second_moment(phi, w, S, c, cv)) if self.logistic else 1 / self.noise
            old = [x.copy() for x in w]
            self._visit(phi, base, w, S, sum(c), omega, kappa)
            for q, at in enumerate(members):
                rest = self._score(phi, w) + sum(c) - c[q]
                precision = 1 / self.var[q][at] + omega
                c[q] = (self.mu[q][at] / self.var[q][at] + kappa - omega * rest) / precision
                cv[q] = 1 / precision
            if max(np.abs(a - b).max() for a, b in zip(w, old, strict=True)) < self.tolerance:
                break
        self.w, self.S = w, S
        for q, at in enumerate(members):
            self.mu[q][at], self.var[q][at] = c[q], cv[q]

    def _score(self, phi, w):
        return np.prod([w[m] @ phi[m] for m in range(self.modes)], axis=0).sum()

    def _visit(self, phi, base, w, S, offset, omega, kappa):
        for r in range(self.rank):
            for m in range(self.modes):
                others = [o for o in range(self.modes) if o != m]
                beta = np.prod([phi[o] @ w[o][r] for o in others])
                rest = offset + self._score(phi, w) - beta * (phi[m] @ w[m][r])
                precision = np.linalg.inv(self.S[m][r])
                natural = precision @ base[m][r] + phi[m] * beta * (kappa - omega * rest)
                S[m][r] = np.linalg.inv(precision + omega * beta**2 * np.outer(phi[m], phi[m]))
                w[m][r] = S[m][r] @ natural

    def _second_moment(self, phi, w, S, c, cv):
        total = (self._score(phi, w) + sum(c)) ** 2 + sum(cv)
        return total + latent_variance(phi, w, S)


def latent_variance(phi, w, S):
    """Mean-field Var(u) of one row, term by term."""
    modes, total = range(len(phi)), 0.0
    for r in range(len(w[0])):
        for m in modes:
            beta = np.prod([w[o][r] @ phi[o] for o in modes if o != m])
            total += beta**2 * (phi[m] @ S[m][r] @ phi[m])
    return total


def linucb(X, y, noise):
    """Ridge regression, written on its own: A = I + XᵀX/σ², θ = A⁻¹Xᵀy/σ²."""
    A = np.eye(X.shape[1]) + X.T @ X / noise
    return np.linalg.solve(A, X.T @ y / noise), np.linalg.inv(A)


def bilinear(X, Z, y, u, v, noise, sweeps=2000):
    """Online rank-one bilinear model y ≈ (xᵀu)(zᵀv) with prior means u, v and unit prior variance."""
    P, Q = np.eye(len(u)), np.eye(len(v))
    for x, z, target in zip(X, Z, y, strict=True):
        u0 = u
        v0 = v
        P0 = P
        Q0 = Q
        for _ in range(sweeps):
            b, before = z @ v, u
            P = P0 + b * b / noise * np.outer(x, x)
            u = np.linalg.solve(P, P0 @ u0 + x * b * target / noise)
            a = x @ u
            Q = Q0 + a * a / noise * np.outer(z, z)
            v = np.linalg.solve(Q, Q0 @ v0 + z * a * target / noise)
            if abs(u - before).max() < 1e-14:
                break
    return u, v, np.linalg.inv(P), np.linalg.inv(Q)
