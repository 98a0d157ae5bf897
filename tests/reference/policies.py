"""Baseline policies as slow loops: one dictionary entry per node or edge, one solved matrix per use."""

from __future__ import annotations

import math

import numpy as np


def clip(value):
    return min(1.0, max(0.0, value))


class LinearReference:
    """One ridge regression over all edges; ``feature(i, j, z)`` gives an edge's vector."""

    def __init__(self, graph, feature, c, noise, prior):
        self.edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        self.feature = feature
        self.c = c
        self.noise = noise
        self.prior = prior
        self.history = []

    def update(self, z, edges, outcomes):
        self.history += [(self.feature(*self.edges[e], z), y) for e, y in zip(edges, outcomes, strict=True)]

    def score(self, z):
        d = self.feature(*self.edges[0], z).size
        M, B = np.eye(d) / self.prior, np.zeros(d)
        for x, y in self.history:
            M += np.outer(x, x) / self.noise
            B += y * x
        theta = np.linalg.solve(M, B) / self.noise
        rows = [self.feature(i, j, z) for i, j in self.edges]
        return np.array([clip(x @ theta + self.c * math.sqrt(x @ np.linalg.solve(M, x))) for x in rows])


class DILinUCBReference:
    """``users(z)`` gives the users' features for a product."""

    def __init__(self, graph, users, c, noise, prior):
        self.edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        self.users = users
        self.c = c
        self.noise = noise
        self.prior = prior
        self.history = {i: [] for i in range(graph.n_nodes)}

    def update(self, z, edges, outcomes):
        for e, y in zip(edges, outcomes, strict=True):
            i, j = self.edges[e]
            self.history[i].append((self.users(z)[j], y))

    def score(self, z):
        users, result = self.users(z), []
        d = users.shape[1]
        for i, j in self.edges:
            M = (
                np.eye(d) / self.prior
                + sum((np.outer(x, x) for x, _ in self.history[i]), np.zeros((d, d))) / self.noise
            )
            b = sum((y * x for x, y in self.history[i]), np.zeros(d))
            x = users[j]
            mean = x @ np.linalg.solve(M, b) / self.noise
            result.append(clip(mean + self.c * math.sqrt(x @ np.linalg.solve(M, x))))
        return np.array(result)


class LogisticReference:
    """All outcomes so far, fitted again from nothing by reweighted least squares."""

    def __init__(self, graph, feature, c, prior_variance, base_logit):
        self.edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        self.feature = feature
        self.c = c
        self.prior_variance = prior_variance
        self.base_logit = base_logit
        self.history = []

    def update(self, z, edges, outcomes):
        self.history += [(self.feature(*self.edges[e], z), y) for e, y in zip(edges, outcomes, strict=True)]

    def posterior(self, d):
        mean, precision = np.zeros(d), np.eye(d) / self.prior_variance
        mean[-1], precision[-1, -1] = self.base_logit, 1.0 / 4.0
        theta, H = mean, precision
        for _ in range(60 if self.history else 0):
            H, b = precision.copy(), precision @ mean
            for x, y in self.history:
                p = 1.0 / (1.0 + math.exp(-x @ theta))
                weight = p * (1.0 - p)
                H += weight * np.outer(x, x)
                b += x * (weight * (x @ theta) + y - p)
            theta = np.linalg.solve(H, b)
        return theta, H

    def score(self, z):
        rows = [self.feature(i, j, z) for i, j in self.edges]
        theta, H = self.posterior(rows[0].size)
        logits = [x @ theta + self.c * math.sqrt(x @ np.linalg.solve(H, x)) for x in rows]
        return np.array([1.0 / (1.0 + math.exp(-logit)) for logit in logits])


class SourceReference:
    """Responses and trials of each source's out-edges."""

    def __init__(self, graph, base_rate, trials):
        self.sources = graph.sources.tolist()
        self.A, self.B = [[value] * graph.n_nodes for value in (base_rate * trials, trials)]

    def update(self, z, edges, outcomes):
        for e, y in zip(edges, outcomes, strict=True):
            self.A[self.sources[e]] += y
            self.B[self.sources[e]] += 1

    def score(self, c):
        return np.array([min(1.0, (self.A[i] + c * math.sqrt(self.A[i])) / self.B[i]) for i in self.sources])


