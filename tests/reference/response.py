"""Plain NumPy of the response model, from raw inputs and one edge at a time; nothing of the package is used."""

from __future__ import annotations

from itertools import combinations

import numpy as np


class Users:
    """Features of users from what a caller hands in: columns, and past taste, credit and exposure by topic."""

    def __init__(self, columns, taste=None, credit=None, exposure=None):
        parts = [standard(columns)]
        self.influence = self.preference = None
        if taste is not None:
            activity = np.log1p(taste.sum(axis=1))
            parts.append(standard(activity[:, None]))
            liking = np.log1p(taste)
            self.preference = liking - np.outer(activity, liking.mean(axis=0) / activity.mean())
        if credit is not None:
            self.credit, self.expected = credit, exposure * (credit.sum() / exposure.sum())
            self.influence = np.log((credit.sum(axis=1) + 2.0) / (self.expected.sum(axis=1) + 2.0))
            parts.append(standard(self.influence[:, None]))
        self.target = np.hstack(parts)

    def source(self, i, mix):
        """s_i(x): features, then past influence and taste for this context beyond the overall ones."""
        extra = []
        if self.influence is not None:
            now = np.log((self.credit[i] @ mix + 2.0) / (self.expected[i] @ mix + 2.0))
            extra.append(now - self.influence[i])
        if self.preference is not None:
            extra.append(self.preference[i] @ mix)
        return np.append(self.target[i], extra)

    def taste(self, j, mix):
        return 0.0 if self.preference is None else self.preference[j] @ mix


def standard(columns):
    centred = columns - columns.mean(axis=0)
    return np.clip(centred / columns.std(axis=0), -8.0, 8.0)


def mixture(x):
    shares = np.maximum(x, 0.0)
    return shares / shares.sum() if shares.sum() > 0 else np.full(len(x), 1.0 / len(x))


def split(own, sizes):
    return np.split(own, np.cumsum(sizes)[:-1])


def context(own, sizes):
    """A constant, the modes, every pair's Kronecker product, and that of all modes if there are three or more."""
    modes = split(own, sizes)
    groups = list(combinations(range(len(modes)), 2))
    if len(modes) > 2:
        groups.append(tuple(range(len(modes))))
    parts = [np.ones(1), own]
    for group in groups:
        product = np.ones(1)
        for mode in group:
            product = np.kron(product, modes[mode])
        parts.append(product)
    return np.concatenate(parts)


def source_row(users, i, own, sizes):
    """What multiplies θ in the logits of source i."""
    s, c = users.source(i, mixture(split(own, sizes)[0])), context(own, sizes)
    return np.concatenate([s, c, np.outer(own, users.target[i]).ravel()])


def logit(point, users, seen, i, j, own, sizes):
    """One edge's logit in one context."""
    total = source_row(users, i, own, sizes) @ point.weights
    total += users.target[j] @ point.target_weights + point.target_offsets[j]
    total += point.taste_weight * users.taste(j, mixture(split(own, sizes)[0]))
    if i in seen:
        total += point.effects[list(seen).index(i)] @ np.append(1.0, own)
    return total


def rows(log):
    """(round, source, target, outcome, trials) of every row."""
    for t, record in enumerate(log):
        for q, source in enumerate(record.sources):
            for k in range(record.offsets[q], record.offsets[q + 1]):
                yield t, int(source), int(record.targets[k]), float(record.outcomes[k]), float(record.trials[k])


def log_posterior(prior, point, users, seen, log, sizes):
    total = 0.0
    for t, i, j, y, n in rows(log):
        u = logit(point, users, seen, i, j, log[t].own, sizes)
        total += y * u - n * np.logaddexp(0.0, u)
    for weight, mean, group in zip(point.weights, prior.means, prior.groups, strict=True):
        total -= 0.5 * (weight - mean) ** 2 / prior.variances[group]
    total -= 0.5 * point.weights @ prior.precision @ point.weights - prior.natural @ point.weights
    for d, precision, natural in zip(point.effects, prior.effect_precisions, prior.effect_naturals, strict=True):
        total -= 0.5 * d @ (precision + np.diag(1.0 / prior.effect_variances)) @ d - natural @ d
    c, b = point.target_weights, point.target_offsets
    total -= 0.5 * c @ (prior.target_precision + np.eye(c.size) / prior.target_variances[0]) @ c
    total += prior.target_natural @ c
    total -= np.sum(0.5 * (prior.offset_precisions + 1.0 / prior.target_variances[1]) * b**2)
    total += prior.offset_naturals @ b
    return total - 0.5 * prior.taste_precision * point.taste_weight**2 + prior.taste_natural * point.taste_weight


def sums(point, users, seen, log, sizes):
    """Σ p(1 − p) and Σ (y − p) by (round, source) and by target, and the same in the weight of taste."""
    pulls, targets, taste = {}, {}, np.zeros(2)
    for t, i, j, y, n in rows(log):
        own = log[t].own
        p = 1.0 / (1.0 + np.exp(-logit(point, users, seen, i, j, own, sizes)))
        new = np.array([n * p * (1 - p), y - n * p])
        pulls[t, i] = pulls.get((t, i), 0.0) + new
        targets[j] = targets.get(j, 0.0) + new
        m = users.taste(j, mixture(split(own, sizes)[0]))
        taste += new * [m**2, m]
    return pulls, targets, taste


def edge_scores(point, users, seen, graph, own, sizes):
    edges = zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    u = np.array([logit(point, users, seen, i, j, own, sizes) for i, j in edges])
    return 1.0 / (1.0 + np.exp(-u))


def deviations(state, users, n, own, sizes):
    """Root of (x − Kᵀz)ᵀ S (x − Kᵀz) + zᵀVz of every source."""
    z, out = np.append(1.0, own), np.empty(n)
    for i in range(n):
        x, V = source_row(users, i, own, sizes), np.diag(state.prior.effect_variances)
        if i in state.seen:
            place = list(state.seen).index(i)
            V = state.effect_covariances[place]
            for told in state.log:
                for gain in told.gains[told.sources == i]:
                    x = x - (z @ gain) * source_row(users, i, told.own, sizes)
        out[i] = np.sqrt(x @ state.weight_covariance @ x + z @ V @ z)
    return out