class IMFBReference:
    """Starts from the given θ and β as prior means; matrices, not their inverses."""

    def __init__(self, graph, theta, beta, alpha, ridge, kappa, q):
        self.edges = list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True))
        n, d = theta.shape
        self.alpha = alpha
        self.kappa = kappa
        self.q = q
        self.t = 1
        self.theta, self.beta = theta.copy(), beta.copy()
        self.A, self.C = [[ridge * np.eye(d) for _ in range(n)] for _ in range(2)]
        self.b, self.d = ridge * theta, ridge * beta

    def update(self, z, edges, outcomes):
        for e, y in zip(edges, outcomes, strict=True):
            i, j = self.edges[e]
            self.A[i] = self.A[i] + np.outer(self.beta[j], self.beta[j])
            self.b[i] += y * self.beta[j]
            self.theta[i] = np.linalg.solve(self.A[i], self.b[i])
            self.C[j] = self.C[j] + np.outer(self.theta[i], self.theta[i])
            self.d[j] += y * self.theta[i]
            self.beta[j] = np.linalg.solve(self.C[j], self.d[j])
        self.t += 1

    def score(self, z):
        result = []
        for i, j in self.edges:
            t, b = self.theta[i], self.beta[j]
            bound = math.sqrt(b @ np.linalg.inv(self.A[i]) @ b) + math.sqrt(t @ np.linalg.inv(self.C[j]) @ t)
            result.append(clip(t @ b + self.alpha * bound + self.kappa * self.q**self.t))
        return np.array(result)


class CountReference:
    """Successes and trials per (cell, edge)."""

    def __init__(self, graph, cell):
        self.graph, self.cell, self.t = graph, cell, 1
        self.n, self.N = {}, {}

    def update(self, z, edges, outcomes):
        for e, y in zip(edges, outcomes, strict=True):
            key = (self.cell(z), int(e))
            self.n[key] = self.n.get(key, 0.0) + y
            self.N[key] = self.N.get(key, 0) + 1
        self.t += 1

    def rate(self, z, e):
        key = (self.cell(z), e)
        return self.n.get(key, 0.0) / self.N[key] if key in self.N else 0.0

    def cucb(self, z, c):
        result = []
        for e in range(self.graph.n_edges):
            trials = self.N.get((self.cell(z), e), 0)
            width = math.sqrt(3 * math.log(self.t) / (2 * trials)) if trials else math.inf
            result.append(min(1.0, self.rate(z, e) + c * width) if trials else 1.0)
        return np.array(result)

    def coin(self, z):
        return np.array([self.rate(z, e) for e in range(self.graph.n_edges)])

    def under_explored(self, z, factor):
        control = factor * self.t**0.4
        short = [e for e in range(self.graph.n_edges) if self.N.get((self.cell(z), e), 0) < control]
        return sorted({int(self.graph.sources[e]) for e in short})


class ReachabilityReference:
    """DILinUCB as published: every source keeps a full matrix and learns one outcome per user."""

    def __init__(self, graph, users, c, noise, prior):
        n, d = users.shape
        self.graph = graph
        self.users = users
        self.c = c
        self.noise = noise
        self.M = [np.eye(d) / prior for _ in range(n)]
        self.b = [np.zeros(d) for _ in range(n)]

    def _reached(self, u, live):
        seen = {u}
        stack = [u]
        while stack:
            v = stack.pop()
            for w in live.get(v, ()):
                if w not in seen:
                    seen.add(w)
                    stack.append(w)
        return seen

    def update(self, z, edges, outcomes):
        live = {}
        for e, y in zip(edges, outcomes, strict=True):
            if y:
                live.setdefault(int(self.graph.sources[e]), []).append(int(self.graph.targets[e]))
        for u in sorted({int(self.graph.sources[e]) for e in edges}):
            reached = self._reached(u, live)
            for v, x in enumerate(self.users):
                self.M[u] = self.M[u] + np.outer(x, x) / self.noise
                self.b[u] = self.b[u] + (v in reached) * x

    def optimistic(self, u, v):
        x = self.users[v]
        mean = x @ np.linalg.solve(self.M[u], self.b[u]) / self.noise
        return mean + self.c * math.sqrt(x @ np.linalg.solve(self.M[u], x))

    def q(self, u, v):
        return clip(self.optimistic(u, v))

    def score(self, z):
        pairs = zip(self.graph.sources.tolist(), self.graph.targets.tolist(), strict=True)
        return np.array([self.q(u, v) for u, v in pairs])

    def table(self):
        n = self.graph.n_nodes
        return np.array([[1.0 if u == v else self.q(u, v) for v in range(n)] for u in range(n)])
